// What the scores show and what may be luck: verdicts on spreads, the score over wordings, and the words explained.

/** Every word and mark of the page that is not plain, in one sentence each. */
const TERMS = {
  interval: ["95 % interval", "Over many such runs with other documents of the same kind, 95 of 100 such intervals contain the true value."],
  spread: ["best − worst", "The score of the best form minus that of the worst; its interval accounts for choosing the two after seeing the scores."],
  by_chance: ["by chance", "What best minus worst would be on average if all forms were equally good, from the luck of the documents alone."],
  p: ["p", "How often forms that are equally good would differ by as much or more; below 0.05 counts as a finding."],
  finding: ["finding", "The difference is larger than luck explains: equally good forms would show it in fewer than 5 of 100 runs."],
  no_finding: ["no finding", "Luck explains the difference; that does not show that the forms are equally good."],
  tied: ["*", "This form cannot be told from the best one at 5 %, corrected for all pairs of forms; without any *, no form can be told from it."],
  chance: ["chance level", "How often a random choice is right; a dashed line in the charts."],
  above: ["above chance", "The share of the way from a random choice (0 %) to all right (100 %); less than 0 % is worse than a random choice."],
  ranked: ["ranked choices", "The model's answer is the choice to which it gives the highest probability."],
  generated: ["generated answers", "The model writes a text, from which its answer is extracted."],
  any: ["across both kinds", "Ranked choices and generated answers compared with each other, which measures the kind of scoring more than the wording."],
  mean_sd: ["mean ± SD", "The mean of the scores of all wordings and their standard deviation, as papers print it; the noise of the documents is part of the SD."],
  mean: ["interval of the mean", "The model's score over all wordings like these and all documents like these lies here with 95 % confidence."],
  deviation: ["SD between wordings", "By how much the true scores of wordings differ, without the noise of the documents; its interval is rather too wide than too narrow."],
  predicted: ["another wording", "Another wording drawn in the same way would score within these bounds on the same documents in 95 of 100 cases."],
  shrunken: ["shrunken score", "The score of a wording, drawn towards the mean by the share of it that is noise: a better guess of its true score than the raw one, above all where it was chosen for being high."],
  raw: ["raw score (○)", "The score of a wording as it was measured."],
  effect: ["effect of an axis", "By how much wordings with this value score above the mean of all wordings; the intervals hold for all values at once, p for the whole axis."],
  together: ["for all pairs at once", "Interval and p are corrected for the number of comparisons (Bonferroni): the chance that any of them misleads is 5 %."],
  reversal: ["order reverses", "How probable it is that another wording puts the other run ahead, on the same documents."],
  flips: ["right under some forms only", "The model gets these documents right or wrong depending on the form."],
  variance: ["variance of a single score", "How much of the differences between single scores goes back to the document, the format, the few-shot examples, and to what is left."],
  clusters: ["clusters", "Documents that belong together, such as the questions about one passage, count as one observation in intervals and tests."],
  stderr: ["± SE", "The standard error as lm-eval computes it; intervals may be of another kind, as they account for clusters and the range of the metric."],
  calibration: ["calibration error", "By how much the probability of the picked choice differs from how often it is right; what noise adds is subtracted."],
  unread: ["could not be extracted", "The completion names no answer that the form's extractor can read, also where it says that the model is not sure."],
};

/** A word with its explanation as a tooltip. */
const term = (key, text = TERMS[key][0]) => element("abbr", { class: "term", title: TERMS[key][1] }, text);

const pText = (p) => (p < 0.001 ? "p < 0.001" : `p = ${p < 0.1 ? String(Number(p.toPrecision(2))) : p.toFixed(2)}`);
const bounds = (estimate, format = fixed) => `${format(estimate.low)} to ${format(estimate.high)}`;
const isFinding = (p) => p < 0.05;
const tagged = (p) => (isFinding(p) ? element("span", { class: "tag ok", title: TERMS.finding[1] }, "finding") : element("span", { class: "tag none", title: TERMS.no_finding[1] }, "no finding"));

/** The comparison of the forms that a chart shows, in a run. */
const comparisonOf = (report, form) => report.tasks.find((task) => task.run === form.run && task.scoring !== "any" && task.forms.some((entry) => entry.name === form.name));

/** Whether the spread of a task's forms is noise, which comes before everything else that is said of it. */
function verdict(task, name = "") {
  const { spread } = task;
  const tied = task.forms.filter((form) => form.tied);
  const best = tied.length === task.forms.length ? ["No form can be told from the best."] : [term("tied"), ` not told from the best: ${tied.map((form) => form.label).join(", ")}.`];
  return element("p", { class: "small verdict" }, tagged(spread.p), ` ${name}`, term("spread"), ` of ${task.forms.length} forms, `, term(task.scoring), ` (${task.metric}): `,
    element("b", {}, fixed(spread.value)), ` (${bounds(spread)}); equally good forms would show ${fixed(spread.by_chance)} `, term("by_chance"), ", ", term("p", pText(spread.p)), ". ", ...best);
}

/** Verdicts across both kinds of scoring, on request. */
function acrossKinds(report) {
  const tasks = report.tasks.filter((task) => task.run !== null && task.spread && task.scoring === "any");
  if (!tasks.length) return [];
  return [element("details", { class: "across" }, element("summary", {}, "Ranked choices and generated answers compared with each other"),
    ...tasks.map((task) => verdict(task, `${inRun(report, task.task, task.run)}: `)))];
}

/** What the wordings of a format say of all wordings like them. */
function populationLines(entry, format, verb) {
  return [
    element("p", {}, term("mean_sd"), " ", element("b", {}, `${format(entry.mean.value)} ± ${fixed(entry.observed)}`), "; ", term("mean"), ` ${bounds(entry.mean, format)}.`),
    element("p", {}, term("deviation"), ` ${fixed(entry.deviation.value)} (${bounds(entry.deviation)}); about ${Math.round(100 * entry.reliability)} % of the variance between the wordings is theirs, the rest is noise.`),
    element("p", {}, term("predicted"), ` would ${verb} ${bounds(entry.predicted, format)}.`)];
}

/** The effects of the axes, open where one of them is shown to matter. */
function effectsChart(name, effects) {
  if (!effects.length) return [];
  const p = Math.min(...effects.map((effect) => effect.p));
  return [element("details", { open: isFinding(p) }, element("summary", { class: "small" }, tagged(p), " ", term("effect", "effects of the axes"), `, smallest ${pText(p)} (corrected for all axes)`),
    intervalChart(effects.map((effect) => ({ ...effect, note: pText(effect.p).replaceAll(" ", "") })), { zero: true, format: signed, label: `effects of axes on ${name}` }))];
}

/** The score over a population of wordings, of one run and between runs. */
function wordingsSection(report) {
  const between = report.wording_changes.map((entry) => element("div", { class: "panel wordings" },
    element("h3", {}, `${entry.name}: ${entry.metric}, ${entry.label} over ${entry.number} wordings`), ...populationLines(entry, signed, "show"),
    element("p", {}, `Under another wording the `, term("reversal"), ` with probability ${fixed(entry.reversal, 2)}.`)));
  const within = report.tasks.filter((task) => task.scoring !== "any").flatMap((task) => task.wordings.map((entry) => element("div", { class: "panel wordings" },
    element("h3", {}, inRun(report, `${task.task}@${entry.label}: ${task.metric} over ${entry.number} wordings`, task.run)), ...populationLines(entry, fixed, "score"),
    element("p", { class: "soft small" }, term("shrunken"), " (●) with its ", term("interval"), " beside the ", term("raw"), "."),
    intervalChart(entry.forms.map((form) => ({ ...form, note: `raw ${fixed(form.raw)}` })), { label: `shrunken scores of ${task.task}@${entry.label}` }),
    ...effectsChart(`${task.task}@${entry.label}`, entry.effects))));
  const panels = [...between, ...within];
  return panels.length ? [element("div", { class: "grid wider" }, ...panels)] : [];
}

/** All words and marks with their explanations, for screens without a pointer and for print. */
function glossary() {
  return element("details", { class: "glossary" }, element("summary", {}, "What the words and marks mean"),
    element("dl", { class: "small" }, ...Object.values(TERMS).flatMap(([name, words]) => [element("dt", {}, name), element("dd", {}, words)])));
}

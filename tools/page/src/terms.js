// The words and marks of the page that are not plain, each in one sentence.

import { element } from "./dom.js";
import { isFinding } from "./numbers.js";

/**
 * What a word or mark is called, and what it means.
 * @type {Record<string, [string, string]>}
 */
export const TERMS = {
  interval: [
    "95 % interval",
    "Over many such runs with other documents of the same kind, 95 of 100 such intervals contain the true value.",
  ],
  spread: [
    "best − worst",
    "The score of the best form minus that of the worst; its interval accounts for choosing the two after seeing the scores.",
  ],
  by_chance: [
    "by chance",
    "What best minus worst would be on average if all forms were equally good, from the luck of the documents alone.",
  ],
  p: ["p", "How often forms that are equally good would differ by as much or more; below 0.05 counts as a finding."],
  finding: [
    "finding",
    "The difference is larger than luck explains: equally good forms would show it in fewer than 5 of 100 runs.",
  ],
  no_finding: ["no finding", "Luck explains the difference; that does not show that the forms are equally good."],
  tied: [
    "*",
    "This form cannot be told from the best one at 5 %, corrected for all pairs of forms; without any *, no form can be told from it.",
  ],
  chance: ["chance level", "How often a random choice is right; a dashed line in the charts."],
  above: [
    "above chance",
    "The share of the way from a random choice (0 %) to all right (100 %); less than 0 % is worse than a random choice.",
  ],
  ranked: ["ranked choices", "The model's answer is the choice to which it gives the highest probability."],
  likelihood: ["log-likelihoods", "The score is made of the probability that the model gives to a text as it is."],
  generated: ["generated answers", "The model writes a text, from which its answer is extracted."],
  any: [
    "across both kinds",
    "Ranked choices and generated answers compared with each other, which measures the kind of scoring more than the wording.",
  ],
  mean_sd: [
    "mean ± SD",
    "The mean of the scores of all wordings and their standard deviation, as papers print it; the noise of the documents is part of the SD.",
  ],
  mean: [
    "interval of the mean",
    "The model's score over all wordings like these and all documents like these lies here with 95 % confidence.",
  ],
  deviation: [
    "SD between wordings",
    "By how much the true scores of wordings differ, without the noise of the documents; its interval is rather too wide than too narrow.",
  ],
  predicted: [
    "another wording",
    "Another wording drawn in the same way would score within these bounds on the same documents in 95 of 100 cases.",
  ],
  shrunken: [
    "shrunken score",
    "The score of a wording, drawn towards the mean by the share of it that is noise: a better guess of its true score than the raw one, above all where it was chosen for being high.",
  ],
  raw: ["raw score (○)", "The score of a wording as it was measured."],
  effect: [
    "effect of an axis",
    "By how much wordings with this value score above the mean of all wordings; the intervals hold for all values at once, p for the whole axis.",
  ],
  together: [
    "for all pairs at once",
    "Interval and p are corrected for the number of comparisons (Bonferroni): the chance that any of them misleads is 5 %.",
  ],
  reversal: [
    "order reverses",
    "How probable it is that another wording puts the other run ahead, on the same documents.",
  ],
  flips: ["right under some forms only", "The model gets these documents right or wrong depending on the form."],
  variance: [
    "variance of a single score",
    "How much of the differences between single scores goes back to the document, the format, the few-shot examples, and to what is left.",
  ],
  clusters: [
    "clusters",
    "Documents that belong together, such as the questions about one passage, count as one observation in intervals and tests.",
  ],
  stderr: [
    "± SE",
    "The standard error as lm-eval computes it; intervals may be of another kind, as they account for clusters and the range of the metric.",
  ],
  calibration: [
    "calibration error",
    "By how much the probability of the picked choice differs from how often it is right; what noise adds is subtracted.",
  ],
  tokens: [
    "tokens and time",
    "A completion takes the time from its first token to its last, in which others are written, too; log-likelihoods that a local model computes together have no time of their own, those of a server have that of their request.",
  ],
  unread: [
    "not extracted",
    "The completion names no answer that the form's extractor can read, also where it says that the model is not sure.",
  ],
};

/**
 * A word with its explanation as a tooltip.
 * @param {string} key
 * @param {string} [text]
 */
export const term = (key, text = TERMS[key][0]) => element("abbr", { class: "term", title: TERMS[key][1] }, text);

/**
 * @param {number} p
 */
export const tagged = (p) =>
  isFinding(p)
    ? element("span", { class: "tag ok", title: TERMS.finding[1] }, "finding")
    : element("span", { class: "tag none", title: TERMS.no_finding[1] }, "no finding");

/** All words and marks with their explanations, for screens without a pointer and for print. */
export function glossary() {
  return element(
    "details",
    { class: "glossary" },
    element("summary", {}, "What the words and marks mean"),
    element(
      "dl",
      { class: "small" },
      ...Object.values(TERMS).flatMap(([name, words]) => [element("dt", {}, name), element("dd", {}, words)]),
    ),
  );
}

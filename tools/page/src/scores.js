// What can be told from the scores of each task, and all scores as a table.

/** @import { Comparison, Form, Report } from "./types.d.ts" */

import { breakable, element, plainLine } from "./dom.js";
import { formLabel, inRun } from "./labels.js";
import { bounds, fixed, isFinding, pText } from "./numbers.js";
import { glossary, tagged, term } from "./terms.js";

/**
 * Whether the spread of a task's forms is noise, which comes before everything else that is said of it.
 * @param {Comparison} task
 * @param {string} [name]
 */
export function verdict(task, name = "") {
  const { spread } = task;
  if (!spread) return element("p");
  const tied = task.forms.filter((form) => form.tied);
  const best =
    tied.length === task.forms.length
      ? ["No form can be told from the best."]
      : [term("tied"), ` cannot be told from the best: ${tied.map((form) => form.label).join(", ")}.`];
  return element(
    "p",
    { class: "small verdict" },
    tagged(spread.p_holm),
    ` ${name}`,
    term("spread"),
    ` of ${task.forms.length} forms, `,
    term(task.scoring),
    ` (${task.metric}): `,
    element("b", {}, fixed(spread.value)),
    ` (${bounds(spread)}); equally good forms would show ${fixed(spread.by_chance)} `,
    term("by_chance"),
    ", ",
    term("p", pText(spread.p)),
    spread.among > 1 ? `, ${pText(spread.p_holm)} after correction for ${spread.among} comparisons. ` : ". ",
    ...best,
  );
}

/**
 * @param {Report} report
 */
export function scoresSection(report) {
  const [table, words] = [scoresTable(report), glossary()];
  addEventListener("beforeprint", () => [table, words].forEach((node) => node.setAttribute("open", "")));
  return [table, ...legend(report), ...notes(report), words];
}

/** How many panels and verdicts are open, or listed. */
const OPEN = 12;

/**
 * What is shown on request; nothing where there is nothing.
 * @param {string} words
 * @param {Node[]} nodes
 */
const folded = (words, nodes) =>
  nodes.length ? [element("details", { class: "across" }, element("summary", {}, words), ...nodes)] : [];

/**
 * Panels as they are; of many, each is drawn when it is opened. None is left out.
 * @param {[string, () => Node][]} entries
 * @param {string} [className]
 */
export function panelsOf(entries, className = "grid wider") {
  if (entries.length <= OPEN) return [element("div", { class: className }, ...entries.map(([, draw]) => draw()))];
  const lines = entries.map(([name, draw]) => {
    const node = element("details", {}, element("summary", {}, plainLine(name)));
    node.addEventListener("toggle", () => {
      if (node.open && node.childElementCount === 1) node.append(draw());
    });
    return node;
  });
  const rest = folded(`${lines.length - OPEN} more`, lines.splice(OPEN));
  return [element("div", { class: "folded" }, ...lines), ...rest];
}

/**
 * Whether the spread of each task and group is noise: groups first, then the clearest; of many tasks, those without a
 * finding on request.
 * @param {Report} report
 */
export function verdictsSection(report) {
  const paths = new Set(report.groups);
  const tasks = report.tasks
    .filter((task) => task.spread)
    .sort((a, b) => Number(paths.has(b.task)) - Number(paths.has(a.task)) || Number(a.spread?.p) - Number(b.spread?.p));
  const several = new Set(tasks.map(({ task }) => task)).size > 1 || report.runs.length > 1;
  const line = (task) => verdict(task, several ? `${inRun(report, task.task, task.run)}: ` : "");
  const within = tasks.filter((task) => task.scoring !== "any");
  const across = tasks.filter((task) => task.scoring === "any");
  if (!tasks.length) return [];
  const clear = within.filter((task) => paths.has(task.task) || isFinding(task.spread?.p_holm ?? 1));
  const open = within.length > OPEN ? clear.slice(0, OPEN) : within;
  const rest = within.filter((task) => !open.includes(task));
  return [
    element(
      "div",
      { class: "panel" },
      ...open.map(line),
      ...folded(`${rest.length} more${open.length < clear.length ? "" : ", without a finding"}`, rest.map(line)),
    ),
    ...folded("Ranked choices and generated answers compared with each other", across.map(line)),
  ];
}

/**
 * @param {Form} form
 */
const aboveChance = (form) =>
  form.chance === null || form.chance >= 1 || form.value === null
    ? ""
    : `${Math.round((100 * (form.value - form.chance)) / (1 - form.chance))} %`.replace("-", "−");

/**
 * What each variation changes: a column for each axis, and the name by which it can be run again.
 * @param {Report} report
 */
function legend(report) {
  const { axes, rows } = report.variations;
  if (!rows.length) return [];
  const head = [
    element("th", {}, "Variation"),
    ...axes.map((axis) =>
      element("th", { title: axis.words }, axis.name, element("div", { class: "soft small" }, axis.words)),
    ),
    element("th", {}, "Name"),
  ];
  const lines = rows.map((row) =>
    element(
      "tr",
      {},
      element("th", {}, row.short),
      ...row.values.map((value) => element("td", {}, value ?? "·")),
      element("td", { class: "name" }, element("code", {}, ...breakable(row.format))),
    ),
  );
  return [
    element(
      "details",
      { class: "legend", open: rows.length <= 40 },
      element("summary", {}, "What each variation changes (· is as the format has it)"),
      element(
        "div",
        { class: "wide" },
        element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...lines)),
      ),
    ),
  ];
}

/**
 * What is to be known beside the scores: that they are partial, failed documents, where a budgeted run stopped.
 * @param {Report} report
 */
export function notes(report) {
  return report.runs
    .filter((run) => run.notes.length)
    .map((run) =>
      element(
        "div",
        { class: "panel notes" },
        element("h3", {}, report.runs.length > 1 ? `Notes on ${run.label}` : "Notes"),
        ...run.notes.map((note) => element("p", { class: "small" }, plainLine(note))),
      ),
    );
}

/**
 * @param {Report} report
 */
function scoresTable(report) {
  const head = [
    "Form",
    "Metric",
    "Score",
    term("stderr"),
    term("interval"),
    term("chance", "Chance"),
    term("above", "Above chance"),
    "n",
    "Shots",
    "Also",
  ];
  const rows = report.forms.map((form) =>
    element(
      "tr",
      {},
      element("td", { class: "name" }, ...breakable(formLabel(report, form))),
      element("td", {}, form.metric),
      element("td", { class: "number" }, fixed(form.value, 4)),
      element("td", { class: "number" }, fixed(form.stderr, 4)),
      element("td", { class: "number" }, form.low === null ? "" : `${fixed(form.low, 4)} to ${fixed(form.high, 4)}`),
      element("td", { class: "number" }, fixed(form.chance, 3)),
      element("td", { class: "number" }, aboveChance(form)),
      element("td", { class: "number" }, String(form.n)),
      element("td", { class: "number" }, String(form.shots ?? "")),
      element(
        "td",
        { class: "soft small also" },
        [
          ...form.others.map((other) => `${other.metric} ${fixed(other.value, 3)}`),
          ...(form.overridden.length ? [`the format overrides ${form.overridden.join(", ")}`] : []),
        ].join("; "),
      ),
    ),
  );
  return element(
    "details",
    { open: report.forms.length <= 12 },
    element("summary", {}, "All scores as a table"),
    element(
      "div",
      { class: "wide" },
      element(
        "table",
        {},
        element("thead", {}, element("tr", {}, ...head.map((name) => element("th", {}, name)))),
        element("tbody", {}, ...rows),
      ),
    ),
  );
}

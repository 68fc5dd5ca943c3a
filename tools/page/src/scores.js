// Scores by task with what can be told from them, and all scores as a table.

/** @import { Comparison, Form, Report } from "./types.d.ts" */

import { intervalChart } from "./charts.js";
import { element, plainLine } from "./dom.js";
import { formLabel, inRun } from "./labels.js";
import { bounds, fixed, pText } from "./numbers.js";
import { TERMS, glossary, tagged, term } from "./terms.js";

/**
 * The comparison of the forms that a chart shows, in a run.
 * @param {Report} report
 * @param {Form} form
 */
const comparisonOf = (report, form) =>
  report.tasks.find(
    (task) => task.run === form.run && task.scoring !== "any" && task.forms.some((entry) => entry.name === form.name),
  );

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
      : [term("tied"), ` not told from the best: ${tied.map((form) => form.label).join(", ")}.`];
  return element(
    "p",
    { class: "small verdict" },
    tagged(spread.p),
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
    ". ",
    ...best,
  );
}

/**
 * Verdicts across both kinds of scoring, on request.
 * @param {Report} report
 */
function acrossKinds(report) {
  const tasks = report.tasks.filter((task) => task.run !== null && task.spread && task.scoring === "any");
  if (!tasks.length) return [];
  return [
    element(
      "details",
      { class: "across" },
      element("summary", {}, "Ranked choices and generated answers compared with each other"),
      ...tasks.map((task) => verdict(task, `${inRun(report, task.task, task.run)}: `)),
    ),
  ];
}

/**
 * @param {Report} report
 */
export function scoresSection(report) {
  return [...legend(report), ...notes(report), scoresTable(report), glossary()];
}

/**
 * Panels as they are; of many, each is drawn when it is opened. None is left out.
 * @param {[string, () => Node][]} entries
 * @param {string} [className]
 */
export function panelsOf(entries, className = "grid wider") {
  if (entries.length <= 12) return [element("div", { class: className }, ...entries.map(([, draw]) => draw()))];
  return [
    element(
      "div",
      { class: "folded" },
      ...entries.map(([name, draw]) => {
        const node = element("details", {}, element("summary", {}, plainLine(name)));
        node.addEventListener("toggle", () => {
          if (node.open && node.childElementCount === 1) node.append(draw());
        });
        return node;
      }),
    ),
  ];
}

/**
 * The scores of each task with what can be told from them, one chart for each kind of scoring.
 * @param {Report} report
 */
export function taskScores(report) {
  const tasks = new Map();
  for (const form of report.forms) {
    const key = `${form.task} ${form.family ?? form.metric} ${form.scoring}`;
    if (!tasks.has(key)) tasks.set(key, []);
    tasks.get(key).push(form);
  }
  const formats = [...new Set(report.forms.map((form) => form.short))];
  const byFormat = (a, b) => formats.indexOf(a.short) - formats.indexOf(b.short) || a.run - b.run;
  /** @type {[string, () => Node][]} */
  const charts = [...tasks.values()].map((forms) => [
    `${forms[0].task}: ${forms[0].metric}, ${forms[0].scoring}`,
    () =>
      element(
        "div",
        { class: "panel" },
        scoresHeading(report, forms),
        ...comparisonsOf(report, forms).map((task) =>
          verdict(task, task.run !== null && report.runs.length > 1 ? `${report.runs[task.run].short}: ` : ""),
        ),
        intervalChart(
          forms.sort(byFormat).map((form) => scoreRow(report, form)),
          { label: `scores of ${forms[0].task}` },
        ),
      ),
  ]);
  const paths = new Set(report.groups.map((group) => group.path));
  const of_groups = report.tasks.filter((task) => task.spread && task.scoring !== "any" && paths.has(task.task));
  const groups = report.groups.length
    ? [
        element(
          "div",
          { class: "panel" },
          element("h3", {}, "Groups"),
          ...of_groups.map((task) => verdict(task, `${inRun(report, task.task, task.run)}: `)),
          intervalChart(
            report.groups.map((group) => ({
              ...group,
              label: inRun(report, `${"  ".repeat(group.depth)}${group.name}`, group.run),
              note: group.metric,
            })),
            { label: "scores of groups" },
          ),
        ),
      ]
    : [];
  return [...groups, ...panelsOf(charts), ...acrossKinds(report)];
}

/**
 * The task, what is scored and how, and where less is better.
 * @param {Report} report
 * @param {Form[]} forms
 */
function scoresHeading(report, forms) {
  const metrics = [...new Set(forms.map((form) => form.metric))].join(", ");
  const both = new Set(report.forms.filter((form) => form.task === forms[0].task).map((form) => form.scoring)).size > 1;
  return element(
    "h3",
    {},
    `${forms[0].task}: ${metrics} ${forms[0].higher === false ? "↓" : "↑"}`,
    ...(both ? [" · ", term(forms[0].scoring)] : []),
  );
}

/**
 * The comparisons of a chart's forms, one for each run that has several of them.
 * @param {Report} report
 * @param {Form[]} forms
 */
const comparisonsOf = (report, forms) =>
  [...new Set(forms.map((form) => comparisonOf(report, form)))].flatMap((task) => (task?.spread ? [task] : []));

/**
 * @param {Form} form
 */
const aboveChance = (form) =>
  form.chance === null || form.chance >= 1 || form.value === null
    ? ""
    : `${Math.round((100 * (form.value - form.chance)) / (1 - form.chance))} %`.replace("-", "−");

/**
 * A form as a line of the chart: with a mark if it cannot be told from the best, and its chance level.
 * @param {Report} report
 * @param {Form} form
 */
function scoreRow(report, form) {
  const task = comparisonOf(report, form);
  const marked = task?.forms.some((entry) => !entry.tied) && task.forms.find((entry) => entry.name === form.name)?.tied;
  const above = aboveChance(form);
  return {
    ...form,
    label: inRun(report, form.short, form.run),
    mark: marked ? TERMS.tied : null,
    note: `n=${form.n}`,
    detail: above
      ? /** @type {[string, string]} */ ([
          "above",
          above.startsWith("−") ? `${above.slice(1)} below chance` : `${above} above chance`,
        ])
      : null,
  };
}

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
      element("td", { class: "name" }, element("code", {}, row.format)),
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
      element("td", { class: "name" }, formLabel(report, form)),
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

// Differences between forms and between runs, on the same documents.

/** @import { Comparison, Report } from "./types.d.ts" */

import { chart } from "./charts.js";
import { element } from "./dom.js";
import { inRun } from "./labels.js";
import { grouped, pText, percent, signed } from "./numbers.js";
import { panelsOf } from "./scores.js";
import { term } from "./terms.js";

/**
 * @param {Report} report
 */
export function differencesSection(report) {
  const paths = new Set(report.groups);
  const drawn = report.tasks
    .filter((task) => task.chart)
    .sort((a, b) => Number(paths.has(b.task)) - Number(paths.has(a.task)));
  const panels = (tasks) =>
    panelsOf(
      tasks.map((task) => [
        `${inRun(report, task.task, task.run)}: largest ${largest(task)}`,
        () => differencesPanel(report, task),
      ]),
    );
  const within = drawn.filter((task) => task.scoring !== "any");
  const across = drawn.filter((task) => task.scoring === "any");
  return [
    ...changesChart(report),
    ...(within.length ? panels(within) : []),
    ...(across.length
      ? [
          element(
            "details",
            { class: "across" },
            element("summary", {}, "Differences between ranked choices and generated answers"),
            ...panels(across),
          ),
        ]
      : []),
  ];
}

/**
 * Every group and form that two runs have: a later run minus an earlier one.
 * @param {Report} report
 */
function changesChart({ overview, runs }) {
  if (!overview.changes_chart) return [];
  const names = runs.length === 2 ? `: ${runs[1].short} − ${runs[0].short}` : "";
  return [
    element(
      "div",
      { class: "panel between" },
      element("h3", {}, `Between runs${names}`),
      element(
        "p",
        { class: "soft small" },
        "Paired differences on the same documents, the later run minus the earlier one; ",
        term("interval"),
        " and ",
        term("p"),
        " ",
        term("together", "for all forms, and for all groups, at once"),
        ", as in multiform compare.",
      ),
      chart(overview.changes_chart),
    ),
  ];
}

/**
 * The largest difference of a task, in words.
 * @param {Comparison} task
 */
function largest(task) {
  const row = task.chart?.panels[0].rows[0];
  return row ? `${signed(row.difference)}, ${pText(row.p ?? null)}` : "";
}

/**
 * The differences of a task's forms.
 * @param {Report} report
 * @param {Comparison} task
 */
function differencesPanel(report, task) {
  return element(
    "div",
    { class: "panel" },
    element("h3", {}, inRun(report, task.task, task.run), " · ", term(task.scoring)),
    element(
      "p",
      { class: "soft small" },
      `Paired differences of ${task.metric} on the same documents; ${task.compared > 1 ? `${task.compared} comparisons, ` : ""}`,
      ...(task.compared > 1
        ? [term("interval"), " and ", term("p"), " ", term("together", "for all of them at once")]
        : [term("interval"), " and ", term("p")]),
      ".",
    ),
    ...(task.chart ? [chart(task.chart)] : []),
    ...(task.more
      ? [element("p", { class: "soft small" }, `The largest differences; ${task.more} more are smaller.`)]
      : []),
    ...(task.all === null
      ? []
      : [
          element(
            "p",
            { class: "small" },
            `Right under all forms: ${percent(task.all)}, under some: ${percent(task.some ?? 0)}, under none: ${percent(task.none ?? 0)}.`,
          ),
        ]),
    ...(task.variance === null
      ? []
      : [
          element(
            "p",
            { class: "small variance" },
            term("variance", "Variance of a single score"),
            `: ${Object.entries(task.variance)
              .map(([name, share]) => `${name} ${percent(share)}`)
              .join(", ")}.`,
          ),
        ]),
    ...(task.clusters === task.n
      ? []
      : [
          element(
            "p",
            { class: "small" },
            `${grouped(task.n)} documents in ${grouped(task.clusters)} `,
            term("clusters"),
            ", which intervals and tests count instead.",
          ),
        ]),
  );
}

// Differences between forms and between runs, on the same documents.

/** @import { Comparison, Report } from "./types.d.ts" */

import { chart } from "./charts.js";
import { element } from "./dom.js";
import { inRun } from "./labels.js";
import { grouped, pText, signed } from "./numbers.js";
import { panelsOf } from "./scores.js";
import { term } from "./terms.js";

/**
 * @param {Report} report
 */
export function differencesSection(report) {
  const paths = new Set(report.groups.map((group) => group.path));
  const drawn = report.tasks
    .filter((task) => task.chart)
    .sort((a, b) => Number(paths.has(b.task)) - Number(paths.has(a.task)));
  const panels = (tasks) =>
    panelsOf(
      tasks.map((task) => [
        `${task.run === null ? `${task.task} · between runs` : inRun(report, task.task, task.run)}: largest ${largest(task)}`,
        () => differencesPanel(report, task),
      ]),
    );
  const within = drawn.filter((task) => task.scoring !== "any");
  const across = drawn.filter((task) => task.scoring === "any");
  return [
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
 * The largest difference of a task, in words.
 * @param {Comparison} task
 */
function largest(task) {
  const row = task.chart?.panels[0].rows[0];
  return row ? `${signed(row.difference)}, ${pText(row.p ?? null)}` : "";
}

/**
 * The differences of a task's forms, or of the runs that have a form: a later run minus an earlier one.
 * @param {Report} report
 * @param {Comparison} task
 */
function differencesPanel(report, task) {
  const runs = task.run === null;
  const [all, some] = runs ? ["in all runs", "in"] : ["under all forms", "under"];
  return element(
    "div",
    { class: "panel" },
    element(
      "h3",
      {},
      runs ? `${task.task} · between runs` : inRun(report, task.task, task.run),
      " · ",
      term(task.scoring),
    ),
    element(
      "p",
      { class: "soft small" },
      `Paired differences of ${task.metric} on the same documents${runs ? ", the later run minus the earlier one" : ""}; ${task.compared > 1 ? `${task.compared} comparisons, ` : ""}`,
      ...(task.compared > 1
        ? [
            term("interval"),
            " and ",
            term("p"),
            " ",
            term("together", runs ? "for all of them at once, as in multiform compare" : "for all of them at once"),
          ]
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
            `Right ${all}: ${(100 * task.all).toFixed(1)} %, ${some} some: ${(100 * (task.some ?? 0)).toFixed(1)} %, ${some} none: ${(100 * (task.none ?? 0)).toFixed(1)} %.`,
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
              .map(([name, share]) => `${name} ${(100 * share).toFixed(1)} %`)
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

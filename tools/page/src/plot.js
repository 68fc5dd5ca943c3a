// All scores of a run on one axis, whose points open the samples behind them.

/** @import { ChartRow, Report, Spec } from "./types.d.ts" */

import { chart } from "./charts.js";
import { element } from "./dom.js";
import { rowColor } from "./intervals.js";
import { columnName, inColumn, inRun, rowName, shortFormat } from "./labels.js";
import { downloadPng } from "./png.js";
import { showSamples } from "./tabs.js";
import { term } from "./terms.js";

/**
 * @param {Report} report
 * @param {Spec} spec
 * @param {number} run
 */
export function plotPanel(report, spec, run) {
  const several = report.runs.length > 1;
  const rows = spec.panels.flatMap((panel) => panel.rows.map((row) => ({ row, panel })));
  const kinds = new Map(rows.map(({ row, panel }) => [row.scoring, rowColor(spec, panel, row)]));
  const has = (test) => rows.some(test);
  /** @param {ChartRow} row */
  const where = (row) => {
    const form = report.forms.find((entry) => entry.run === run && entry.name === row.form);
    const column = form ? columnName(report, form) : inColumn(report, shortFormat(report, row.format), run);
    return form && report.forms.some((entry) => entry.task !== form.task) ? `${column} and task ${form.task}` : column;
  };
  const plot = chart(spec, {
    name: (row) => rowName(report, row),
    onPoint: (row) => showSamples(`wrong in ${where(row)}`),
    onTail: (row) => showSamples(`not extracted in ${where(row)}`),
  });
  const title = inRun(report, report.overview.sentence, several ? run : null);
  return element(
    "div",
    { class: "panel plot" },
    element("button", { type: "button", class: "copy png", onclick: () => downloadPng(spec, plot, title) }, "PNG"),
    element("h2", {}, several ? `Scores of ${report.runs[run].short}` : "Scores"),
    element(
      "p",
      { class: "legend-line small" },
      ...[...kinds].map(([kind, color]) =>
        element("span", {}, element("i", { class: "swatch", style: `background:${color}` }), term(kind)),
      ),
      ...(has(({ row }) => row.chance) ? [element("span", {}, element("i", { class: "dashed" }), term("chance"))] : []),
      ...(has(({ row }) => row.missing)
        ? [element("span", {}, element("i", { class: "hollow" }), term("unread"))]
        : []),
      ...(has(({ row }) => row.best) ? [element("span", {}, term("tied"), " cannot be told from the best form")] : []),
    ),
    plot,
  );
}

// The names of forms and runs, as short as each place needs them.

/** @import { ChartRow, Form, Report } from "./types.d.ts" */

/**
 * The name of a column of the matrix of samples: a format, and the run where there are several.
 * @param {Report} report
 * @param {string} short
 * @param {number} run
 */
export const inColumn = (report, short, run) =>
  report.runs.length > 1 ? `${short} (${report.runs[run].short})` : short;

/**
 * @param {Report} report
 * @param {Form} form
 */
export const columnName = (report, form) => inColumn(report, form.short, form.run);

/**
 * The short label of a format, by its name.
 * @param {Report} report
 * @param {string} format
 */
export const shortFormat = (report, format) =>
  report.forms.find((form) => (form.format ?? "as written") === format)?.short ?? format;

/**
 * The name of a row of scores: that of its column among the samples, where the row is a single form's.
 * @param {Report} report
 * @param {ChartRow} dot
 */
export const rowName = (report, dot) => (dot.row === dot.format ? shortFormat(report, dot.format) : dot.row);

/**
 * @param {Report} report
 * @param {string} text
 * @param {number | null} run
 */
export const inRun = (report, text, run) =>
  report.runs.length > 1 && run !== null ? `${text} · ${report.runs[run].short}` : text;

/**
 * @param {Report} report
 * @param {Form} form
 */
export const formLabel = (report, form) => inRun(report, form.name, form.run);

/**
 * The name of a form for lists: variations by their numbers, which the legend explains.
 * @param {Report} report
 * @param {Form} form
 */
export const listLabel = (report, form) =>
  inRun(report, form.format && form.short !== form.format ? `${form.task}@${form.short}` : form.name, form.run);

/**
 * What names begin with alike, up to an underscore: the name of their group.
 * @param {string[]} names
 */
export function sharedBegin([first = "", ...others]) {
  let length = others.length ? first.length : 0;
  while (!others.every((name) => name.startsWith(first.slice(0, length)))) length -= 1;
  return first.slice(0, first.lastIndexOf("_", length - 1) + 1);
}

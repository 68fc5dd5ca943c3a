// The dot plot: all scores of a run on one axis, drawn from the description that Python gives.

/** @import { Dot, Panel, Report, Spec } from "./types.d.ts" */

import { element, plainLine } from "./dom.js";
import { columnName, rowName } from "./labels.js";
import { fixed, grouped } from "./numbers.js";
import { downloadPng } from "./png.js";
import { ticks } from "./scales.js";
import { showSamples } from "./tabs.js";
import { term } from "./terms.js";

const SCORINGS = ["ranked", "generated"];

/**
 * @param {Spec} spec
 * @param {string} scoring
 */
const scoringColor = (spec, scoring) => spec.palette[Math.max(0, SCORINGS.indexOf(scoring))];

/**
 * All scores of a run, drawn from the description that other charts are drawn from.
 * @param {Report} report
 * @param {Spec} spec
 * @param {number} run
 */
export function plotPanel(report, spec, run) {
  const several = report.runs.length > 1;
  const kinds = [...new Set(spec.panels.flatMap((panel) => panel.rows.map((row) => row.scoring)))];
  const missing = spec.panels.some((panel) => panel.rows.some((row) => row.missing));
  return element(
    "div",
    { class: "panel plot" },
    element(
      "button",
      { type: "button", class: "copy png", onclick: () => downloadPng(spec, report.overview.sentence) },
      "PNG",
    ),
    element("h2", {}, several ? `Scores of ${report.runs[run].short}` : "Scores"),
    element(
      "p",
      { class: "legend-line small" },
      ...kinds.map((kind) =>
        element(
          "span",
          {},
          element("i", { class: "swatch", style: `background:${scoringColor(spec, kind)}` }),
          term(kind),
        ),
      ),
      ...(spec.panels.some((panel) => panel.lines?.chance !== undefined)
        ? [element("span", {}, element("i", { class: "dashed" }), term("chance"))]
        : []),
      ...(missing ? [element("span", {}, element("i", { class: "hollow" }), "not extracted")] : []),
    ),
    ...spec.panels.flatMap((panel) => [
      ...(spec.panels.length > 1 ? [element("h3", {}, panel.title)] : []),
      dotPlot(report, spec, panel, run),
    ]),
  );
}

/**
 * One axis for all rows; groups open into their subjects, and the forms of a row are its dots.
 * @param {Report} report
 * @param {Spec} spec
 * @param {Panel} panel
 * @param {number} run
 */
function dotPlot(report, spec, panel, run) {
  const dotsOf = (name) => panel.rows.filter((row) => row.row === name);
  const parents = new Map(panel.rows.map((row) => [row.row, row.parent]));
  const parent = (name) => parents.get(name) ?? "";
  const children = (name) => panel.y.names.filter((other) => parent(other) === name && other !== name);
  const roots = panel.y.names.filter((name) => !parents.has(parent(name)));
  const open = new Set(roots.length === 1 ? roots : []);
  const holder = element("div", { class: "dots", role: "group", "aria-label": spec.text });
  const list = (names, depth) =>
    names.flatMap((name) => [[name, depth], ...(open.has(name) ? list(children(name), depth + 1) : [])]);
  const draw = () => {
    const x = (value) => `${(100 * (value - panel.x.low)) / (panel.x.high - panel.x.low)}%`;
    const [values, digits] = ticks(panel.x.low, panel.x.high);
    const lines = () => [
      ...values.map((value) => element("i", { class: "grid-line", style: `left:${x(value)}` })),
      ...Object.entries(panel.lines ?? {}).map(([name, value]) =>
        element("i", { class: "chance-line", title: `${name} ${fixed(value)}`, style: `left:${x(value)}` }),
      ),
    ];
    holder.replaceChildren(
      ...list(roots, 0).map(([name, depth]) => {
        const dots = dotsOf(name);
        const inner = children(name);
        const label = inner.length
          ? element(
              "button",
              {
                type: "button",
                class: "plain",
                "aria-expanded": String(open.has(name)),
                onclick: () => {
                  if (!open.delete(name)) open.add(name);
                  draw();
                  /** @type {HTMLElement | null} */ (
                    holder.querySelector(`[data-row="${CSS.escape(name)}"] button`)
                  )?.focus();
                },
              },
              `${open.has(name) ? "▾" : "▸"} ${plainLine(name)}`,
            )
          : element("span", { title: name }, plainLine(rowName(report, run, dots[0])));
        return element(
          "div",
          { class: "dot-row", "data-row": name },
          element("div", { class: "dot-name", style: `padding-left:${depth}rem` }, label),
          element(
            "div",
            { class: "dot-track" },
            ...lines(),
            ...dots.flatMap((row) => dotMarks(report, spec, row, run, x, panel)),
          ),
          element(
            "div",
            { class: "dot-numbers" },
            dots.length === 1
              ? element(
                  "span",
                  {},
                  element("b", { class: "score" }, fixed(dots[0].score)),
                  element(
                    "span",
                    { class: "soft" },
                    dots[0].low === null ? "" : ` ${fixed(dots[0].low)} to ${fixed(dots[0].high)}`,
                  ),
                )
              : element(
                  "span",
                  {},
                  element(
                    "b",
                    { class: "score" },
                    `${fixed(Math.min(...dots.map((row) => row.score)))} to ${fixed(Math.max(...dots.map((row) => row.score)))}`,
                  ),
                  element("span", { class: "soft" }, ` n=${grouped(dots[0].n)}`),
                ),
          ),
        );
      }),
      element(
        "div",
        { class: "dot-row axis-row" },
        element("div", { class: "dot-name soft" }, plainLine(panel.x.title ?? "")),
        element(
          "div",
          { class: "dot-track" },
          ...values.map((value) =>
            element("span", { class: "soft", style: `left:${x(value)}` }, value.toFixed(digits).replace("-", "−")),
          ),
        ),
        element("div", { class: "dot-numbers soft" }, "95 % interval"),
      ),
    );
  };
  draw();
  return holder;
}

/**
 * @param {Report} report
 * @param {Spec} spec
 * @param {Dot} row
 * @param {number} run
 * @param {(value: number) => string} x
 * @param {Panel} panel
 */
function dotMarks(report, spec, row, run, x, panel) {
  const color = scoringColor(spec, row.scoring);
  const form = report.forms.find((entry) => entry.run === run && entry.name === row.form);
  const column = form
    ? columnName(report, form)
    : report.runs.length > 1
      ? `${row.format} (${report.runs[run].short})`
      : row.format;
  const scope = form && report.forms.some((entry) => entry.task !== form.task) ? ` and task ${form.task}` : "";
  const interval = row.low === null ? "" : ` (${fixed(row.low)} to ${fixed(row.high)})`;
  const words = `${row.form}: ${fixed(row.score)}${interval}, n=${grouped(row.n)}`;
  const end = Math.min(panel.x.high, row.score + (row.missing ?? 0));
  return [
    ...(row.low === null || row.high === null
      ? []
      : [
          element("i", {
            class: "whisk",
            style: `left:${x(row.low)};right:calc(100% - ${x(row.high)});background:${color}`,
          }),
        ]),
    ...(row.missing
      ? [
          element("button", {
            type: "button",
            class: "tail",
            title: `${(100 * row.missing).toFixed(0)} % not extracted: show them`,
            "aria-label": `${row.form}: ${(100 * row.missing).toFixed(0)} % not extracted, show them`,
            style: `left:${x(row.score)};right:calc(100% - ${x(end)});border-color:${color}`,
            onclick: () => showSamples(`not extracted in ${column}${scope}`),
          }),
        ]
      : []),
    element("button", {
      type: "button",
      class: "point",
      title: words,
      "aria-label": `${words}; show what is wrong`,
      style: `left:${x(row.score)};background:${color}`,
      onclick: () => showSamples(`wrong in ${column}${scope}`),
    }),
  ];
}

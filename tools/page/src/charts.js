// Charts, drawn from the descriptions that Python gives.

/** @import { Actions } from "./intervals.js" */
/** @import { Axis, Panel, Spec } from "./types.d.ts" */

import { element, plainLine, shape, shortened } from "./dom.js";
import { intervalChart, rowColor } from "./intervals.js";
import { counted, fixed, grouped, percent } from "./numbers.js";
import { scale, ticks } from "./scales.js";

/**
 * A chart with all its panels.
 * @param {Spec} spec
 * @param {Actions} [actions]
 */
export function chart(spec, actions = {}) {
  const draw = { interval: intervalChart, cell: cellChart, bar: barChart, line: lineChart };
  return element(
    "div",
    { class: "chart" },
    ...spec.panels.flatMap((panel) => [
      ...(panel.title && (spec.panels.length > 1 || spec.name === "changes") ? [element("h3", {}, panel.title)] : []),
      draw[panel.mark](spec, panel, actions),
    ]),
  );
}

/** So many columns have their names upright. */
const MANY = 6;

/**
 * A table of cells, darker where their value is higher; a click on one shows what it counts.
 * @param {Spec} spec
 * @param {Panel} panel
 * @param {Actions} actions
 */
function cellChart(spec, { x, y, rows, value, label }, { cells }) {
  const [columns, lines] = [x, y].map((axis) => axis.names ?? [...new Set(rows.map((row) => String(row[axis.field])))]);
  const shown = cells?.name ?? String;
  const cell = (line, column) => {
    const row = rows.find((entry) => entry[y.field] === line && entry[x.field] === column);
    if (!row || !value) return element("td");
    const share = (row[value.field] - Number(value.low)) / (Number(value.high) - Number(value.low));
    const text = label ? grouped(row[label]) : fixed(row[value.field]);
    const words = cells?.words(row) ?? `${line}, ${column}: ${text}`;
    return element(
      "td",
      { style: `background:color-mix(in srgb, var(--accent) ${Math.round(60 * share)}%, var(--panel))` },
      cells
        ? element(
            "button",
            {
              type: "button",
              class: "plain",
              title: words,
              "aria-label": `${words}, show them`,
              onclick: () => cells.onCell(row),
            },
            text,
          )
        : text,
    );
  };
  const head = (scope, name) => element("th", { scope, title: name }, plainLine(shown(name)));
  return element(
    "div",
    { class: "wide" },
    element(
      "table",
      { class: columns.length > MANY ? "cells many" : "cells", "aria-label": spec.text },
      element("thead", {}, element("tr", {}, element("td", {}), ...columns.map((name) => head("col", name)))),
      element(
        "tbody",
        {},
        ...lines.map((line) => element("tr", {}, head("row", line), ...columns.map((column) => cell(line, column)))),
      ),
    ),
  );
}

/**
 * An empty drawing with the text that says what it shows.
 * @param {Spec} spec
 * @param {number} width
 * @param {number} height
 */
const drawing = (spec, width, height) =>
  shape("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width: "100%",
    role: "img",
    "aria-label": spec.text,
    style: `max-width:${width}px`,
  });

/**
 * The horizontal lines of an axis with their numbers, and its scale.
 * @param {SVGElement} svg
 * @param {Axis} axis
 * @param {{ left: number, right: number, top: number, floor: number }} frame
 */
function yAxis(svg, axis, { left, right, top, floor }) {
  const y = scale(Number(axis.low), Number(axis.high), floor, top);
  const [values, digits] = ticks(Number(axis.low), Number(axis.high));
  for (const value of values)
    svg.append(
      shape("line", { class: "axis", x1: left, x2: right, y1: y(value), y2: y(value) }),
      shape("text", { class: "soft", x: left - 8, y: y(value) + 4, "text-anchor": "end" }, fixed(value, digits)),
    );
  return y;
}

/**
 * Bars from zero, each with a tick: how often a position is picked, and how often it is right.
 * @param {Spec} spec
 * @param {Panel} panel
 */
function barChart(spec, panel) {
  const frame = { left: 40, right: 320, top: 16, floor: 150 };
  const svg = drawing(spec, frame.right, 176);
  const y = yAxis(svg, panel.y, frame);
  const step = (frame.right - frame.left) / panel.rows.length;
  panel.rows.forEach((row, index) => {
    const [name, value, tick] = [row[panel.x.field], row[panel.y.field], row[String(panel.tick)]];
    const x = frame.left + (index + 0.15) * step;
    const middle = { x: x + step * 0.35, "text-anchor": "middle" };
    svg.append(
      shape(
        "rect",
        { class: "bar", x, y: y(value), width: step * 0.7, height: frame.floor - y(value) },
        shape("title", {}, `${name}: ${panel.y.field} ${percent(value)}, ${panel.tick} ${percent(tick)}`),
      ),
      shape("line", { class: "gold", x1: x - 2, x2: x + step * 0.7 + 2, y1: y(tick), y2: y(tick) }),
      shape("text", { ...middle, y: Math.min(y(value), y(tick)) - 5 }, `${(100 * value).toFixed(0)} %`),
      shape("text", { class: "soft", ...middle, y: frame.floor + 18 }, String(name)),
    );
  });
  return svg;
}

/** The width of a name on an axis. */
const LABEL = 100;

/**
 * Lines through points with intervals: over names, such as checkpoints, or over numbers, where the diagonal is that on
 * which both axes agree.
 * @param {Spec} spec
 * @param {Panel} panel
 */
function lineChart(spec, panel) {
  const { names } = panel.x;
  const frame = { left: 50, right: names ? Math.min(680, innerWidth - 70) : 250, top: 12, floor: 184 };
  const svg = drawing(spec, frame.right + 8, 224);
  const y = yAxis(svg, panel.y, frame);
  const along = names
    ? scale(0, Math.max(1, names.length - 1), frame.left + 40, frame.right - 60)
    : scale(Number(panel.x.low), Number(panel.x.high), frame.left, frame.right);
  const x = (row) => along(names ? names.indexOf(row[panel.x.field]) : row[panel.x.field]);
  const label = (at, words) =>
    svg.append(shape("text", { class: "soft", x: at, y: frame.floor + 18, "text-anchor": "middle" }, words));
  if (names)
    names.forEach((name, index) => {
      if (index % Math.ceil((names.length * LABEL) / frame.right) === 0) label(along(index), shortened(name, 16));
    });
  else {
    for (const value of [0, 0.5, 1]) label(along(value), String(value));
    svg.append(
      shape("line", { class: "zero", x1: along(0), y1: y(0), x2: along(1), y2: y(1) }),
      shape("text", { class: "soft", x: along(0.5), y: 220, "text-anchor": "middle" }, panel.x.title ?? ""),
      shape(
        "text",
        { class: "soft", transform: `translate(10 ${y(0.5)}) rotate(-90)`, "text-anchor": "middle" },
        panel.y.title ?? "",
      ),
    );
  }
  const field = String(panel.color);
  const series = [...new Set(panel.rows.map((row) => row[field]))];
  const most = Math.max(...panel.rows.map((row) => row.n ?? 0));
  for (const name of series) {
    const rows = panel.rows.filter((row) => row[field] === name);
    const color = rowColor(spec, panel, rows[0]);
    const points = rows.map((row) => `${x(row)},${y(row[panel.y.field])}`).join(" ");
    svg.append(shape("polyline", { points, fill: "none", stroke: color, "stroke-width": 1.5 }));
    for (const row of rows) {
      const value = row[panel.y.field];
      const known = typeof row.low === "number" && typeof row.high === "number";
      const about = known
        ? ` (${fixed(row.low)} to ${fixed(row.high)})`
        : row.n
          ? ` of ${counted(row.n, "document")}`
          : "";
      const at = typeof row[panel.x.field] === "number" ? fixed(row[panel.x.field], 2) : row[panel.x.field];
      if (known) svg.append(shape("line", { class: "whisk-line", x1: x(row), x2: x(row), y1: y(row.low), y2: y(row.high), stroke: color })); // prettier-ignore
      const r = most ? 2.5 + 2.5 * Math.sqrt(row.n / most) : 4.5;
      svg.append(
        shape(
          "circle",
          { cx: x(row), cy: y(value), r, fill: color, "data-run": row.run ?? "" },
          shape("title", {}, `${name}, ${at}: ${fixed(value)}${about}`),
        ),
      );
    }
  }
  const swatch = (name) =>
    element(
      "span",
      {},
      element("i", {
        class: "swatch",
        style: `background:${rowColor(spec, panel, { [field]: name })}`,
      }),
      name,
    );
  const legend =
    series.length > 1 || names ? [element("p", { class: "legend-line small" }, ...series.map(swatch))] : [];
  const title = panel.title && spec.panels.length === 1 ? [element("p", { class: "soft small" }, panel.title)] : [];
  return element("div", {}, ...title, ...legend, svg);
}

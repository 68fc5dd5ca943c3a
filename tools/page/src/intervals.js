// Points with intervals on one axis, a row for each name: scores, differences and effects.

/** @import { ChartRow, Panel, Spec } from "./types.d.ts" */

import { element, plainLine } from "./dom.js";
import { sharedBegin } from "./labels.js";
import { fixed, grouped, pText, percent, signed } from "./numbers.js";
import { ticks } from "./scales.js";
import { TERMS } from "./terms.js";

/**
 * What a chart does beside showing its rows: how rows are called, and what a click on a point, tail or cell does.
 * @typedef {object} Actions
 * @property {(row: ChartRow) => string} [name]
 * @property {(row: ChartRow) => void} [onPoint]
 * @property {(row: ChartRow) => void} [onTail]
 * @property {CellActions} [cells]
 */
/**
 * How the names on both axes are shown, what a cell says, and what a click on it does.
 * @typedef {{ name: (name: string) => string, words: (row: ChartRow) => string, onCell: (row: ChartRow) => void }} CellActions
 */

/**
 * The colour of a row, by its place in the domain of the panel.
 * @param {Spec} spec
 * @param {Panel} panel
 * @param {ChartRow} row
 */
export function rowColor(spec, panel, row) {
  if (!panel.color) return spec.palette[0];
  const domain = panel.domain ?? [...new Set(panel.rows.map((other) => other[String(panel.color)]))];
  return spec.palette[Math.max(0, domain.indexOf(row[panel.color])) % spec.palette.length];
}

/**
 * One axis for all rows; groups open into their subjects, and the forms of a row are its points.
 * @param {Spec} spec
 * @param {Panel} panel
 * @param {Actions} [actions]
 */
export function intervalChart(spec, panel, actions = {}) {
  const key = (row) => String(row[panel.y.field]);
  const names = panel.y.names ?? [...new Set(panel.rows.map(key))];
  const parents = new Map(panel.rows.map((row) => [key(row), row.parent]));
  const parent = (name) => parents.get(name) ?? "";
  const children = (name) => names.filter((other) => parent(other) === name && other !== name);
  // Rows may belong to one that has no points of its own.
  const headings = [...new Set(names.map(parent))].filter((name) => name && !parents.has(name));
  const roots = [...names.filter((name) => !parent(name)), ...headings];
  const open = new Set(headings);
  const holder = element("div", { class: "dots", role: "group", "aria-label": spec.text });
  const list = (some, depth) =>
    some.flatMap((name) => [[name, depth], ...(open.has(name) ? list(children(name), depth + 1) : [])]);
  const toggle = (name) => {
    if (!open.delete(name)) open.add(name);
    draw();
    /** @type {HTMLElement | null} */ (holder.querySelector(`[data-row="${CSS.escape(name)}"] button`))?.focus();
  };
  const draw = () =>
    holder.replaceChildren(
      ...list(roots, 0).map(([name, depth]) => {
        const rows = panel.rows.filter((row) => key(row) === name);
        const begin = depth ? sharedBegin(children(parent(name))) : "";
        const words = plainLine(rows.length === 1 && actions.name ? actions.name(rows[0]) : name).slice(begin.length);
        const expanded = open.has(name);
        const onclick = () => toggle(name);
        const label = children(name).length
          ? element(
              "button",
              { type: "button", class: "plain", "aria-expanded": String(expanded), onclick },
              `${expanded ? "▾" : "▸"} ${words}`,
            )
          : element("span", { title: name }, words);
        const best = rows.length === 1 && rows[0].best;
        return chartRow(
          element(
            "div",
            { class: "dot-name", style: `padding-left:${depth}rem` },
            best ? element("b", { class: "tied", title: TERMS.tied[1] }, "* ") : null,
            label,
          ),
          [...axisLines(panel), ...rows.flatMap((row) => marks(spec, panel, row, actions))],
          numbers(panel, rows),
          { "data-row": name },
        );
      }),
      axisRow(spec, panel),
    );
  draw();
  return holder;
}

/**
 * @param {Node} name
 * @param {Node[]} track
 * @param {Node} numbers
 * @param {Record<string, string>} [attributes]
 */
const chartRow = (name, track, numbers, attributes = {}) =>
  element("div", { class: "dot-row", ...attributes }, name, element("div", { class: "dot-track" }, ...track), numbers);

/** @param {Panel} panel */
const position = (panel) => (value) => {
  const [low, high] = [Number(panel.x.low), Number(panel.x.high)];
  return `${(100 * (Math.min(high, Math.max(low, value)) - low)) / (high - low)}%`;
};

/** @param {Panel} panel */
function axisLines(panel) {
  const x = position(panel);
  const [values] = ticks(Number(panel.x.low), Number(panel.x.high));
  return [
    ...values.map((value) => element("i", { class: "grid-line", style: `left:${x(value)}` })),
    ...Object.entries(panel.lines ?? {}).map(([name, value]) =>
      element("i", {
        class: name === "chance" ? "chance-line" : "zero-line",
        title: `${name} ${fixed(value)}`,
        style: `left:${x(value)}`,
      }),
    ),
  ];
}

/**
 * The numbers of the axis; what they measure is not said twice, where it is the heading of the panel.
 * @param {Spec} spec
 * @param {Panel} panel
 */
function axisRow(spec, panel) {
  const [values, digits] = ticks(Number(panel.x.low), Number(panel.x.high));
  const x = position(panel);
  return chartRow(
    element(
      "div",
      { class: "dot-name soft" },
      spec.panels.length > 1 && panel.title ? "" : plainLine(panel.x.title ?? ""),
    ),
    values.map((value) => element("span", { class: "soft", style: `left:${x(value)}` }, fixed(value, digits))),
    element(
      "div",
      { class: "dot-numbers soft" },
      panel.rows.every(({ p, raw }) => p === undefined && raw === undefined) ? "95 % interval" : "",
    ),
    { class: "dot-row axis-row" },
  );
}

/**
 * How the numbers of a panel are written: differences with their sign.
 * @param {Panel} panel
 */
const format = (panel) => (Number(panel.x.low) < 0 ? signed : fixed);

/**
 * The score with its interval or p value; of several points, their range.
 * @param {Panel} panel
 * @param {ChartRow[]} rows
 */
function numbers(panel, rows) {
  const values = rows.map((row) => row[panel.x.field]);
  if (!rows.length) return element("div");
  const shown = format(panel);
  const [{ low, high, p, raw, n }] = rows;
  const interval = typeof low === "number" ? `${shown(low)} to ${shown(high)}` : "";
  const about =
    typeof p === "number" ? pText(p).replaceAll(" ", "") : raw === undefined ? interval : `raw ${fixed(raw)}`;
  const ends = [Math.min(...values), Math.max(...values)].map((end) => shown(end));
  const score = ends[0] === ends[1] ? ends[0] : ends.join(" to ");
  const note = rows.length === 1 ? about : `${rows.length} forms, n=${grouped(n)}`;
  return element(
    "div",
    { class: "dot-numbers" },
    element("b", { class: "score" }, score),
    element("span", { class: "soft" }, ` ${note}`),
  );
}

/**
 * The interval, the share that was not extracted, the tick and the point of a row.
 * @param {Spec} spec
 * @param {Panel} panel
 * @param {ChartRow} row
 * @param {Actions} actions
 */
function marks(spec, panel, row, { onPoint, onTail }) {
  const x = position(panel);
  const color = rowColor(spec, panel, row);
  const shown = format(panel);
  const value = row[panel.x.field];
  const known = typeof row.low === "number" && typeof row.high === "number";
  const name = row.form ?? row[panel.y.field];
  const words =
    `${name}: ${shown(value)}${known ? ` (${shown(row.low)} to ${shown(row.high)})` : ""}` +
    (row.n === undefined ? "" : `, n=${grouped(row.n)}`) +
    (row.best ? ", cannot be told from the best" : "");
  const tick = panel.tick ? row[panel.tick] : null;
  const missing = `${percent(row.missing ?? 0)} not extracted`;
  const nodes = [];
  if (known)
    nodes.push(
      element("i", {
        class: "whisk",
        style: `left:${x(row.low)};right:calc(100% - ${x(row.high)});background:${color}`,
      }),
    );
  if (row.missing)
    nodes.push(
      element("button", {
        type: "button",
        class: "tail",
        title: `${missing}: show them`,
        "aria-label": `${name}: ${missing}, show them`,
        style: `left:${x(value)};right:calc(100% - ${x(value + row.missing)});border-color:${color}`,
        onclick: () => onTail?.(row),
      }),
    );
  if (typeof tick === "number")
    nodes.push(
      element("i", { class: `tick ${panel.tick}`, title: `${panel.tick} ${fixed(tick)}`, style: `left:${x(tick)}` }),
    );
  const style = `left:${x(value)};background:${color}`;
  nodes.push(
    onPoint
      ? element("button", {
          type: "button",
          class: "point",
          title: words,
          "aria-label": `${words}; show what is wrong`,
          style,
          onclick: () => onPoint(row),
        })
      : element("i", { class: "point", title: words, style }),
  );
  return nodes;
}

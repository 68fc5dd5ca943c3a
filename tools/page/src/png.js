// A dot plot as a PNG file: the rows that the page shows, in colours that are readable on white.

/** @import { Panel, Spec } from "./types.d.ts" */

import { shape } from "./dom.js";
import { rowColor } from "./intervals.js";
import { fixed } from "./numbers.js";
import { scale, ticks } from "./scales.js";
import { TERMS } from "./terms.js";

const [MARGIN, PLOT, ROW, LETTER, SCALE] = [16, 460, 26, 7.2, 2];
const FONT = "font: 13px sans-serif";

const text = (words, x, y, anchor = "start", style = FONT) =>
  shape("text", { x, y: y + 5, "text-anchor": anchor, fill: "#1c1d1f", style }, words);

const line = (x1, x2, y1, y2, stroke, width, dash = "none") =>
  shape("line", { x1, x2, y1, y2, stroke, "stroke-width": width, "stroke-dasharray": dash });

/**
 * The rows of a panel, with their names and numbers as the page has them.
 * @param {HTMLElement} dots
 */
const shownRows = (dots) =>
  [...dots.querySelectorAll("[data-row]")].map((node) => ({
    row: /** @type {HTMLElement} */ (node).dataset.row,
    name: (node.querySelector(".dot-name")?.textContent ?? "").trim(),
    numbers: (node.querySelector(".dot-numbers")?.textContent ?? "").trim(),
  }));

/**
 * @param {Spec} spec
 * @param {Panel} panel
 * @param {ReturnType<typeof shownRows>} shown
 * @param {number} left where the axis begins
 * @param {number} top
 */
function panelShapes(spec, panel, shown, left, top) {
  const x = scale(Number(panel.x.low), Number(panel.x.high), left, left + PLOT);
  const bottom = top + ROW * (shown.length + 0.5);
  const [values, digits] = ticks(Number(panel.x.low), Number(panel.x.high));
  const grid = values.flatMap((value) => [
    line(x(value), x(value), top + ROW / 2, bottom, "#e3e4e6", 1),
    text(fixed(value, digits), x(value), bottom + 14, "middle"),
  ]);
  const lines = Object.values(panel.lines ?? {}).map((value) =>
    line(x(value), x(value), top + ROW / 2, bottom, "#7a5600", 2, "5 4"),
  );
  const rows = shown.flatMap(({ row: name, name: words, numbers }, index) => {
    const y = top + ROW * (index + 1);
    const points = panel.rows.filter((row) => String(row[panel.y.field]) === name);
    return [
      text(words, MARGIN, y),
      text(numbers, left + PLOT + MARGIN, y),
      ...points.flatMap((row) => {
        const stroke = rowColor(spec, panel, row);
        const [value, missing] = [row[panel.x.field], row.missing ?? 0];
        const width = x(value + missing) - x(value);
        return [
          ...(missing
            ? [shape("rect", { x: x(value), y: y - 4.5, width, height: 9, rx: 3, fill: "none", stroke })]
            : []),
          ...(typeof row.low === "number" ? [line(x(row.low), x(row.high), y, y, stroke, 2)] : []),
          shape("circle", { cx: x(value), cy: y, r: 5, fill: stroke }),
        ];
      }),
    ];
  });
  return [text(panel.title ?? "", MARGIN, top, "start", "font: bold 13px sans-serif"), ...grid, ...lines, ...rows];
}

/**
 * What the colours and marks mean.
 * @param {Spec} spec
 * @param {number} top
 */
function legend(spec, top) {
  const rows = spec.panels.flatMap((panel) => panel.rows.map((row) => ({ row, panel })));
  const colors = new Map(rows.map(({ row, panel }) => [row.scoring, rowColor(spec, panel, row)]));
  /** @type {[string, (x: number) => SVGElement][]} */
  const marks = [...colors].map(([kind, fill]) => [kind, (x) => shape("circle", { cx: x, cy: top, r: 5, fill })]);
  if (spec.panels.some(({ lines }) => lines?.chance !== undefined))
    marks.push(["chance", (x) => line(x, x, top - 8, top + 8, "#7a5600", 2, "5 4")]);
  if (rows.some(({ row }) => row.missing))
    marks.push(["unread", (x) => shape("rect", { x: x - 7, y: top - 4, width: 14, height: 9, fill: "none", stroke: "#d55e00" })]); // prettier-ignore
  let at = MARGIN;
  return marks.flatMap(([key, mark]) => {
    const begin = at;
    at += LETTER * TERMS[key][0].length + 2.5 * MARGIN;
    return [mark(begin + 6), text(TERMS[key][0], begin + MARGIN + 4, top)];
  });
}

/**
 * Offers a chart as a PNG file.
 * @param {Spec} spec
 * @param {HTMLElement} chart the chart on the page
 * @param {string} title
 */
export async function downloadPng(spec, chart, title) {
  const panels = /** @type {HTMLElement[]} */ ([...chart.querySelectorAll(".dots")]).map(shownRows);
  const longest = (field) => LETTER * Math.max(...panels.flat().map((row) => row[field].length));
  const left = 2 * MARGIN + longest("name");
  const width = Math.ceil(left + PLOT + 2 * MARGIN + longest("numbers"));
  const perLine = Math.floor((width - 2 * MARGIN) / (LETTER * 1.25));
  const titles = title.match(new RegExp(`.{1,${perLine}}(?:\\s|$)`, "g")) ?? [title];
  const shapes = titles.map((words, index) =>
    text(words, MARGIN, 24 + 20 * index, "start", "font: bold 15px sans-serif"),
  );
  let top = 30 + 20 * titles.length;
  shapes.push(...legend(spec, top));
  top += ROW + 6;
  spec.panels.forEach((panel, index) => {
    shapes.push(...panelShapes(spec, panel, panels[index], left, top));
    top += ROW * (panels[index].length + 2.5);
  });
  const svg = shape("svg", { xmlns: "http://www.w3.org/2000/svg", width, height: top, viewBox: `0 0 ${width} ${top}` });
  svg.append(shape("rect", { width, height: top, fill: "#fff" }), ...shapes);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(svg))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width * SCALE, top * SCALE];
  const context = canvas.getContext("2d");
  context?.scale(SCALE, SCALE);
  context?.drawImage(image, 0, 0);
  const link = document.createElement("a");
  link.href = canvas.toDataURL("image/png");
  link.download = "scores.png";
  link.click();
}

// The dot plot as a PNG file, drawn from the same description as the one on the page.

/** @import { Panel, Spec } from "./types.d.ts" */

import { shape } from "./dom.js";
import { rowColor } from "./intervals.js";
import { fixed } from "./numbers.js";
import { scale, ticks } from "./scales.js";

const [NAMES, PLOT, NUMBERS, ROW, SCALE] = [200, 460, 180, 26, 2];
const WIDTH = NAMES + PLOT + NUMBERS;
const FONT = "font: 13px sans-serif";

/**
 * The rows of a panel as SVG, in colours that are readable on white.
 * @param {Spec} spec
 * @param {Panel} panel
 * @param {number} top
 */
function panelShapes(spec, panel, top) {
  const x = scale(Number(panel.x.low), Number(panel.x.high), NAMES + 12, NAMES + PLOT - 12);
  const bottom = top + ROW * (panel.rows.length + 1);
  const text = (words, at, y, anchor = "start", fill = "#1c1d1f") =>
    shape("text", { x: at, y: y + 5, "text-anchor": anchor, fill, style: FONT }, words);
  const line = (from, to, y1, y2, stroke, width, dash = "none") =>
    shape("line", { x1: from, x2: to, y1, y2, stroke, "stroke-width": width, "stroke-dasharray": dash });
  const [values, digits] = ticks(Number(panel.x.low), Number(panel.x.high));
  const grid = values.flatMap((value) => [
    line(x(value), x(value), top + ROW / 2, bottom, "#e3e4e6", 1),
    text(value.toFixed(digits), x(value), bottom + 14, "middle", "#565a61"),
  ]);
  const lines = Object.values(panel.lines ?? {}).map((value) =>
    line(x(value), x(value), top + ROW / 2, bottom, "#7a5600", 2, "5 4"),
  );
  const rows = panel.rows.flatMap((row, index) => {
    const y = top + ROW * (index + 1);
    const color = rowColor(spec, panel, row);
    const interval = row.low === null || row.high === null ? "" : ` ${fixed(row.low)} to ${fixed(row.high)}`;
    const name = row.row === row.format ? row.row : `${row.row} · ${row.format}`;
    return [
      text(name.length > 30 ? `${name.slice(0, 29)}…` : name, 0, y),
      ...(interval ? [line(x(Number(row.low)), x(Number(row.high)), y, y, color, 2)] : []),
      shape("circle", { cx: x(row.score), cy: y, r: 5, fill: color }),
      text(`${fixed(row.score)}${interval}`, NAMES + PLOT, y),
    ];
  });
  return [text(panel.title ?? "", 0, top), ...grid, ...lines, ...rows];
}

/**
 * Offers a chart as a PNG file.
 * @param {Spec} spec
 * @param {string} title
 */
export async function downloadPng(spec, title) {
  const heights = spec.panels.map((panel) => ROW * (panel.rows.length + 3));
  const height = 40 + heights.reduce((sum, part) => sum + part, 0);
  const svg = shape("svg", {
    xmlns: "http://www.w3.org/2000/svg",
    width: WIDTH,
    height,
    viewBox: `0 0 ${WIDTH} ${height}`,
  });
  svg.append(
    shape("rect", { width: WIDTH, height, fill: "#fff" }),
    shape("text", { x: 0, y: 20, style: "font: bold 15px sans-serif" }, title),
  );
  let top = 48;
  spec.panels.forEach((panel, index) => {
    svg.append(...panelShapes(spec, panel, top));
    top += heights[index];
  });
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(svg))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [WIDTH * SCALE, height * SCALE];
  const context = canvas.getContext("2d");
  context?.scale(SCALE, SCALE);
  context?.drawImage(image, 0, 0);
  const link = document.createElement("a");
  link.href = canvas.toDataURL("image/png");
  link.download = "scores.png";
  link.click();
}

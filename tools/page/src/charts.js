// Charts as SVG, drawn in the colours of the page.

/** @import { Calibration, HistorySpec, Position } from "./types.d.ts" */

import { element, shape, shortened } from "./dom.js";
import { fixed } from "./numbers.js";
import { scale, ticks } from "./scales.js";
import { TERMS } from "./terms.js";

/**
 * A line of an interval chart.
 * @typedef {{ label: string, value: number | null, low: number | null, high: number | null, note?: string, mark?: [string, string] | null, detail?: [string, string] | null, chance?: number | null, raw?: number }} Row
 */

/**
 * Dots with intervals, a line for each row: {label, value, low, high, note}. A row may have a mark before its name with
 * its explanation, a raw value beside the drawn one, a chance level, and a detail that narrow screens leave out. On a phone, names stand above the lines.
 * @param {Row[]} rows
 * @param {any} options
 */
export function intervalChart(rows, { zero = false, label = "", format = fixed } = {}) {
  const known = rows.flatMap((row) => (row.value === null ? [] : [{ ...row, value: row.value }]));
  if (!known.length) return element("p", { class: "soft" }, "No scores.");
  const ends = known.flatMap((row) => [
    row.low ?? row.value,
    row.high ?? row.value,
    row.chance ?? row.value,
    row.raw ?? row.value,
  ]);
  let low = Math.min(...ends, ...(zero ? [0] : []));
  let high = Math.max(...ends, ...(zero ? [0] : []));
  const margin = Math.max(high - low, Math.abs(high) * 1e-6) * 0.05 || 0.05;
  [low, high] = [low - margin, high + margin];
  const holder = element("div", { class: "chart" });
  const draw = () =>
    holder.replaceChildren(
      intervalLines(rows, { low, high, zero, label, format, layout: PHONE.matches ? phoneLayout() : wideLayout(rows) }),
    );
  PHONE.addEventListener("change", draw);
  draw();
  return holder;
}

const PHONE = matchMedia("(max-width: 600px)");

/**
 * Where the parts of a row are: its name, its line and its numbers.
 * @param {Row[]} rows
 */
const wideLayout = (rows) => {
  const names = Math.min(260, 26 + 7.2 * Math.max(...rows.map((row) => row.label.length)));
  const noted =
    56 + 6.4 * Math.max(...rows.map((row) => (row.note ?? "").length + (row.detail ? row.detail[1].length + 2 : 0)));
  return {
    width: 528 + Math.max(112, noted),
    step: 26,
    details: true,
    from: names + 12,
    to: 516,
    name: { x: names, up: -4, anchor: "end", most: 36 },
    numbers: { x: 528, up: -4, anchor: "start" },
  };
};

const phoneLayout = () => ({
  width: 334,
  step: 40,
  from: 4,
  to: 330,
  name: { x: 0, up: 12, anchor: "start", most: 30 },
  numbers: { x: 334, up: 12, anchor: "end" },
});

/**
 * @param {Row[]} rows
 * @param {any} options
 */
function intervalLines(rows, { low, high, zero, label, format, layout }) {
  const { width, step, name, numbers } = layout;
  const height = step * rows.length + 40;
  const x = scale(low, high, layout.from, layout.to);
  const svg = shape("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width: "100%",
    role: "img",
    "aria-label": label,
    style: `max-width:${width}px`,
  });
  const [values, digits] = ticks(low, high);
  for (const value of values) {
    svg.append(shape("line", { class: "axis", x1: x(value), x2: x(value), y1: 4, y2: height - 30 }));
    svg.append(
      shape(
        "text",
        { class: "soft", x: x(value), y: height - 14, "text-anchor": "middle" },
        value.toFixed(digits).replace("-", "−"),
      ),
    );
  }
  if (zero) svg.append(shape("line", { class: "zero", x1: x(0), x2: x(0), y1: 0, y2: height - 30 }));
  rows.forEach((row, index) => {
    const y = step - 8 + step * index;
    svg.append(
      shape(
        "text",
        { x: name.x, y: y - name.up, "text-anchor": name.anchor },
        ...(row.mark ? [shape("tspan", { class: "tied" }, `${row.mark[0]} `)] : []),
        shortened(row.label, name.most),
        shape("title", {}, row.mark ? `${row.label}. ${row.mark[1]}` : row.label),
      ),
    );
    if (row.value === null) return;
    if (row.chance !== null && row.chance !== undefined)
      svg.append(
        shape(
          "line",
          { class: "chance", x1: x(row.chance), x2: x(row.chance), y1: y - 9, y2: y + 9 },
          shape("title", {}, `chance level ${format(row.chance)}: how often a random choice is right`),
        ),
      );
    if (row.low !== null && row.high !== null)
      svg.append(shape("line", { class: "whisker", x1: x(row.low), x2: x(row.high), y1: y, y2: y }));
    const tip =
      `${row.label}: ${format(row.value)}` + (row.low === null ? "" : ` (${format(row.low)} to ${format(row.high)})`);
    svg.append(shape("circle", { class: "dot", cx: x(row.value), cy: y, r: 4.5 }, shape("title", {}, tip)));
    if (row.raw !== undefined)
      svg.append(
        shape(
          "circle",
          { class: "raw", cx: x(row.raw), cy: y, r: 4 },
          shape("title", {}, `${row.label}: raw score ${format(row.raw)}`),
        ),
      );
    const detail = layout.details && row.detail ? [shape("tspan", { class: "soft" }, `  ${row.detail[1]}`)] : [];
    svg.append(
      shape(
        "text",
        { class: "score", x: numbers.x, y: y - numbers.up, "text-anchor": numbers.anchor },
        format(row.value),
        shape("tspan", { class: "soft" }, row.note ? `  ${row.note}` : ""),
        ...detail,
        ...(row.detail ? [shape("title", {}, TERMS[row.detail[0]][1])] : []),
      ),
    );
  });
  return svg;
}

/**
 * Picked and right answers by their position in the list of choices.
 * @param {Position} position
 */
export function positionChart(position) {
  const width = 320,
    height = 180,
    top = 22,
    floor = height - 26;
  const highest = Math.max(...position.picked, ...position.gold, 0.01);
  const y = scale(0, highest, floor, top);
  const step = (width - 40) / position.picked.length;
  const svg = shape("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width: "100%",
    role: "img",
    "aria-label": "picked answers by position",
    style: `max-width:${width}px`,
  });
  position.picked.forEach((share, index) => {
    const x = 30 + index * step;
    const tip = `${position.labels[index]}: picked ${(100 * share).toFixed(1)} %, right ${(100 * position.gold[index]).toFixed(1)} %`;
    svg.append(
      shape(
        "rect",
        { class: "bar", x, y: y(share), width: step * 0.7, height: floor - y(share) },
        shape("title", {}, tip),
      ),
    );
    svg.append(
      shape(
        "text",
        {
          class: "soft",
          x: x + step * 0.35,
          y: Math.min(y(share), y(position.gold[index])) - 6,
          "text-anchor": "middle",
        },
        `${(100 * share).toFixed(0)} %`,
      ),
    );
    svg.append(
      shape("line", {
        class: "gold",
        x1: x - 2,
        x2: x + step * 0.7 + 2,
        y1: y(position.gold[index]),
        y2: y(position.gold[index]),
      }),
    );
    svg.append(
      shape(
        "text",
        { class: "soft", x: x + step * 0.35, y: height - 8, "text-anchor": "middle" },
        position.labels[index],
      ),
    );
  });
  return svg;
}

/**
 * How often answers are right, by how sure the model is of them.
 * @param {Calibration} calibration
 */
export function calibrationChart(calibration) {
  const size = 240,
    left = 46,
    floor = size - 42;
  const x = scale(0, 1, left, size - 10),
    y = scale(0, 1, floor, 10);
  const svg = shape("svg", {
    viewBox: `0 0 ${size} ${size}`,
    width: "100%",
    role: "img",
    "aria-label": "calibration",
    style: `max-width:${size}px`,
  });
  for (const value of [0, 0.5, 1]) {
    svg.append(
      shape("line", { class: "axis", x1: x(value), x2: x(value), y1: y(0), y2: y(1) }),
      shape("line", { class: "axis", x1: x(0), x2: x(1), y1: y(value), y2: y(value) }),
    );
    svg.append(shape("text", { class: "soft", x: x(value), y: floor + 18, "text-anchor": "middle" }, String(value)));
    svg.append(shape("text", { class: "soft", x: left - 8, y: y(value) + 4, "text-anchor": "end" }, String(value)));
  }
  svg.append(
    shape(
      "text",
      { class: "soft", x: x(0.5), y: size - 6, "text-anchor": "middle" },
      "probability of the picked choice",
    ),
  );
  svg.append(
    shape(
      "text",
      { class: "soft", transform: `translate(12 ${y(0.5)}) rotate(-90)`, "text-anchor": "middle" },
      "share that is right",
    ),
  );
  svg.append(shape("line", { class: "zero", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }));
  const most = Math.max(...calibration.bins.map((bin) => bin.n), 1);
  for (const bin of calibration.bins) {
    if (!bin.n) continue;
    const tip = `confidence ${fixed(bin.confidence, 2)}: right ${fixed(bin.accuracy, 2)} of ${bin.n}`;
    svg.append(
      shape(
        "circle",
        { class: "dot", cx: x(bin.confidence), cy: y(bin.accuracy), r: 2.5 + 2.5 * Math.sqrt(bin.n / most) },
        shape("title", {}, tip),
      ),
    );
  }
  return svg;
}

/**
 * Scores over checkpoints or dates: a line for each series, with intervals.
 * @param {HistorySpec} spec
 * @param {HistorySpec["panels"][number]} panel
 */
export function historyChart(spec, panel) {
  const [width, height, left, top] = [680, 220, 50, 12];
  const floor = height - 40;
  const { names } = panel.x;
  const x = scale(0, Math.max(1, names.length - 1), left + 40, width - 60);
  const y = scale(panel.y.low, panel.y.high, floor, top);
  const svg = shape("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width: "100%",
    role: "img",
    "aria-label": spec.text,
    style: `max-width:${width}px`,
  });
  const [values, digits] = ticks(panel.y.low, panel.y.high);
  for (const value of values) {
    svg.append(shape("line", { class: "axis", x1: left, x2: width, y1: y(value), y2: y(value) }));
    svg.append(
      shape("text", { class: "soft", x: left - 8, y: y(value) + 4, "text-anchor": "end" }, value.toFixed(digits)),
    );
  }
  const every = Math.ceil(names.length / 8);
  names.forEach((name, index) => {
    if (index % every === 0)
      svg.append(
        shape("text", { class: "soft", x: x(index), y: floor + 20, "text-anchor": "middle" }, shortened(name, 16)),
      );
  });
  const series = [...new Set(panel.rows.map((row) => row.series))];
  series.forEach((name, number) => {
    const color = spec.palette[number % spec.palette.length];
    const points = panel.rows
      .filter((row) => row.series === name)
      .map((row) => ({ ...row, x: x(names.indexOf(row.at)), y: y(row.score) }));
    svg.append(
      shape("polyline", {
        points: points.map((point) => `${point.x},${point.y}`).join(" "),
        fill: "none",
        stroke: color,
        "stroke-width": 1.5,
      }),
    );
    for (const point of points) {
      if (point.low !== null && point.high !== null)
        svg.append(
          shape("line", {
            x1: point.x,
            x2: point.x,
            y1: y(point.low),
            y2: y(point.high),
            stroke: color,
            "stroke-width": 2,
            opacity: 0.6,
          }),
        );
      const tip = `${name}, ${point.at}: ${fixed(point.score)}${point.low === null ? "" : ` (${fixed(point.low)} to ${fixed(point.high)})`}`;
      svg.append(
        shape(
          "circle",
          { cx: point.x, cy: point.y, r: 4.5, fill: color, "data-run": point.run },
          shape("title", {}, tip),
        ),
      );
    }
  });
  const swatch = (name, number) =>
    element(
      "span",
      {},
      element("i", { class: "swatch", style: `background:${spec.palette[number % spec.palette.length]}` }),
      name,
    );
  const legend = element("p", { class: "legend-line small" }, ...series.map(swatch));
  return element("div", { class: "chart" }, element("p", { class: "soft small" }, panel.title), legend, svg);
}

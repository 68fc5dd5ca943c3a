// The score over the wordings of a format.

/** @import { Population, Report, Wordings } from "./types.d.ts" */

import { chart } from "./charts.js";
import { element } from "./dom.js";
import { inRun } from "./labels.js";
import { bounds, fixed, isFinding, pText, signed } from "./numbers.js";
import { tagged, term } from "./terms.js";

/**
 * What the wordings of a format say of all wordings like them.
 * @param {Population} entry
 * @param {(value: number | null) => string} format
 * @param {string} verb
 */
function populationLines(entry, format, verb) {
  return [
    element(
      "p",
      {},
      term("mean_sd"),
      " ",
      element("b", {}, `${format(entry.mean.value)} ± ${fixed(entry.observed)}`),
      "; ",
      term("mean"),
      ` ${bounds(entry.mean, format)}.`,
    ),
    element(
      "p",
      {},
      term("deviation"),
      ` ${fixed(entry.deviation.value)} (${bounds(entry.deviation)}); about ${Math.round(100 * entry.reliability)} % of the variance between the wordings is theirs, the rest is noise.`,
    ),
    element("p", {}, term("predicted"), ` would ${verb} ${bounds(entry.predicted, format)}.`),
  ];
}

/**
 * The effects of the axes, open where one of them is shown to matter.
 * @param {Wordings} entry
 */
function effectsChart({ effects, effect_p: p }) {
  if (!effects || p === null) return [];
  return [
    element(
      "details",
      { open: isFinding(p) },
      element(
        "summary",
        { class: "small" },
        tagged(p),
        " ",
        term("effect", "effects of the axes"),
        `, smallest ${pText(p)} (corrected for all axes)`,
      ),
      chart(effects),
    ),
  ];
}

/**
 * The score over a population of wordings, of one run and between runs.
 * @param {Report} report
 */
export function wordingsSection(report) {
  const between = report.wording_changes.map((entry) =>
    element(
      "div",
      { class: "panel wordings" },
      element("h3", {}, `${entry.name}: ${entry.metric}, ${entry.label} over ${entry.number} wordings`),
      ...populationLines(entry, signed, "show"),
      element(
        "p",
        {},
        `Under another wording the `,
        term("reversal"),
        ` with probability ${fixed(entry.reversal, 2)}.`,
      ),
    ),
  );
  const within = report.tasks
    .filter((task) => task.scoring !== "any")
    .flatMap((task) =>
      task.wordings.map((entry) =>
        element(
          "div",
          { class: "panel wordings" },
          element(
            "h3",
            {},
            inRun(report, `${task.task}@${entry.label}: ${task.metric} over ${entry.number} wordings`, task.run),
          ),
          ...populationLines(entry, fixed, "score"),
          element(
            "p",
            { class: "soft small" },
            term("shrunken"),
            " (●) with its ",
            term("interval"),
            " beside the ",
            term("raw"),
            ".",
          ),
          chart(entry.chart),
          ...effectsChart(entry),
        ),
      ),
    );
  const panels = [...between, ...within];
  return panels.length ? [element("div", { class: "grid wider" }, ...panels)] : [];
}

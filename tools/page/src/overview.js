// The first screen: what is not as it should be, the answer, how sure it is, all scores, what the wording costs.

/** @import { Fact, Report } from "./types.d.ts" */

import { changesPanel } from "./changes.js";
import { element, plainLine } from "./dom.js";
import { counted } from "./numbers.js";
import { plotPanel } from "./plot.js";
import { flippingQuestions, wordingCost } from "./wording.js";

/**
 * @param {Report} report
 */
export function overviewSection(report) {
  const { overview } = report;
  const several = overview.changes.length > 0;
  const plots = overview.charts.flatMap((spec, run) => (spec ? [plotPanel(report, spec, run)] : []));
  const left = several
    ? [changesPanel(report)]
    : plots.length
      ? plots
      : [element("div", { class: "panel" }, element("p", { class: "soft" }, "No scores."))];
  return [
    ...attentionStrip(overview.attention),
    element("p", { class: "answer-line" }, plainLine(overview.sentence)),
    factsRow(overview.facts),
    element(
      "div",
      { class: "first-screen" },
      element("div", { class: "stack" }, ...left),
      element("div", { class: "stack" }, ...wordingCost(report)),
    ),
    ...flippingQuestions(report),
    ...(several ? plots : []),
  ];
}

/** The most lines of notes, the one that opens the rest included. */
const MOST_NOTES = 3;

/**
 * What is not as it should be; of many notes, the rest on request.
 * @param {string[]} notes
 */
function attentionStrip(notes) {
  if (!notes.length) return [];
  const line = (note) => element("p", {}, plainLine(note));
  const open = notes.length === MOST_NOTES ? MOST_NOTES : MOST_NOTES - 1;
  const rest = notes.slice(open);
  return [
    element(
      "aside",
      { class: "attention notes", "aria-label": "what to know before reading the scores" },
      ...notes.slice(0, open).map(line),
      ...(rest.length
        ? [element("details", {}, element("summary", {}, counted(rest.length, "more note")), ...rest.map(line))]
        : []),
    ),
  ];
}

/**
 * @param {Fact[]} facts
 */
const factsRow = (facts) =>
  element(
    "dl",
    { class: "facts" },
    ...facts.map((fact) =>
      element(
        "div",
        { "data-fact": fact.key },
        element("dt", {}, fact.name),
        element("dd", {}, element("b", {}, fact.value), element("span", {}, fact.words)),
      ),
    ),
  );

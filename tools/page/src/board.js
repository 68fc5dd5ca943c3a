// The leaderboard: models ranked over the chosen columns, with those that cannot be told apart, and how stable it is.

/** @import { Board, BoardCell, Spec } from "./types.d.ts" */
/** @import { TableState } from "./table.js" */

import { chart } from "./charts.js";
import { element, plainLine } from "./dom.js";
import { counted, fixed, grouped, signed } from "./numbers.js";
import { interval } from "./runs.js";
import { makeSortable } from "./table.js";

const TIED = "cannot be told from the best model under this form (at 5 %, corrected for all pairs of models)";
/** The most lines of a list. */
const MOST_LINES = 30;

/**
 * The metrics of a column, with the direction that is better.
 * @param {Board} board
 * @param {number} column
 */
const metricOf = (board, column) =>
  [
    ...new Set(
      board.cells.flatMap((row) => (row[column] ? [`${row[column].metric} ${row[column].higher ? "↑" : "↓"}`] : [])),
    ),
  ].join(", ");

/**
 * @param {Board} board
 * @param {TableState} state
 * @param {(columns: string[]) => void} choose
 */
export function boardSection(board, state, choose) {
  if (!board.models.length || !board.forms.length) return [];
  return [...columnChoice(board, choose), boardTable(board, state), ...boardNotes(board), ...stability(board)];
}

/**
 * The columns of which the average is taken.
 * @param {Board} board
 * @param {(columns: string[]) => void} choose
 */
function columnChoice(board, choose) {
  if (board.forms.length < 2) return [];
  const boxes = board.forms.map((form) =>
    element("input", {
      type: "checkbox",
      value: form,
      checked: board.columns.includes(form),
      "data-focus": `average ${form}`,
      onchange: () => choose(boxes.filter((box) => box.checked).map((box) => box.value)),
    }),
  );
  const labels = boxes.map((box) => element("label", {}, box, ` ${plainLine(box.value)}`));
  const words = `Average over ${board.columns.length} of ${board.forms.length} columns`;
  return [
    element(
      "details",
      { class: "columns-choice", "data-keep": "columns" },
      element("summary", {}, words),
      element("div", { class: "checks" }, ...labels),
    ),
  ];
}

/**
 * The ranks that the models of a tier share.
 * @param {Board} board
 * @param {number} tier
 */
function ranks({ ranking }, tier) {
  const first = ranking.findIndex((entry) => entry.tier === tier) + 1;
  const last = ranking.findLastIndex((entry) => entry.tier === tier) + 1;
  return first === last ? String(first) : `${first}–${last}`;
}

/**
 * @param {Board} board
 * @param {TableState} state
 */
function boardTable(board, state) {
  // A mark on all models would say nothing.
  const marked = board.forms.map((_, column) => board.cells.some((row) => row[column]?.tied === false));
  const ranked = board.ranking.map((entry) => ({ ...entry, index: board.models.indexOf(entry.model) }));
  const others = board.models
    .map((model, index) => ({ model, index }))
    .filter(({ model }) => !board.ranking.some((entry) => entry.model === model));
  // The columns of the average come first, then those that most models have.
  const having = (column) => board.cells.filter((row) => row[column]).length;
  const rank = (column) => (board.columns.includes(board.forms[column]) ? Infinity : having(column));
  const columns = [...board.forms.keys()].sort((a, b) => (rank(b) > rank(a) ? 1 : rank(b) < rank(a) ? -1 : a - b));
  const cells = (index) => columns.map((column) => boardCell(board.cells[index][column], marked[column]));
  let tier = -1;
  const rows = ranked.map((entry) => {
    const first = entry.tier !== tier;
    tier = entry.tier;
    return element(
      "tr",
      { class: first ? "tier" : "", "data-tier": entry.tier },
      element("td", { class: "number", "data-value": entry.tier }, ranks(board, entry.tier)),
      element("th", { scope: "row" }, plainLine(entry.model)),
      element(
        "td",
        { class: "number", "data-value": entry.value },
        element("b", {}, fixed(entry.value)),
        element("div", { class: "soft small" }, interval(entry)),
      ),
      ...cells(entry.index),
    );
  });
  const rest = others.map(({ model, index }) =>
    element(
      "tr",
      { class: "unranked" },
      element("td"),
      element("th", { scope: "row" }, plainLine(model)),
      element("td"),
      ...cells(index),
    ),
  );
  const table = element(
    "table",
    { class: "board" },
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        ...["Rank", "Model", "Average"].map((name) => element("th", { scope: "col" }, name)),
        ...columns.map((column) =>
          element(
            "th",
            { scope: "col", class: "number" },
            plainLine(board.forms[column]),
            element("div", { class: "soft small" }, metricOf(board, column)),
          ),
        ),
      ),
    ),
    element("tbody", {}, ...rows, ...rest),
  );
  makeSortable(table, state);
  return element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "leaderboard" }, table);
}

/**
 * @param {BoardCell | null} entry
 * @param {boolean} marked
 */
function boardCell(entry, marked) {
  if (!entry || entry.value === null) return element("td", { class: "number" });
  const star = marked && entry.tied ? element("b", { title: TIED }, "*") : null;
  return element(
    "td",
    { class: "number", "data-value": entry.value, title: `${entry.metric} over ${counted(entry.n, "document")}` },
    element("a", { href: `/report?runs=${entry.run}` }, fixed(entry.value), star),
    element("div", { class: "soft small" }, interval(entry)),
    element("div", { class: "soft small" }, `n=${grouped(entry.n)}`),
  );
}

/** @param {Board} board */
function boardNotes(board) {
  const tiers = new Set(board.ranking.map((entry) => entry.tier)).size;
  const apart = `A line separates models that can be told apart: those below it differ from the first above it at 5 %, corrected for all pairs, by their averages and standard errors.`;
  const words =
    board.ranking.length < 2
      ? ""
      : tiers === 1
        ? "No two models can be told apart by their averages (5 %, corrected for all pairs)."
        : apart;
  const lacks = board.unranked.map(
    ({ model, lacks }) =>
      `${model} is not ranked: it lacks ${lacks.slice(0, 3).join(", ")}${lacks.length > 3 ? ` and ${lacks.length - 3} more` : ""}.`,
  );
  const star = board.forms.some((_, column) => board.cells.some((row) => row[column]?.tied === false))
    ? [`* ${TIED}`]
    : [];
  return [words, ...lacks.slice(0, 6), ...star]
    .filter(Boolean)
    .map((line) => element("p", { class: "soft small" }, plainLine(line)));
}

/** @param {Board} board */
function stability(board) {
  const reversal = (entry) =>
    `${plainLine(entry.ahead)} is ${signed(entry.lead)} ahead of ${plainLine(entry.behind)} under ${plainLine(entry.form)}, and ${signed(entry.deficit)} under ${plainLine(entry.other)}`;
  const clear = board.reversals.filter((entry) => entry.clear);
  const others = board.reversals.filter((entry) => !entry.clear);
  const taus = board.tau
    .filter((entry) => entry.tau !== null)
    .map(
      (entry) =>
        `${plainLine(entry.form)} and ${plainLine(entry.other)}: ${fixed(entry.tau, 2)} over ${counted(entry.models, "model")}`,
    );
  const listed = (lines) => {
    const more = lines.length > MOST_LINES ? [`and ${grouped(lines.length - MOST_LINES)} more`] : [];
    return element("ul", {}, ...[...lines.slice(0, MOST_LINES), ...more].map((line) => element("li", {}, line)));
  };
  const folded = (words, lines) =>
    lines.length ? [element("details", { "data-keep": words }, element("summary", {}, words), listed(lines))] : [];
  return [
    ...(board.summary ? [element("p", {}, `${board.summary[0].toUpperCase()}${board.summary.slice(1)}.`)] : []),
    ...(clear.length ? [element("h3", {}, "Rank reversals between forms"), listed(clear.map(reversal))] : []),
    ...folded("Rank reversals that may be chance", others.map(reversal)),
    ...folded("Kendall's tau between the orders of models under two forms", taus),
  ];
}

/**
 * The scores of model families over their checkpoints or dates.
 * @param {Spec[]} history
 */
export const historySection = (history) =>
  history.length
    ? [
        element(
          "div",
          { class: "grid wider" },
          ...history.map((spec) =>
            element("div", { class: "panel" }, element("h3", {}, plainLine(spec.name)), chart(spec)),
          ),
        ),
      ]
    : [];

// The runs of a folder: those that are under way or stopped, and a table of all by their scores.

/** @import { RunLine, RunScore, RunState } from "./types.d.ts" */
/** @import { TableState } from "./table.js" */

import { element, plainLine } from "./dom.js";
import { counted, duration, fixed, grouped } from "./numbers.js";
import { copyButton } from "./state.js";
import { makeSortable, searchRows } from "./table.js";

/** @param {unknown} date */
const shortDate = (date) =>
  String(date ?? "")
    .slice(0, 16)
    .replace("T", " ");

/**
 * The interval of a score in words.
 * @param {{ low: number | null, high: number | null }} score
 */
export const interval = (score) => (score.low === null ? "" : `${fixed(score.low)} to ${fixed(score.high)}`);

/**
 * Since when a run that is under way has not been heard of: it may have been killed, or be in a long batch.
 * @param {RunState} state
 */
export function silence(state) {
  const minutes = Math.floor((Date.now() - Date.parse(state.updated)) / 60000);
  return state.status === "running" && minutes >= 2 ? `, last heard of ${duration(60 * minutes)} ago` : "";
}

/**
 * Runs that are not complete, with how far they are.
 * @param {RunState[]} states
 */
export const statePanels = (states) =>
  states.map((state) => (state.problem ? brokenPanel(state.file, state.problem) : statePanel(state)));

/**
 * @param {string} file
 * @param {string} problem
 */
const brokenPanel = (file, problem) =>
  element(
    "div",
    { class: "panel" },
    element("h3", {}, plainLine(file)),
    element("p", { class: "no" }, plainLine(problem)),
  );

/** @param {RunState} state */
function statePanel(state) {
  const { answered = 0, cached = 0, failed = 0, needed = 0 } = state.requests;
  const done = needed ? (answered + cached + failed) / needed : 0;
  const model = plainLine(String(state.model ?? state.file));
  const running = state.status === "running";
  const forms = Object.entries(state.forms);
  const scored = forms.reduce((sum, [, form]) => sum + (form.scored ?? 0), 0);
  const documents = forms.reduce((sum, [, form]) => sum + (form.documents ?? 0), 0);
  const about = [
    `${grouped(answered + cached)} of ${grouped(needed)} responses`,
    failed ? `${grouped(failed)} failed` : "",
    documents
      ? `${grouped(scored)} of ${counted(documents, "document")} of ${counted(forms.length, "form")} scored`
      : "",
    running && state.left !== null ? `about ${duration(state.left)} left` : "",
    state.started ? `started ${shortDate(state.started)}` : "",
    `updated ${shortDate(state.updated)}`,
  ];
  return element(
    "div",
    { class: "panel", "data-status": state.status },
    element(
      "h3",
      {},
      state.link ? element("a", { href: `/report?runs=${state.link}` }, model) : model,
      " ",
      ...(state.arguments ? [element("span", { class: "soft small" }, plainLine(state.arguments)), " "] : []),
      element("span", { class: `tag ${running && !silence(state) ? "ok" : "none"}` }, state.status, silence(state)),
    ),
    element(
      "div",
      {
        class: "track",
        role: "progressbar",
        "aria-label": `progress of ${model}`,
        "aria-valuenow": Math.round(100 * done),
        "aria-valuemin": 0,
        "aria-valuemax": 100,
      },
      element("span", { class: "fill", style: `display:block;width:${100 * done}%` }),
    ),
    element("p", { class: "soft small" }, about.filter(Boolean).join("; ")),
    state.scores.length ? liveScores(state.scores) : null,
    ...(state.command && !running
      ? [
          element("p", { class: "small" }, "To go on: ", copyButton(state.command, "the command that goes on")),
          element("pre", { class: "text", tabindex: "0" }, plainLine(state.command)),
        ]
      : []),
  );
}

const MOST_LIVE = 12;

/** @param {RunScore[]} scores */
function liveScores(scores) {
  const shown = scores
    .slice(0, MOST_LIVE)
    .map((score) =>
      element(
        "span",
        {},
        `${plainLine(score.form)} `,
        element("b", {}, fixed(score.value)),
        element(
          "span",
          { class: "soft small" },
          ` ${plainLine(score.metric)} (${interval(score)}), n=${grouped(score.n)}`,
        ),
      ),
    );
  const more =
    scores.length > MOST_LIVE
      ? [element("span", { class: "soft small" }, `and ${scores.length - MOST_LIVE} more forms`)]
      : [];
  return element("p", { class: "live" }, ...shown, ...more);
}

/**
 * All runs: a row for each, a column for each group and each form that is in none.
 * @param {RunLine[]} runs
 * @param {Set<string>} chosen the keys of the runs to compare
 * @param {TableState} state
 * @param {() => void} changed
 */
export function runsTable(runs, chosen, state, changed) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { form } of runs.flatMap((run) => run.scores ?? [])) counts.set(form, (counts.get(form) ?? 0) + 1);
  const columns = [...counts.keys()].sort((a, b) => (counts.get(b) ?? 0) - (counts.get(a) ?? 0));
  const metrics = (form) =>
    [
      ...new Set(
        runs.flatMap((run) =>
          (run.scores ?? [])
            .filter((score) => score.form === form)
            .map((score) => `${score.metric} ${score.higher ? "↑" : "↓"}`),
        ),
      ),
    ].join(", ");
  const head = element(
    "tr",
    {},
    element("td", {}, element("span", { class: "sr" }, "choose")),
    element("th", { scope: "col" }, "Model"),
    ...["Date", "Time"].map((name) => element("th", { scope: "col", class: "aside" }, name)),
    ...columns.map((form) =>
      element(
        "th",
        { scope: "col", class: "number" },
        plainLine(form),
        element("div", { class: "soft small" }, metrics(form)),
      ),
    ),
  );
  const table = element(
    "table",
    { class: "runs" },
    element("thead", {}, head),
    element("tbody", {}, ...runs.map((run) => runRow(run, columns, chosen, changed))),
  );
  makeSortable(table, state);
  const left = element("span", { class: "soft small", "aria-live": "polite" });
  const search = () => {
    const number = searchRows(table, state.words);
    left.textContent = `${grouped(number)} of ${counted(runs.length, "run")}`;
  };
  const box = element("input", { type: "search", "aria-label": "search runs", placeholder: "search model, arguments, date", value: state.words, oninput: () => { state.words = box.value; search(); } }); // prettier-ignore
  search();
  const name = chosen.size > 1 ? `compare ${chosen.size} runs` : "open";
  const onclick = () => {
    const keys = runs.map((run) => run.key).filter((key) => chosen.has(key));
    location.href = `/report?runs=${keys.reverse().join(",")}`; // the list begins with the newest
  };
  const open = element(
    "button",
    { type: "button", "data-focus": "compare", disabled: chosen.size === 0 || chosen.size > 6, onclick },
    name,
  );
  const words =
    chosen.size > 6
      ? "At most six runs are compared."
      : "Choose two to six runs to compare them document by document, later ones with earlier ones.";
  return [
    element("div", { class: "tools" }, box, left, open, element("span", { class: "soft small" }, words)),
    element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "runs and their scores" }, table),
  ];
}

/**
 * @param {RunLine} run
 * @param {string[]} columns
 * @param {Set<string>} chosen
 * @param {() => void} changed
 */
function runRow(run, columns, chosen, changed) {
  if (run.problem)
    return element(
      "tr",
      { "data-key": run.key },
      element("td"),
      element(
        "td",
        { class: "no", colspan: 3 + columns.length, "data-value": "" },
        `${plainLine(run.file)}: ${plainLine(run.problem)}`,
      ),
    );
  const onchange = (event) => {
    if (event.target.checked) chosen.add(run.key);
    else chosen.delete(run.key);
    changed();
  };
  const byForm = new Map(run.scores.map((score) => [score.form, score]));
  const partial = run.status && run.status !== "complete";
  const settings = [run.arguments, ...run.settings].filter(Boolean).join(" · ");
  return element(
    "tr",
    { "data-key": run.key },
    element(
      "td",
      {},
      element("input", {
        type: "checkbox",
        "aria-label": `choose ${run.file}`,
        checked: chosen.has(run.key),
        onchange,
      }),
    ),
    element(
      "td",
      { "data-value": plainLine(run.model) },
      element("a", { href: `/report?runs=${run.key}` }, plainLine(run.model)),
      partial ? element("span", { class: "tag none" }, plainLine(run.status)) : null,
      settings ? element("div", { class: "soft small args" }, plainLine(settings)) : null,
      run.forms > run.scores.length ? element("div", { class: "soft small" }, `${run.forms} forms`) : null,
      run.harness === "multiform" ? null : element("div", { class: "soft small" }, plainLine(run.harness)),
    ),
    element("td", { class: "nowrap aside" }, shortDate(run.date)),
    element("td", { class: "nowrap aside", "data-value": run.seconds ?? "" }, duration(run.seconds ?? NaN)),
    ...columns.map((form) => scoreCell(byForm.get(form))),
  );
}

/** @param {RunScore | undefined} score */
const scoreCell = (score) =>
  score
    ? element(
        "td",
        { class: "number", "data-value": score.value ?? "" },
        element("b", {}, fixed(score.value)),
        element("div", { class: "soft small" }, interval(score)),
      )
    : element("td", { class: "number" });

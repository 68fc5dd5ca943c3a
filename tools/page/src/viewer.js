// The viewer: the runs of a folder as they come, a leaderboard, and the report on any of them.

/** @import { Board, Form, Report, RunList } from "./types.d.ts" */

import { boardSection, historySection } from "./board.js";
import { SampleSource } from "./data.js";
import { byId, element, keepFocus, plainLine } from "./dom.js";
import { counted } from "./numbers.js";
import { plotPanel } from "./plot.js";
import { buildPage } from "./report.js";
import { runsTable, silence, statePanels } from "./runs.js";
import { newTableState } from "./table.js";

const WATCH = 2000;
/** What the reader chose, which refreshes keep. */
const state = {
  /** @type {Set<string>} */
  chosen: new Set(),
  runs: newTableState(),
  board: newTableState(),
  /** @type {string[] | null} */
  columns: null,
  /** What each section shows, so that only what changed is made anew. */
  shown: new Map(),
};

/** @param {string} path */
async function ask(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error(await response.text());
  return response;
}

const message = (error) => plainLine(String(error instanceof Error ? error.message : error));

/**
 * Shows the list of runs, or a report.
 * @param {string} view
 */
export const showViewer = (view) => (view === "report" ? showReport() : watch());

/** Follows the folder; after a failed request the page stays as it is, says so, and asks again. */
async function watch() {
  try {
    await showRuns();
    document.getElementById("connection")?.remove();
  } catch (error) {
    const banner =
      document.getElementById("connection") ?? element("p", { class: "attention", id: "connection", role: "alert" });
    const answered = error instanceof TypeError ? "does not answer" : "answers with an error"; // no answer is a TypeError
    banner.textContent = `The viewer ${answered}: ${message(error)}. What is shown may be old; asking again …`;
    byId("report").before(banner);
  }
  setTimeout(watch, WATCH);
}

async function showRuns() {
  const columns = state.columns === null ? "" : `?columns=${encodeURIComponent(JSON.stringify(state.columns))}`;
  const [runs, board] = await Promise.all([ask("/api/runs"), ask(`/api/leaderboard${columns}`)]);
  /** @type {RunList} */
  const list = await runs.json();
  /** @type {Board} */
  const ranked = await board.json();
  const refresh = () => {
    state.shown.clear();
    showRuns();
  };
  const choose = (chosen) => {
    state.columns = chosen;
    refresh();
  };
  const underWay = list.going_on.filter((entry) => entry.status === "running" || entry.problem);
  const stopped = list.going_on.filter((entry) => entry.status !== "running" && !entry.problem);
  const table = () =>
    list.complete.length
      ? runsTable(list.complete, state.chosen, state.runs, refresh)
      : [element("p", { class: "soft" }, "No run is complete yet. They appear here as they are written.")];
  showSection("going-on", "Running", [underWay, underWay.map(silence)], () => statePanels(underWay));
  showSection("stopped", "Stopped", stopped, () => statePanels(stopped));
  showSection("runs", `Runs in ${plainLine(list.folder)}`, [list.complete, [...state.chosen]], table);
  showSection("leaderboard", "Leaderboard", { ...ranked, history: null }, () =>
    boardSection(ranked, state.board, choose),
  );
  showSection("history", "Over checkpoints and dates", ranked.history, () => historySection(ranked.history));
}

const SECTIONS = ["going-on", "stopped", "runs", "leaderboard", "history"];

/**
 * Makes a section anew where its data have changed; focus, scrolling and what is open stay as they are.
 * @param {string} id
 * @param {string} heading
 * @param {unknown} data
 * @param {() => Node[]} make
 */
function showSection(id, heading, data, make) {
  const seen = JSON.stringify(data);
  if (state.shown.get(id) === seen) return;
  state.shown.set(id, seen);
  const content = make();
  const old = document.getElementById(id);
  if (!content.length) return old?.remove();
  const section = old ?? element("section", { id });
  keepFocus(section, () => section.replaceChildren(element("h2", {}, heading), ...content));
  if (old) return;
  const next = SECTIONS.slice(SECTIONS.indexOf(id) + 1)
    .map((name) => document.getElementById(name))
    .find(Boolean);
  byId("report").insertBefore(section, next ?? null);
}

/** Shows a report: its scores at once, the rest as the viewer has read the samples. */
async function showReport() {
  const runs = encodeURIComponent(new URLSearchParams(location.search).get("runs") ?? "");
  const main = byId("report");
  const progress = element("p", { class: "soft", role: "status" }, "Reading the run …");
  main.replaceChildren(progress);
  try {
    const report = await readReport(`/api/report?runs=${runs}`, (first, read) => {
      if (!read) main.append(...firstScores(first));
      progress.textContent = `Reading samples: ${read} of ${counted(first.forms.length, "form")} …`;
    });
    main.replaceChildren();
    document.title = report.title;
    document.querySelector("h1")?.append(" › ", plainLine(report.title));
    const load = async (number) => (await (await ask(`/api/samples?runs=${runs}&block=${number}`)).json()).samples;
    const picture = async (sha256) => {
      const { picture: data } = await (await ask(`/api/picture?runs=${runs}&sha256=${sha256}`)).json();
      return data && `data:image/jpeg;base64,${data}`;
    };
    buildPage(report, new SampleSource(report, load, picture));
  } catch (error) {
    const retry = element("button", { type: "button", onclick: () => showReport() }, "try again");
    main.replaceChildren(
      element("p", { class: "no", role: "alert" }, `The report cannot be shown: ${message(error)} `, retry),
    );
  }
}

/**
 * What a report says before its samples are read.
 * @param {Report} report
 */
const firstScores = (report) => [
  element("p", { class: "answer-line" }, plainLine(report.overview.sentence)),
  ...report.overview.charts.flatMap((spec, run) => (spec ? [plotPanel(report, spec, run)] : [])),
];

/**
 * Reads a report that comes in lines: all but the samples, then each form, then what needs all of them.
 * @param {string} path
 * @param {(report: Report, read: number) => void} onPart
 * @returns {Promise<Report>}
 */
async function readReport(path, onPart) {
  const { body } = await ask(path);
  /** @type {Report | null} */
  let report = null;
  let read = 0;
  let rest = "";
  /** @param {string} line */
  const take = (line) => {
    const part = JSON.parse(line);
    if (part.problem) throw new Error(part.problem);
    if (!report) report = /** @type {Report} */ (part);
    else if (part.form) report.forms[read++] = /** @type {Form} */ (part.form);
    else Object.assign(report, part);
    onPart(report, read);
  };
  const decoder = new TextDecoder();
  for await (const chunk of /** @type {any} */ (body)) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    lines.filter(Boolean).forEach(take);
  }
  if (!report || rest || !("tasks" in report)) throw new Error("the viewer stopped in the middle of it");
  return report;
}

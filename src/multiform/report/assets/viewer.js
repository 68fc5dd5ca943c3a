// The viewer: the runs of a folder as they come, a leaderboard, and the report on any of them.

const WATCH = 2000;
const chosen = new Set();

async function ask(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

const shortDate = (date) => String(date ?? "").slice(0, 16).replace("T", " ");
const cell = (...children) => element("td", {}, ...children);
const spanned = (score) => (score.low === null ? "" : `${fixed(score.low)} to ${fixed(score.high)}`);
const interval = (score) => (score.low === null ? "" : ` (${spanned(score)})`);

/** Since when a run that goes on has not been heard of: it may have been killed, or be in a long batch. */
function silence(state) {
  const minutes = Math.floor((Date.now() - Date.parse(state.updated)) / 60000);
  return state.status === "running" && minutes >= 2 ? `, last heard of ${duration(60 * minutes)} ago` : "";
}

/** Runs that are not complete, with how far they are. */
function goingOn(states) {
  return states.map((state) => {
    if (state.problem) return element("div", { class: "panel" }, element("h3", {}, plainLine(state.file)), element("p", { class: "no" }, plainLine(state.problem)));
    const { answered = 0, cached = 0, failed = 0, needed = 0 } = state.requests ?? {};
    const done = needed ? (answered + cached + failed) / needed : 0;
    const forms = Object.entries(state.forms).map(([name, form]) => `${name} ${form.scored} of ${form.documents}`).join(", ");
    return element("div", { class: "panel", "data-status": state.status },
      element("h3", {}, `${plainLine(String(state.model ?? state.file))} `, element("span", { class: `tag ${state.status === "running" && !silence(state) ? "ok" : "none"}` }, state.status, silence(state))),
      element("div", { class: "track", role: "progressbar", "aria-label": `progress of ${plainLine(String(state.model ?? state.file))}`, "aria-valuenow": Math.round(100 * done) }, element("span", { class: "fill", style: `display:block;width:${100 * done}%` })),
      element("p", { class: "soft small" }, `${grouped(answered + cached)} of ${grouped(needed)} responses${failed ? `, ${failed} failed` : ""}; updated ${shortDate(state.updated)}; ${plainLine(forms).slice(0, 300)}`));
  });
}

function runsTable(runs) {
  const open = element("button", { type: "button", disabled: chosen.size === 0, onclick: () => { location.href = `/report?runs=${[...chosen].join(",")}`; } }, chosen.size > 1 ? `compare ${chosen.size} runs` : "open");
  const rows = runs.map((run) => element("tr", { "data-key": run.key },
    cell(run.problem ? null : element("input", { type: "checkbox", "aria-label": `choose ${run.file}`, checked: chosen.has(run.key), onchange: (event) => { event.target.checked ? chosen.add(run.key) : chosen.delete(run.key); showRuns(); } })),
    cell(run.problem ? element("span", { class: "no" }, plainLine(run.problem)) : element("a", { href: `/report?runs=${run.key}` }, plainLine(run.model)), run.arguments ? element("div", { class: "soft small args" }, plainLine(run.arguments)) : null,
      run.status && run.status !== "complete" ? element("span", { class: "tag none" }, plainLine(run.status)) : null),
    cell(shortDate(run.date)), cell(run.harness ?? ""), cell(duration(run.seconds)),
    element("td", { class: "run-scores" }, ...(run.scores ?? []).map((score) => element("div", {}, `${plainLine(score.form)} `, element("b", {}, fixed(score.value)), element("span", { class: "soft small" }, ` ${score.metric}${interval(score)}`))),
      run.forms > 8 ? element("div", { class: "soft small" }, `and ${run.forms - 8} more`) : null)));
  const head = ["", "Model", "Date", "Harness", "Time", "Scores"];
  return [element("div", { class: "tools" }, open, element("span", { class: "soft small" }, "Choose two or more runs to compare them document by document.")),
    element("div", { class: "wide" }, element("table", { class: "runs" }, element("thead", {}, element("tr", {}, ...head.map((name) => element("th", {}, name)))), element("tbody", {}, ...rows)))];
}

/** The metrics of a column, with the direction that is better. */
const metricOf = (board, column) => [...new Set(board.cells.map((row) => row[column]).filter(Boolean).map((entry) => `${entry.metric} ${entry.higher ? "↑" : "↓"}`))].join(", ");

const TIED = "cannot be told from the best model under this form (at 5 %, corrected for all pairs of models)";

function boardSection(board) {
  if (board.models.length < 1 || !board.forms.length) return [];
  // A mark on all models would say nothing.
  const told = board.forms.map((_, column) => board.cells.some((row) => row[column]?.tied === false));
  const rows = board.models.map((model, index) => element("tr", {}, element("th", {}, plainLine(model)), ...board.cells[index].map((entry, column) =>
    entry && entry.value !== null ? element("td", { title: `${entry.metric} over ${entry.n} documents` }, element("a", { href: `/report?runs=${entry.run}` }, element("span", {}, fixed(entry.value), ...(told[column] && entry.tied ? [element("b", { title: TIED }, "*")] : []))), element("div", { class: "soft small" }, spanned(entry)), element("div", { class: "soft small" }, `n=${grouped(entry.n)}`)) : cell())));
  const reversals = board.reversals.slice(0, 30).map((entry) => element("li", {},
    `${plainLine(entry.ahead)} is ${signed(entry.lead)} ahead of ${plainLine(entry.behind)} under ${entry.form}, and ${signed(entry.deficit)} under ${entry.other}`,
    element("span", { class: "soft" }, entry.clear ? " (clear both times)" : " (may be chance)")));
  const taus = board.tau.map((entry) => element("li", {}, `${entry.form} and ${entry.other}: Kendall's tau ${entry.tau === null ? "not defined" : fixed(entry.tau, 2)} over ${entry.models} models`));
  return [element("div", { class: "wide" }, element("table", { class: "board" }, element("thead", {}, element("tr", {}, element("th", {}), ...board.forms.map((form, column) => element("th", {}, plainLine(form), element("div", { class: "soft small" }, metricOf(board, column)))))), element("tbody", {}, ...rows))),
    ...(told.some(Boolean) ? [element("p", { class: "soft small" }, `* ${TIED}`)] : []),
    ...(board.summary ? [element("p", {}, board.summary)] : []),
    ...(reversals.length ? [element("h3", {}, "Rank reversals between forms"), element("ul", { class: "reversals" }, ...reversals)] : []),
    ...(taus.length ? [element("h3", {}, "Agreement of the orders"), element("ul", {}, ...taus)] : [])];
}

let seen = "";
async function showRuns() {
  const [runs, board] = await Promise.all([ask("/api/runs"), ask("/api/leaderboard")]);
  const state = JSON.stringify([runs, board, [...chosen], runs.going_on.map(silence)]);
  if (state === seen) return;
  seen = state;
  const sections = [];
  if (runs.going_on.length) sections.push(element("section", { id: "going-on" }, element("h2", {}, "Going on"), ...goingOn(runs.going_on)));
  sections.push(element("section", { id: "runs" }, element("h2", {}, `Runs in ${plainLine(runs.folder)}`),
    ...(runs.complete.length ? runsTable(runs.complete) : [element("p", { class: "soft" }, "No run is complete yet. They appear here as they are written.")])));
  const leaderboard = boardSection(board);
  if (leaderboard.length) sections.push(element("section", { id: "leaderboard" }, element("h2", {}, "Leaderboard"), ...leaderboard));
  const focused = document.activeElement?.getAttribute("aria-label");
  document.getElementById("report").replaceChildren(...sections);
  if (focused) document.querySelector(`#report [aria-label="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

async function showReport() {
  const runs = new URLSearchParams(location.search).get("runs");
  const main = document.getElementById("report");
  main.replaceChildren(element("p", { class: "soft", role: "status" }, "Reading the run …"));
  let report;
  try {
    report = await ask(`/api/report?runs=${encodeURIComponent(runs)}`);
  } catch (error) {
    main.replaceChildren(element("p", { class: "no", role: "alert" }, `The report cannot be shown: ${plainLine(String(error.message ?? error))} `, element("button", { type: "button", onclick: () => showReport() }, "try again")));
    return;
  }
  main.replaceChildren();
  document.title = report.title;
  buildPage(report, new SampleSource(report, async (number) => (await ask(`/api/samples?runs=${encodeURIComponent(runs)}&block=${number}`)).samples));
}

/** Follows the folder; after a failed request the page stays as it is, says so, and asks again. */
async function watch() {
  try {
    await showRuns();
    document.getElementById("connection")?.remove();
  } catch (error) {
    const words = `The viewer does not answer: ${plainLine(String(error.message ?? error))}. What is shown may be old; asking again …`;
    const banner = document.getElementById("connection") ?? element("p", { class: "attention", id: "connection", role: "alert" });
    banner.textContent = words;
    document.getElementById("report").before(banner);
  }
  setTimeout(watch, WATCH);
}

startTheme();
(document.documentElement.dataset.view === "report" ? showReport() : watch()).then(() => { document.documentElement.dataset.ready = "yes"; });

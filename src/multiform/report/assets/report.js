// The report: scores, heat map, differences, biases, provenance, and the sample browser.

const inRun = (report, text, run) => (report.runs.length > 1 && report.runs[run] ? `${text} · ${report.runs[run].short}` : text);
const formLabel = (report, form) => inRun(report, form.name, form.run);
/** The name of a form for lists: variations by their numbers, which the legend explains. */
const listLabel = (report, form) => inRun(report, form.format && form.short !== form.format ? `${form.task}@${form.short}` : form.name, form.run);

/** The tabs of the page with their sections, each left out where there is nothing to show. */
const TABS = [
  ["overview", "Overview", [["first", "", overviewSection], ["scores", "All scores", scoresSection]]],
  ["samples", "Samples", [["browser", "", null]]],
  ["differences", "Differences", [["wordings", "Score over wordings", wordingsSection], ["pairs", "Differences", differencesSection]]],
  ["diagnostics", "Diagnostics", [["verdicts", "Scores by task", taskScores], ["bias", "Position and calibration", biasSection]]],
  ["provenance", "Provenance", [["origin", "", provenanceSection]]],
];

/** Which runs these are: model, when, how long and how much was computed. */
function aboutRuns(report) {
  const words = (run) => [run.date, run.seconds ? duration(run.seconds) : "", run.usage].filter(Boolean).join(" · ");
  return element("ul", { class: "about" }, ...report.runs.map((run) => element("li", {},
    ...(run.short === run.label ? [] : [element("b", {}, run.short), " "]), element("b", {}, plainLine(run.model)), element("span", { class: "soft" }, ` · ${words(run)}`))));
}

function scoresSection(report) {
  return [...legend(report), ...notes(report), scoresTable(report), glossary()];
}

/** Panels as they are; of many, each is drawn when it is opened. None is left out. */
function panelsOf(entries, className = "grid wider") {
  if (entries.length <= 12) return [element("div", { class: className }, ...entries.map(([, draw]) => draw()))];
  return [element("div", { class: "folded" }, ...entries.map(([name, draw]) => {
    const node = element("details", {}, element("summary", {}, plainLine(name)));
    node.addEventListener("toggle", () => { if (node.open && node.childElementCount === 1) node.append(draw()); });
    return node;
  }))];
}

/** The scores of each task with what can be told from them, one chart for each kind of scoring. */
function taskScores(report) {
  const tasks = new Map();
  for (const form of report.forms) {
    const key = `${form.task} ${form.family ?? form.metric} ${form.scoring}`;
    if (!tasks.has(key)) tasks.set(key, []);
    tasks.get(key).push(form);
  }
  const formats = [...new Set(report.forms.map((form) => form.short))];
  const byFormat = (a, b) => formats.indexOf(a.short) - formats.indexOf(b.short) || a.run - b.run;
  const charts = [...tasks.values()].map((forms) => [`${forms[0].task}: ${forms[0].metric}, ${forms[0].scoring}`, () => element("div", { class: "panel" }, scoresHeading(report, forms),
    ...comparisonsOf(report, forms).map((task) => verdict(task, report.runs.length > 1 ? `${report.runs[task.run].short}: ` : "")),
    intervalChart(forms.sort(byFormat).map((form) => scoreRow(report, form)), { label: `scores of ${forms[0].task}` }))]);
  const paths = new Set(report.groups.map((group) => group.path));
  const of_groups = report.tasks.filter((task) => task.spread && task.scoring !== "any" && paths.has(task.task));
  const groups = report.groups.length ? [element("div", { class: "panel" }, element("h3", {}, "Groups"),
    ...of_groups.map((task) => verdict(task, `${inRun(report, task.task, task.run)}: `)),
    intervalChart(report.groups.map((group) => ({ ...group, label: inRun(report, `${"  ".repeat(group.depth)}${group.name}`, group.run), note: group.metric })), { label: "scores of groups" }))] : [];
  return [...groups, ...panelsOf(charts), ...acrossKinds(report)];
}

/** The task, what is scored and how, and where less is better. */
function scoresHeading(report, forms) {
  const metrics = [...new Set(forms.map((form) => form.metric))].join(", ");
  const both = new Set(report.forms.filter((form) => form.task === forms[0].task).map((form) => form.scoring)).size > 1;
  return element("h3", {}, `${forms[0].task}: ${metrics} ${forms[0].higher === false ? "↓" : "↑"}`, ...(both ? [" · ", term(forms[0].scoring)] : []));
}

/** The comparisons of a chart's forms, one for each run that has several of them. */
const comparisonsOf = (report, forms) => [...new Set(forms.map((form) => comparisonOf(report, form)))].filter((task) => task?.spread);

const aboveChance = (form) => (form.chance === null || form.chance >= 1 || form.value === null ? "" : `${Math.round((100 * (form.value - form.chance)) / (1 - form.chance))} %`.replace("-", "−"));

/** A form as a line of the chart: with a mark if it cannot be told from the best, and its chance level. */
function scoreRow(report, form) {
  const task = comparisonOf(report, form);
  const marked = task?.forms.some((entry) => !entry.tied) && task.forms.find((entry) => entry.name === form.name).tied;
  const above = aboveChance(form);
  return { ...form, label: inRun(report, form.short, form.run), mark: marked ? TERMS.tied : null, note: `n=${form.n}`, detail: above ? ["above", above.startsWith("−") ? `${above.slice(1)} below chance` : `${above} above chance`] : null };
}

/** What each variation changes: a column for each axis, and the name by which it can be run again. */
function legend(report) {
  const { axes, rows } = report.variations;
  if (!rows.length) return [];
  const head = [element("th", {}, "Variation"), ...axes.map((axis) => element("th", { title: axis.words }, axis.name, element("div", { class: "soft small" }, axis.words))), element("th", {}, "Name")];
  const lines = rows.map((row) => element("tr", {}, element("th", {}, row.short), ...row.values.map((value) => element("td", {}, value ?? "·")), element("td", { class: "name" }, element("code", {}, row.format))));
  return [element("details", { class: "legend", open: rows.length <= 40 }, element("summary", {}, "What each variation changes (· is as the format has it)"),
    element("div", { class: "wide" }, element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...lines))))];
}

/** What is to be known beside the scores: that they are partial, failed documents, where a budgeted run stopped. */
function notes(report) {
  return report.runs.filter((run) => run.notes.length).map((run) => element("div", { class: "panel notes" },
    element("h3", {}, report.runs.length > 1 ? `Notes on ${run.label}` : "Notes"), ...run.notes.map((note) => element("p", { class: "small" }, plainLine(note)))));
}

function scoresTable(report) {
  const head = ["Form", "Metric", "Score", term("stderr"), term("interval"), term("chance", "Chance"), term("above", "Above chance"), "n", "Shots", "Also"];
  const rows = report.forms.map((form) => element("tr", {},
    element("td", { class: "name" }, formLabel(report, form)), element("td", {}, form.metric), element("td", { class: "number" }, fixed(form.value, 4)), element("td", { class: "number" }, fixed(form.stderr, 4)),
    element("td", { class: "number" }, form.low === null ? "" : `${fixed(form.low, 4)} to ${fixed(form.high, 4)}`), element("td", { class: "number" }, fixed(form.chance, 3)), element("td", { class: "number" }, aboveChance(form)), element("td", { class: "number" }, String(form.n)), element("td", { class: "number" }, String(form.shots ?? "")),
    element("td", { class: "soft small also" }, [...form.others.map((other) => `${other.metric} ${fixed(other.value, 3)}`), ...(form.overridden.length ? [`the format overrides ${form.overridden.join(", ")}`] : [])].join("; "))));
  return element("details", { open: report.forms.length <= 12 }, element("summary", {}, "All scores as a table"),
    element("div", { class: "wide" }, element("table", {}, element("thead", {}, element("tr", {}, ...head.map((name) => element("th", {}, name)))), element("tbody", {}, ...rows))));
}

function differencesSection(report) {
  const paths = new Set(report.groups.map((group) => group.path));
  const drawn = report.tasks.filter((task) => task.pairs.length).sort((a, b) => paths.has(b.task) - paths.has(a.task));
  const panels = (tasks) => panelsOf(tasks.map((task) => [`${task.run === null ? `${task.task} · between runs` : inRun(report, task.task, task.run)}: largest ${signed(task.pairs[0].difference)}, ${task.pairs[0].p === null ? "" : pText(task.pairs[0].p)}`, () => differencesPanel(report, task)]));
  const within = drawn.filter((task) => task.scoring !== "any");
  const across = drawn.filter((task) => task.scoring === "any");
  return [...(within.length ? panels(within) : []), ...(across.length ? [element("details", { class: "across" }, element("summary", {}, "Differences between ranked choices and generated answers"), ...panels(across))] : [])];
}

/** The differences of a task's forms, or of the runs that have a form: a later run minus an earlier one. */
function differencesPanel(report, task) {
  const runs = task.run === null;
  const [all, some] = runs ? ["in all runs", "in"] : ["under all forms", "under"];
  return element("div", { class: "panel" },
    element("h3", {}, runs ? `${task.task} · between runs` : inRun(report, task.task, task.run), " · ", term(task.scoring)),
    element("p", { class: "soft small" }, `Paired differences of ${task.metric} on the same documents${runs ? ", the later run minus the earlier one" : ""}; ${task.compared > 1 ? `${task.compared} comparisons, ` : ""}`,
      ...(task.compared > 1 ? [term("interval"), " and ", term("p"), " ", term("together", runs ? "for all of them at once, as in multiform compare" : "for all of them at once")] : [term("interval"), " and ", term("p")]), "."),
    intervalChart(task.pairs.map((pair) => ({ label: pair.label, value: pair.difference, low: pair.low, high: pair.high, note: pText(pair.p).replaceAll(" ", "") })), { zero: true, format: signed, label: `paired differences of ${task.task}` }),
    ...(task.more ? [element("p", { class: "soft small" }, `The ${task.pairs.length} largest of ${task.pairs.length + task.more} differences.`)] : []),
    ...(task.all === null ? [] : [element("p", { class: "small" }, `Right ${all}: ${(100 * task.all).toFixed(1)} %, ${some} some: ${(100 * task.some).toFixed(1)} %, ${some} none: ${(100 * task.none).toFixed(1)} %.`)]),
    ...(task.variance === null ? [] : [element("p", { class: "small variance" }, term("variance", "Variance of a single score"), `: ${Object.entries(task.variance).map(([name, share]) => `${name} ${(100 * share).toFixed(1)} %`).join(", ")}.`)]),
    ...(task.clusters === task.n ? [] : [element("p", { class: "small" }, `${grouped(task.n)} documents in ${grouped(task.clusters)} `, term("clusters"), ", which intervals and tests count instead.")]));
}

function biasSection(report) {
  const shown = report.forms.filter((form) => form.position || form.calibration);
  return shown.length ? panelsOf(shown.map((form) => [`${listLabel(report, form)}: ${form.position?.words ?? form.calibration.words}`, () => element("div", { class: "panel" },
    element("h3", { title: form.name }, listLabel(report, form)),
    ...(form.position ? [element("p", { class: "soft small" }, `Picked by position (bars) and right answers (lines): ${form.position.words}.`), positionChart(form.position)] : []),
    ...(form.calibration ? [element("p", { class: "soft small" }, term("calibration", "Calibration"), `: ${form.calibration.words}.`), calibrationChart(form.calibration)] : []))]), "grid") : [];
}

function provenanceSection(report) {
  const json = (value) => exactText(JSON.stringify(value, null, 2));
  const lazily = (summary, make) => {
    const node = element("details", {}, element("summary", {}, summary));
    node.addEventListener("toggle", () => { if (node.open && node.childElementCount === 1) node.append(make()); });
    return node;
  };
  const runs = report.runs.map((run) => element("div", { class: "panel" }, element("h3", {}, run.label),
    element("table", {}, element("tbody", {}, ...run.facts.map(([name, value]) => element("tr", {}, element("th", {}, name), element("td", {}, element("code", {}, plainLine(String(value)))))))),
    ...(run.command ? [element("p", { class: "small" }, "To get these numbers again: ", copyButton(run.command, "the command")), exactText(run.command)] : []),
    lazily("settings of the run", () => json(run.config)), lazily("software and machine", () => exactText(run.environment ?? "not in the file"))));
  const forms = report.forms.map((form) => lazily(`${formLabel(report, form)} (${form.identity})`, () => json({ ...form.config, format: form.format_fields, overridden: form.overridden })));
  return [...runs, element("h3", {}, "The exact templates of each form"), ...forms];
}

function buildPage(report, source) {
  const nav = document.getElementById("sections");
  const main = document.getElementById("report");
  const tabs = [];
  main.append(aboutRuns(report));
  for (const [id, title, parts] of TABS) {
    const sections = parts.flatMap(([name, heading, make]) => {
      const content = make ? make(report) : [];
      return make && !content.length ? [] : [element("section", { id: name }, ...(heading ? [element("h2", {}, heading)] : []), ...content)];
    });
    if (!sections.length) continue;
    const tab = element("button", { type: "button", role: "tab", id: `tab-${id}`, "data-tab": id, "aria-controls": id, onclick: () => showTab(id) }, title);
    tabs.push(tab);
    main.append(element("div", { role: "tabpanel", id, "aria-labelledby": `tab-${id}`, hidden: true, tabindex: "-1" }, ...sections));
  }
  nav.setAttribute("role", "tablist");
  nav.append(...tabs);
  nav.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
    showTab(next.dataset.tab);
    next.focus();
  });
  const root = document.getElementById("browser");
  if (report.forms.some((form) => form.docs.length)) globalThis.browser = new SampleBrowser(report, source, root);
  else root.append(element("p", { class: "soft" }, "The run wrote no samples: add --log_samples to see them here."));
  const restore = () => { const state = address(); showTab(decoded(state.get("tab")) || (state.has("sample") ? "samples" : "overview"), false); };
  restore();
  addEventListener("hashchange", restore);
}

/** Shows one of the tabs, and writes it into the page's address. */
function showTab(name, keep = true) {
  const known = TABS.some(([id]) => id === name && document.getElementById(id)) ? name : "overview";
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const shown = tab.dataset.tab === known;
    tab.setAttribute("aria-selected", String(shown));
    tab.tabIndex = shown ? 0 : -1;
    document.getElementById(tab.dataset.tab).hidden = !shown;
  }
  if (keep) { keepInAddress({ tab: known === "overview" ? "" : known }); scrollTo(0, 0); }
  if (known === "samples") globalThis.browser?.repaint();
}

function keys(event) {
  if (event.key === "Escape") return document.activeElement?.blur();
  if (event.target.matches?.("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const browser = globalThis.browser;
  const actions = {
    j: () => { if (browser) { showTab("samples"); browser.move(1); } }, k: () => { if (browser) { showTab("samples"); browser.move(-1); } }, w: () => browser?.toggleWhitespace(),
    "/": () => { showTab("samples"); browser?.search.focus(); }, "?": () => document.getElementById("help").showModal(), t: switchTheme,
  };
  if (actions[event.key]) {
    event.preventDefault();
    actions[event.key]();
  }
}

const remembered = (write) => { try { return write(localStorage); } catch { return null; } };

function switchTheme() {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  remembered((storage) => storage.setItem("theme", root.dataset.theme));
}

function startTheme() {
  const preferred = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = remembered((storage) => storage.getItem("theme")) ?? preferred;
  document.getElementById("theme").addEventListener("click", switchTheme);
  document.getElementById("keys").addEventListener("click", () => document.getElementById("help").showModal());
  document.addEventListener("keydown", keys);
}

// The report: scores, heat map, differences, biases, provenance, and the sample browser.

const inRun = (report, text, run) => (report.runs.length > 1 && report.runs[run] ? `${text} · ${report.runs[run].short}` : text);
const formLabel = (report, form) => inRun(report, form.name, form.run);
/** The name of a form for lists: variations by their numbers, which the legend explains. */
const listLabel = (report, form) => inRun(report, form.format && form.short !== form.format ? `${form.task}@${form.short}` : form.name, form.run);

/** Sections of the page with their names in the head, each left out where there is nothing to show. */
const SECTIONS = [
  ["scores", "Scores", "Scores", scoresSection],
  ["wordings", "Score over wordings", "Wordings", wordingsSection],
  ["heatmap", "Heat map", "Heat map", heatSection],
  ["differences", "Differences", "Differences", differencesSection],
  ["bias", "Position and calibration", "Bias", biasSection],
  ["samples", "Samples", "Samples", null],
  ["provenance", "Provenance", "Provenance", provenanceSection],
];

/** Which runs these are: model, when, how long and how much was computed. */
function aboutRuns(report) {
  const words = (run) => [run.date, run.seconds ? duration(run.seconds) : "", run.usage].filter(Boolean).join(" · ");
  return element("ul", { class: "about" }, ...report.runs.map((run) => element("li", {},
    ...(run.short === run.label ? [] : [element("b", {}, run.short), " "]), element("b", {}, plainLine(run.model)), element("span", { class: "soft" }, ` · ${words(run)}`))));
}

function scoresSection(report) {
  const tasks = new Map();
  for (const form of report.forms) {
    const key = `${form.task} ${form.family ?? form.metric} ${form.scoring}`;
    if (!tasks.has(key)) tasks.set(key, []);
    tasks.get(key).push(form);
  }
  const formats = [...new Set(report.forms.map((form) => form.short))];
  const byFormat = (a, b) => formats.indexOf(a.short) - formats.indexOf(b.short) || a.run - b.run;
  const grouped_forms = [...tasks.values()].map((forms) => forms.sort(byFormat));
  const charts = grouped_forms.slice(0, 40).map((forms) => element("div", { class: "panel" }, scoresHeading(report, forms),
    ...comparisonsOf(report, forms).map((task) => verdict(task, report.runs.length > 1 ? `${report.runs[task.run].short}: ` : "")),
    intervalChart(forms.map((form) => scoreRow(report, form)), { label: `scores of ${forms[0].task}` })));
  const more = grouped_forms.length > 40 ? [element("p", { class: "soft" }, `Charts of ${grouped_forms.length - 40} more tasks are left out; the table has all.`)] : [];
  const paths = new Set(report.groups.map((group) => group.path));
  const of_groups = report.tasks.filter((task) => task.spread && task.scoring !== "any" && paths.has(task.task));
  const groups = report.groups.length ? [element("div", { class: "panel" }, element("h3", {}, "Groups"),
    ...of_groups.map((task) => verdict(task, `${inRun(report, task.task, task.run)}: `)),
    intervalChart(report.groups.map((group) => ({ ...group, label: inRun(report, `${"  ".repeat(group.depth)}${group.name}`, group.run), note: group.metric })), { label: "scores of groups" }))] : [];
  return [...standsOut(report), element("div", { class: "grid wider" }, ...groups, ...charts), ...acrossKinds(report), ...more, ...legend(report), ...notes(report), scoresTable(report), glossary()];
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

/** Whether forms differ, the score over wordings, and what could not be extracted. */
function standsOut(report) {
  const cards = [];
  const card = (value, words, name = "") => cards.push(element("div", { class: "card", "data-card": name }, element("b", {}, value), element("span", {}, ...words)));
  for (const content of [spreadCard(report), wordingCard(report)]) if (content) card(...content);
  const docs = new Set(report.forms.flatMap((form) => form.docs.map((doc) => `${form.task}/${doc}`))).size || Math.max(0, ...report.forms.map((form) => form.n));
  const forms = new Set(report.forms.map((form) => form.name)).size;
  card(grouped(docs), [`documents, ${forms} form${forms === 1 ? "" : "s"}${report.runs.length > 1 ? `, ${report.runs.length} runs` : ""}`]);
  const flips = headlineTasks(report).filter((task) => task.some !== null).sort((a, b) => b.some - a.some)[0];
  if (flips) card(`${(100 * flips.some).toFixed(0)} %`, [`of the documents of ${inRun(report, flips.task, flips.run)} are `, term("flips"), " (", term(flips.scoring), ")"]);
  const unread = report.forms.filter((form) => form.unreadable).sort((a, b) => b.unreadable / b.n - a.unreadable / a.n)[0];
  if (unread) card(`${((100 * unread.unreadable) / unread.n).toFixed(0)} %`, [`of the answers of ${listLabel(report, unread)} `, term("unread")]);
  return [element("div", { class: "cards" }, ...cards)];
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

function heatSection(report) {
  const formats = [...new Set(report.forms.map((form) => form.format ?? "as it is"))];
  const shorts = new Map(report.forms.map((form) => [form.format ?? "as it is", form.short]));
  const tasks = [...new Set(report.forms.map((form) => form.task))];
  if (formats.length < 2 || tasks.length < 2) return [];
  return report.runs.map((run, number) => {
    const rows = tasks.map((task) => {
      const forms = formats.map((format) => report.forms.find((form) => form.run === number && form.task === task && (form.format ?? "as it is") === format));
      return element("tr", {}, element("th", {}, task), ...forms.map((form) => {
        if (!form || form.value === null) return element("td", {});
        const kind = (other) => `${other.family ?? other.metric} ${other.scoring}`;
        const peers = report.forms.filter((other) => kind(other) === kind(form) && other.value !== null).map((other) => other.value);
        const [low, high] = [Math.min(...peers), Math.max(...peers)];
        const share = (form.value - low) / (high - low || 1);
        return element("td", { class: "h", style: heat(form.higher === false ? 1 - share : share), title: `${form.name}: ${form.metric} ${fixed(form.value, 4)} (${fixed(form.low, 4)} to ${fixed(form.high, 4)})` }, fixed(form.value, 3));
      }));
    });
    return element("div", { class: "wide" }, ...(report.runs.length > 1 ? [element("h3", {}, run.label)] : []),
      element("table", { class: "heat" }, element("thead", {}, element("tr", {}, element("th", {}), ...formats.map((format) => element("th", { title: format }, shorts.get(format))))), element("tbody", {}, ...rows)),
      element("p", { class: "soft small" }, "The stronger the colour, the better the score among those of the same metric and kind of scoring, whether or not the difference is more than luck."));
  });
}

function differencesSection(report) {
  const drawn = report.tasks.filter((task) => task.pairs.length);
  const within = drawn.filter((task) => task.scoring !== "any").slice(0, 40).map((task) => differencesPanel(report, task));
  const across = drawn.filter((task) => task.scoring === "any").slice(0, 40);
  if (!within.length && !across.length) return [];
  return [element("div", { class: "grid wider" }, ...within), ...(across.length ? [element("details", { class: "across" }, element("summary", {}, "Differences between ranked choices and generated answers"),
    element("div", { class: "grid wider" }, ...across.map((task) => differencesPanel(report, task))))] : [])];
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
  const panels = report.forms.filter((form) => form.position || form.calibration).slice(0, 24).map((form) => element("div", { class: "panel" },
    element("h3", { title: form.name }, listLabel(report, form)),
    ...(form.position ? [element("p", { class: "soft small" }, `Picked by position (bars) and right answers (lines): ${form.position.words}.`), positionChart(form.position)] : []),
    ...(form.calibration ? [element("p", { class: "soft small" }, term("calibration", "Calibration"), `: ${form.calibration.words}.`), calibrationChart(form.calibration)] : [])));
  return panels.length ? [element("div", { class: "grid" }, ...panels)] : [];
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
    ...(run.command ? [element("p", { class: "small" }, "To get these numbers again:"), exactText(run.command)] : []),
    lazily("settings of the run", () => json(run.config)), lazily("software and machine", () => exactText(run.environment ?? "not in the file"))));
  const forms = report.forms.slice(0, 200).map((form) => lazily(`${formLabel(report, form)} (${form.identity})`, () => json({ ...form.config, format: form.format_fields, overridden: form.overridden })));
  return [...runs, element("h3", {}, "The exact templates of each form"), ...forms];
}

function buildPage(report, source) {
  const nav = document.getElementById("sections");
  const main = document.getElementById("report");
  main.append(aboutRuns(report));
  for (const [id, title, short, make] of SECTIONS) {
    const content = make ? make(report) : report.forms.some((form) => form.docs.length) ? [] : [element("p", { class: "soft" }, "The run wrote no samples: add --log_samples to see them here.")];
    if (make && !content.length) continue;
    const section = element("section", { id }, element("h2", {}, title), ...content);
    nav.append(element("a", { href: `#${id}`, onclick: (event) => { event.preventDefault(); section.scrollIntoView({ behavior: "smooth" }); } }, short));
    main.append(section);
    if (!make && report.forms.some((form) => form.docs.length)) globalThis.browser = new SampleBrowser(report, source, section);
  }
}

function keys(event) {
  if (event.key === "Escape") return document.activeElement?.blur();
  if (event.target.matches?.("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const browser = globalThis.browser;
  const actions = {
    j: () => browser?.move(1), k: () => browser?.move(-1), w: () => browser?.toggleWhitespace(),
    "/": () => (browser?.root.scrollIntoView(), browser?.search.focus()), "?": () => document.getElementById("help").showModal(), t: switchTheme,
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

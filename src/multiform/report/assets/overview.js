// The first screen: what is not as it should be, the answer, how sure it is, all scores, what the wording costs.

const SCORINGS = ["ranked", "generated"];
const scoringColor = (spec, scoring) => spec.palette[Math.max(0, SCORINGS.indexOf(scoring))];

/** The samples that a filter leaves, in their tab. */
const showSamples = (filter) => { showTab("samples"); globalThis.browser?.setFilter(filter); };

function overviewSection(report) {
  const { overview } = report;
  const several = overview.changes.length > 0;
  const plots = overview.charts.flatMap((spec, run) => (spec ? [plotPanel(report, spec, run)] : []));
  const left = several ? [changesPanel(report)] : plots.length ? plots : [element("div", { class: "panel" }, element("p", { class: "soft" }, "No scores."))];
  return [...attentionStrip(overview.attention), element("p", { class: "answer-line" }, plainLine(overview.sentence)), factsRow(overview.facts),
    element("div", { class: "first-screen" }, element("div", { class: "stack" }, ...left), element("div", { class: "stack" }, ...wordingCost(report))),
    ...flippingQuestions(report), ...(several ? plots : [])];
}

/** What is not as it should be; of many notes, the rest on request. */
function attentionStrip(notes) {
  if (!notes.length) return [];
  const line = (note) => element("p", {}, plainLine(note));
  const rest = notes.slice(2);
  return [element("aside", { class: "attention notes", "aria-label": "what to know before reading the scores" }, ...notes.slice(0, 2).map(line),
    ...(rest.length ? [element("details", {}, element("summary", {}, `${rest.length} more note${rest.length === 1 ? "" : "s"}`), ...rest.map(line))] : []))];
}

const factsRow = (facts) => element("dl", { class: "facts" }, ...facts.map((fact) => element("div", { "data-fact": fact.key }, element("dt", {}, fact.name), element("dd", {}, element("b", {}, fact.value), element("span", {}, fact.words)))));

/** All scores of a run, drawn from the description that other charts are drawn from. */
function plotPanel(report, spec, run) {
  const several = report.runs.length > 1;
  const kinds = [...new Set(spec.panels.flatMap((panel) => panel.rows.map((row) => row.scoring)))];
  const missing = spec.panels.some((panel) => panel.rows.some((row) => row.missing));
  return element("div", { class: "panel plot" }, element("h2", {}, several ? `Scores of ${report.runs[run].short}` : "Scores"),
    element("p", { class: "legend-line small" }, ...kinds.map((kind) => element("span", {}, element("i", { class: "swatch", style: `background:${scoringColor(spec, kind)}` }), term(kind))),
      ...(spec.panels.some((panel) => panel.lines?.chance !== undefined) ? [element("span", {}, element("i", { class: "dashed" }), term("chance"))] : []),
      ...(missing ? [element("span", {}, element("i", { class: "hollow" }), "not extracted")] : [])),
    ...spec.panels.flatMap((panel) => [...(spec.panels.length > 1 ? [element("h3", {}, panel.title)] : []), dotPlot(report, spec, panel, run)]));
}

/** One axis for all rows; groups open into their subjects, and the forms of a row are its dots. */
function dotPlot(report, spec, panel, run) {
  const rows = new Map(panel.y.names.map((name) => [name, panel.rows.filter((row) => row.row === name)]));
  const parent = (name) => rows.get(name)[0].parent;
  const children = (name) => panel.y.names.filter((other) => parent(other) === name && other !== name);
  const roots = panel.y.names.filter((name) => !rows.has(parent(name)));
  const open = new Set(roots.length === 1 ? roots : []);
  const holder = element("div", { class: "dots", role: "group", "aria-label": spec.text });
  const list = (names, depth) => names.flatMap((name) => [[name, depth], ...(open.has(name) ? list(children(name), depth + 1) : [])]);
  const draw = () => {
    const x = (value) => `${(100 * (value - panel.x.low)) / (panel.x.high - panel.x.low)}%`;
    const [values, digits] = ticks(panel.x.low, panel.x.high);
    const lines = () => [...values.map((value) => element("i", { class: "grid-line", style: `left:${x(value)}` })), ...Object.entries(panel.lines ?? {}).map(([name, value]) => element("i", { class: "chance-line", title: `${name} ${fixed(value)}`, style: `left:${x(value)}` }))];
    holder.replaceChildren(...list(roots, 0).map(([name, depth]) => {
      const dots = rows.get(name);
      const inner = children(name);
      const label = inner.length ? element("button", { type: "button", class: "plain", "aria-expanded": String(open.has(name)), onclick: () => { if (!open.delete(name)) open.add(name); draw(); holder.querySelector(`[data-row="${CSS.escape(name)}"] button`)?.focus(); } }, `${open.has(name) ? "▾" : "▸"} ${plainLine(name)}`) : element("span", { title: name }, plainLine(shortLabel(report, run, name)));
      return element("div", { class: "dot-row", "data-row": name }, element("div", { class: "dot-name", style: `padding-left:${depth}rem` }, label),
        element("div", { class: "dot-track" }, ...lines(), ...dots.flatMap((row) => dotMarks(report, spec, row, run, x, panel))),
        element("div", { class: "dot-numbers" }, dots.length === 1 ? element("span", {}, element("b", { class: "score" }, fixed(dots[0].score)), element("span", { class: "soft" }, dots[0].low === null ? "" : ` ${fixed(dots[0].low)} to ${fixed(dots[0].high)}`)) : element("span", {}, element("b", { class: "score" }, `${fixed(Math.min(...dots.map((row) => row.score)))} to ${fixed(Math.max(...dots.map((row) => row.score)))}`), element("span", { class: "soft" }, ` n=${grouped(dots[0].n)}`))));
    }), element("div", { class: "dot-row axis-row" }, element("div", { class: "dot-name soft" }, plainLine(panel.x.title)), element("div", { class: "dot-track" }, ...values.map((value) => element("span", { class: "soft", style: `left:${x(value)}` }, value.toFixed(digits).replace("-", "−")))), element("div", { class: "dot-numbers soft" }, "95 % interval")));
  };
  draw();
  return holder;
}

const shortLabel = (report, run, name) => report.forms.find((form) => form.run === run && form.format === name)?.short ?? name;

function dotMarks(report, spec, row, run, x, panel) {
  const color = scoringColor(spec, row.scoring);
  const form = report.forms.find((entry) => entry.run === run && entry.name === row.form);
  const column = form ? columnName(report, form) : report.runs.length > 1 ? `${row.format} (${report.runs[run].short})` : row.format;
  const scope = form && report.forms.some((entry) => entry.task !== form.task) ? ` and task ${form.task}` : "";
  const interval = row.low === null ? "" : ` (${fixed(row.low)} to ${fixed(row.high)})`;
  const words = `${row.form}: ${fixed(row.score)}${interval}, n=${grouped(row.n)}`;
  const end = Math.min(panel.x.high, row.score + (row.missing ?? 0));
  return [
    ...(row.low === null ? [] : [element("i", { class: "whisk", style: `left:${x(row.low)};right:calc(100% - ${x(row.high)});background:${color}` })]),
    ...(row.missing ? [element("button", { type: "button", class: "tail", title: `${(100 * row.missing).toFixed(0)} % not extracted: show them`, "aria-label": `${row.form}: ${(100 * row.missing).toFixed(0)} % not extracted, show them`, style: `left:${x(row.score)};right:calc(100% - ${x(end)});border-color:${color}`, onclick: () => showSamples(`not extracted in ${column}${scope}`) })] : []),
    element("button", { type: "button", class: "point", title: words, "aria-label": `${words}; show what is wrong`, style: `left:${x(row.score)};background:${color}`, onclick: () => showSamples(`wrong in ${column}${scope}`) }),
  ];
}

/** The forms of a run that are right or wrong, by the name of their column, with all documents that they judge. */
function judgedDocuments(report, run) {
  const forms = report.forms.map((form, number) => ({ form, number })).filter(({ form }) => form.run === run && form.docs.length && form.family === "accuracy" && form.higher !== false);
  const columns = [...new Set(forms.map(({ form }) => columnName(report, form)))];
  const documents = new Map();
  for (const { form, number } of forms) {
    const column = columns.indexOf(columnName(report, form));
    form.docs.forEach((doc, position) => {
      if (form.scores[position] !== 1 && !(form.flags[position] & WRONG)) return;
      const key = `${form.task}/${doc}`;
      if (!documents.has(key)) documents.set(key, { key, task: form.task, doc, right: Array(columns.length).fill(null), places: [] });
      documents.get(key).right[column] = form.scores[position] === 1;
      documents.get(key).places.push({ form: number, position });
    });
  }
  return { columns, documents: [...documents.values()] };
}

const share = (part, whole) => (whole ? `${((100 * part) / whole).toFixed(0)} %` : "0 %");

/** Right under all, some and no forms; how often two forms flip; and each pair of forms, whose cells open the documents. */
function wordingCost(report) {
  const run = report.runs.length - 1;
  const { columns, documents } = judgedDocuments(report, run);
  if (columns.length < 2) return [];
  const whole = documents.filter(({ right }) => right.every((value) => value !== null));
  if (!whole.length) return [];
  const all = whole.filter(({ right }) => right.every(Boolean)).length;
  const none = whole.filter(({ right }) => !right.some(Boolean)).length;
  const some = whole.length - all - none;
  const flips = (a, b) => whole.filter(({ right }) => right[a] && !right[b]).length;
  const counts = columns.map((_, a) => columns.map((_, b) => (a === b ? 0 : flips(a, b))));
  const pairs = (columns.length * (columns.length - 1)) / 2;
  const rate = counts.flat().reduce((sum, count) => sum + count, 0) / pairs / whole.length;
  const every = (word) => columns.map((name) => `${word} in ${name}`).join(" and ");
  const part = (count, kind, words, filter) => element("button", { type: "button", class: `part ${kind}`, style: `flex:${count || 0.001}`, title: `${words}: ${count} of ${whole.length}`, "aria-label": `${words}: ${count} of ${whole.length} documents, show them`, onclick: () => showSamples(filter) }, count / whole.length > 0.08 ? share(count, whole.length) : "");
  const cell = (a, b) => element("td", { style: `background:color-mix(in srgb, var(--accent) ${Math.round((100 * counts[a][b]) / whole.length / 1.6)}%, var(--panel))` }, a === b ? "" : element("button", { type: "button", class: "plain", title: `right in ${columns[a]}, wrong in ${columns[b]}: ${counts[a][b]} of ${whole.length}`, "aria-label": `right in ${columns[a]} and wrong in ${columns[b]}: ${counts[a][b]} documents, show them`, onclick: () => showSamples(`right in ${columns[a]} and wrong in ${columns[b]}`) }, grouped(counts[a][b])));
  return [element("div", { class: "panel cost" }, element("h2", {}, report.runs.length > 1 ? `What the wording costs · ${report.runs[run].short}` : "What the wording costs"),
    element("div", { class: "parts" }, part(all, "all", "right under all forms", every("right")), part(some, "some", "right under some forms", "flips"), part(none, "no", "right under no form", every("wrong"))),
    element("p", { class: "legend-line small" }, element("span", {}, element("i", { class: "swatch all" }), `all forms ${share(all, whole.length)}`), element("span", {}, element("i", { class: "swatch some" }), `some ${share(some, whole.length)}`), element("span", {}, element("i", { class: "swatch no" }), `none ${share(none, whole.length)}`), element("span", { class: "soft" }, `of ${grouped(whole.length)} document${whole.length === 1 ? "" : "s"}`)),
    element("p", { class: "small" }, "Two forms disagree on ", element("b", { "data-flip-rate": rate }, `${(100 * rate).toFixed(1)} %`), " of the documents on average."),
    element("div", { class: "wide" }, element("table", { class: "flips" }, element("caption", { class: "soft small" }, "Documents that the row gets right and the column wrong"), element("thead", {}, element("tr", {}, element("td", {}), ...columns.map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...columns.map((name, a) => element("tr", {}, element("th", { scope: "row" }, name), ...columns.map((_, b) => cell(a, b))))))))];
}

/** The questions whose answer depends most on the form, with what each form picked. */
function flippingQuestions(report) {
  const run = report.runs.length - 1;
  const { columns, documents } = judgedDocuments(report, run);
  if (columns.length < 2) return [];
  const flipping = ({ right }) => Math.min(right.filter((value) => value === true).length, right.filter((value) => value === false).length);
  const most = documents.filter((entry) => flipping(entry)).sort((a, b) => flipping(b) - flipping(a)).slice(0, 5);
  if (!most.length) return [];
  const chip = ({ form, position }) => {
    const { picks, scores } = report.forms[form];
    const right = scores[position] === 1;
    return element("span", { class: `chip ${right ? "ok" : "no"}`, title: `${columnName(report, report.forms[form])}: ${right ? "right" : "wrong"}` }, `${right ? "✓" : "✗"} ${columnName(report, report.forms[form])} `, element("b", {}, plainLine(picks[position] || "nothing")));
  };
  const lines = most.map((entry) => element("li", {}, element("button", { type: "button", class: "plain question", onclick: () => { showTab("samples"); globalThis.browser?.openKey(entry.key); } }, plainLine(report.heads[entry.task]?.[entry.doc] ?? entry.key)), element("div", { class: "chips" }, ...entry.places.slice(0, 24).map(chip), ...(entry.places.length > 24 ? [element("span", { class: "soft small" }, `and ${entry.places.length - 24} more forms`)] : []))));
  return [element("div", { class: "panel questions" }, element("h2", {}, "The questions that flip most"), element("ol", {}, ...lines))];
}

/** Every group and form that two runs have: groups first, then the largest losses; a click shows the documents. */
function changesPanel(report) {
  const gain = (change) => (change.higher ? change.difference : -change.difference);
  const sorted = [...report.overview.changes].sort((a, b) => (a.kind === "form") - (b.kind === "form") || gain(a) - gain(b));
  const name = (change, run) => { const form = report.forms.find((entry) => entry.name === change.name && entry.run === run); const label = form?.short ?? change.name.split("@")[1] ?? change.name; return `${label} (${report.runs[run].short})`; };
  const scope = (change) => (change.kind === "form" && new Set(report.forms.map((form) => form.task)).size > 1 ? ` and task ${change.name.split("@")[0]}` : "");
  const filter = (change, worse) => `${worse ? "right" : "wrong"} in ${name(change, change.first)} and ${worse ? "wrong" : "right"} in ${name(change, change.second)}${scope(change)}`;
  const count = (change, worse) => (change[worse ? "lowered" : "raised"] ? element("button", { type: "button", class: "plain", "aria-label": `${change.name}: ${change[worse ? "lowered" : "raised"]} documents ${worse ? "lost" : "won"}, show them`, onclick: () => showSamples(filter(change, worse)) }, grouped(change[worse ? "lowered" : "raised"])) : "0");
  const rows = sorted.map((change) => element("tr", { class: change.kind, "data-change": change.name }, element("th", { scope: "row" }, plainLine(change.name), report.runs.length > 2 ? ` · ${report.runs[change.second].short} − ${report.runs[change.first].short}` : ""), element("td", { class: "number" }, fixed(change.before)), element("td", { class: "number" }, fixed(change.after)),
    element("td", { class: `number ${change.p !== null && change.p < 0.05 ? (gain(change) < 0 ? "no" : "ok") : ""}` }, element("b", {}, signed(change.difference))), element("td", { class: "number soft" }, change.low === null ? "" : `${signed(change.low)} to ${signed(change.high)}`), element("td", { class: "number" }, change.p === null ? "" : pText(change.p).replace("p = ", "")), element("td", { class: "number" }, count(change, true)), element("td", { class: "number" }, count(change, false))));
  const table = element("table", { class: "changes sortable" }, element("thead", {}, element("tr", {}, ...["Group or form", report.runs.length === 2 ? report.runs[0].short : "before", report.runs.length === 2 ? report.runs[1].short : "after", "Difference", "95 % interval", "p", "lost", "won"].map((head) => element("th", { scope: "col" }, head)))), element("tbody", {}, ...rows));
  makeSortable(table);
  return element("div", { class: "panel" }, element("h2", {}, "What changed between the runs"), element("p", { class: "soft small" }, "Groups first, then the forms that lost most; intervals and p hold for all forms, and for all groups, at once, as in multiform compare."), element("div", { class: "wide tall" }, table));
}

/** Lets the heads of a table sort its rows, as numbers where they are numbers. */
function makeSortable(table) {
  const heads = [...table.querySelectorAll("thead th")];
  const value = (row, column) => { const text = row.children[column]?.dataset.value ?? row.children[column]?.textContent ?? ""; const number = Number(text.replaceAll(" ", "").replace("−", "-").replace("<", "")); return text.trim() === "" ? null : Number.isNaN(number) ? text : number; };
  heads.forEach((head, column) => {
    if (!head.textContent.trim()) return;
    head.setAttribute("aria-sort", "none");
    const sort = () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of heads) if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...table.tBodies[0].rows];
      const order = (a, b) => { const [x, y] = [value(a, column), value(b, column)]; if (x === null || y === null) return (x === null) - (y === null); const less = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y)); return up ? less : -less; };
      table.tBodies[0].append(...rows.sort(order));
    };
    head.replaceChildren(element("button", { type: "button", class: "plain sort", onclick: sort }, ...head.childNodes));
  });
}

// The sample browser: a matrix of documents and forms, made row by row as it is scrolled, and one document in full.

const ROW = 34;
const HEAD = 34;
const FILTERS = [
  ["wrong", "any form wrong", "at least one form got it wrong"],
  ["differs", "differs between forms", "right under one form and wrong under another, in the same run"],
  ["changed", "differs between runs", "right in one run and wrong in another, under the same form"],
  ["unreadable", "unreadable", "no answer could be extracted from the completion"],
  ["truncated", "truncated", "the completion ran into its token limit, or the beginning of the prompt was cut off"],
  ["failed", "failed", "the request failed"],
];
const BITS = { wrong: WRONG, unreadable: UNREADABLE, truncated: TRUNCATED | PROMPT_TRUNCATED, failed: FAILED };

class SampleBrowser {
  constructor(report, source, root) {
    this.report = report;
    this.source = source;
    this.forms = report.forms.map((form, number) => ({ ...form, number })).filter((form) => form.docs.length);
    this.documents = this.#documents();
    this.columns = [...new Set(this.forms.map((form) => columnName(report, form)))];
    this.column = this.forms.reduce((all, form) => all.set(form.number, this.columns.indexOf(columnName(report, form))), new Map());
    this.state = { filters: new Set(), words: "", form: "", whitespace: false, expression: "", order: "document", down: false };
    this.expression = parseFilter("", report);
    this.shown = this.documents;
    this.selected = null;
    this.root = root;
    this.#build();
    this.restore();
    addEventListener("hashchange", () => this.restore());
  }

  /** Every document once, with its position in each form that has it. */
  #documents() {
    const byKey = new Map();
    for (const form of this.forms) {
      form.docs.forEach((doc, position) => {
        const key = `${form.task}/${doc}`;
        if (!byKey.has(key)) byKey.set(key, { key, task: form.task, doc, head: this.report.heads[form.task]?.[doc] ?? "", places: [] });
        byKey.get(key).places.push({ form: form.number, position });
      });
    }
    return [...byKey.values()];
  }

  #build() {
    this.search = element("input", { type: "search", placeholder: "search prompts, choices and completions  ( / )", "aria-label": "search", oninput: () => this.#changed() });
    this.formSelect = element("select", { "aria-label": "form", onchange: () => { this.formSelect.blur(); this.#changed(); } }, element("option", { value: "" }, "all forms"),
      ...this.forms.map((form) => element("option", { value: form.number, title: form.name }, listLabel(this.report, form))));
    this.buttons = FILTERS.filter(([name]) => this.#useful(name)).map(([name, label, title]) =>
      element("button", { type: "button", title, "aria-pressed": "false", "data-filter": name, onclick: () => this.#toggle(name) }, label));
    this.count = element("span", { class: "soft small", "aria-live": "polite" });
    this.filterBox = element("input", { type: "search", class: "expression", placeholder: `filter, such as: wrong in ${this.columns[0]}${this.columns.length > 1 ? ` and right in ${this.columns[1]}` : ""}`, "aria-label": "filter", title: FILTER_WORDS, "aria-describedby": "filter-problem", oninput: () => this.#changed() });
    this.problem = element("span", { class: "no small", id: "filter-problem", role: "alert" });
    this.space = element("div", { class: "space", role: "rowgroup" });
    this.list = element("div", { class: "list", role: "grid", tabindex: "0", "aria-label": "documents and forms", "aria-rowcount": this.documents.length }, this.#heads(), this.space);
    this.list.addEventListener("scroll", () => this.#paint(), { passive: true });
    this.list.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
      if (!step) return;
      event.preventDefault();
      this.move(step);
    });
    this.detail = element("div", { class: "detail", hidden: true, "aria-label": "the open document", role: "region" });
    const exports = ["csv", "json"].map((kind) => element("button", { type: "button", "aria-label": `export the listed documents as ${kind.toUpperCase()}`, onclick: () => this.#export(kind) }, kind.toUpperCase()));
    this.root.append(
      element("div", { class: "tools" }, this.filterBox, this.search, this.formSelect, ...this.buttons, ...exports, this.count, this.problem),
      this.#key(),
      (this.frame = element("div", { class: "browser" }, this.list, this.detail)));
    new ResizeObserver(() => this.#paint()).observe(this.list);
    this.#fromAddress();
    this.#filter();
  }

  repaint() {
    this.#paint();
  }

  /** The heads of the matrix, which sort it. */
  #heads() {
    const head = (order, text, title) => element("span", { role: "columnheader", "data-order": order, "aria-sort": "none" }, element("button", { type: "button", class: "plain", title, onclick: () => this.#sort(order) }, text));
    return (this.heads = element("div", { class: "item heads", role: "row", style: this.#grid() }, head("document", "document", "in the order of the dataset"), head("flips", "question", "by how many forms disagree"),
      ...this.columns.map((name, index) => head(String(index), name, `${name}: wrong first`))));
  }

  #grid() {
    return `grid-template-columns:9rem minmax(12rem, 1fr) repeat(${this.columns.length}, 7rem);min-width:${21 + 7 * this.columns.length}rem`;
  }

  #sort(order) {
    this.state.down = this.state.order === order && !this.state.down;
    this.state.order = order;
    this.#filter();
  }

  /** The documents in the order that a head asks for. */
  #ordered(documents) {
    const { order, down } = this.state;
    for (const head of this.heads.children) head.setAttribute("aria-sort", head.dataset.order === order ? (down ? "descending" : "ascending") : "none");
    if (order === "document") return down ? [...documents].reverse() : documents;
    const rank = (document) => {
      if (order === "flips") {
        const right = document.places.map(({ form, position }) => this.report.forms[form].scores[position]).filter((score) => score !== null);
        return -Math.min(right.filter((score) => score === 1).length, right.filter((score) => score === 0).length);
      }
      const place = document.places.find(({ form }) => this.column.get(form) === Number(order));
      return place ? (this.report.forms[place.form].scores[place.position] ?? 2) : 3;
    };
    const ranked = documents.map((document) => [rank(document), document]).sort((a, b) => a[0] - b[0]);
    return (down ? ranked.reverse() : ranked).map(([, document]) => document);
  }

  /** Lists what a filter leaves, and nothing else. */
  setFilter(text) {
    this.filterBox.value = text;
    this.search.value = "";
    this.formSelect.value = "";
    this.state.filters.clear();
    for (const button of this.buttons) button.setAttribute("aria-pressed", "false");
    this.close();
    this.#read();
    this.#filter();
  }

  openKey(key) {
    const document = this.documents.find((entry) => entry.key === key);
    if (document) this.open(document);
  }

  close() {
    this.selected = null;
    this.detail.hidden = true;
    this.frame.classList.remove("opened");
    keepInAddress({ sample: "", form: "" });
    this.#paint();
  }

  #fromAddress() {
    const state = address();
    this.filterBox.value = decoded(state.get("filter"));
    this.search.value = decoded(state.get("words"));
    for (const name of decoded(state.get("only")).split(",")) if (this.buttons.some((button) => button.dataset.filter === name)) this.state.filters.add(name);
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(this.state.filters.has(button.dataset.filter)));
    const form = this.report.forms.findIndex((entry) => entry.key === decoded(state.get("in")));
    if (form >= 0) this.formSelect.value = String(form);
    [this.state.order, this.state.down] = [decoded(state.get("order")).replace(/^-/, "") || "document", decoded(state.get("order")).startsWith("-")];
    this.#read();
  }

  /** What the fields say. */
  #read() {
    this.state.words = this.search.value.trim().toLowerCase();
    this.state.form = this.formSelect.value;
    this.state.expression = this.filterBox.value.trim();
    this.expression = parseFilter(this.state.expression, this.report);
    this.problem.textContent = this.expression.problem ?? "";
  }

  /** The listed documents as a file: a line for each document, with the answer and the score of each form. */
  #export(kind) {
    const rows = this.shown.map((document) => {
      const row = { task: document.task, doc: document.doc, question: document.head };
      for (const { form, position } of document.places) {
        const { picks, scores } = this.report.forms[form];
        row[`${this.columns[this.column.get(form)]} answer`] = picks[position];
        row[`${this.columns[this.column.get(form)]} score`] = scores[position];
      }
      return row;
    });
    if (kind === "json") return download("samples.json", `${JSON.stringify(rows, null, 1)}\n`, "application/json");
    const names = [...new Set(rows.flatMap(Object.keys))];
    // A leading = + - @ would be a formula in a spreadsheet.
    const quoted = (value) => { const text = String(value ?? ""); return `"${(typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`; };
    return download("samples.csv", [names, ...rows.map((row) => names.map((name) => row[name]))].map((line) => line.map(quoted).join(",")).join("\r\n"), "text/csv");
  }

  /** What the marks of the list mean, and which form each of them is of. */
  #key() {
    const graded = this.forms.some((form) => form.scores.some((score, at) => score !== 1 && !(form.flags[at] & (WRONG | UNREADABLE | FAILED))));
    const signs = [["ok", "✓", "right"], ["no", "✗", "wrong"], ...(this.#useful("unreadable") ? [["none", "?", "not extracted"]] : []),
      ...(this.#useful("failed") ? [["none", "!", "failed"]] : []), ...(graded ? [["soft", "·", "neither right nor wrong"]] : [])];
    return element("p", { class: "soft small key" }, ...signs.map(([kind, sign, words]) => element("span", {}, element("b", { class: kind }, sign), ` ${words}`)));
  }

  #useful(name) {
    const varies = (key) => new Set(this.forms.map((form) => form[key])).size > 1;
    if (name === "differs") return varies("name") && this.documents.some((document) => document.places.length > 1);
    if (name === "changed") return varies("run");
    return this.forms.some((form) => form.flags.some((flags) => flags & BITS[name]));
  }

  #toggle(name) {
    const { filters } = this.state;
    if (!filters.delete(name)) filters.add(name);
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(filters.has(button.dataset.filter)));
    this.#filter();
  }

  #changed() {
    this.#read();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#filter(), 120);
  }

  #places(document) {
    return this.state.form === "" ? document.places : document.places.filter((place) => place.form === Number(this.state.form));
  }

  #passes(document) {
    const places = this.#places(document);
    if (!places.length || !this.expression.test(document)) return false;
    const flags = (place) => this.report.forms[place.form].flags[place.position];
    for (const name of this.state.filters) {
      if (name === "differs" || name === "changed") {
        if (!disagrees(this.report, document, name === "differs" ? "run" : "name")) return false;
      } else if (!places.some((place) => flags(place) & BITS[name])) return false;
    }
    return true;
  }

  async #filter() {
    const mine = (this.run = (this.run ?? 0) + 1);
    const { words, order, down, expression, filters } = this.state;
    keepInAddress({ filter: expression, words, only: [...filters].join(","), in: this.state.form === "" ? "" : this.report.forms[Number(this.state.form)].key, order: order === "document" && !down ? "" : `${down ? "-" : ""}${order}` });
    const passing = this.#ordered(this.documents.filter((document) => this.#passes(document)));
    if (!words) return this.#show(passing, "");
    const byPlace = new Map(passing.flatMap((document) => this.#places(document).map((place) => [`${place.form}/${place.position}`, document])));
    const matched = new Set(passing.filter((document) => document.head.toLowerCase().includes(words) || document.key === words));
    this.#show(passing.filter((document) => matched.has(document)), " …");
    for (const form of this.forms) {
      await this.source.search(form.number, words, (position) => {
        const document = byPlace.get(`${form.number}/${position}`);
        if (document) matched.add(document);
      }, () => mine !== this.run);
      if (mine !== this.run) return;
    }
    this.#show(passing.filter((document) => matched.has(document)), "");
  }

  #show(documents, more) {
    this.shown = documents;
    this.count.textContent = `${grouped(documents.length)} of ${grouped(this.documents.length)} document${this.documents.length === 1 ? "" : "s"}${more}`;
    if (this.selected && !more && !documents.includes(this.selected)) this.close();
    this.space.style.height = `${documents.length * ROW}px`;
    this.list.scrollTop = 0;
    this.#paint();
  }

  /** Makes the rows that are in sight, and no others. */
  #paint() {
    const first = Math.max(0, Math.floor(this.list.scrollTop / ROW) - 5);
    const last = Math.min(this.shown.length, Math.ceil((this.list.scrollTop + this.list.clientHeight) / ROW) + 5);
    this.space.replaceChildren(...this.shown.slice(first, last).map((document, offset) => this.#row(document, first + offset)));
  }

  #row(document, index) {
    const cells = this.columns.map(() => element("span", { role: "gridcell" }));
    for (const place of document.places) {
      const { picks } = this.report.forms[place.form];
      const cell = cells[this.column.get(place.form)];
      cell.append(this.#mark(place), element("span", { class: "pick" }, plainLine(picks[place.position])));
      cell.addEventListener("click", (event) => { event.stopPropagation(); this.open(document, place.form); });
    }
    return element("div", { class: "item", role: "row", "aria-rowindex": index + 1, "aria-selected": String(document === this.selected), style: `top:${index * ROW}px;${this.#grid()}`, onclick: () => this.open(document) },
      element("span", { role: "rowheader", class: "doc" }, `${plainLine(document.task)} ${document.doc}`), element("span", { class: "head", role: "gridcell" }, ...this.#hits(plainLine(document.head))), ...cells);
  }

  /** A line with the words that are sought marked. */
  #hits(text) {
    const { words } = this.state;
    const at = words ? text.toLowerCase().indexOf(words) : -1;
    return at < 0 ? [text] : [text.slice(0, at), element("mark", {}, text.slice(at, at + words.length)), text.slice(at + words.length)];
  }

  #mark({ form, position }) {
    const { scores, flags } = this.report.forms[form];
    const score = scores[position];
    const [kind, sign] = flags[position] & FAILED ? ["none", "!"] : flags[position] & UNREADABLE ? ["none", "?"] : score === 1 ? ["ok", "✓"] : flags[position] & WRONG ? ["no", "✗"] : ["soft", "·"];
    return element("span", { class: `mark ${kind}`, title: listLabel(this.report, this.report.forms[form]) }, sign);
  }

  move(step) {
    if (!this.shown.length) return;
    const at = this.shown.indexOf(this.selected);
    const next = Math.min(this.shown.length - 1, Math.max(0, at < 0 ? 0 : at + step));
    this.open(this.shown[next]);
    const top = next * ROW;
    if (top < this.list.scrollTop) this.list.scrollTop = top;
    else if (top + ROW + HEAD > this.list.scrollTop + this.list.clientHeight) this.list.scrollTop = top + ROW + HEAD - this.list.clientHeight;
  }

  /** Shows a document under one form, or under two side by side, and writes both into the page's address. */
  open(document, form = null, other = null) {
    const kept = (number) => document.places.some((place) => place.form === number);
    const asked = document.places.find((place) => this.expression.forms?.has(place.form))?.form;
    const chosen = form ?? asked ?? (this.left !== undefined && kept(this.left) ? this.left : (this.#places(document)[0] ?? document.places[0]).form);
    const beside = other ?? (this.right !== undefined && this.right !== chosen && kept(this.right) ? this.right : null);
    [this.selected, this.left, this.right] = [document, chosen, beside === -1 || beside === null ? undefined : beside];
    const names = [chosen, ...(this.right === undefined ? [] : [this.right])].map((number) => this.report.forms[number].key);
    keepInAddress({ sample: document.key }, { form: names.map(encodeURIComponent).join(",") });
    this.detail.hidden = false;
    this.frame.classList.add("opened");
    this.#paint();
    return this.#showDetail(document);
  }

  /** Opens what the page's address names. */
  restore() {
    const state = address();
    const key = decoded(state.get("sample"));
    const document = key && this.documents.find((entry) => entry.key === key);
    if (!document) return;
    const numbers = (state.get("form") ?? "").split(",").map(decoded).map((name) => this.report.forms.findIndex((form) => form.key === name)).filter((number) => number >= 0);
    this.open(document, numbers[0] ?? null, numbers[1] ?? null);
    const at = this.shown.indexOf(document);
    if (at >= 0) this.list.scrollTop = Math.max(0, at * ROW - this.list.clientHeight / 2);
  }

  async #showDetail(document) {
    const numbers = [this.left, ...(this.right === undefined ? [] : [this.right])];
    const place = (number) => document.places.find((entry) => entry.form === number);
    let samples;
    try {
      samples = await Promise.all(numbers.map((number) => this.source.sample(number, place(number).position)));
    } catch (error) {
      this.detail.replaceChildren(element("p", { class: "no", role: "alert" }, `The sample cannot be shown: ${plainLine(String(error.message ?? error))} `, element("button", { type: "button", onclick: () => this.#showDetail(document) }, "try again")));
      return;
    }
    if (document !== this.selected) return;
    const [leftMarks, rightMarks] = samples.length === 2 ? differingWords(samples[0].prompt, samples[1].prompt, samples[0].question_start, samples[1].question_start) : [null, null];
    const columns = samples.map((sample, index) => this.#column(document, numbers[index], place(numbers[index]).position, sample, index ? rightMarks : leftMarks));
    this.detail.replaceChildren(this.#detailTools(document), element("div", { class: `columns${columns.length === 2 ? " two" : ""}` }, ...columns));
  }

  #detailTools(document) {
    const options = (chosen, none) => [
      ...(none ? [element("option", { value: "-1", selected: chosen === undefined }, none)] : []),
      ...document.places.map(({ form }) => element("option", { value: form, selected: form === chosen }, listLabel(this.report, this.report.forms[form])))];
    const left = element("select", { "aria-label": "form on the left", onchange: (event) => this.open(document, Number(event.target.value), this.right ?? -1) }, ...options(this.left));
    const right = element("select", { "aria-label": "compare with", onchange: (event) => this.open(document, this.left, Number(event.target.value)) }, ...options(this.right, "compare with …"));
    const white = element("button", { type: "button", "aria-pressed": String(this.state.whitespace), title: "show spaces, tabs and line ends  ( w )", onclick: () => this.toggleWhitespace() }, "whitespace");
    return element("div", { class: "tools" }, element("b", {}, `${plainLine(document.task)} ${document.doc}`), left, ...(document.places.length > 1 ? [right] : []), white, element("button", { type: "button", class: "close", "aria-label": "close the document", onclick: () => { this.close(); this.list.focus(); } }, "close"));
  }

  toggleWhitespace() {
    this.state.whitespace = !this.state.whitespace;
    if (this.selected) this.#showDetail(this.selected);
  }

  #column(document, number, position, sample, marks) {
    const form = this.report.forms[number];
    const flags = form.flags[position];
    const verdict = flags & FAILED ? ["none", "failed"] : form.scores[position] === 1 ? ["ok", "right"] : flags & WRONG ? ["no", "wrong"] : ["", `${form.metric} ${fixed(form.scores[position], 3)}`.trim()];
    const tags = [element("span", { class: `tag ${verdict[0]}` }, verdict[1])];
    if (flags & UNREADABLE) tags.push(" ", element("span", { class: "tag none" }, "no answer could be extracted"));
    if (flags & TRUNCATED) tags.push(" ", element("span", { class: "tag none" }, "cut off at the token limit"));
    if (flags & PROMPT_TRUNCATED) tags.push(" ", element("span", { class: "tag none" }, "the beginning of the prompt was cut off to fit into the model's context"));
    const scores = Object.entries(sample.scores).map(([name, value]) => `${name} ${typeof value === "number" ? +value.toFixed(4) : value}`).join(", ");
    return element("div", {},
      element("h3", {}, plainLine(formLabel(this.report, form)), " ", ...tags),
      element("p", { class: "soft small" }, plainLine(scores)),
      element("p", { class: "soft small" }, "prompt ", copyButton(sample.prompt, "the prompt")),
      ...this.#prompt(sample, marks ?? this.#found(sample.prompt)),
      ...this.#choices(sample), ...this.#completion(sample));
  }

  /** Where the words that are sought stand in a text. */
  #found(text) {
    const { words } = this.state;
    const marks = [];
    const lower = text.toLowerCase();
    if (lower.length !== text.length) return null; // a letter that is longer in lower case would shift the marks
    for (let at = words ? lower.indexOf(words) : -1; at >= 0 && marks.length < 1000; at = lower.indexOf(words, at + words.length)) marks.push([at, at + words.length]);
    return marks.length ? marks : null;
  }

  #prompt(sample, marks) {
    const { prompt, question_start: start } = sample;
    const whitespace = this.state.whitespace;
    if (!start) return [exactText(prompt, { whitespace, marks })];
    const before = marks?.filter(([from]) => from < start).map(([from, to]) => [from, Math.min(to, start)]);
    const after = marks?.filter(([, to]) => to > start).map(([from, to]) => [Math.max(from, start) - start, to - start]);
    const shots = element("details", { class: "shots" }, element("summary", { class: "soft small" }, `${grouped(start)} characters before the question: description and few-shot examples`));
    shots.addEventListener("toggle", () => {
      if (shots.open && shots.childElementCount === 1) shots.append(exactText(prompt.slice(0, start), { whitespace, marks: before }));
    });
    return [shots, exactText(prompt.slice(start), { whitespace, marks: after })];
  }

  #choices({ choices, labels, loglikelihoods, gold, picked }) {
    if (!choices?.length) return [];
    const right = Array.isArray(gold) ? gold : [gold];
    const isRight = (index) => right.includes(index) || right.includes(labels?.[index]);
    const known = loglikelihoods?.length === choices.length;
    const best = known ? Math.max(...loglikelihoods) : 0;
    const weights = known ? loglikelihoods.map((value) => Math.exp(value - best)) : [];
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    return [element("div", { class: "choices" }, ...choices.map((text, index) =>
      element("div", { class: `choice${index === picked ? " picked" : ""}`, "data-picked": index === picked, "data-gold": isRight(index) },
        element("span", {}, element("b", { class: isRight(index) ? "ok" : index === picked ? "no" : "soft" }, plainLine(labels?.[index] ?? String(index))), isRight(index) ? " ✓" : ""),
        element("span", { class: "words", dir: "auto" }, plainLine(text.length > 2000 ? `${text.slice(0, 2000)}…` : text)),
        known ? element("span", { class: "track", title: `${(100 * weights[index] / total).toFixed(1)} % of the choices' probability` }, element("span", { class: "fill", style: `display:block;width:${(100 * weights[index]) / total}%` })) : element("span"),
        element("span", { class: "value", title: "log-likelihood" }, known ? fixed(loglikelihoods[index], 3) : ""))))];
  }

  #completion(sample) {
    if (!sample.raw?.length) return [];
    const whitespace = this.state.whitespace;
    return [
      ...sample.raw.flatMap((text, index) => [element("p", { class: "soft small" }, sample.raw.length > 1 ? `completion ${index + 1}` : "completion"), exactText(text, { whitespace, marks: this.#found(text) })]),
      ...(sample.steps ?? []).flatMap((step) => [element("p", { class: "soft small step" }, `→ ${plainLine(step.step)}`), exactText(step.text, { whitespace })]),
      element("p", { class: "answer" }, element("span", { class: "soft" }, "extracted: "), sample.extracted === null ? element("span", { class: "none" }, "nothing") : element("code", { class: "extracted" }, plainLine(String(sample.extracted))),
        element("span", { class: "soft right" }, "right: "), element("code", {}, plainLine(String(Array.isArray(sample.gold) ? sample.gold.join(" | ") : sample.gold ?? sample.target ?? "")))),
    ];
  }
}

// The sample browser: a list of documents made row by row as it is scrolled, and one document in full.

const ROW = 44;
const MARKS = 16;
const FILTERS = [
  ["wrong", "wrong only", "a form got it wrong"],
  ["differs", "differs between forms", "right under one form and wrong under another, in the same run"],
  ["changed", "differs between runs", "right in one run and wrong in another, under the same form"],
  ["unreadable", "unreadable", "no answer could be extracted from the completion"],
  ["truncated", "truncated", "the completion ran into its token limit, or the beginning of the prompt was cut off"],
  ["failed", "failed", "the request failed"],
];
const decoded = (text) => { try { return decodeURIComponent(text ?? ""); } catch { return ""; } };
const BITS = { wrong: WRONG, unreadable: UNREADABLE, truncated: TRUNCATED | PROMPT_TRUNCATED, failed: FAILED };

class SampleBrowser {
  constructor(report, source, root) {
    this.report = report;
    this.source = source;
    this.forms = report.forms.map((form, number) => ({ ...form, number })).filter((form) => form.docs.length);
    this.documents = this.#documents();
    this.state = { filters: new Set(), words: "", form: "", whitespace: false };
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
    this.space = element("div", { class: "space" });
    this.list = element("div", { class: "list", role: "listbox", tabindex: "0", "aria-label": "documents" }, this.space);
    this.list.addEventListener("scroll", () => this.#paint(), { passive: true });
    this.detail = element("div", { class: "detail" }, element("div", { class: "empty" }, "Choose a document, or press j."));
    this.root.append(
      element("div", { class: "tools" }, this.search, this.formSelect, ...this.buttons, this.count),
      this.#key(),
      element("div", { class: "browser" }, this.list, this.detail));
    new ResizeObserver(() => this.#paint()).observe(this.list);
    this.#filter();
  }

  /** What the marks of the list mean, and which form each of them is of. */
  #key() {
    const names = [...new Set(this.forms.map((form) => inRun(this.report, form.short, form.run)))];
    const graded = this.forms.some((form) => form.scores.some((score, at) => score !== 1 && !(form.flags[at] & (WRONG | UNREADABLE | FAILED))));
    const signs = [["ok", "✓", "right"], ["no", "✗", "wrong"], ...(this.#useful("unreadable") ? [["none", "?", "not extracted"]] : []),
      ...(this.#useful("failed") ? [["none", "!", "failed"]] : []), ...(graded ? [["soft", "·", "neither right nor wrong"]] : [])];
    const order = names.length > 1 && names.length <= MARKS ? [element("span", { class: "order" }, `Marks, from the left: ${names.join(", ")}`)] : [];
    return element("p", { class: "soft small key" }, ...order, ...signs.map(([kind, sign, words]) => element("span", {}, element("b", { class: kind }, sign), ` ${words}`)));
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
    this.state.words = this.search.value.trim().toLowerCase();
    this.state.form = this.formSelect.value;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#filter(), 120);
  }

  #places(document) {
    return this.state.form === "" ? document.places : document.places.filter((place) => place.form === Number(this.state.form));
  }

  #passes(document) {
    const places = this.#places(document);
    if (!places.length) return false;
    const flags = (place) => this.report.forms[place.form].flags[place.position];
    for (const name of this.state.filters) {
      if (name === "differs" || name === "changed") {
        if (!this.#disagree(document, name === "differs" ? "run" : "name")) return false;
      } else if (!places.some((place) => flags(place) & BITS[name])) return false;
    }
    return true;
  }

  /** Whether forms that agree in `same` (a run, a name) got the document right and wrong. */
  #disagree(document, same) {
    const verdicts = new Map();
    for (const { form, position } of document.places) {
      const { scores, flags, higher, [same]: key } = this.report.forms[form];
      if (scores[position] === null || higher === false) continue;
      const wrong = Boolean(flags[position] & WRONG);
      if ((verdicts.get(key) ?? wrong) !== wrong) return true;
      verdicts.set(key, wrong);
    }
    return false;
  }

  async #filter() {
    const mine = (this.run = (this.run ?? 0) + 1);
    const passing = this.documents.filter((document) => this.#passes(document));
    const words = this.state.words;
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
    this.count.textContent = `${grouped(documents.length)} of ${grouped(this.documents.length)} documents${more}`;
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
    const marks = element("span", { class: "marks" }, ...document.places.slice(0, MARKS).map((place) => this.#mark(place)),
      ...(document.places.length > MARKS ? [element("span", { class: "soft small" }, ` +${document.places.length - MARKS}`)] : []));
    const row = element("div", { class: "item", role: "option", "aria-selected": String(document === this.selected), style: `top:${index * ROW}px`, onclick: () => this.open(document) },
      marks, `${plainLine(document.task)} ${document.doc}`, element("span", { class: "head" }, plainLine(document.head)));
    return row;
  }

  #mark({ form, position }) {
    const { scores, flags } = this.report.forms[form];
    const score = scores[position];
    const [kind, sign] = flags[position] & FAILED ? ["none", "!"] : flags[position] & UNREADABLE ? ["none", "?"] : score === 1 ? ["ok", "✓"] : flags[position] & WRONG ? ["no", "✗"] : ["soft", "·"];
    return element("span", { class: kind, title: listLabel(this.report, this.report.forms[form]) }, sign);
  }

  move(step) {
    if (!this.shown.length) return;
    const at = this.shown.indexOf(this.selected);
    const next = Math.min(this.shown.length - 1, Math.max(0, at < 0 ? 0 : at + step));
    this.open(this.shown[next]);
    const top = next * ROW;
    if (top < this.list.scrollTop) this.list.scrollTop = top;
    else if (top + ROW > this.list.scrollTop + this.list.clientHeight) this.list.scrollTop = top + ROW - this.list.clientHeight;
  }

  /** Shows a document under one form, or under two side by side, and writes both into the page's address. */
  open(document, form = null, other = null) {
    const kept = (number) => document.places.some((place) => place.form === number);
    const chosen = form ?? (this.left !== undefined && kept(this.left) ? this.left : (this.#places(document)[0] ?? document.places[0]).form);
    const beside = other ?? (this.right !== undefined && this.right !== chosen && kept(this.right) ? this.right : null);
    [this.selected, this.left, this.right] = [document, chosen, beside === -1 || beside === null ? undefined : beside];
    const names = [chosen, ...(this.right === undefined ? [] : [this.right])].map((number) => this.report.forms[number].key);
    const link = `#sample=${encodeURIComponent(document.key)}&form=${names.map(encodeURIComponent).join(",")}`;
    if (location.hash !== link) history.replaceState(null, "", link);
    this.#paint();
    return this.#showDetail(document);
  }

  /** Opens what the page's address names. */
  restore() {
    // Names may hold commas, so the list of forms is split before it is decoded.
    const address = new Map(location.hash.slice(1).split("&").map((part) => [part.split("=", 1)[0], part.slice(part.indexOf("=") + 1)]));
    const key = decoded(address.get("sample"));
    const document = key && this.documents.find((entry) => entry.key === key);
    if (!document) return;
    const numbers = (address.get("form") ?? "").split(",").map(decoded).map((name) => this.report.forms.findIndex((form) => form.key === name)).filter((number) => number >= 0);
    this.open(document, numbers[0] ?? null, numbers[1] ?? null);
    const at = this.shown.indexOf(document);
    if (at >= 0) this.list.scrollTop = Math.max(0, at * ROW - this.list.clientHeight / 2);
    this.root.scrollIntoView();
  }

  async #showDetail(document) {
    const numbers = [this.left, ...(this.right === undefined ? [] : [this.right])];
    const place = (number) => document.places.find((entry) => entry.form === number);
    const samples = await Promise.all(numbers.map((number) => this.source.sample(number, place(number).position)));
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
    return element("div", { class: "tools" }, element("b", {}, `${plainLine(document.task)} ${document.doc}`), left, ...(document.places.length > 1 ? [right] : []), white);
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
      ...this.#prompt(sample, marks),
      ...this.#choices(sample), ...this.#completion(sample));
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
      ...sample.raw.flatMap((text, index) => [element("p", { class: "soft small" }, sample.raw.length > 1 ? `completion ${index + 1}` : "completion"), exactText(text, { whitespace })]),
      ...(sample.steps ?? []).flatMap((step) => [element("p", { class: "soft small step" }, `→ ${plainLine(step.step)}`), exactText(step.text, { whitespace })]),
      element("p", { class: "answer" }, element("span", { class: "soft" }, "extracted: "), sample.extracted === null ? element("span", { class: "none" }, "nothing") : element("code", { class: "extracted" }, plainLine(String(sample.extracted))),
        element("span", { class: "soft right" }, "right: "), element("code", {}, plainLine(String(Array.isArray(sample.gold) ? sample.gold.join(" | ") : sample.gold ?? sample.target ?? "")))),
    ];
  }
}

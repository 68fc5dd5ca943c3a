// The browser of samples: a matrix of documents and forms with its filters, beside the open document.

/** @import { Doc, Form, Place, Report } from "./types.d.ts" */
/** @import { SampleSource } from "./data.js" */

import { FAILED, PROMPT_TRUNCATED, TRUNCATED, UNREADABLE, WRONG } from "./data.js";
import { element, plainLine, shortened } from "./dom.js";
import { Drawer } from "./drawer.js";
import { FILTER_WORDS, disagrees, parseFilter } from "./filters.js";
import { columnName, listLabel, sharedBegin } from "./labels.js";
import { VirtualList } from "./list.js";
import { readNotes } from "./notes.js";
import { counted, grouped } from "./numbers.js";
import { address, decoded, download, keepInAddress } from "./state.js";
import { csvText } from "./table.js";

const ROW = 34;
/** Characters of a task's name in the list. */
const LONGEST_TASK = 14;
/** Characters of the widest column of answers. */
const WIDEST = 24;
const FILTERS = [
  ["wrong", "any form wrong", "at least one form got it wrong"],
  ["differs", "differs between forms", "right under one form and wrong under another, in the same run"],
  ["changed", "differs between runs", "right in one run and wrong in another, under the same form"],
  ["unreadable", "not extracted", "no answer could be extracted from the completion"],
  ["truncated", "truncated", "the completion ran into its token limit, or the beginning of the prompt was cut off"],
  ["failed", "failed", "the request failed"],
];
/** @type {Record<string, number>} */
const BITS = { wrong: WRONG, unreadable: UNREADABLE, truncated: TRUNCATED | PROMPT_TRUNCATED, failed: FAILED };

export class SampleBrowser {
  /** @type {Doc | null} */
  selected = null;
  /** @type {number | undefined} */
  left;
  /** @type {number | undefined} */
  right;
  #search = 0;
  #timer = 0;

  /**
   * @param {Report} report
   * @param {SampleSource} source
   * @param {HTMLElement} root
   */
  constructor(report, source, root) {
    this.report = report;
    this.source = source;
    this.forms = report.forms.map((form, number) => ({ ...form, number })).filter((form) => form.docs.length);
    this.documents = this.#documents();
    this.shown = this.documents;
    this.columns = [...new Set(this.forms.map((form) => columnName(report, form)))];
    this.begin = sharedBegin([...new Set(this.forms.map((form) => form.task))]);
    /** The column of each form. */
    this.column = new Map(this.forms.map((form) => [form.number, this.columns.indexOf(columnName(report, form))]));
    this.state = {
      filters: new Set(),
      words: "",
      form: "",
      whitespace: false,
      rendered: false,
      order: "document",
      down: false,
    };
    this.notes = readNotes(report);
    this.expression = parseFilter("", report);
    this.drawer = new Drawer(report, source, {
      open: (document, left, right) => this.open(document, left, right),
      close: () => {
        this.close();
        this.frame.focus();
      },
      view: () => ({ left: this.left ?? 0, right: this.right, ...this.state }),
      whitespace: () => this.toggleWhitespace(),
      rendered: () => this.toggleRendered(),
      noted: () => {
        this.notes = readNotes(report);
        this.list.paint();
      },
    });
    const changed = () => this.#changed();
    const [first, second] = this.columns;
    this.search = element("input", {
      type: "search",
      placeholder: "search texts  ( / )",
      title: "words of prompts, choices and completions",
      "aria-label": "search",
      oninput: changed,
    });
    this.formSelect = element(
      "select",
      {
        "aria-label": "form",
        onchange: () => {
          this.formSelect.blur();
          this.#changed();
        },
      },
      element("option", { value: "" }, "all forms"),
      ...this.forms.map((form) =>
        element("option", { value: form.number, title: form.name }, listLabel(this.report, form)),
      ),
    );
    this.buttons = FILTERS.filter(([name]) => this.#useful(name)).map(([name, label, title]) =>
      element(
        "button",
        { type: "button", title, "aria-pressed": "false", "data-filter": name, onclick: () => this.#toggle(name) },
        label,
      ),
    );
    this.count = element("span", { class: "soft small", "aria-live": "polite" });
    this.filterBox = element("input", {
      type: "search",
      class: "expression",
      placeholder: `filter: wrong in ${first}${second ? ` and right in ${second}` : ""}`,
      "aria-label": "filter",
      title: FILTER_WORDS,
      "aria-describedby": "filter-problem",
      oninput: changed,
    });
    this.problem = element("span", { class: "no small", id: "filter-problem", role: "alert" });
    this.grid = this.#grid();
    this.heads = this.#heads();
    const space = element("div", { class: "space", role: "rowgroup" });
    this.frame = element(
      "div",
      {
        class: "list",
        role: "grid",
        tabindex: "0",
        "aria-label": "documents and forms",
        "aria-rowcount": this.documents.length + 1,
        "aria-colcount": this.columns.length + 2,
      },
      element("div", { role: "rowgroup", class: "head-group" }, this.heads),
      space,
    );
    this.list = new VirtualList(this.frame, space, ROW, (index) => this.#row(this.shown[index], index));
    this.frame.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
      if (!step) return;
      event.preventDefault();
      this.move(step);
    });
    const exports = ["csv", "json"].map((kind) =>
      element(
        "button",
        {
          type: "button",
          "aria-label": `export the listed documents as ${kind.toUpperCase()}`,
          onclick: () => this.#export(kind),
        },
        kind.toUpperCase(),
      ),
    );
    this.split = element("div", { class: "browser" }, this.frame, this.drawer.root);
    root.append(
      element("div", { class: "tools" }, this.filterBox, this.search, this.formSelect, ...this.buttons, ...exports),
      element("div", { class: "status" }, this.count, this.#key(), this.problem),
      this.split,
    );
    this.#fromAddress();
    this.#filter();
    this.restore();
    addEventListener("hashchange", () => this.restore());
  }

  /** Every document once, with its position in each form that has it. */
  #documents() {
    /** @type {Map<string, Doc>} */
    const byKey = new Map();
    for (const { number, task, docs } of this.forms)
      docs.forEach((doc, position) => {
        const key = `${task}/${doc}`;
        const known = byKey.get(key) ?? { key, task, doc, head: this.report.heads[task]?.[doc] ?? "", places: [] };
        byKey.set(key, known);
        known.places.push({ form: number, position });
      });
    return [...byKey.values()];
  }

  repaint() {
    this.list.paint();
  }

  /** The heads of the matrix, which sort it. */
  #heads() {
    const head = (order, text, title) =>
      element(
        "span",
        { role: "columnheader", "data-order": order, "aria-sort": "none" },
        element("button", { type: "button", class: "plain", title, onclick: () => this.#sort(order) }, text),
      );
    return element(
      "div",
      { class: "item heads", role: "row", "aria-rowindex": 1, style: this.grid },
      head("document", "document", "in the order of the dataset"),
      head("flips", "question", "by how many forms disagree"),
      ...this.columns.map((name, index) => head(String(index), name, `${name}: wrong first`)),
    );
  }

  /** The columns of the matrix, as wide as what they hold needs: up to the widths of the style, or more if there is room. */
  #grid() {
    const longest = (texts) => texts.reduce((most, text) => Math.max(most, text.length), 0);
    const doc = longest(this.documents.map((document) => `${this.#shortTask(document)} ${document.doc}`));
    const picks = this.columns.map(() => 0);
    for (const { number, picks: texts } of this.forms) {
      const column = this.column.get(number) ?? 0;
      picks[column] = Math.max(picks[column], longest(texts));
    }
    const needs = this.columns.map((name, column) => Math.max(name.length + 4, picks[column] + 5));
    const least = needs.map((need) => `min(var(--cell), ${need}ch)`);
    const cells = needs.map((need, column) => `minmax(${least[column]}, ${Math.min(need, WIDEST)}ch)`);
    const first = `min(var(--doc), ${Math.max(14, doc + 4)}ch)`;
    return `grid-template-columns:${first} minmax(var(--question), 1fr) ${cells.join(" ")};min-width:calc(${[first, "var(--question)", ...least].join(" + ")})`;
  }

  /** @param {string} order */
  #sort(order) {
    this.state.down = this.state.order === order && !this.state.down;
    this.state.order = order;
    this.#filter();
  }

  /**
   * The documents in the order that a head asks for.
   * @param {Doc[]} documents
   */
  #ordered(documents) {
    const { order, down } = this.state;
    for (const head of /** @type {HTMLElement[]} */ ([...this.heads.children]))
      head.setAttribute("aria-sort", head.dataset.order === order ? (down ? "descending" : "ascending") : "none");
    if (order === "document") return down ? [...documents].reverse() : documents;
    const rank = (document) => {
      if (order === "flips") {
        const scores = document.places.map(({ form, position }) => this.report.forms[form].scores[position]);
        const number = (value) => scores.filter((score) => score === value).length;
        return -Math.min(number(1), number(0));
      }
      const place = document.places.find(({ form }) => this.column.get(form) === Number(order));
      return place ? (this.report.forms[place.form].scores[place.position] ?? 2) : 3;
    };
    const ranked = documents
      .map((document) => /** @type {[number, Doc]} */ ([rank(document), document]))
      .sort((a, b) => a[0] - b[0]);
    return (down ? ranked.reverse() : ranked).map(([, document]) => document);
  }

  /**
   * Lists what a filter leaves, and nothing else.
   * @param {string} text
   */
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

  /** Opens the first document that is listed, under the two forms that the filter names. */
  openFirst() {
    const [document] = this.shown;
    if (!document) return;
    const [left, right] = this.expression.forms.map(
      (forms) => document.places.find((place) => forms.has(place.form))?.form ?? null,
    );
    this.open(document, left, right);
  }

  /**
   * @param {string} key
   * @param {number} [form]
   */
  openKey(key, form) {
    const document = this.documents.find((entry) => entry.key === key);
    if (!document) return;
    if (!this.shown.includes(document)) this.setFilter("");
    this.open(document, form, -1);
    this.list.center(this.shown.indexOf(document));
  }

  close() {
    this.selected = null;
    this.drawer.close();
    this.split.classList.remove("opened");
    keepInAddress({ sample: "", form: "" });
    this.list.paint();
  }

  #fromAddress() {
    const state = address();
    this.filterBox.value = decoded(state.get("filter"));
    this.search.value = decoded(state.get("words"));
    for (const name of decoded(state.get("only")).split(","))
      if (this.buttons.some((button) => button.dataset.filter === name)) this.state.filters.add(name);
    for (const button of this.buttons)
      button.setAttribute("aria-pressed", String(this.state.filters.has(button.dataset.filter)));
    const form = this.report.forms.findIndex((entry) => entry.key === decoded(state.get("in")));
    if (form >= 0) this.formSelect.value = String(form);
    const order = decoded(state.get("order"));
    [this.state.order, this.state.down] = [order.replace(/^-/, "") || "document", order.startsWith("-")];
    this.state.rendered = state.get("view") === "rendered";
    this.#read();
  }

  /** Takes over what the fields say. */
  #read() {
    this.state.words = this.search.value.trim().toLowerCase();
    this.state.form = this.formSelect.value;
    this.expression = parseFilter(this.filterBox.value.trim(), this.report, (document) =>
      Boolean(this.notes[document.key]),
    );
    this.problem.textContent = this.expression.problem ?? "";
  }

  /**
   * The listed documents as a file: a line for each document, with the answer and the score of each form.
   * @param {string} kind
   */
  #export(kind) {
    const rows = this.shown.map((document) => {
      /** @type {Record<string, unknown>} */
      const row = { task: document.task, doc: document.doc, question: document.head };
      for (const { form, position } of document.places) {
        const { picks, scores } = this.report.forms[form];
        const name = this.columns[this.column.get(form) ?? 0];
        row[`${name} answer`] = picks[position];
        row[`${name} score`] = scores[position];
      }
      if (this.notes[document.key]) row.note = this.notes[document.key];
      return row;
    });
    if (kind === "json") return download("samples.json", `${JSON.stringify(rows, null, 1)}\n`, "application/json");
    const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
    return download("samples.csv", csvText([names, ...rows.map((row) => names.map((name) => row[name]))]), "text/csv");
  }

  /** What the marks of the list mean. */
  #key() {
    const neither = (form) =>
      form.scores.some((score, at) => score !== 1 && !(form.flags[at] & (WRONG | UNREADABLE | FAILED)));
    const judged = this.forms.some((form) => form.flags.some((flags, at) => flags & WRONG || form.scores[at] === 1));
    const signs = [
      ...(judged
        ? [
            ["ok", "✓", "right"],
            ["no", "✗", "wrong"],
          ]
        : []),
      ...(this.#useful("unreadable") ? [["none", "?", "not extracted"]] : []),
      ...(this.#useful("failed") ? [["none", "!", "failed"]] : []),
      ...(this.forms.some(neither) ? [["soft", "·", "neither right nor wrong"]] : []),
    ];
    return element(
      "p",
      { class: "soft small key" },
      ...signs.map(([kind, sign, words]) => element("span", {}, element("b", { class: kind }, sign), ` ${words}`)),
    );
  }

  /** @param {string} name */
  #useful(name) {
    const varies = (key) => new Set(this.forms.map((form) => form[key])).size > 1;
    if (name === "differs") return varies("name") && this.documents.some((document) => document.places.length > 1);
    if (name === "changed") return varies("run");
    return this.forms.some((form) => form.flags.some((flags) => flags & BITS[name]));
  }

  /** @param {string} name */
  #toggle(name) {
    const { filters } = this.state;
    if (!filters.delete(name)) filters.add(name);
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(filters.has(button.dataset.filter)));
    this.#filter();
  }

  #changed() {
    this.#read();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#filter(), 120);
  }

  /** @param {Doc} document */
  #places(document) {
    const { form } = this.state;
    return form === "" ? document.places : document.places.filter((place) => place.form === Number(form));
  }

  /** @param {Doc} document */
  #passes(document) {
    const places = this.#places(document);
    if (!places.length || !this.expression.test(document)) return false;
    const flags = (place) => this.report.forms[place.form].flags[place.position];
    return [...this.state.filters].every((name) => {
      if (name === "differs") return disagrees(this.report, document, "run");
      if (name === "changed") return disagrees(this.report, document, "name");
      return places.some((place) => flags(place) & BITS[name]);
    });
  }

  async #filter() {
    const mine = ++this.#search;
    const { words, order, down, filters, form } = this.state;
    keepInAddress({
      filter: this.filterBox.value.trim(),
      words,
      only: [...filters].join(","),
      in: form === "" ? "" : this.report.forms[Number(form)].key,
      order: order === "document" && !down ? "" : `${down ? "-" : ""}${order}`,
    });
    const passing = this.#ordered(this.documents.filter((document) => this.#passes(document)));
    if (!words) return this.#show(passing, "");
    const at = (place) => `${place.form}/${place.position}`;
    const byPlace = new Map(
      passing.flatMap((document) => this.#places(document).map((place) => [at(place), document])),
    );
    const matched = new Set(
      passing.filter((document) => document.head.toLowerCase().includes(words) || document.key === words),
    );
    const listed = () => passing.filter((document) => matched.has(document));
    this.#show(listed(), " …");
    for (const { number } of this.forms) {
      try {
        await this.source.search(
          number,
          words,
          (position) => {
            const document = byPlace.get(at({ form: number, position }));
            if (document) matched.add(document);
          },
          () => mine !== this.#search,
        );
      } catch (error) {
        this.problem.textContent = `the search stopped: ${plainLine(String(error instanceof Error ? error.message : error))}`;
        break;
      }
      if (mine !== this.#search) return undefined;
    }
    return this.#show(listed(), "");
  }

  /**
   * @param {Doc[]} documents
   * @param {string} more
   */
  #show(documents, more) {
    this.shown = documents;
    const all = this.documents.length;
    this.count.textContent = `${grouped(documents.length)} of ${counted(all, "document")}${more}`;
    this.frame.setAttribute("aria-rowcount", String(documents.length + 1));
    this.frame.style.setProperty("--rows", String(documents.length + 1));
    this.list.show(documents.length);
    if (this.selected && !more && !documents.includes(this.selected)) this.close();
  }

  /**
   * @param {Doc} document
   * @param {number} index
   */
  #row(document, index) {
    const cells = this.columns.map(() => element("span", { role: "gridcell" }));
    for (const place of document.places) {
      const cell = cells[this.column.get(place.form) ?? 0];
      cell.append(
        this.#mark(place),
        element("span", { class: "pick" }, plainLine(this.report.forms[place.form].picks[place.position])),
      );
      cell.addEventListener("click", (event) => {
        event.stopPropagation();
        this.open(document, place.form);
      });
    }
    const isSelected = document === this.selected;
    if (isSelected) this.frame.setAttribute("aria-activedescendant", `row-${index}`);
    return element(
      "div",
      {
        class: "item",
        id: `row-${index}`,
        role: "row",
        "aria-rowindex": index + 2,
        "aria-selected": String(isSelected),
        style: `top:${index * ROW}px;${this.grid}`,
        onclick: () => this.open(document),
      },
      element(
        "span",
        { role: "rowheader", class: "doc", title: `${document.task} ${document.doc}` },
        element("span", { class: "task" }, `${this.notes[document.key] ? "✎ " : ""}${this.#shortTask(document)}`),
        ` ${document.doc}`,
      ),
      element("span", { class: "head", role: "gridcell" }, ...this.#hits(plainLine(document.head))),
      ...cells,
    );
  }

  /**
   * The task of a document, without what all tasks begin with, so that its number stays in sight.
   * @param {Doc} document
   */
  #shortTask({ task }) {
    return shortened(plainLine(task.slice(this.begin.length)), LONGEST_TASK);
  }

  /**
   * A line with the words that are sought marked.
   * @param {string} text
   */
  #hits(text) {
    const { words } = this.state;
    const at = words ? text.toLowerCase().indexOf(words) : -1;
    if (at < 0) return [text];
    return [text.slice(0, at), element("mark", {}, text.slice(at, at + words.length)), text.slice(at + words.length)];
  }

  /** @param {Place} place */
  #mark({ form, position }) {
    const { scores, flags } = this.report.forms[form];
    const [kind, sign, words] =
      flags[position] & FAILED
        ? ["none", "!", "failed"]
        : flags[position] & UNREADABLE
          ? ["none", "?", "not extracted"]
          : scores[position] === 1
            ? ["ok", "✓", "right"]
            : flags[position] & WRONG
              ? ["no", "✗", "wrong"]
              : ["soft", "·", "neither right nor wrong"];
    return element(
      "span",
      { class: `mark ${kind}`, title: `${listLabel(this.report, this.report.forms[form])}: ${words}` },
      sign,
    );
  }

  /** @param {number} step */
  move(step) {
    if (!this.shown.length) return;
    const at = this.selected ? this.shown.indexOf(this.selected) : -1;
    const next = Math.min(this.shown.length - 1, Math.max(0, at < 0 ? 0 : at + step));
    this.open(this.shown[next]);
    this.list.reveal(next);
  }

  /**
   * Shows a document under one form, or under two side by side (-1: under one), and writes both into the address.
   * @param {Doc} document
   * @param {number | null} [form]
   * @param {number | null} [other]
   */
  open(document, form = null, other = null) {
    // The forms that were open stay so; those of another task are in the same column.
    const kept = (number) =>
      document.places.find((place) => this.column.get(place.form) === this.column.get(number))?.form;
    const named = document.places.find((place) => this.expression.forms[0]?.has(place.form))?.form;
    const left = form ?? named ?? kept(this.left) ?? (this.#places(document)[0] ?? document.places[0]).form;
    const right = this.right === undefined ? undefined : kept(this.right);
    const beside = other ?? (right === undefined || right === left ? -1 : right);
    [this.selected, this.left, this.right] = [document, left, beside === -1 ? undefined : beside];
    const names = [left, ...(this.right === undefined ? [] : [this.right])].map(
      (number) => this.report.forms[number].key,
    );
    keepInAddress({ sample: document.key }, { form: names.map(encodeURIComponent).join(",") });
    this.split.classList.add("opened");
    this.list.paint();
    return this.drawer.show(document).then(() => {
      // Where the document is below the list, it may be out of sight.
      if (getComputedStyle(this.split).gridTemplateColumns.split(" ").length === 1) this.drawer.root.scrollIntoView();
    });
  }

  /** Opens what the page's address names. */
  restore() {
    const state = address();
    const key = decoded(state.get("sample"));
    const document = key && this.documents.find((entry) => entry.key === key);
    if (!document) return;
    const numbers = (state.get("form") ?? "")
      .split(",")
      .map(decoded)
      .map((name) => this.report.forms.findIndex((form) => form.key === name))
      .filter((number) => number >= 0);
    this.open(document, numbers[0] ?? null, numbers[1] ?? null);
    this.list.center(this.shown.indexOf(document));
  }

  toggleWhitespace() {
    this.state.whitespace = !this.state.whitespace;
    if (this.selected) this.drawer.show(this.selected);
  }

  toggleRendered() {
    this.state.rendered = !this.state.rendered;
    keepInAddress({ view: this.state.rendered ? "rendered" : "" });
    if (this.selected) this.drawer.show(this.selected);
  }
}

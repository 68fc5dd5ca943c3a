// The drawer: one document in full, under one form or under two side by side.

/** @import { Doc, Form, Picture, Range, Report, Sample, Turn } from "./types.d.ts" */
/** @import { SampleSource } from "./data.js" */

import { FAILED, PROMPT_TRUNCATED, TRUNCATED, UNREADABLE, WRONG } from "./data.js";
import { element, exactText, keepFocus, plainLine } from "./dom.js";
import { formLabel, listLabel } from "./labels.js";
import { noteBox } from "./notes.js";
import { counted, fixed } from "./numbers.js";
import { LONGEST_RENDERED, renderedText } from "./rendered.js";
import { copyButton } from "./state.js";
import { term } from "./terms.js";
import { differingWords } from "./words.js";

/**
 * What the drawer shows, and how.
 * @typedef {object} View
 * @property {number} left the number of the form
 * @property {number} [right] the number of the form beside it
 * @property {boolean} whitespace
 * @property {boolean} rendered
 * @property {string} words that are sought
 */

export class Drawer {
  /** @type {Doc | null} */
  #document = null;

  /**
   * @param {Report} report
   * @param {SampleSource} source
   * @param {{ open: (document: Doc, left: number, right: number) => void, close: () => void, view: () => View, whitespace: () => void, rendered: () => void, noted: () => void }} actions
   */
  constructor(report, source, actions) {
    this.report = report;
    this.source = source;
    this.actions = actions;
    this.root = element("div", {
      class: "detail",
      hidden: true,
      "aria-label": "the open document",
      role: "region",
      tabindex: "0",
    });
  }

  close() {
    this.#document = null;
    this.root.hidden = true;
  }

  /** @param {Doc} document */
  async show(document) {
    this.#document = document;
    this.root.hidden = false;
    const view = this.actions.view();
    const numbers = [view.left, ...(view.right === undefined ? [] : [view.right])];
    const places = numbers.map((form) => document.places.find((place) => place.form === form));
    let samples;
    try {
      samples = await Promise.all(places.map((place) => this.source.sample(place?.form ?? 0, place?.position ?? 0)));
    } catch (error) {
      const retry = element("button", { type: "button", onclick: () => this.show(document) }, "try again");
      const words = `The sample cannot be shown: ${plainLine(String(error instanceof Error ? error.message : error))} `;
      this.root.replaceChildren(element("p", { class: "no", role: "alert" }, words, retry));
      return;
    }
    if (document !== this.#document) return; // another one was opened in the meantime
    const [first, second] = samples;
    const marks = second
      ? differingWords(first.prompt, second.prompt, first.question_start, second.question_start)
      : [null, null];
    const columns = samples.map((sample, index) =>
      this.#column(this.report.forms[numbers[index]], places[index]?.position ?? 0, sample, marks[index], view),
    );
    const content = [
      this.#tools(document, view),
      element("div", { class: `columns${columns.length === 2 ? " two" : ""}` }, ...columns),
      noteBox(this.report, document, this.actions.noted),
    ];
    keepFocus(this.root, () => this.root.replaceChildren(...content));
  }

  /**
   * @param {Doc} document
   * @param {View} view
   */
  #tools(document, view) {
    const options = (chosen, none) => [
      ...(none ? [element("option", { value: "-1", selected: chosen === undefined }, none)] : []),
      ...document.places.map(({ form }) =>
        element("option", { value: form, selected: form === chosen }, listLabel(this.report, this.report.forms[form])),
      ),
    ];
    const select = (label, onchange, ...content) =>
      element("select", { "aria-label": label, onchange: (event) => onchange(Number(event.target.value)) }, ...content);
    const toggle = (pressed, title, onclick, text) =>
      element("button", { type: "button", "aria-pressed": String(pressed), title, onclick }, text);
    const { open } = this.actions;
    return element(
      "div",
      { class: "tools" },
      element("b", {}, `${plainLine(document.task)} ${document.doc}`),
      select("form on the left", (number) => open(document, number, view.right ?? -1), ...options(view.left)),
      document.places.length > 1
        ? select(
            "compare with",
            (number) => open(document, view.left, number),
            ...options(view.right, "compare with …"),
          )
        : null,
      toggle(
        view.rendered,
        "chat turns, Markdown and mathematics as they are meant  ( r )",
        this.actions.rendered,
        "rendered",
      ),
      toggle(view.whitespace, "show spaces, tabs and line ends  ( w )", this.actions.whitespace, "whitespace"),
      copyButton(location.href, "link to this document", "copy link"),
      element(
        "button",
        { type: "button", class: "close", "aria-label": "close the document", onclick: this.actions.close },
        "close",
      ),
    );
  }

  /**
   * @param {Form} form
   * @param {number} position
   * @param {Sample} sample
   * @param {Range[] | null} marks
   * @param {View} view
   */
  #column(form, position, sample, marks, view) {
    const scores = Object.entries(sample.scores).map(
      ([name, value]) => `${name} ${Array.isArray(value) ? `(${value.map(rounded).join(", ")})` : rounded(value)}`,
    );
    return element(
      "div",
      {},
      element("h3", {}, plainLine(formLabel(this.report, form)), " ", ...verdictTags(form, position, sample)),
      element("p", { class: "soft small" }, plainLine(scores.join(", "))),
      sample.failure ? element("p", { class: "no" }, plainLine(sample.failure)) : null,
      element(
        "p",
        { class: "soft small" },
        `prompt, ${counted(sample.prompt.length, "character")} `,
        copyButton(sample.prompt, "the prompt"),
      ),
      ...(view.rendered
        ? this.#renderedPrompt(sample)
        : this.#rawPrompt(sample, marks ?? found(sample.prompt, view.words), view)),
      ...choices(sample),
      ...completions(sample, view),
    );
  }

  /**
   * The prompt exactly as the model got it; what lies before the question is folded.
   * @param {Sample} sample
   * @param {Range[] | null} marks
   * @param {View} view
   */
  #rawPrompt({ prompt, question_start: start, media }, marks, { whitespace }) {
    const pictures = media ? [element("div", { class: "pictures" }, ...media.map((item) => this.#picture(item)))] : [];
    if (!start) return [...pictures, exactText(prompt, { whitespace, marks })];
    const before = marks
      ?.filter(([from]) => from < start)
      .map(([from, to]) => /** @type {Range} */ ([from, Math.min(to, start)]));
    const after = marks
      ?.filter(([, to]) => to > start)
      .map(([from, to]) => /** @type {Range} */ ([Math.max(from, start) - start, to - start]));
    const shots = folded(`${counted(start, "character")} before the question: description and few-shot examples`, () =>
      exactText(prompt.slice(0, start), { whitespace, marks: before }),
    );
    return [...pictures, shots, exactText(prompt.slice(start), { whitespace, marks: after })];
  }

  /**
   * The prompt as its writer meant it: the turns of a chat, or the text; what lies before the question is folded.
   * @param {Sample} sample
   */
  #renderedPrompt({ prompt, turns, question_start: start, media }) {
    const left = [...(media ?? [])];
    const render = (text) =>
      rendered(text, () => (left.length ? this.#picture(/** @type {Picture} */ (left.shift())) : null));
    if (!turns) {
      const before = start ? [folded("description and few-shot examples", () => render(prompt.slice(0, start)))] : [];
      return [...before, render(prompt.slice(start))];
    }
    const last = turns.findLastIndex((turn) => turn.role === "user");
    const bubble = (/** @type {Turn} */ turn) =>
      element(
        "div",
        { class: `turn ${turn.role === "user" || turn.role === "assistant" ? turn.role : "system"}` },
        element("b", { class: "small soft" }, plainLine(turn.role)),
        ...(turn.content.trim() ? [render(turn.content)] : []),
      );
    // The pictures of the turns before the question come first, so that they are rendered with them.
    const earlier = turns.slice(0, Math.max(0, last)).map(bubble);
    const before = earlier.length
      ? [folded(`${counted(earlier.length, "turn")} before the question`, () => element("div", {}, ...earlier))]
      : [];
    return [...before, ...turns.slice(Math.max(0, last)).map(bubble)];
  }

  /** @param {Picture} picture */
  #picture({ kind, size, sha256 }) {
    const words = `${kind}, ${size}`;
    const holder = element(
      "figure",
      { class: "picture" },
      element("figcaption", { class: "soft small" }, plainLine(words)),
    );
    if (kind !== "image") return holder;
    this.source.picture(sha256).then((data) => {
      if (data) holder.prepend(element("img", { src: data, alt: words }));
      else holder.append(element("span", { class: "soft small" }, ": its pixels are not in the files of the run"));
    });
    return holder;
  }
}

/** @param {unknown} value */
const rounded = (value) => (typeof value === "number" ? String(+value.toFixed(4)).replace("-", "−") : String(value));

/**
 * A text rendered, or as it is where it is too long for that.
 * @param {string} text
 * @param {(index: number) => Node | null} [picture]
 */
const rendered = (text, picture) => (text.length > LONGEST_RENDERED ? exactText(text) : renderedText(text, picture));

/**
 * @param {string} summary
 * @param {() => Node} make
 */
function folded(summary, make) {
  const node = element("details", { class: "shots" }, element("summary", { class: "soft small" }, summary));
  node.addEventListener("toggle", () => {
    if (node.open && node.childElementCount === 1) node.append(make());
  });
  return node;
}

/**
 * @param {Form} form
 * @param {number} position
 * @param {Sample} sample
 */
function verdictTags(form, position, sample) {
  const flags = form.flags[position];
  const tag = (kind, words) => [element("span", { class: `tag ${kind}` }, words), " "];
  const score = form.scores[position] === null ? "" : `${form.metric} ${fixed(form.scores[position])}`;
  const verdict =
    flags & FAILED
      ? ["none", "failed"]
      : form.scores[position] === 1
        ? ["ok", "right"]
        : flags & WRONG
          ? ["no", "wrong"]
          : ["", score];
  const endings = (sample.endings ?? []).filter((ending) => ending !== "cut off");
  return [
    ...(verdict[1] ? tag(...verdict) : []),
    ...(flags & UNREADABLE ? tag("none", "no answer could be extracted") : []),
    ...(flags & TRUNCATED ? tag("none", "cut off at the token limit") : []),
    ...endings.flatMap((ending) => tag("none", plainLine(ending))),
    ...(flags & PROMPT_TRUNCATED
      ? tag("none", "the beginning of the prompt was cut off to fit into the model's context")
      : []),
  ];
}

/**
 * Where the words that are sought stand in a text.
 * @param {string} text
 * @param {string} words
 * @returns {Range[] | null}
 */
function found(text, words) {
  const lower = text.toLowerCase();
  if (!words || lower.length !== text.length) return null; // a letter that is longer in lower case would shift the marks
  /** @type {Range[]} */
  const marks = [];
  for (let at = lower.indexOf(words); at >= 0 && marks.length < 1000; at = lower.indexOf(words, at + words.length))
    marks.push([at, at + words.length]);
  return marks.length ? marks : null;
}

/** @param {Sample} sample */
function choices({ choices, labels, loglikelihoods, tokens, seconds, gold, picked }) {
  if (!choices?.length) return [];
  const right = Array.isArray(gold) ? gold : [gold];
  const isRight = (index) => right.includes(index) || right.includes(labels?.[index]);
  const known = loglikelihoods?.length === choices.length ? loglikelihoods : null;
  const best = known ? Math.max(...known) : 0;
  const weights = known ? known.map((value) => Math.exp(value - best)) : [];
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const lines = choices.map((text, index) => {
    const part = (100 * weights[index]) / total;
    const count = tokens?.[index];
    const about = count ? `log-likelihood of ${counted(count, "token")}` : "log-likelihood";
    const time = seconds?.[index];
    const cost = [count ? `${count} tok` : "", time ? `${fixed(time, 2)} s` : ""].filter(Boolean).join(", ");
    return element(
      "div",
      {
        class: `choice${index === picked ? " picked" : ""}`,
        "data-picked": index === picked,
        "data-gold": isRight(index),
      },
      element(
        "span",
        {},
        element(
          "b",
          { class: isRight(index) ? "ok" : index === picked ? "no" : "soft" },
          plainLine(labels?.[index] ?? String(index + 1)),
        ),
        isRight(index) ? " ✓" : "",
      ),
      element(
        "span",
        { class: "words", dir: "auto" },
        plainLine(text.length > 2000 ? `${text.slice(0, 2000)}…` : text),
      ),
      known
        ? element(
            "span",
            { class: "track", title: `${part.toFixed(1)} % of the choices' probability` },
            element("span", { class: "fill", style: `display:block;width:${part}%` }),
          )
        : element("span"),
      element("span", { class: "value", title: about }, known ? fixed(known[index], 3) : ""),
      element("span", { class: "tokens soft small" }, cost ? term("tokens", cost) : ""),
    );
  });
  return [element("div", { class: "choices" }, ...lines)];
}

/**
 * What the model wrote, its thought apart, and the way to the extracted answer.
 * @param {Sample} sample
 * @param {View} view
 */
function completions(sample, { whitespace, rendered: isRendered, words }) {
  const { raw, thoughts, steps } = sample;
  if (!raw?.length) return [];
  const shown = (text) => (isRendered ? rendered(text) : exactText(text, { whitespace, marks: found(text, words) }));
  const gold = Array.isArray(sample.gold) ? sample.gold.join(" | ") : (sample.gold ?? sample.target ?? "");
  return [
    ...raw.flatMap((text, index) => {
      const thought = thoughts?.[index];
      const name = raw.length > 1 ? `completion ${index + 1}` : "completion";
      return [
        thought ? folded(`thought, ${counted(thought.length, "character")}`, () => shown(thought)) : null,
        element(
          "p",
          { class: "soft small completion" },
          `${name}, ${counted(text.length, "character")}`,
          ...(sample.costs?.[index] ? [", ", term("tokens", sample.costs[index])] : []),
          " ",
          copyButton(text, `the ${name}`),
        ),
        shown(text),
      ].filter((node) => node !== null);
    }),
    ...(steps ?? []).flatMap((step) => [
      element("p", { class: "soft small step" }, `→ ${plainLine(step.step)}`),
      exactText(step.text, { whitespace }),
    ]),
    element(
      "p",
      { class: "answer" },
      element("span", { class: "soft" }, "extracted: "),
      sample.extracted === null
        ? element("span", { class: "none" }, "nothing")
        : element("code", { class: "extracted" }, plainLine(String(sample.extracted))),
      element("span", { class: "soft right" }, "right: "),
      element("code", {}, plainLine(String(gold))),
    ),
  ];
}

// Elements, and text that is shown exactly as it is.

import { grouped } from "./numbers.js";

/**
 * An element with attributes and children; text children are never parsed as HTML.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Node | string | null | undefined)} children
 */
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style")
      node.style.cssText = value; // the policy of the page forbids style attributes
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/**
 * The element with an id, which the page always has.
 * @param {string} id
 * @returns {HTMLElement}
 */
export const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/**
 * Replaces a part of the page; the element that had the focus gets it again, and what was open stays open.
 * @param {HTMLElement} root
 * @param {() => void} replace
 */
export function keepFocus(root, replace) {
  const name = (node) => node.dataset.focus ?? node.getAttribute("aria-label") ?? node.id ?? node.textContent;
  const all = (selector) => /** @type {HTMLElement[]} */ ([...root.querySelectorAll(selector)]);
  const active = document.activeElement;
  const focused =
    active instanceof HTMLElement && root.contains(active)
      ? [active.tagName, name(active) || active.textContent]
      : null;
  const selection = active instanceof HTMLInputElement && active.type === "search" ? active.selectionStart : null;
  const open = new Set(all("details[open]").map((node) => node.dataset.keep));
  const scrolled = all(".wide, .tall").map((node) => [node.scrollLeft, node.scrollTop]);
  replace();
  for (const node of all("details[data-keep]")) node.toggleAttribute("open", open.has(node.dataset.keep));
  all(".wide, .tall").forEach((node, index) =>
    node.scrollTo(.../** @type {[number, number]} */ (scrolled[index] ?? [0, 0])),
  );
  const again = focused && all(focused[0]).find((node) => (name(node) || node.textContent) === focused[1]);
  if (!again) return;
  again.focus({ preventScroll: true });
  if (again instanceof HTMLInputElement && selection !== null) again.setSelectionRange(selection, selection);
}

const SVG = "http://www.w3.org/2000/svg";

/**
 * An SVG element.
 * @param {string} tag
 * @param {Record<string, string | number>} [attributes]
 * @param {...(Node | string)} children
 */
export function shape(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style") node.style.cssText = String(value);
    else node.setAttribute(name, String(value));
  }
  node.append(...children);
  return node;
}

// Characters that would act on the page or on the reader's eyes instead of being seen: controls, bidi overrides,
// zero-width characters. They are shown by name.
// A joiner that does what it is for is no such character: between the parts of an emoji, and in scripts whose letters
// join, such as Arabic and Devanagari.
const JOINING =
  "\\p{Script=Arabic}\\p{Script=Devanagari}\\p{Script=Bengali}\\p{Script=Tamil}\\p{Script=Telugu}\\p{Script=Kannada}\\p{Script=Malayalam}\\p{Script=Gujarati}\\p{Script=Gurmukhi}\\p{Script=Sinhala}\\p{Script=Khmer}";
const HIDDEN = new RegExp(
  `[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u061c\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u2069\\ufeff]` +
    `|(?<![\\p{Extended_Pictographic}\\p{Emoji_Modifier}\\ufe0f${JOINING}])[\\u200c\\u200d]` +
    `|[\\u200c\\u200d](?![\\p{Extended_Pictographic}${JOINING}])`,
  "u",
);

/** @type {Record<string, string>} */
const VISIBLE = { " ": "·", "\t": "→\t", "\n": "↵\n", "\u00a0": "⍽" };

const LONGEST = 20000;

/**
 * Text as the model saw it, in a `pre`; whitespace is marked on demand, a long text opens on demand.
 * @param {string} text
 * @param {any} options
 */
export function exactText(text, { whitespace = false, marks = null, limit = LONGEST } = {}) {
  const node = element("pre", { class: "text", dir: "auto", tabindex: "0" });
  const fill = (shown) => {
    node.replaceChildren();
    let at = 0;
    for (const [from, to] of marks ?? []) {
      if (from >= shown) break;
      appendText(node, text.slice(at, from), whitespace);
      const mark = element("mark");
      appendText(mark, text.slice(from, Math.min(to, shown)), whitespace);
      node.append(mark);
      at = to;
    }
    if (at < shown) appendText(node, text.slice(at, shown), whitespace);
    if (shown < text.length) {
      const more = `… show all ${grouped(text.length)} characters`;
      node.append("\n", element("button", { type: "button", onclick: () => fill(text.length) }, more));
    }
  };
  fill(Math.min(text.length, limit));
  return node;
}

/**
 * @param {Element} node
 * @param {string} text
 * @param {boolean} whitespace
 */
export function appendText(node, text, whitespace) {
  const pattern = whitespace ? new RegExp(`${HIDDEN.source}|[ \\t\\n\\u00a0]`, "gu") : new RegExp(HIDDEN.source, "gu");
  let at = 0;
  for (const match of text.matchAll(pattern)) {
    if (match.index > at) node.append(text.slice(at, match.index));
    const character = match[0];
    if (VISIBLE[character]) node.append(element("span", { class: "white" }, VISIBLE[character]));
    else node.append(element("span", { class: "control", title: "a control character" }, controlName(character)));
    at = match.index + character.length;
  }
  if (at < text.length) node.append(text.slice(at));
}

/**
 * @param {string} character
 */
const controlName = (character) => {
  const code = Number(character.codePointAt(0));
  return code < 32 ? String.fromCodePoint(0x2400 + code) : `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
};

/**
 * A text without its middle, where it is longer: names differ at their ends.
 * @param {string} text
 * @param {number} most
 */
export const shortened = (text, most) =>
  text.length <= most ? text : `${text.slice(0, Math.ceil(most / 2) - 1)}…${text.slice(-Math.floor(most / 2))}`;

/**
 * A name that breaks between its words where it does not fit, and not within them.
 * @param {string} name
 */
export const breakable = (name) =>
  plainLine(name)
    .split(/(?<=[_@,/])/)
    .flatMap((part) => [element("wbr"), part]);

/**
 * One line of text for a list, without what could act on the page.
 * @param {string} text
 */
export const plainLine = (text) =>
  text.replace(new RegExp(HIDDEN.source, "gu"), controlName).replace(/\s+/g, " ").trim();

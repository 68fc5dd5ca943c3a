// Small helpers: elements, numbers and text that is shown exactly as it is.

/** An element with attributes and children; text children are never parsed as HTML. */
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style") node.style.cssText = value; // the policy of the page forbids style attributes
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const SVG = "http://www.w3.org/2000/svg";

/** An SVG element. */
function shape(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style") node.style.cssText = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

const fixed = (value, digits = 3) => (value === null || value === undefined ? "" : value.toFixed(digits));
const grouped = (value) => String(value).replace(/\B(?=(\d{3})+(?!\d))/g, " ");
const signed = (value, digits = 3) => (value >= 0 ? "+" : "−") + Math.abs(value).toFixed(digits);

/** Seconds in the largest units that matter. */
function duration(seconds) {
  const s = Number(seconds);
  if (!Number.isFinite(s)) return "";
  if (s < 90) return `${s.toFixed(1)} s`;
  const minutes = Math.round(s / 60);
  return minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// Characters that would act on the page or on the reader's eyes instead of being seen: controls, bidi overrides,
// zero-width characters. They are shown by name.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/;
const VISIBLE = { " ": "·", "\t": "→\t", "\n": "↵\n", "\u00a0": "⍽" };
const LONGEST = 20000;

/** Text as the model saw it, in a `pre`; whitespace is marked on demand, a long text opens on demand. */
function exactText(text, { whitespace = false, marks = null, limit = LONGEST } = {}) {
  const node = element("pre", { class: "text", dir: "auto" });
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

function appendText(node, text, whitespace) {
  const pattern = whitespace ? new RegExp(`${HIDDEN.source}|[ \\t\\n\\u00a0]`, "g") : new RegExp(HIDDEN.source, "g");
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

const controlName = (character) => {
  const code = character.codePointAt(0);
  return code < 32 ? String.fromCodePoint(0x2400 + code) : `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
};

/** A text without its middle, where it is longer: names differ at their ends. */
const shortened = (text, most) => (text.length <= most ? text : `${text.slice(0, Math.ceil(most / 2) - 1)}…${text.slice(-Math.floor(most / 2))}`);

/** One line of text for a list, without what could act on the page. */
const plainLine = (text) => text.replace(new RegExp(HIDDEN.source, "g"), controlName).replace(/\s+/g, " ").trim();

/** The ranges of the words of each text that the other does not have in the same order; of lines where there are too
 * many words to align them in a moment. What lies before the positions is compared with itself alone. */
function differingWords(left, right, leftStart = 0, rightStart = 0) {
  const shifted = (ranges, by) => ranges.map(([from, to]) => [from + by, to + by]);
  const before = alignedDifferences(left.slice(0, leftStart), right.slice(0, rightStart));
  const after = alignedDifferences(left.slice(leftStart), right.slice(rightStart));
  return [[...before[0], ...shifted(after[0], leftStart)], [...before[1], ...shifted(after[1], rightStart)]];
}

const WORDS = /\s+|[^\s]+/g;
const LINES = /[^\n]*\n|[^\n]+/g;
const MOST_PAIRS = 9e6;

function alignedDifferences(left, right, unit = WORDS) {
  const parts = (text) => [...text.matchAll(unit)].map((match) => [match[0], match.index]);
  let a = parts(left);
  let b = parts(right);
  let start = 0;
  while (start < a.length && start < b.length && a[start][0] === b[start][0]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end][0] === b[b.length - 1 - end][0]) end++;
  a = a.slice(start, a.length - end);
  b = b.slice(start, b.length - end);
  if (a.length * b.length > MOST_PAIRS) {
    if (unit === WORDS) return alignedDifferences(left, right, LINES);
    const whole = (rest) => [[rest[0][1], rest.at(-1)[1] + rest.at(-1)[0].length]];
    return [whole(a), whole(b)];
  }
  const width = b.length + 1;
  const longest = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      longest[i * width + j] = a[i][0] === b[j][0] ? longest[(i + 1) * width + j + 1] + 1 : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
  const marks = [[], []];
  const mark = (which, [word, at]) => {
    const last = marks[which].at(-1);
    if (last && last[1] === at) last[1] = at + word.length;
    else marks[which].push([at, at + word.length]);
  };
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i][0] === b[j][0]) (i++, j++);
    else if (j >= b.length || (i < a.length && longest[(i + 1) * width + j] >= longest[i * width + j + 1])) mark(0, a[i++]);
    else mark(1, b[j++]);
  }
  return marks;
}

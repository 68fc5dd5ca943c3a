// Text as its writer meant it: Markdown, code and mathematics as elements. Markup is never parsed as HTML: the parser
// gives tokens, of which elements are made, and whatever is no Markdown stays text.

/** @import { Token } from "marked" */

import { Marked } from "marked";
import temml from "temml";

import { appendText, element } from "./dom.js";

/** The longest text that is rendered, in characters. */
export const LONGEST_RENDERED = 40000;

const DELIMITERS = [
  { source: String.raw`\$\$([\s\S]+?)\$\$`, block: true },
  { source: String.raw`\\\[([\s\S]+?)\\\]`, block: true },
  { source: String.raw`\\\(([\s\S]+?)\\\)`, block: false },
  // As in Pandoc: no space inside the dollars, and no digit after them, so that prices stay prices.
  { source: String.raw`\$(?![\s$])((?:\\.|[^\\$\n])+?)(?<![\s\\])\$(?!\d)`, block: false },
];

/** @param {string} text */
function mathAt(text) {
  for (const { source, block } of DELIMITERS) {
    const match = new RegExp(`^(?:${source})`).exec(text);
    if (match) return { type: "math", raw: match[0], text: match[1].trim(), block };
  }
  return undefined;
}

const markdown = new Marked({
  extensions: [
    { name: "math", level: "inline", start: (text) => text.search(/\$|\\\(|\\\[/), tokenizer: mathAt },
    {
      name: "math",
      level: "block",
      start: (text) => text.search(/\$\$|\\\[/),
      tokenizer: (text) => {
        const math = mathAt(text);
        return math?.block ? math : undefined;
      },
    },
  ],
});

/**
 * A text with its Markdown, code and mathematics rendered.
 * @param {string} text
 * @param {(index: number) => Node | null} [picture] gives the picture that a placeholder stands for
 */
export function renderedText(text, picture = () => null) {
  const node = element("div", { class: "rendered", dir: "auto", tabindex: "0" });
  const pictures = { count: 0, picture };
  node.append(...nodes(markdown.lexer(text), pictures));
  return node;
}

/**
 * @param {Token[] | undefined} tokens
 * @param {{ count: number, picture: (index: number) => Node | null }} pictures
 * @returns {Node[]}
 */
const nodes = (tokens, pictures) => (tokens ?? []).flatMap((token) => node(token, pictures));

/** @param {string} text */
function plain(text) {
  const fragment = element("span");
  appendText(fragment, text, false);
  return [...fragment.childNodes];
}

/**
 * @param {any} token
 * @param {{ count: number, picture: (index: number) => Node | null }} pictures
 * @returns {Node[]}
 */
function node(token, pictures) {
  const inner = () => nodes(token.tokens, pictures);
  switch (token.type) {
    case "space":
    case "def":
      return [];
    case "heading":
      return [element("p", { class: `heading h${token.depth}` }, ...inner())];
    case "paragraph":
      return [element("p", {}, ...inner())];
    case "blockquote":
      return [element("blockquote", {}, ...inner())];
    case "strong":
    case "em":
    case "del":
      return [element(token.type, {}, ...inner())];
    case "code":
      return [element("pre", { class: "code", tabindex: "0" }, element("code", {}, ...plain(token.text)))];
    case "codespan":
      return [element("code", {}, ...plain(token.text))];
    case "br":
      return [element("br")];
    case "hr":
      return [element("hr")];
    case "list":
      return [
        element(
          token.ordered ? "ol" : "ul",
          token.ordered && token.start !== 1 ? { start: token.start } : {},
          ...token.items.map((item) => element("li", {}, ...nodes(item.tokens, pictures))),
        ),
      ];
    case "table": {
      const cells = (tag, row) =>
        element("tr", {}, ...row.map((cell) => element(tag, {}, ...nodes(cell.tokens, pictures))));
      return [
        element(
          "table",
          {},
          element("thead", {}, cells("th", token.header)),
          element("tbody", {}, ...token.rows.map((row) => cells("td", row))),
        ),
      ];
    }
    case "link": // nothing that a model writes is a link to click
      return [element("span", { class: "link", title: token.href }, ...inner())];
    case "math":
      return [mathematics(token)];
    case "html":
      return placeholders(token.raw, pictures);
    case "text":
      return token.tokens ? inner() : placeholders(token.text, pictures);
    case "escape":
      return plain(token.text);
    default:
      return plain(token.raw);
  }
}

/**
 * Text in which `<image>` stands for a picture.
 * @param {string} text
 * @param {{ count: number, picture: (index: number) => Node | null }} pictures
 */
function placeholders(text, pictures) {
  return text.split(/(<image>|<audio>)/).flatMap((part) => {
    const shown = /^<(image|audio)>$/.test(part) ? pictures.picture(pictures.count++) : null;
    return shown ? [shown] : part ? plain(part) : [];
  });
}

/** @param {{ text: string, raw: string, block: boolean }} token */
function mathematics({ text, raw, block }) {
  const holder = element("span", { class: block ? "math block" : "math" });
  try {
    temml.render(text, holder, {
      displayMode: block,
      throwOnError: true,
      trust: false,
      maxSize: [20, 500],
      maxExpand: 200,
    });
  } catch {
    holder.replaceChildren(element("code", {}, ...plain(raw))); // as it was written
  }
  return holder;
}

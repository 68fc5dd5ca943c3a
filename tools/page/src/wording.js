// What the wording costs: how forms agree on documents, and the questions that flip most.

/** @import { Comparison, Report } from "./types.d.ts" */

import { chart } from "./charts.js";
import { WRONG } from "./data.js";
import { element, plainLine } from "./dom.js";
import { columnName, inColumn, inRun, shortFormat } from "./labels.js";
import { counted, percent } from "./numbers.js";
import { showDocument, showSamples } from "./tabs.js";

/** How many tasks have their bars open. */
const OPEN = 3;

/**
 * The bar and the sentence of a comparison, as the terminal has them; its parts open the documents.
 * @param {Report} report
 * @param {Comparison} entry
 * @param {boolean} named
 */
function rightness(report, entry, named) {
  const names = entry.forms.map(({ label }) => inColumn(report, label, entry.run));
  const within = new Set(report.forms.map(({ task }) => task)).size > 1 && report.heads[entry.task];
  const filter = (/** @type {string[]} */ ...clauses) =>
    clauses.map((clause) => (within ? `${clause} and task ${entry.task}` : clause)).join(" or ");
  const every = (/** @type {string} */ word) => filter(names.map((name) => `${word} in ${name}`).join(" and "));
  // Where forms disagree, one of them is right and the next, or the first after the last, is wrong.
  const some = report.forms.every((form) => names.includes(columnName(report, form)))
    ? filter("flips")
    : filter(...names.map((name, at) => `right in ${name} and wrong in ${names[(at + 1) % names.length]}`));
  const parts = /** @type {const} */ ([
    ["all", "all forms", Number(entry.all), "right under all forms", every("right")],
    ["some", "some", Number(entry.some), "right under some forms", some],
    ["no", "none", Number(entry.none), "right under no form", every("wrong")],
  ]);
  const documents = `of ${counted(entry.n, "document")}`;
  return element(
    "div",
    { "data-right": entry.row },
    ...(named ? [element("h3", {}, plainLine(entry.row ?? ""))] : []),
    element(
      "div",
      { class: "parts" },
      ...parts
        .filter(([, , value]) => value)
        .map(([kind, , value, words, shown]) =>
          element(
            "button",
            {
              type: "button",
              class: `part ${kind}`,
              style: `flex:${value}`,
              title: `${words}: ${percent(value)} ${documents}`,
              "aria-label": `${named ? `${entry.row}: ` : ""}${percent(value)} ${words}, ${documents}, show them`,
              onclick: () => showSamples(shown),
            },
            value > 0.12 ? percent(value) : "",
          ),
        ),
    ),
    element(
      "p",
      { class: "legend-line small" },
      ...parts.map(([kind, label, value]) =>
        element("span", {}, element("i", { class: `swatch ${kind}` }), `${label} ${percent(value)}`),
      ),
      element("span", { class: "soft" }, documents),
    ),
    element(
      "p",
      { class: "small" },
      "Two forms disagree on ",
      element("b", { "data-flip-rate": entry.flips }, percent(Number(entry.flips))),
      " of the documents on average.",
    ),
  );
}

/**
 * Right under all, some and no forms; and for each pair of forms, the documents on which they disagree.
 * @param {Report} report
 */
export function wordingCost(report) {
  const run = report.runs.length - 1;
  const { flips } = report.overview;
  if (!flips) return [];
  const compared = report.tasks.filter((entry) => entry.run === run && entry.row && entry.flips !== null);
  const bars = compared.map((entry) => rightness(report, entry, compared.length > 1));
  const name = (format) => shortFormat(report, format);
  const filter = (row) =>
    `right in ${inColumn(report, name(row.right), run)} and wrong in ${inColumn(report, name(row.wrong), run)}`;
  return [
    element(
      "div",
      { class: "panel cost" },
      element("h2", {}, inRun(report, "What the wording costs", run)),
      ...bars.slice(0, OPEN),
      ...(bars.length > OPEN
        ? [element("details", {}, element("summary", {}, `${bars.length - OPEN} more`), ...bars.slice(OPEN))]
        : []),
      element("p", { class: "soft small" }, "Documents that the row gets right and the column wrong"),
      chart(flips, {
        cells: {
          name,
          words: (row) => `${filter(row)}: ${counted(row.documents, "document")}`,
          onCell: (row) => showSamples(filter(row), true),
        },
      }),
    ),
  ];
}

/**
 * The questions whose answer depends most on the form, with what each form picked.
 * @param {Report} report
 */
export function flippingQuestions(report) {
  const run = report.runs.length - 1;
  const names = report.overview.flips?.panels[0].x.names ?? [];
  const documents = new Map();
  report.forms.forEach((form, number) => {
    if (form.run !== run || form.family !== "accuracy" || !names.includes(form.format ?? "as written")) return;
    form.docs.forEach((doc, position) => {
      const right = form.scores[position] === 1;
      if (!right && !(form.flags[position] & WRONG)) return;
      const key = `${form.task}/${doc}`;
      const entry = documents.get(key) ?? { key, task: form.task, doc, right: 0, places: [] };
      documents.set(key, entry);
      entry.right += Number(right);
      entry.places.push({ form: number, position });
    });
  });
  const flipping = ({ right, places }) => Math.min(right, places.length - right);
  const most = [...documents.values()]
    .filter((entry) => flipping(entry))
    .sort((a, b) => flipping(b) - flipping(a))
    .slice(0, 5);
  if (!most.length) return [];
  const chip = (key, { form, position }) => {
    const { picks, scores } = report.forms[form];
    const right = scores[position] === 1;
    return element(
      "button",
      {
        type: "button",
        class: `chip ${right ? "ok" : "no"}`,
        title: `${columnName(report, report.forms[form])}: ${right ? "right" : "wrong"}, show it`,
        onclick: () => showDocument(key, form),
      },
      `${right ? "✓" : "✗"} ${columnName(report, report.forms[form])} `,
      element("b", {}, plainLine(picks[position] || "nothing")),
    );
  };
  const lines = most.map((entry) =>
    element(
      "li",
      {},
      element(
        "button",
        {
          type: "button",
          class: "plain question",
          onclick: () => showDocument(entry.key),
        },
        plainLine(report.heads[entry.task]?.[entry.doc] ?? entry.key),
      ),
      element(
        "div",
        { class: "chips" },
        ...entry.places.slice(0, 24).map((place) => chip(entry.key, place)),
        ...(entry.places.length > 24
          ? [element("span", { class: "soft small" }, `and ${entry.places.length - 24} more forms`)]
          : []),
      ),
    ),
  );
  return [
    element(
      "div",
      { class: "panel questions" },
      element("h2", {}, inRun(report, "The questions that flip most", run)),
      element("ol", {}, ...lines),
    ),
  ];
}

// What the wording costs: how forms agree on documents, and the questions that flip most.

/** @import { Report } from "./types.d.ts" */

import { WRONG } from "./data.js";
import { element, plainLine } from "./dom.js";
import { columnName } from "./labels.js";
import { grouped, share } from "./numbers.js";
import { showSamples, showTab } from "./tabs.js";

/**
 * The forms of a run that are right or wrong, by the name of their column, with all documents that they judge.
 * @param {Report} report
 * @param {number} run
 */
function judgedDocuments(report, run) {
  const forms = report.forms
    .map((form, number) => ({ form, number }))
    .filter(({ form }) => form.run === run && form.docs.length && form.family === "accuracy" && form.higher !== false);
  const columns = [...new Set(forms.map(({ form }) => columnName(report, form)))];
  const documents = new Map();
  for (const { form, number } of forms) {
    const column = columns.indexOf(columnName(report, form));
    form.docs.forEach((doc, position) => {
      if (form.scores[position] !== 1 && !(form.flags[position] & WRONG)) return;
      const key = `${form.task}/${doc}`;
      if (!documents.has(key))
        documents.set(key, { key, task: form.task, doc, right: Array(columns.length).fill(null), places: [] });
      documents.get(key).right[column] = form.scores[position] === 1;
      documents.get(key).places.push({ form: number, position });
    });
  }
  return { columns, documents: [...documents.values()] };
}

/**
 * Right under all, some and no forms; how often two forms flip; and each pair of forms, whose cells open the documents.
 * @param {Report} report
 */
export function wordingCost(report) {
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
  const part = (count, kind, words, filter) =>
    element(
      "button",
      {
        type: "button",
        class: `part ${kind}`,
        style: `flex:${count || 0.001}`,
        title: `${words}: ${count} of ${whole.length}`,
        "aria-label": `${share(count, whole.length)} ${words}: ${count} of ${whole.length} documents, show them`,
        onclick: () => showSamples(filter),
      },
      count / whole.length > 0.08 ? share(count, whole.length) : "",
    );
  const cell = (a, b) =>
    element(
      "td",
      {
        style: `background:color-mix(in srgb, var(--accent) ${Math.round((100 * counts[a][b]) / whole.length / 1.6)}%, var(--panel))`,
      },
      a === b
        ? ""
        : element(
            "button",
            {
              type: "button",
              class: "plain",
              title: `right in ${columns[a]}, wrong in ${columns[b]}: ${counts[a][b]} of ${whole.length}`,
              "aria-label": `right in ${columns[a]} and wrong in ${columns[b]}: ${counts[a][b]} documents, show them`,
              onclick: () => showSamples(`right in ${columns[a]} and wrong in ${columns[b]}`),
            },
            grouped(counts[a][b]),
          ),
    );
  return [
    element(
      "div",
      { class: "panel cost" },
      element(
        "h2",
        {},
        report.runs.length > 1 ? `What the wording costs · ${report.runs[run].short}` : "What the wording costs",
      ),
      element(
        "div",
        { class: "parts" },
        part(all, "all", "right under all forms", every("right")),
        part(some, "some", "right under some forms", "flips"),
        part(none, "no", "right under no form", every("wrong")),
      ),
      element(
        "p",
        { class: "legend-line small" },
        element("span", {}, element("i", { class: "swatch all" }), `all forms ${share(all, whole.length)}`),
        element("span", {}, element("i", { class: "swatch some" }), `some ${share(some, whole.length)}`),
        element("span", {}, element("i", { class: "swatch no" }), `none ${share(none, whole.length)}`),
        element("span", { class: "soft" }, `of ${grouped(whole.length)} document${whole.length === 1 ? "" : "s"}`),
      ),
      element(
        "p",
        { class: "small" },
        "Two forms disagree on ",
        element("b", { "data-flip-rate": rate }, `${(100 * rate).toFixed(1)} %`),
        " of the documents on average.",
      ),
      element(
        "div",
        { class: "wide" },
        element(
          "table",
          { class: "flips" },
          element("caption", { class: "soft small" }, "Documents that the row gets right and the column wrong"),
          element(
            "thead",
            {},
            element("tr", {}, element("td", {}), ...columns.map((name) => element("th", { scope: "col" }, name))),
          ),
          element(
            "tbody",
            {},
            ...columns.map((name, a) =>
              element("tr", {}, element("th", { scope: "row" }, name), ...columns.map((_, b) => cell(a, b))),
            ),
          ),
        ),
      ),
    ),
  ];
}

/**
 * The questions whose answer depends most on the form, with what each form picked.
 * @param {Report} report
 */
export function flippingQuestions(report) {
  const run = report.runs.length - 1;
  const { columns, documents } = judgedDocuments(report, run);
  if (columns.length < 2) return [];
  const flipping = ({ right }) =>
    Math.min(right.filter((value) => value === true).length, right.filter((value) => value === false).length);
  const most = documents
    .filter((entry) => flipping(entry))
    .sort((a, b) => flipping(b) - flipping(a))
    .slice(0, 5);
  if (!most.length) return [];
  const chip = ({ form, position }) => {
    const { picks, scores } = report.forms[form];
    const right = scores[position] === 1;
    return element(
      "span",
      {
        class: `chip ${right ? "ok" : "no"}`,
        title: `${columnName(report, report.forms[form])}: ${right ? "right" : "wrong"}`,
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
          onclick: () => {
            showTab("samples");
            globalThis.browser?.openKey(entry.key);
          },
        },
        plainLine(report.heads[entry.task]?.[entry.doc] ?? entry.key),
      ),
      element(
        "div",
        { class: "chips" },
        ...entry.places.slice(0, 24).map(chip),
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
      element("h2", {}, "The questions that flip most"),
      element("ol", {}, ...lines),
    ),
  ];
}

// What changed between runs: every group and form that two of them have.

/** @import { Report } from "./types.d.ts" */

import { breakable, element } from "./dom.js";
import { counted, fixed, grouped, pText, signed } from "./numbers.js";
import { makeSortable } from "./table.js";
import { showSamples } from "./tabs.js";

/**
 * Every group and form that two runs have: groups first, then the largest losses; a click shows the documents.
 * @param {Report} report
 */
export function changesPanel(report) {
  const gain = (change) => (change.higher ? change.difference : -change.difference);
  const sorted = [...report.overview.changes].sort(
    (a, b) => Number(a.kind === "form") - Number(b.kind === "form") || gain(a) - gain(b),
  );
  const name = (change, run) => {
    const form = report.forms.find((entry) => entry.name === change.name && entry.run === run);
    const label = form?.short ?? change.name.split("@")[1] ?? change.name;
    return `${label} (${report.runs[run].short})`;
  };
  const scope = (change) =>
    change.kind === "form" && new Set(report.forms.map((form) => form.task)).size > 1
      ? ` and task ${change.name.split("@")[0]}`
      : "";
  const filter = (change, worse) =>
    `${worse ? "right" : "wrong"} in ${name(change, change.first)} and ${worse ? "wrong" : "right"} in ${name(change, change.second)}${scope(change)}`;
  const count = (change, worse) =>
    change[worse ? "lowered" : "raised"]
      ? element(
          "button",
          {
            type: "button",
            class: "plain",
            "aria-label": `${change.name}: ${counted(change[worse ? "lowered" : "raised"], "document")} ${worse ? "lost" : "won"}, show them`,
            onclick: () => showSamples(filter(change, worse)),
          },
          grouped(change[worse ? "lowered" : "raised"]),
        )
      : "0";
  const rows = sorted.map((change) =>
    element(
      "tr",
      { class: change.kind, "data-change": change.name },
      element(
        "th",
        { scope: "row" },
        ...breakable(change.name),
        report.runs.length > 2 ? ` · ${report.runs[change.second].short} − ${report.runs[change.first].short}` : "",
      ),
      element("td", { class: "number" }, fixed(change.before)),
      element("td", { class: "number" }, fixed(change.after)),
      element(
        "td",
        { class: `number ${change.p !== null && change.p < 0.05 ? (gain(change) < 0 ? "no" : "ok") : ""}` },
        element("b", {}, signed(change.difference)),
      ),
      element(
        "td",
        { class: "number soft" },
        change.low === null ? "" : `${signed(change.low)} to ${signed(change.high)}`,
      ),
      element("td", { class: "number" }, change.p === null ? "" : pText(change.p).replace("p = ", "")),
      element("td", { class: "number" }, count(change, true)),
      element("td", { class: "number" }, count(change, false)),
    ),
  );
  const table = element(
    "table",
    { class: "changes sortable" },
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        ...[
          "Group or form",
          report.runs.length === 2 ? report.runs[0].short : "before",
          report.runs.length === 2 ? report.runs[1].short : "after",
          "Difference",
          "95 % interval",
          "p",
          "lost",
          "won",
        ].map((head, at) => element("th", { scope: "col", class: at ? "number" : "" }, head)),
      ),
    ),
    element("tbody", {}, ...rows),
  );
  makeSortable(table);
  return element(
    "div",
    { class: "panel" },
    element("h2", {}, "What changed between the runs"),
    element(
      "p",
      { class: "soft small" },
      "Groups first, then the forms that lost most; intervals and p hold for all forms, and for all groups, at once, as in multiform compare.",
    ),
    element("div", { class: "wide tall" }, table),
  );
}

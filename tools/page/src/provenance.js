// Which runs these are, the command that reproduces them, and the exact templates.

/** @import { Report } from "./types.d.ts" */

import { element, exactText, plainLine } from "./dom.js";
import { formLabel } from "./labels.js";
import { duration } from "./numbers.js";
import { copyButton } from "./state.js";

/**
 * Which runs these are: model, when, how long and how much was computed.
 * @param {Report} report
 */
export function aboutRuns(report) {
  const words = (run) =>
    [...run.settings, run.date, run.seconds ? duration(run.seconds) : "", run.usage].filter(Boolean).join(" · ");
  return element(
    "ul",
    { class: "about" },
    ...report.runs.map((run) =>
      element(
        "li",
        {},
        ...(run.short === run.label ? [] : [element("b", {}, run.short), " "]),
        element("b", {}, plainLine(run.model)),
        element("span", { class: "soft" }, ` · ${words(run)}`),
      ),
    ),
  );
}

/**
 * @param {Report} report
 */
export function provenanceSection(report) {
  const json = (value) => exactText(JSON.stringify(value, null, 2));
  const lazily = (summary, make) => {
    const node = element("details", {}, element("summary", {}, summary));
    node.addEventListener("toggle", () => {
      if (node.open && node.childElementCount === 1) node.append(make());
    });
    return node;
  };
  const runs = report.runs.map((run) =>
    element(
      "div",
      { class: "panel" },
      element("h3", {}, run.label),
      element(
        "table",
        {},
        element(
          "tbody",
          {},
          ...run.facts.map(([name, value]) =>
            element(
              "tr",
              {},
              element("th", {}, name),
              element("td", {}, element("code", {}, plainLine(String(value)))),
            ),
          ),
        ),
      ),
      ...(run.command
        ? [
            element("p", { class: "small" }, "To get these numbers again: ", copyButton(run.command, "the command")),
            exactText(run.command),
          ]
        : []),
      lazily("settings of the run", () => json(run.config)),
      lazily("software and machine", () => exactText(run.environment ?? "not in the file")),
    ),
  );
  const forms = report.forms.map((form) =>
    lazily(`${formLabel(report, form)} (${form.identity})`, () =>
      json({ ...form.config, format: form.format_fields, overridden: form.overridden }),
    ),
  );
  return [...runs, element("h3", {}, "The exact templates of each form"), ...forms];
}

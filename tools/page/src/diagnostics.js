// Position bias and calibration of each form.

/** @import { Report } from "./types.d.ts" */

import { chart } from "./charts.js";
import { element } from "./dom.js";
import { listLabel } from "./labels.js";
import { panelsOf } from "./scores.js";
import { term } from "./terms.js";

/**
 * @param {Report} report
 */
export function biasSection(report) {
  const shown = report.forms.filter((form) => form.position || form.calibration);
  return shown.length
    ? panelsOf(
        shown.map((form) => [
          `${listLabel(report, form)}: ${form.position?.words ?? form.calibration?.words}`,
          () =>
            element(
              "div",
              { class: "panel" },
              element("h3", { title: form.name }, listLabel(report, form)),
              ...(form.position
                ? [
                    element(
                      "p",
                      { class: "soft small" },
                      `Picked by position (bars) and right answers (lines): ${form.position.words}.`,
                    ),
                    chart(form.position.chart),
                  ]
                : []),
              ...(form.calibration
                ? [
                    element(
                      "p",
                      { class: "soft small" },
                      term("calibration", "Calibration"),
                      `: ${form.calibration?.words}.`,
                    ),
                    chart(form.calibration.chart),
                  ]
                : []),
            ),
        ]),
        "grid",
      )
    : [];
}

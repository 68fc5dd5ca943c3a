// The report on one or more runs: its tabs with their sections, and the browser of samples.

/** @import { Report } from "./types.d.ts" */
/** @import { SampleSource } from "./data.js" */

import { biasSection } from "./diagnostics.js";
import { differencesSection } from "./differences.js";
import { byId, element } from "./dom.js";
import { overviewSection } from "./overview.js";
import { aboutRuns, provenanceSection } from "./provenance.js";
import { SampleBrowser } from "./samples.js";
import { scoresSection, verdictsSection } from "./scores.js";
import { buildTabs, followAddress, page } from "./tabs.js";
import { wordingsSection } from "./wordings.js";

/**
 * Fills the page.
 * @param {Report} report
 * @param {SampleSource} source
 */
export function buildPage(report, source) {
  const section = (id, heading, content) =>
    content.length ? [element("section", { id }, heading ? element("h2", {}, heading) : null, ...content)] : [];
  const browser = element("section", { id: "browser" }, element("h2", { class: "sr" }, "Samples"));
  byId("report").append(aboutRuns(report));
  /** @type {[string, string, Node[]][]} */
  const tabs = [
    [
      "overview",
      "Overview",
      [...section("first", "", overviewSection(report)), ...section("scores", "", scoresSection(report))],
    ],
    ["samples", "Samples", [browser]],
    [
      "differences",
      "Differences",
      [
        ...section("wordings", "Score over wordings", wordingsSection(report)),
        ...section("pairs", "Differences", differencesSection(report)),
      ],
    ],
    [
      "diagnostics",
      "Diagnostics",
      [
        ...section("verdicts", "Is it noise?", verdictsSection(report)),
        ...section("bias", "Position and calibration", biasSection(report)),
      ],
    ],
    ["provenance", "Provenance", section("origin", "Runs and templates", provenanceSection(report))],
  ];
  buildTabs(tabs.filter(([, , sections]) => sections.length));
  if (report.forms.some((form) => form.docs.length)) page.browser = new SampleBrowser(report, source, browser);
  else browser.append(element("p", { class: "soft" }, "The run wrote no samples: add --log_samples to see them here."));
  followAddress();
}

// A report in one file: all data are in the page.

import { SampleSource, inflate } from "./data.js";
import { buildPage } from "./report.js";

/** Shows the report whose data are in the page. */
export async function showEmbedded() {
  const report = await inflate("data");
  const picture = async (sha256) =>
    document.getElementById(`media-${sha256}`) ? `data:image/jpeg;base64,${await inflate(`media-${sha256}`)}` : null;
  buildPage(report, new SampleSource(report, (number) => inflate(`samples-${number}`), picture));
}

// The notes of a reader on documents, kept in the browser.

/** @import { Doc, Report } from "./types.d.ts" */

import { element, plainLine } from "./dom.js";
import { remembered } from "./state.js";

/** @param {Report} report */
const place = (report) => `notes ${report.title} ${report.forms[0]?.identity ?? ""}`;

/**
 * The notes by the key of their document.
 * @param {Report} report
 * @returns {Record<string, string>}
 */
export function readNotes(report) {
  try {
    return JSON.parse(remembered((storage) => storage.getItem(place(report))) ?? "{}");
  } catch {
    return {};
  }
}

/**
 * A field for a note on a document.
 * @param {Report} report
 * @param {Doc} document
 * @param {() => void} changed
 */
export function noteBox(report, document, changed) {
  const about = `note on ${plainLine(document.task)} ${document.doc}, kept in this browser`;
  const box = element("textarea", { class: "note", rows: "2", placeholder: about, "aria-label": about });
  box.value = readNotes(report)[document.key] ?? "";
  box.addEventListener("change", () => {
    const notes = readNotes(report);
    if (box.value.trim()) notes[document.key] = box.value;
    else delete notes[document.key];
    remembered((storage) => storage.setItem(place(report), JSON.stringify(notes)));
    changed();
  });
  return box;
}

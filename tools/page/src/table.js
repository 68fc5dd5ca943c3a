// Tables that sort and search their rows, and tables as files.

/**
 * How a table is sorted and searched; kept where the table is made anew, so that nothing jumps.
 * @typedef {object} TableState
 * @property {number} column that sorts the rows; -1 is the order in which they came
 * @property {boolean} up
 * @property {string} words that a row must have
 */

import { element } from "./dom.js";

/** @returns {TableState} */
export const newTableState = () => ({ column: -1, up: true, words: "" });

/**
 * What a cell holds: `data-value` where it has one, else its text, as a number where it is one.
 * @param {HTMLTableRowElement} row
 * @param {number} column
 */
function cellValue(row, column) {
  const cell = row.cells[column];
  const text = (cell?.dataset.value ?? cell?.textContent ?? "").trim();
  const number = Number(text.replaceAll(/[ ,]/g, "").replace("−", "-").replace("<", ""));
  return text === "" ? null : Number.isNaN(number) ? text : number;
}

/**
 * Lets the heads of a table sort its rows, as numbers where they are numbers; empty cells come last.
 * @param {HTMLTableElement} table
 * @param {TableState} [state]
 */
export function makeSortable(table, state = newTableState()) {
  const heads = /** @type {HTMLTableCellElement[]} */ ([...table.querySelectorAll("thead th")]);
  const sort = () => {
    const { column, up } = state;
    heads.forEach((head) => {
      if (head.hasAttribute("aria-sort"))
        head.setAttribute("aria-sort", head.cellIndex === column ? (up ? "ascending" : "descending") : "none");
    });
    if (column < 0) return;
    const order = (a, b) => {
      const [x, y] = [cellValue(a, column), cellValue(b, column)];
      if (x === null || y === null) return Number(x === null) - Number(y === null);
      const less = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
      return up ? less : -less;
    };
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort(order));
  };
  heads.forEach((head) => {
    const column = head.cellIndex;
    if (!head.textContent?.trim()) return;
    head.setAttribute("aria-sort", "none");
    const onclick = () => {
      [state.up, state.column] = [state.column === column ? !state.up : true, column];
      sort();
    };
    head.replaceChildren(element("button", { type: "button", class: "plain sort", onclick }, ...head.childNodes));
  });
  sort();
}

/**
 * Hides the rows of a table that lack one of the words; returns how many are left.
 * @param {HTMLTableElement} table
 * @param {string} words
 */
export function searchRows(table, words) {
  const sought = words.toLowerCase().split(/\s+/).filter(Boolean);
  let left = 0;
  for (const row of table.tBodies[0].rows) {
    const text = (row.textContent ?? "").toLowerCase();
    row.hidden = !sought.every((word) => text.includes(word));
    if (!row.hidden) left += 1;
  }
  return left;
}

/**
 * Rows as CSV. A leading = + - @ would be a formula in a spreadsheet.
 * @param {unknown[][]} rows
 */
export function csvText(rows) {
  const quoted = (value) => {
    const text = String(value ?? "");
    const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return `"${safe.replaceAll('"', '""')}"`;
  };
  return rows.map((row) => row.map(quoted).join(",")).join("\r\n");
}

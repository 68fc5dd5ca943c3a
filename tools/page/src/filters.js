// Filters with operators: `wrong in mcqa and right in cloze`, `not extracted or truncated`, `subject anatomy`,
// `length > 2000`, `margin < 0.1 in mcqa`.

/** @import { Doc, Form, Place, Report } from "./types.d.ts" */

import { FAILED, PROMPT_TRUNCATED, TRUNCATED, UNREADABLE, WRONG } from "./data.js";
import { columnName } from "./labels.js";

/**
 * A part of a filter: a test, or what is wrong with it; `forms` are those that it names.
 * @typedef {{ test: (document: Doc) => boolean, problem?: string, forms?: Set<number> }} Clause
 */

/** @type {Record<string, (form: Form, at: number) => boolean>} */
const VERDICTS = {
  right: (form, at) => form.scores[at] === 1,
  wrong: (form, at) => Boolean(form.flags[at] & WRONG),
  "not extracted": (form, at) => Boolean(form.flags[at] & UNREADABLE),
  truncated: (form, at) => Boolean(form.flags[at] & (TRUNCATED | PROMPT_TRUNCATED)),
  failed: (form, at) => Boolean(form.flags[at] & FAILED),
};
/**
 * The numbers of a sample: characters of its prompt, and the best log-likelihood minus the second.
 * @type {Record<string, (form: Form, at: number) => number | null>}
 */
const NUMBERS = {
  length: (form, at) => form.lengths[at],
  margin: (form, at) => form.margins[at] ?? null,
  score: (form, at) => form.scores[at],
};
const COMPARISON = new RegExp(
  `^(${Object.keys(NUMBERS).join("|")})\\s*(<=|>=|<|>|=)\\s*(-?[\\d.]+)(?:\\s+in\\s+(.+))?$`,
  "i",
);

export const FILTER_WORDS = `${Object.keys(VERDICTS).join(", ")}, each with "in FORM" or "in all"; ${Object.keys(NUMBERS).join(", ")} with < or > and a number; flips, changes, noted, subject NAME, doc NUMBER; joined by "and" and "or"`;

/**
 * Whether forms that agree in `same` (a run, a name) got the document right and wrong.
 * @param {Report} report
 * @param {Doc} document
 * @param {"run" | "name"} same
 */
export function disagrees(report, document, same) {
  const verdicts = new Map();
  for (const { form, position } of document.places) {
    const { scores, flags, higher, [same]: key } = report.forms[form];
    if (scores[position] === null || higher === false) continue;
    const wrong = Boolean(flags[position] & WRONG);
    if ((verdicts.get(key) ?? wrong) !== wrong) return true;
    verdicts.set(key, wrong);
  }
  return false;
}

/**
 * The test of documents that a filter describes, with the numbers of the forms that each of its parts names. "and" binds
 * before "or".
 * @param {string} text
 * @param {Report} report
 * @param {(document: Doc) => boolean} [isNoted]
 */
export function parseFilter(text, report, isNoted = () => false) {
  const clauses = (part) => part.split(/\s+and\s+/i).map((clause) => parseClause(clause.trim(), report, isNoted));
  const parts = text.trim()
    ? text
        .trim()
        .split(/\s+or\s+/i)
        .map(clauses)
    : [];
  const problem = parts.flat().find((clause) => clause.problem)?.problem ?? null;
  const forms = parts.flat().flatMap((clause) => clause.forms ?? []);
  /** @param {Doc} document */
  const test = (document) =>
    problem !== null || !parts.length || parts.some((part) => part.every((clause) => clause.test(document)));
  return { problem, forms, test };
}

/**
 * @param {string} clause
 * @param {Report} report
 * @param {(document: Doc) => boolean} isNoted
 * @returns {Clause}
 */
function parseClause(clause, report, isNoted) {
  const lower = clause.toLowerCase();
  const named = (word) =>
    lower.startsWith(`${word} `)
      ? clause
          .slice(word.length + 1)
          .trim()
          .replace(/^"(.*)"$/, "$1")
      : null;
  if (lower === "flips") return { test: (document) => disagrees(report, document, "run") };
  if (lower === "changes") return { test: (document) => disagrees(report, document, "name") };
  if (lower === "noted") return { test: isNoted };
  const subject = named("subject") ?? named("task");
  if (subject !== null) {
    if (!report.forms.some((form) => form.task === subject)) return refused(`there is no task "${subject}"`);
    return { test: (document) => document.task === subject };
  }
  const number = named("doc");
  if (number !== null) return { test: (document) => String(document.doc) === number };
  const comparison = COMPARISON.exec(clause);
  if (comparison) {
    const [, name, operator, bound, where] = comparison;
    return inForms(report, where ?? null, (form, at) =>
      compares(NUMBERS[name.toLowerCase()](form, at), operator, Number(bound)),
    );
  }
  const verdict = Object.keys(VERDICTS).find((word) => lower === word || lower.startsWith(`${word} in `));
  if (!verdict) return refused(`"${clause}" is no filter; there are ${FILTER_WORDS}`);
  return inForms(report, named(`${verdict} in`), VERDICTS[verdict]);
}

/**
 * @param {string} problem
 * @returns {Clause}
 */
const refused = (problem) => ({ problem, test: () => true });

/**
 * @param {number | null} value
 * @param {string} operator
 * @param {number} bound
 */
function compares(value, operator, bound) {
  if (value === null) return false;
  if (operator === "=") return value === bound;
  if (operator.startsWith("<")) return value < bound || (operator === "<=" && value === bound);
  return value > bound || (operator === ">=" && value === bound);
}

/**
 * A test of any form, of all, or of the one that is named.
 * @param {Report} report
 * @param {string | null} name
 * @param {(form: Form, at: number) => boolean} holdsIn
 * @returns {Clause}
 */
function inForms(report, name, holdsIn) {
  /** @param {Place} place */
  const holds = ({ form, position }) => holdsIn(report.forms[form], position);
  if (name === null) return { test: (document) => document.places.some(holds) };
  if (name.toLowerCase() === "all") return { test: (document) => document.places.every(holds) };
  const names = (form) => [
    form.name,
    form.short,
    form.format,
    columnName(report, form),
    `${form.name} (${report.runs[form.run].short})`,
  ];
  const forms = new Set(report.forms.flatMap((form, number) => (names(form).includes(name) ? [number] : [])));
  if (forms.size)
    return { forms, test: (document) => document.places.some((place) => forms.has(place.form) && holds(place)) };
  const known = [...new Set(report.forms.map((form) => columnName(report, form)))];
  return refused(`there is no form "${name}"; there are ${known.join(", ")}`);
}

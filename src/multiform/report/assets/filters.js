// Filters with operators: `wrong in mcqa and right in cloze`, `not extracted or truncated`, `task anatomy`, `doc 7`.

const VERDICTS = {
  right: (form, at) => form.scores[at] === 1,
  wrong: (form, at) => Boolean(form.flags[at] & WRONG),
  "not extracted": (form, at) => Boolean(form.flags[at] & UNREADABLE),
  truncated: (form, at) => Boolean(form.flags[at] & (TRUNCATED | PROMPT_TRUNCATED)),
  failed: (form, at) => Boolean(form.flags[at] & FAILED),
};
const FILTER_WORDS = `${Object.keys(VERDICTS).join(", ")}, each with "in FORM" or "in all"; flips, changes, task NAME, doc NUMBER; joined by "and" and "or"`;

/** The name of a column of the matrix of samples: a format, and the run where there are several. */
const columnName = (report, form) => (report.runs.length > 1 ? `${form.short} (${report.runs[form.run].short})` : form.short);

/** Whether forms that agree in `same` (a run, a name) got the document right and wrong. */
function disagrees(report, document, same) {
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

/** The test of documents that a filter describes: {test, problem}, with the numbers of the forms that it names first. "and" binds before "or". */
function parseFilter(text, report) {
  const parts = text.trim() ? text.trim().split(/\s+or\s+/i).map((part) => part.split(/\s+and\s+/i).map((clause) => parseClause(clause.trim(), report))) : [];
  const problem = parts.flat().find((clause) => clause.problem)?.problem ?? null;
  const forms = parts.flat().find((clause) => clause.forms)?.forms ?? null;
  return { problem, forms, test: (document) => problem !== null || !parts.length || parts.some((clauses) => clauses.every((clause) => clause.test(document))) };
}

function parseClause(clause, report) {
  const lower = clause.toLowerCase();
  const named = (word) => (lower.startsWith(`${word} `) ? clause.slice(word.length + 1).trim().replace(/^"(.*)"$/, "$1") : null);
  if (lower === "flips") return { test: (document) => disagrees(report, document, "run") };
  if (lower === "changes") return { test: (document) => disagrees(report, document, "name") };
  if (named("task") !== null) {
    const name = named("task");
    return report.forms.some((form) => form.task === name) ? { test: (document) => document.task === name } : { problem: `there is no task "${name}"` };
  }
  if (named("doc") !== null) return { test: (document) => String(document.doc) === named("doc") };
  const verdict = Object.keys(VERDICTS).find((word) => lower === word || lower.startsWith(`${word} in `));
  if (!verdict) return { problem: `"${clause}" is no filter; there are ${FILTER_WORDS}` };
  const name = named(`${verdict} in`);
  const holds = ({ form, position }) => VERDICTS[verdict](report.forms[form], position);
  if (name === null) return { test: (document) => document.places.some(holds) };
  if (name.toLowerCase() === "all") return { test: (document) => document.places.every(holds) };
  const matching = new Set(report.forms.flatMap((form, number) => ([form.name, form.short, form.format, columnName(report, form), `${form.name} (${report.runs[form.run].short})`].includes(name) ? [number] : [])));
  if (!matching.size) return { problem: `there is no form "${name}"; there are ${[...new Set(report.forms.map((form) => columnName(report, form)))].join(", ")}` };
  return { forms: matching, test: (document) => document.places.some((place) => matching.has(place.form) && holds(place)) };
}

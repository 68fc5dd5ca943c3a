"""Notes below a table: failed documents, truncated prompts, unusual ends, ties, extraction, overridden settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from multiform.results.extraction import Extraction, extraction_of, pooled_extraction
from multiform.results.intervals import dataset_interval
from multiform.results.results import FormResult, GroupResult, Results
from multiform.statistics.estimates import STOPPED_LEVEL


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedForms:
    """The forms that a note is about: a single one, or those of a group under one format."""

    name: str
    forms: Sequence[FormResult]
    #: Whether the group weighs its tasks by their numbers of documents.
    weight_by_size: bool = True


def noted_forms(results: Results) -> list[NotedForms]:
    """The outermost groups with their forms, then the forms that are in none."""
    by_name = {form.name: form for form in results.forms}
    noted = []
    for group in results.groups:
        forms = [by_name.pop(name) for name in group.forms if name in by_name]
        if forms:
            noted.append(NotedForms(name=group.name, forms=forms, weight_by_size=group.weight_by_size))
    return [*noted, *(NotedForms(name=form.form, forms=[form]) for form in by_name.values())]


def extractions(results: Results) -> Iterator[tuple[str, Extraction]]:
    """The extraction shares of each group and form, with its name."""
    for entry in noted_forms(results):
        read = [extraction for form in entry.forms if (extraction := extraction_of(form)) is not None]
        if read:
            yield entry.name, pooled_extraction(read, weight_by_size=entry.weight_by_size)


def form_notes(results: Results) -> Iterator[str]:
    """Notes on completions without an extracted answer, and on task settings that formats override."""
    for name, extraction in extractions(results):
        if extraction.missing.value or extraction.lenient.value > extraction.right.value:
            yield f"{name}: {extraction}"
    names: dict[str, list[str]] = {}
    for entry in noted_forms(results):
        overridden = ", ".join(_overridden(entry.forms))
        if overridden:
            names.setdefault(overridden, []).append(entry.name)
    for overridden, listed in names.items():
        yield f"{_and_more(listed)}: the format overrides {overridden}"


def _overridden(forms: Sequence[FormResult]) -> Iterator[str]:
    """The settings that are overridden, each once; one that forms have different values of with an example."""
    by_kind: dict[str, list[str]] = {}
    for form in forms:
        for setting in form.overridden:
            by_kind.setdefault(setting.partition(" ")[0], []).append(setting)
    for kind, settings in by_kind.items():
        distinct = dict.fromkeys(settings)
        scope = "" if len(settings) >= len(forms) else f" of {len(settings)} tasks"
        if len(distinct) == 1 or len(forms) == 1:
            yield ", ".join(distinct) + scope
        else:
            yield f"{kind}{scope} (such as {settings[0].partition(' ')[2]})"


def _and_more(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


#: How many failed documents a printed line names.
_NAMED = 3


def failures_of(entry: FormResult | GroupResult) -> dict[str, Any]:
    """The failed documents of a form or group for the results file, with the bounds of its scores."""
    bounds = {key: list(bounds) for key, bounds in entry.bounds.items()}
    if isinstance(entry, GroupResult):
        return {"failed": entry.failed, "bounds": bounds}
    documents = [
        {"doc_id": doc.doc_id, "reason": doc.reason, "requests": doc.requests, "retried": doc.retried}
        for doc in entry.failed
    ]
    return {"failed": len(entry.failed), "documents": documents, "bounds": bounds}


def result_notes(results: Results) -> list[str]:
    """Notes on the scores, a line for each: that they are partial, failed documents, truncated prompts, how completions
    ended, ties, and a server whose model changed."""
    notes = [] if results.status == "complete" else [f"partial results: the run {_ended(results.status)}"]
    notes += [_failed(form) for form in results.forms if form.failed]
    for group in results.groups:
        if group.failed:
            notes.append(f"{group.name}: {group.failed} documents failed{_spans(group)}")
    for entry in noted_forms(results):
        if number := sum(form.truncated_contexts for form in entry.forms):
            note = f"the prompts of {number} of {sum(form.n for form in entry.forms)} documents lose their beginning"
            notes.append(f"{entry.name}: {note}, as they do not fit into the model's context")
    kinds = (_limit_notes, _dataset_notes, _ending_notes, _tie_notes, _version_notes)
    return [*notes, *(note for kind in kinds for note in kind(results))]


def _limit_notes(results: Results) -> Iterator[str]:
    """That `--limit` takes the first rows, which are no random sample where a file is sorted."""
    partial = [form for form in results.forms if form.n < form.total_docs]
    if results.run.get("limit") is not None and not results.run.get("budget") and partial:
        numbers = dict.fromkeys(f"{form.n:,} of {form.total_docs:,}" for form in partial)
        listed = next(iter(numbers)) if len(numbers) == 1 else "some"
        yield f"limit: the first {listed} documents, no random sample if they are sorted (--until_ci draws one)"


def _dataset_notes(results: Results) -> Iterator[str]:
    """What all documents would score, where `--until_ci` drew some of them at random."""
    stops = [task["forms"] for task in results.run.get("budget") or () if task.get("rule") == "until_ci"]
    for form in results.forms:
        total = next((forms[form.name]["documents"] for forms in stops if form.name in forms), 0)
        if form.n >= total or not form.samples:
            continue
        estimate = dataset_interval(form, form.primary, total, level=STOPPED_LEVEL)
        if estimate is not None:
            low, high = estimate.interval
            scored = f"all {total:,} documents would score {low:.4f} to {high:.4f} ({form.primary.partition(',')[0]})"
            drawn = f"{form.n:,} of them were drawn at random, and the table's interval is that of all such questions"
            yield f"{form.name}: {scored}; {drawn}"


def _ending_notes(results: Results) -> Iterator[str]:
    """Completions that did not end by themselves, of which a score alone says only that they are wrong."""
    words = {"refused": "refused", "filtered": "filtered", "cut off": "cut off at a limit", "other": "ended otherwise"}
    for entry in noted_forms(results):
        counts = Counter[str]()
        for form in entry.forms:
            counts.update(form.endings)
        if counts:
            listed = ", ".join(f"{counts[ending]} {words[ending]}" for ending in words if counts[ending])
            total = sum(form.n for form in entry.forms)
            yield f"{entry.name}: of the completions of {total} documents, {listed}; they are scored as they are"


def _tie_notes(results: Results) -> Iterator[str]:
    for entry in noted_forms(results):
        if number := sum(form.ties for form in entry.forms):
            total = sum(form.n for form in entry.forms)
            note = f"in {number} of {total} documents, several choices share the best log-likelihood"
            yield f"{entry.name}: {note}; the first of them is picked"


def _version_notes(results: Results) -> Iterator[str]:
    for key, counts in (results.run.get("server_versions") or {}).items():
        listed = ", ".join(f"{value} ({number} responses)" for value, number in counts.items())
        yield f"the server's {key} changed during the run: {listed}"


def _ended(status: str) -> str:
    return "was stopped" if status == "stopped" else "failed"


def _failed(form: FormResult) -> str:
    named = [f"doc {doc.doc_id}: {doc.reason}" for doc in form.failed[:_NAMED]]
    more = [f"and {len(form.failed) - _NAMED} more"] if len(form.failed) > _NAMED else []
    counted = any(sample.failure is not None for sample in form.samples)
    total = form.n if counted else form.n + len(form.failed)
    treatment = "count as wrong" if counted else "are left out"
    line = f"{form.name}: {len(form.failed)} of {total} documents failed and {treatment} ({'; '.join([*named, *more])})"
    return line + _spans(form)


def _spans(entry: FormResult | GroupResult) -> str:
    """The bounds of each score in words."""
    spans = [f"{key.partition(',')[0]} is {low:.4f} to {high:.4f}" for key, (low, high) in entry.bounds.items()]
    return f"; with these all wrong or all right, {', '.join(spans)}" if spans else ""

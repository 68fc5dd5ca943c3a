"""What is said below a table: notes on extraction, failures and truncation, where a run stopped, and closing lines."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiform.errors import list_first, quantity
from multiform.forms import ScoredSample
from multiform.requests import GenerationRequest, resolved_names
from multiform.results.extraction import Extraction, extraction_of, pooled_extraction
from multiform.results.groups import dataset_interval
from multiform.results.judging import judging_notes
from multiform.results.pivot import p_words, shown_comparisons
from multiform.results.provenance import usage_words
from multiform.results.values import FormResult, GroupResult, ResultsData, metric_kind
from multiform.statistics.estimates import ALPHA, LEVEL, STOPPED_LEVEL
from multiform.terminal import duration

if TYPE_CHECKING:  # they need numpy, which a run of one form does not
    from multiform.results.form_comparison import FormComparison
    from multiform.statistics.differences import Difference

#: How many formats with several wordings have a line.
_POPULATIONS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedForms:
    """The forms that a note is about: a single one, or those of a group under one format."""

    name: str
    forms: Sequence[FormResult]
    #: Whether the group weighs its tasks by their numbers of documents.
    weight_by_size: bool = True


def noted_forms(results: ResultsData) -> list[NotedForms]:
    """The outermost groups with their forms, then the forms that are in none."""
    by_name = {form.name: form for form in results.forms}
    noted = []
    for group in results.groups:
        forms = [by_name.pop(name) for name in group.forms if name in by_name]
        if forms:
            noted.append(NotedForms(name=group.name, forms=forms, weight_by_size=group.weight_by_size))
    return [*noted, *(NotedForms(name=form.name, forms=[form]) for form in by_name.values())]


def extractions(results: ResultsData) -> Iterator[tuple[str, Extraction]]:
    """The extraction shares of each group and form, with its name."""
    for entry in noted_forms(results):
        read = [extraction for form in entry.forms if (extraction := extraction_of(form)) is not None]
        if read:
            yield entry.name, pooled_extraction(read, weight_by_size=entry.weight_by_size)


def form_notes(results: ResultsData) -> Iterator[str]:
    """Notes on completions without an extracted answer, and on task settings that formats override."""
    for name, extraction in extractions(results):
        if extraction.missing.value or extraction.lenient.value > extraction.right.value:
            yield f"{name}: {extraction}"
    names: dict[str, list[str]] = {}
    for entry in noted_forms(results):
        overridden = ", ".join(_overridden_settings(entry.forms))
        if overridden:
            names.setdefault(overridden, []).append(entry.name)
    for overridden, listed in names.items():
        yield f"{list_first(listed, 1)}: the format overrides {overridden}"


def _overridden_settings(forms: Sequence[FormResult]) -> Iterator[str]:
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


def result_notes(results: ResultsData) -> list[str]:
    """Notes on the scores, a line for each: that they are partial, failed documents, truncated prompts, how completions
    ended, ties, and a server whose model changed."""
    notes = [] if results.status == "complete" else [f"partial results: the run {status_words(results.status)}"]
    notes += [_failure_note(form) for form in results.forms if form.failed]
    for group in results.groups:
        if group.failed:
            notes.append(f"{group.name}: {group.failed} documents failed{_bounds_words(group)}")
    for entry in noted_forms(results):
        if number := sum(form.truncated_contexts for form in entry.forms):
            note = f"the prompts of {number} of {sum(form.n for form in entry.forms)} documents lose their beginning"
            notes.append(f"{entry.name}: {note}, as they do not fit into the model's context")
    kinds = (
        *(_control_notes, _thought_notes, _limit_notes, _dataset_notes),
        *(_ending_notes, _tie_notes, _version_notes, _token_notes, judging_notes),
    )
    return [*notes, *(note for kind in kinds for note in kind(results))]


def _control_notes(results: ResultsData) -> Iterator[str]:
    """The scores of controls, which no comparison has, beside the best score of that kind under a form of the task."""
    scored = [form for form in results.forms if form.has_score]
    for control in (form for form in scored if form.control):
        kind = control.task, metric_kind(control.metric)
        others = [form for form in scored if not form.control and (form.task, metric_kind(form.metric)) == kind]
        best = max(others, key=lambda form: form.signed_score, default=None)
        beside = "" if best is None else f"; {best.name} scores {best.score.value:.4f}"
        score = f"{control.score.value:.4f} ({control.score.interval_text()})"
        yield f"{control.name}: a control, outside of comparisons: it scores {score}{beside}"


def _thought_notes(results: ResultsData) -> Iterator[str]:
    """Thoughts that ran into the token limit: they have no answer, which is not the same as a wrong one."""
    for entry in noted_forms(results):
        for ranked, become in ((False, "they count as wrong"), (True, "the choices are scored after what there was")):
            forms = [form for form in entry.forms if ranked or not form.has_budget]
            samples = [sample for form in forms for sample in form.samples if sample.is_ranked == ranked]
            outputs = [(sample, output) for sample in samples for output in sample.thoughts]
            cut = [sample for sample, output in outputs if output.truncated and (ranked or output.is_thought_cut_off)]
            if cut:
                limit = _limit_words(cut[0])
                yield f"{entry.name}: {len(cut)} of {len(outputs)} thoughts were cut off{limit}; {become}"


def _limit_words(sample: ScoredSample) -> str:
    request = sample.instances[0].request
    limit = resolved_names(request.gen_kwargs).get("max_gen_toks") if isinstance(request, GenerationRequest) else None
    return f" at {limit:,} tokens" if isinstance(limit, int) else " at the end of the context"


def _limit_notes(results: ResultsData) -> Iterator[str]:
    """That `--limit` takes the first rows, which are no random sample where a file is sorted."""
    partial = [form for form in results.forms if form.n < form.total_docs]
    if _drawing(results) != "first":
        return
    if results.run.get("limit") is not None and not results.run.get("budget") and partial:
        numbers = {f"{form.n:,} of {form.total_docs:,}" for form in partial}
        listed = f"the first {numbers.pop()} documents" if len(numbers) == 1 else "the first documents of each task"
        yield f"limit: {listed}, which is not a random sample if the file is sorted (--sample random draws one)"


def _dataset_notes(results: ResultsData) -> Iterator[str]:
    """What all documents would score, where `--until_ci` or `--sample` drew some of them at random."""
    drawn_alone = _drawing(results) != "first"
    stops = [task["forms"] for task in results.run.get("budget") or () if task.get("rule") == "until_ci"]
    for form in results.forms:
        total = next((forms[form.name]["documents"] for forms in stops if form.name in forms), 0)
        if drawn_alone and not stops:
            total = form.total_docs
        if form.n >= total or not form.samples:
            continue
        level = STOPPED_LEVEL if stops else LEVEL
        estimate = dataset_interval(form, form.primary, total, level=level, whole_clusters=not drawn_alone)
        if estimate is not None:
            scored = f"all {total:,} documents would score {estimate.interval_text(4)} ({form.metric})"
            drawn = f"{form.n:,} of them were drawn at random, and the table's interval is that of all such questions"
            yield f"{form.name}: {scored}; {drawn}"


def _drawing(results: ResultsData) -> str:
    """Which documents `--limit` took: "first", or how they were drawn."""
    return str((results.run.get("arguments") or {}).get("sample", "first"))


def _ending_notes(results: ResultsData) -> Iterator[str]:
    """Completions that did not end by themselves, of which a score alone says only that they are wrong.

    Thoughts that were cut off have a note of their own, or a budget at which they end.
    """
    words = {"refused": "refused", "filtered": "filtered", "cut off": "cut off at a limit", "other": "ended otherwise"}
    for entry in noted_forms(results):
        counts = Counter[str]()
        for form in entry.forms:
            counts.update({**form.endings, "cut off": _cut_off_answers(form)})
        if any(counts.values()):
            listed = ", ".join(f"{counts[ending]} {words[ending]}" for ending in words if counts[ending])
            total = sum(form.n for form in entry.forms if form.has_completions)
            yield f"{entry.name}: of the completions of {total} documents, {listed}; they are scored as they are"


def _cut_off_answers(form: FormResult) -> int:
    """The number of documents with an answer that was cut off."""
    cut = [sample for sample in form.samples if "cut off" in sample.endings]
    answers = {sample.doc_id: form.answers(sample) for sample in cut}
    return sum(any(a.ending == "cut off" and not a.is_thought_cut_off for a in listed) for listed in answers.values())


def _tie_notes(results: ResultsData) -> Iterator[str]:
    for entry in noted_forms(results):
        if number := sum(form.ties for form in entry.forms):
            total = sum(form.n for form in entry.forms)
            note = f"in {number} of {total} documents, several choices share the best log-likelihood"
            yield f"{entry.name}: {note}; the first of them is picked"


def _token_notes(results: ResultsData) -> Iterator[str]:
    counts = results.run.get("server_tokens")
    if counts:
        read, written = counts.get("prompt", 0), counts.get("completion", 0)
        cost = results.run.get("cost") or {}
        price = f"; they cost about ${cost['dollars']:.4f}" if "dollars" in cost else ""
        counted = f"the server counted {read:,} tokens of prompts and {written:,} of completions"
        yield f"{counted}, without cached responses{price}"


def _version_notes(results: ResultsData) -> Iterator[str]:
    for key, counts in (results.run.get("server_versions") or {}).items():
        listed = ", ".join(f"{value} ({number} responses)" for value, number in counts.items())
        yield f"the server's {key} changed during the run: {listed}"


def status_words(status: str) -> str:
    """How a run ended that is not complete."""
    return "was stopped" if status == "stopped" else "failed"


def _failure_note(form: FormResult) -> str:
    named = [f"doc {doc.doc_id}: {doc.reason}" for doc in form.failed[:_NAMED]]
    more = [f"and {len(form.failed) - _NAMED} more"] if len(form.failed) > _NAMED else []
    counted = any(sample.failure is not None for sample in form.samples)
    total = form.n if counted else form.n + len(form.failed)
    treatment = "count as wrong" if counted else "are left out"
    line = f"{form.name}: {len(form.failed)} of {total} documents failed and {treatment} ({'; '.join([*named, *more])})"
    return line + _bounds_words(form)


def _bounds_words(entry: FormResult | GroupResult) -> str:
    """The bounds of each score in words."""
    spans = [f"{key.partition(',')[0]} is {low:.4f} to {high:.4f}" for key, (low, high) in entry.bounds.items()]
    return f"; with these all wrong or all right, {', '.join(spans)}" if spans else ""


def stop_lines(stops: Sequence[Mapping[str, Any]]) -> list[str]:
    """The report of a budgeted run, from the plain values of `TaskStops` in the results."""
    lines = []
    for task in stops:
        forms = task["forms"]
        evaluated, total = (sum(form[key] for form in forms.values()) for key in ("evaluated", "documents"))
        lines.append(
            f"{task['task']}: {evaluated} of {total} evaluations, by {task['metric']}, documents in random order"
        )
        for which, names in ((which, task[which]) for which in ("best", "worst") if task[which]):
            lines.append(f"  {which}: {names[0] if len(names) == 1 else f'not known yet, one of {len(names)} forms'}")
        if task.get("picked") and task.get("spread") is not None:
            best, worst = task["picked"]
            lines.append(f"  {best} looks best and {worst} worst, {task['spread']:.4f} apart on documents of their own")
        for name, form in forms.items():
            may_be = [which for which in ("best", "worst") if len(task[which]) > 1 and name in task[which]]
            candidate = f"; it may be the {' or the '.join(may_be)}" if may_be else ""
            lines.append(f"  {name}: {quantity(form['evaluated'], 'document')}, {form['why']}{candidate}")
        lines.append(f"  {task['guarantee']}")
    return lines


def closing_lines(
    results: ResultsData, *, output_path: str | Path | None = None, report: Path | None = None
) -> list[str]:
    """The closing lines; `output_path` is where the results were written, `report` the path of the report."""
    lines = [*_findings(results), *_time_line(results)]
    if report is not None:
        lines.append(f"next: open {report} in a browser")
    elif output_path is not None:
        lines.append(f"next: multiform report {shlex.quote(str(output_path))}")
    else:
        lines.append("next: --output_path results --log_samples keeps the results; multiform report results shows them")
    return lines


def _findings(results: ResultsData) -> Iterator[str]:
    """The clearest difference between two forms, and the form of which the most could not be extracted."""
    shown = [comparison for comparison in shown_comparisons(results) if comparison.spread is not None]
    pairs = [(comparison, pair) for comparison in shown for pair in comparison.differences]
    if pairs:
        yield clearest_difference(*min(pairs, key=lambda entry: entry[1].p), pairs=len(pairs), tasks=len(shown))
    yield from _wording_lines(shown)
    shares = [(extraction.missing.value, name) for name, extraction in extractions(results)]
    share, name = max(shares, default=(0.0, ""))
    if share:
        yield f"not extracted: {share:.1%} of the completions of {name} name no answer that could be read"


def clearest_difference(comparison: FormComparison, pair: Difference, *, pairs: int, tasks: int) -> str:
    """The difference with the smallest p value, corrected for all pairs of all tasks.

    The interval is the one that belongs to the corrected p value.
    """
    p = min(1.0, pair.p * pairs)
    among = f"{pairs:,} pairs of forms" + (f" in {tasks} comparisons" if tasks > 1 else "")
    if p >= ALPHA:
        if pairs == 1:
            return f"differences: the two forms do not differ significantly (smallest {p_words(p)})"
        return f"differences: none of {among} differ significantly (smallest {p_words(p)} after correction)"
    from multiform.statistics.differences import simultaneous_bounds

    sign = 1 if pair.estimate.value >= 0 else -1
    first, second = (pair.first, pair.second)[::sign]
    low, high = sorted(sign * bound for bound in simultaneous_bounds(pair.estimate, pairs))
    corrected = f", corrected for {among}" if pairs > 1 else ""
    return (
        f"clearest difference: {comparison.forms[first]} − {comparison.forms[second]} in {comparison.metric}: "
        f"{abs(pair.estimate.value):.4f} ({low:.4f} to {high:.4f}), {p_words(p)}{corrected}"
    )


def _wording_lines(shown: Sequence[FormComparison]) -> Iterator[str]:
    """The score over the wordings of each format, for the first few."""
    entries = [(comparison, entry) for comparison in shown for entry in comparison.populations]
    for comparison, entry in entries[:_POPULATIONS]:
        population, mean = entry.population, entry.population.mean
        yield (
            f"over {population.wordings} wordings of {comparison.name}@{entry.label}: {comparison.metric} "
            f"{mean.value:.4f} ± {population.observed_deviation:.4f} SD ({mean.interval_text(4)} for the mean; "
            f"another wording would score {population.predicted.interval_text(4)})"
        )
    if len(entries) > _POPULATIONS:
        yield f"{len(entries) - _POPULATIONS} more formats with several wordings are in the results file (across_forms)"


def _time_line(results: ResultsData) -> Iterator[str]:
    seconds = results.provenance.get("total_evaluation_time_seconds")
    usage = results.provenance.get("usage")
    if seconds is None:
        return
    loading = float((usage or {}).get("model_loading_seconds") or 0)
    words = f"took {duration(float(seconds))}"
    if loading >= 1:
        words += f", {duration(loading)} of it to load the model"
    usage_text = usage_words(usage)
    yield f"{words}: {usage_text}" if usage_text else words

"""The first screen of a report: what is not as it should be, the answer in a sentence, how sure it is, its chart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from multiform.errors import MultiformError, list_first
from multiform.report.entries import change_entry, changes_chart
from multiform.results.charts import ChartSpec, flips_chart, overview_chart
from multiform.results.compare import chance_level
from multiform.results.languages import language_spreads
from multiform.results.notes import form_notes, result_notes, status_words
from multiform.results.pivot import p_words, shown_comparisons
from multiform.results.results import Results
from multiform.results.run_comparison import FormChange, compare_all_runs, compare_groups
from multiform.results.values import FormResult, GroupResult, metric_kind
from multiform.statistics.design import POWER, detectable_difference
from multiform.statistics.estimates import ALPHA

#: How many tasks the sentence names.
_NAMED = 3


def overview(runs: Sequence[Results], labels: Sequence[str]) -> dict[str, Any]:
    """What the first screen says of the runs; `labels` are their short names."""
    changes = list(_changes(runs))
    entries = [change_entry(*change) for change in changes]
    return {
        "attention": list(_attention_lines(runs, labels)),
        "sentence": _change_sentence(changes, labels) if len(runs) > 1 and changes else _sentence(runs[0]),
        "facts": [*_change_facts(changes, labels)] if len(runs) > 1 else [*_facts(runs[0]), *_language_facts(runs[0])],
        "charts": [_chart(overview_chart, results) for results in runs],
        "flips": _chart(flips_chart, runs[-1]),
        "changes": entries,
        "changes_chart": changes_chart(entries, labels),
    }


def _chart(make: Callable[[Results], ChartSpec], results: Results) -> dict[str, Any] | None:
    with suppress(MultiformError):  # there are no scores, or nothing to compare
        return make(results).to_dict()
    return None


def _attention_lines(runs: Sequence[Results], labels: Sequence[str]) -> Iterator[str]:
    """The notes of all runs, each once; with the labels of its runs where the others do not have it."""
    by_note: dict[str, list[str]] = {}
    for results, label in zip(runs, labels, strict=True):
        for note in _attention(results):
            by_note.setdefault(note, []).append(label)
    for note, noted in by_note.items():
        yield note if len(noted) == len(runs) else f"{', '.join(noted)}: {note}"


def _attention(results: Results) -> Iterator[str]:
    """What a reader of the scores has to know before reading them."""
    notes = result_notes(results)
    if results.status != "complete":
        yield _partial_words(results)
        notes = notes[1:]  # the first says no more than that the run is partial
    overrides = ": the format overrides "
    of_model = results.run.get("model_warnings") or ()
    of_forms = (note for note in form_notes(results) if overrides not in note)
    yield from (*of_model, *notes, *of_forms)


def _partial_words(results: Results) -> str:
    """How much of a run is there, and of one that was stopped or failed which forms are not."""
    scored = sum(form.n for form in results.forms)
    if results.status == "running":
        total = sum(form.total_docs for form in results.forms)
        return f"Running: {scored:,} of {total:,} documents are scored; open the page again to see more"
    limit = results.run.get("limit")
    without = results.run.get("forms_without_scores") or ()
    by_task = {form.task: form.total_docs for form in results.forms}  # a form that is missing has as many as others
    sizes = [
        *(form.total_docs for form in results.forms),
        *(by_task.get(name.partition("@")[0], 0) for name in without),
    ]
    if limit is not None:
        sizes = [math.ceil(limit * size) if limit < 1 else min(int(limit), size) for size in sizes]
    missing = [*(form.name for form in results.forms if not form.estimates or not form.n), *without]
    forms = len({*missing, *(form.name for form in results.forms)})
    lacking = f"; {len(missing)} of {forms} forms are missing: {list_first(missing, 3)}" if missing else ""
    return (
        f"Partial: the run {status_words(results.status)}, {scored:,} of {sum(sizes):,} documents are scored{lacking}"
    )


def _headlines(results: Results) -> dict[str, list[FormResult | GroupResult]]:
    """The forms of each outermost group with a score, and of each task in none."""
    entries: dict[str, list[FormResult | GroupResult]] = {}
    for entry in results.headlines:
        entries.setdefault(entry.base, []).append(entry)
    return entries


def _sentence(results: Results) -> str:
    """What the model scores, by the metric that most forms of a task have."""
    model = results.model_name
    model = model.rstrip("/").rpartition("/")[2] or model
    headlines = _headlines(results)
    if not headlines:
        return f"{model} has no scores in this run"
    parts = [_range_words(name, entries) for name, entries in headlines.items()]
    more = f" and {len(parts) - _NAMED} more tasks" if len(parts) > _NAMED else ""
    several = any(len(entries) > 1 for entries in headlines.values())
    return f"{model} scores {', '.join(parts[:_NAMED])}{more}{', depending on the form' if several else ''}"


def _range_words(name: str, entries: Sequence[FormResult | GroupResult]) -> str:
    kinds = [metric_kind(entry.metric) for entry in entries]
    kind = max(dict.fromkeys(kinds), key=kinds.count)
    chosen = [entry.score for entry in entries if metric_kind(entry.metric) == kind]
    low, high = min(e.value for e in chosen), max(e.value for e in chosen)
    metric = "" if kind == "accuracy" else f" {kind}"
    if len(chosen) > 1:
        return f"{low:.2f} to {high:.2f}{metric} on {name}"
    interval = chosen[0].interval_text()
    return f"{chosen[0].value:.3f}{metric}{f' ({interval})' if interval else ''} on {name}"


def _facts(results: Results) -> Iterator[dict[str, str]]:
    """How sure the answer is: documents, forms, best minus worst, what chance would show, what the run can detect."""
    headlines = _headlines(results)
    forms = max((len(entries) for entries in headlines.values()), default=0)
    documents = sum(max(entry.n for entry in entries) for entries in headlines.values())
    yield _fact("document" if documents == 1 else "documents", f"{documents:,}", "")
    yield _fact("form" if forms == 1 else "forms", str(forms), "")
    spreads = [
        (comparison, comparison.spread)
        for comparison in shown_comparisons(results)
        if comparison.spread is not None and comparison.name in headlines
    ]
    # Bits per byte and the like have a comparison of their own; accuracy is what the sentence says.
    spreads = [entry for entry in spreads if any(chance is not None for chance in entry[0].chances)] or spreads
    if spreads:
        comparison, spread = min(spreads, key=lambda entry: entry[1].p)
        among = f", clearest of {len(spreads)}" if len(spreads) > 1 else ""
        where = f"({comparison.name}, {comparison.scoring}{among})"
        pairs = sum(len(other.differences) for other, _ in spreads if other.name == comparison.name)
        detectable = detectable_difference(comparison.clusters, comparisons=max(1, pairs))
        can = "none" if detectable.difference is None else f"{detectable.difference:.3f}"
        yield _fact(
            "best − worst", f"{spread.spread.value:.3f}", f"{spread.spread.interval_text()} {where}", key="spread"
        )
        yield _fact("by chance", f"{spread.by_chance:.3f}", "if all forms were equally good")
        yield _noise_fact(min(1.0, spread.p * len(spreads)), " after correction" if len(spreads) > 1 else "")
        yield _fact("detectable", can, f"smallest difference with {100 * POWER:.0f} % power")
    elif forms == 1 and len(headlines) == 1:
        [[entry]] = headlines.values()
        if isinstance(entry, FormResult) and (chance := chance_level(entry.samples)) is not None:
            yield _fact("chance level", f"{chance:.3f}", "how often a random choice is right")


def _language_facts(results: Results) -> Iterator[dict[str, str]]:
    """How far the languages of each group lie apart."""
    for spread in language_spreads(results):
        best, *_, worst = list(spread.scores)[:: 1 if spread.higher_is_better else -1]
        pairs = "unpaired" if spread.p is None else f"{p_words(spread.p)}, paired on {spread.paired} rows"
        words = f"({best} − {worst}, {len(spread.scores)} languages of {spread.name}, {pairs})"
        interval = spread.spread.interval_text()
        yield _fact("best − worst language", f"{spread.spread.value:.3f}", f"{interval} {words}".lstrip())


def _fact(name: str, value: str, words: str, key: str = "") -> dict[str, str]:
    return {"name": name, "value": value, "words": words, "key": key or name}


def _changes(runs: Sequence[Results]) -> Iterator[tuple[int, int, str, FormChange]]:
    """Every group, then every form, that two runs have; groups are corrected among themselves, as in `compare`."""
    for first, second in itertools.combinations(range(len(runs)), 2):
        with suppress(MultiformError):
            for change in compare_groups(runs[first], runs[second]):
                yield first, second, "group", change
    for first, second, change in compare_all_runs(runs):
        yield first, second, "form", change


def _clearest(changes: Sequence[tuple[int, int, str, FormChange]]) -> tuple[int, int, str, FormChange] | None:
    """The change of the groups with the smallest p value, or the only change; None where several forms count alike."""
    counted = [entry for entry in changes if entry[2] == "group"] or list(changes)
    if not counted or (len(counted) > 1 and counted[0][2] != "group"):
        return None
    return min(counted, key=lambda entry: 1.0 if entry[3].p is None else entry[3].p)


def _change_sentence(changes: Sequence[tuple[int, int, str, FormChange]], labels: Sequence[str]) -> str:
    if (clearest := _clearest(changes)) is not None:
        first, second, _, change = clearest
        low, high = change.simultaneous
        p = "" if change.p_simultaneous is None else f", {p_words(change.p_simultaneous)}"
        # Without the documents of both runs there is an interval, and no test.
        differs = low > 0 or high < 0 if change.p_simultaneous is None else change.p_simultaneous < ALPHA
        direction = "worse than" if change.gain < 0 else "better than"
        words = direction if differs else "not shown to differ from"
        interval = "" if math.isnan(low) else f" ({_difference_text(low)} to {_difference_text(high)}{p})"
        numbers = f"{_difference_text(change.difference.value)}{interval}"
        return f"{labels[second]} is {words} {labels[first]} on {change.name}: {numbers}"
    shown = [entry[3] for entry in changes if entry[3].p_simultaneous is not None and entry[3].p_simultaneous < ALPHA]
    worse = sum(change.gain < 0 for change in shown)
    better, equal = len(shown) - worse, len(changes) - len(shown)
    if len(labels) > 2:
        counts = f"{worse} of {len(changes)} comparisons show a loss, {better} a gain, {equal} no finding"
        return f"{len(labels)} runs against each other: {counts}"
    counts = f"{worse} of {len(changes)} forms got worse, {better} better, {equal} without a finding"
    return f"{labels[1]} against {labels[0]}: {counts}"


def _change_facts(
    changes: Sequence[tuple[int, int, str, FormChange]], labels: Sequence[str]
) -> Iterator[dict[str, str]]:
    """How sure the change of the sentence is, or the worst of several, and how many documents it is made of."""
    clearest = _clearest(changes)
    if not changes:
        return
    if clearest is None:
        first, second, _, change = min(changes, key=lambda entry: entry[3].gain)
        if change.paired:
            low, high = change.simultaneous
            of = f", {labels[second]} − {labels[first]}" if len(labels) > 2 else ""
            words = f"{_difference_text(low)} to {_difference_text(high)} on {change.name}{of}"
            yield _fact("worst change", _difference_text(change.difference.value), words)
    else:
        change = clearest[3]
    if not change.paired:
        return
    p = change.p_simultaneous
    yield _fact("documents", f"{change.difference.n:,}", "that both runs have")
    yield _fact("lost", f"{len(change.lowered):,}", "with a lower score in the later run")
    yield _fact("won", f"{len(change.raised):,}", "with a higher one")
    if p is not None:
        yield _noise_fact(p, f" after correction for {change.comparisons}" if change.comparisons > 1 else "")


def _difference_text(difference: float) -> str:
    return f"{difference:+.3f}".replace("-", "−")


def _noise_fact(p: float, corrected: str) -> dict[str, str]:
    noise, verdict = ("no", "a finding") if p < ALPHA else ("may be", "no finding")
    return _fact("is it noise?", noise, f"{verdict}: {p_words(p)}{corrected}", key="verdict")

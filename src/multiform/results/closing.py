"""The lines below the table of a run: notable differences, time and usage, the files written, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from multiform.results.notes import extractions
from multiform.results.pivot import p_words, shown_comparisons
from multiform.results.provenance import usage_words
from multiform.results.results import Results
from multiform.statistics.estimates import ALPHA
from multiform.terminal import duration

#: How many formats with several wordings have a line.
_POPULATIONS = 4

if TYPE_CHECKING:  # they need numpy, which a run of one form does not
    from multiform.results.form_comparison import FormComparison
    from multiform.statistics.paired import Difference


def closing_lines(results: Results, *, output_path: str | Path | None = None, report: Path | None = None) -> list[str]:
    """The closing lines; `output_path` is where the results were written, `report` the path of the report."""
    lines = [*_stands_out(results), *_took(results)]
    if report is not None:
        lines.append(f"next: open {report} in a browser")
    elif output_path is not None:
        lines.append(f"next: multiform report {shlex.quote(str(output_path))}")
    else:
        lines.append("next: --output_path results --log_samples keeps the results; multiform report results shows them")
    return lines


def _stands_out(results: Results) -> Iterator[str]:
    """The clearest difference between two forms, and the form of which the most could not be extracted."""
    shown = [comparison for comparison in shown_comparisons(results) if comparison.spread is not None]
    pairs = [(comparison, pair) for comparison in shown for pair in comparison.differences]
    if pairs:
        yield clearest_difference(*min(pairs, key=lambda entry: entry[1].p), pairs=len(pairs), tasks=len(shown))
    yield from _over_wordings(shown)
    shares = [(extraction.missing.value, name) for name, extraction in extractions(results)]
    share, name = max(shares, default=(0.0, ""))
    if share:
        yield f"not extracted: {share:.1%} of the completions of {name} name no answer that could be read"


def clearest_difference(comparison: FormComparison, pair: Difference, *, pairs: int, tasks: int) -> str:
    """The difference with the smallest p value, corrected for all pairs of all tasks.

    The interval is the one that belongs to the corrected p value.
    """
    p = min(1.0, pair.p * pairs)
    among = (
        f"{pairs:,} pairs of forms" + (f" in {tasks} comparisons" if tasks > 1 else "")
        if pairs > 1
        else "the two forms"
    )
    if p >= ALPHA:
        verb = "differ" if pairs > 1 else "do not differ"
        who = f"none of {among} {verb} significantly" if pairs > 1 else f"the two forms {verb} significantly"
        return f"differences: {who} (smallest {p_words(p)}{' after correction' if pairs > 1 else ''})"
    from multiform.statistics.paired import simultaneous_bounds

    sign = 1 if pair.estimate.value >= 0 else -1
    first, second = (pair.first, pair.second)[::sign]
    low, high = sorted(sign * bound for bound in simultaneous_bounds(pair.estimate, pairs))
    corrected = f", corrected for {among}" if pairs > 1 else ""
    return (
        f"clearest difference: {comparison.forms[first]} − {comparison.forms[second]} in {comparison.metric}: "
        f"{abs(pair.estimate.value):.4f} ({low:.4f} to {high:.4f}), {p_words(p)}{corrected}"
    )


def _over_wordings(shown: Sequence[FormComparison]) -> Iterator[str]:
    """The score over the wordings of each format, for the first few."""
    entries = [(comparison, entry) for comparison in shown for entry in comparison.populations]
    for comparison, entry in entries[:_POPULATIONS]:
        population, mean = entry.population, entry.population.mean
        low, high = mean.interval
        below, above = population.predicted.interval
        yield (
            f"over {population.wordings} wordings of {comparison.name}@{entry.label}: {comparison.metric} "
            f"{mean.value:.4f} ± {population.observed_deviation:.4f} SD ({low:.4f} to {high:.4f} for the mean; "
            f"another wording would score {below:.4f} to {above:.4f})"
        )
    if len(entries) > _POPULATIONS:
        yield f"{len(entries) - _POPULATIONS} more formats with several wordings are in the results file (across_forms)"


def _took(results: Results) -> Iterator[str]:
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

"""The lines below the table of a run: notable differences, time and usage, the files written, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from multiform.engine.status_text import duration
from multiform.results.notes import extractions
from multiform.results.pivot import shown_comparisons
from multiform.results.results import Results
from multiform.results.usage import usage_words

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
    """The largest difference between two forms, and the form of which the most could not be extracted."""
    pairs = [(comparison, pair) for comparison in shown_comparisons(results) for pair in comparison.differences]
    widest = max(pairs, key=lambda entry: abs(entry[1].estimate.value), default=None)
    if widest and widest[1].estimate.value:
        yield _difference(*widest, number=len(pairs))
    shares = [(extraction.missing.value, name) for name, extraction in extractions(results)]
    share, name = max(shares, default=(0.0, ""))
    if share:
        yield f"not extracted: {share:.1%} of the completions of {name} name no answer that could be read"


def _difference(comparison: FormComparison, pair: Difference, number: int) -> str:
    """The form with the higher score minus the other."""
    estimate, sign = pair.estimate, 1 if pair.estimate.value >= 0 else -1
    first, second = (pair.first, pair.second)[::sign]
    low, high = sorted(sign * bound for bound in estimate.interval)
    if comparison.spread is not None and len(comparison.differences) > 1:
        low, high = comparison.spread.spread.interval  # which allows for picking the two forms, as that in the table
    difference = f"{comparison.forms[first]} − {comparison.forms[second]} in {comparison.metric}"
    among = f", the largest of {number:,}" if number > 1 else ""
    return (
        f"largest difference: {difference}: {abs(estimate.value):.4f} ({low:.4f} to {high:.4f}), "
        f"p = {pair.p_holm:.3g} after Holm{among}"
    )


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

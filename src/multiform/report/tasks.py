"""The tasks in a report: all forms of a task compared, and one form under several runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from multiform.results.compare import compare_forms
from multiform.results.form_comparison import FormComparison
from multiform.results.results import Results
from multiform.statistics.paired import Difference

#: How many differences are drawn for a task: the largest.
_PAIRS = 28


def task_entries(runs: Sequence[Results], labels: Sequence[str], shorts: Mapping[str, str]) -> list[dict[str, Any]]:
    """An entry for each task and group with several forms, and for each form that several runs have.

    `shorts` are the labels of the formats in charts.
    """
    within = [
        _entry(comparison, run, comparison.name, [_format(name, shorts) for name in comparison.forms])
        for run, results in enumerate(runs)
        for comparison in results.comparisons
        if len(comparison.forms) > 1
    ]
    across = [_entry(comparison, None, name, models) for name, comparison, models in _across(runs, labels)]
    return [*across, *within]


def _format(name: str, shorts: Mapping[str, str]) -> str:
    label = name.partition("@")[2] or name
    return shorts.get(label, label)


def _across(runs: Sequence[Results], labels: Sequence[str]) -> Iterator[tuple[str, FormComparison, list[str]]]:
    """Each form that several runs have, compared as if the runs were its forms."""
    for name in dict.fromkeys(form.name for results in runs for form in results.forms):
        having = [
            (label, form)
            for label, results in zip(labels, runs, strict=True)
            for form in results.forms
            if form.name == name
        ]
        if len(having) > 1:
            renamed = [replace(form, form=f"{name} {number}") for number, (_, form) in enumerate(having)]
            for comparison in compare_forms(renamed):
                chosen = [having[int(form.rpartition(" ")[2])][0] for form in comparison.forms]
                yield name, comparison, chosen


def _entry(comparison: FormComparison, run: int | None, name: str, names: Sequence[str]) -> dict[str, Any]:
    pairs = sorted(comparison.differences, key=lambda pair: -abs(pair.estimate.value))
    shares = comparison.rightness
    return {
        "task": name,
        "run": run,
        "metric": comparison.metric,
        "n": comparison.n,
        "clusters": comparison.clusters,
        "variance": None if comparison.variance is None or run is None else comparison.variance.shares,
        "pairs": [_pair(pair, names) for pair in pairs[:_PAIRS]],
        "more": max(0, len(pairs) - _PAIRS),
        "spread": None if comparison.spread is None or run is None else comparison.spread.spread.value,
        "all": None if shares is None else shares.under_all.value,
        "some": None if shares is None else shares.under_some.value,
        "none": None if shares is None else shares.under_none.value,
    }


def _pair(pair: Difference, names: Sequence[str]) -> Mapping[str, Any]:
    """A difference with the higher form first."""
    estimate, first, second = pair.estimate, names[pair.first], names[pair.second]
    sign = 1 if estimate.value >= 0 else -1
    low, high = sorted(sign * bound for bound in estimate.interval)
    label = f"{first} − {second}" if sign > 0 else f"{second} − {first}"
    return {"label": label, "difference": abs(estimate.value), "low": low, "high": high, "p": pair.p_holm}

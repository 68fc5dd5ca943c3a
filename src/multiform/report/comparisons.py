"""Comparisons in a report: between the forms of a task or group, and between runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from multiform.results.compare import compare_forms
from multiform.results.form_comparison import FormatPopulation, FormComparison
from multiform.results.pivot import named_comparisons
from multiform.results.results import Results
from multiform.results.run_comparison import FormChange, compare_all_runs, compare_wordings
from multiform.statistics.estimates import Estimate
from multiform.statistics.paired import Difference
from multiform.statistics.spread import Spread
from multiform.statistics.wordings import WordingPopulation

#: How many differences are drawn for a task: the largest.
_PAIRS = 28


def task_entries(runs: Sequence[Results], labels: Sequence[str], shorts: Mapping[str, str]) -> list[dict[str, Any]]:
    """An entry for each task and group with several forms, and for each form that several runs have.

    `shorts` are the labels of the formats in charts. Forms of a run are compared with each other, once for each kind of
    scoring; differences between runs are corrected for all forms, as `multiform compare` does.
    """
    rows = {id(comparison): row for results in runs for row, comparison in named_comparisons(results)}
    within = [
        _entry(
            comparison,
            run,
            comparison.name,
            [_format(name, shorts) for name in comparison.forms],
            rows.get(id(comparison)),
        )
        | {"pairs": [_form_pair(pair, comparison, shorts) for pair in _largest(comparison)]}
        for run, results in enumerate(runs)
        for comparison in results.comparisons
        if len(comparison.forms) > 1
    ]
    changes = compare_all_runs(runs)
    across = [
        _entry(comparison, None, _short_name(name, shorts), models)
        | _run_pairs([change for change in changes if change[2].name == name], labels)
        for name, comparison, models in _compare_across_runs(runs, labels)
    ]
    return [*across, *within]


def wording_entries(runs: Sequence[Results], labels: Sequence[str]) -> list[dict[str, Any]]:
    """A later run minus an earlier one over the wordings that both have, for each format with several."""
    pairs = itertools.combinations(zip(runs, labels, strict=True), 2)
    return [
        {
            "label": f"{second_label} − {first_label}",
            "name": change.name,
            "metric": change.metric,
            "reversal": change.reversal,
            **_population_numbers(change.population),
        }
        for (first, first_label), (second, second_label) in pairs
        if {form.name for form in first.forms} & {form.name for form in second.forms}
        for change in compare_wordings(first, second)
    ]


def _format(name: str, shorts: Mapping[str, str]) -> str:
    label = name.partition("@")[2] or name
    return shorts.get(label, label)


def _short_name(name: str, shorts: Mapping[str, str]) -> str:
    task, at, label = name.partition("@")
    return f"{task}{at}{shorts.get(label, label)}"


def _compare_across_runs(
    runs: Sequence[Results], labels: Sequence[str]
) -> Iterator[tuple[str, FormComparison, list[str]]]:
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


def _entry(
    comparison: FormComparison, run: int | None, name: str, names: Sequence[str], row: str | None = None
) -> dict[str, Any]:
    """A comparison for the page; `row` is its name in the table of the terminal, None where it is not there."""
    shares, spread = comparison.rightness, comparison.spread
    within = run is not None
    return {
        "task": name,
        "run": run,
        "metric": comparison.metric,
        "scoring": comparison.scoring,
        "n": comparison.n,
        "clusters": comparison.clusters,
        "variance": None if comparison.variance is None or run is None else comparison.variance.shares,
        "compared": len(comparison.differences),
        "more": max(0, len(comparison.differences) - _PAIRS),
        "spread": _spread(spread) if within and spread is not None else None,
        "forms": [
            {"name": form, "label": label, "tied": index in comparison.tied_with_best}
            for index, (form, label) in enumerate(zip(comparison.forms, names, strict=True))
        ],
        "wordings": [_wordings(comparison, entry, names) for entry in comparison.populations] if within else [],
        "all": None if shares is None else shares.under_all.value,
        "some": None if shares is None else shares.under_some.value,
        "none": None if shares is None else shares.under_none.value,
        "flips": None if shares is None else shares.flip_rate.value,
        "row": row,
    }


def _spread(spread: Spread) -> dict[str, float | None]:
    """Best minus worst, and what forms that are equally good would show."""
    return _numbers(spread.spread) | {"by_chance": spread.by_chance, "p": spread.p}


def _wordings(comparison: FormComparison, entry: FormatPopulation, names: Sequence[str]) -> dict[str, Any]:
    """The score over the wordings of a format, the effects of their axes, and the estimate of each wording."""
    population = entry.population
    return {
        "label": entry.label,
        **_population_numbers(population),
        "effects": [
            {"label": f"{effect.axis}={effect.value}", "wordings": effect.wordings, "p": effect.p}
            | _numbers(effect.effect)
            for effect in entry.effects
        ],
        "forms": [
            {"label": names[index], "raw": comparison.means[index].value} | _numbers(shrunken)
            for index, shrunken in zip(entry.forms, population.shrunken, strict=True)
        ],
    }


def _population_numbers(population: WordingPopulation) -> dict[str, Any]:
    return {
        "number": population.wordings,
        "mean": _numbers(population.mean),
        "observed": population.observed_deviation,
        "deviation": _numbers(population.deviation),
        "predicted": _numbers(population.predicted),
        "reliability": population.reliability,
    }


def _numbers(estimate: Estimate) -> dict[str, float | None]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}


def _largest(comparison: FormComparison) -> list[Difference]:
    return sorted(comparison.differences, key=lambda pair: -abs(pair.estimate.value))[:_PAIRS]


def _form_pair(pair: Difference, comparison: FormComparison, shorts: Mapping[str, str]) -> dict[str, Any]:
    """The difference of two forms, the higher one minus the other, with interval and p value for all pairs at once."""
    sign = 1 if pair.estimate.value >= 0 else -1
    first, second = (_format(comparison.forms[index], shorts) for index in (pair.first, pair.second)[::sign])
    low, high = sorted(sign * bound for bound in pair.simultaneous.interval)
    difference = abs(pair.estimate.value)
    label = f"{first} − {second}"
    return {"label": label, "difference": difference, "low": low, "high": high, "p": pair.p_simultaneous}


def _run_pairs(changes: Sequence[tuple[int, int, FormChange]], labels: Sequence[str]) -> dict[str, Any]:
    """Later runs minus earlier ones; intervals and p values hold for all comparisons of runs at once."""
    largest = sorted(changes, key=lambda entry: -abs(entry[2].difference.value))[:_PAIRS]
    pairs = [
        {
            "label": f"{labels[second]} − {labels[first]}",
            "difference": change.difference.value,
            "low": change.simultaneous[0],
            "high": change.simultaneous[1],
            "p": change.p_simultaneous,
        }
        for first, second, change in largest
    ]
    return {"pairs": pairs, "compared": changes[0][2].comparisons if changes else 0}

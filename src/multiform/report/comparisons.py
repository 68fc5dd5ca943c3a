"""Comparisons in a report: between the forms of a task or group, and between runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from multiform.results.chart_spec import ChartAxis, ChartPanel, describe_chart, difference_end, metric_axis
from multiform.results.charts import difference_panel, difference_rows
from multiform.results.compare import compare_forms
from multiform.results.form_comparison import FormatPopulation, FormComparison
from multiform.results.pivot import named_comparisons
from multiform.results.results import Results
from multiform.results.run_comparison import FormChange, compare_all_runs, compare_wordings
from multiform.scoring.metrics.base import RIGHT_OR_WRONG
from multiform.statistics.estimates import Estimate
from multiform.statistics.spread import Spread
from multiform.statistics.wordings import WordingPopulation

#: How many differences are drawn for a task: the largest.
_PAIRS = 28


def task_entries(runs: Sequence[Results], labels: Sequence[str], shorts: Mapping[str, str]) -> list[dict[str, Any]]:
    """An entry for each task and group with several forms, and for each form that several runs have.

    `shorts` are the labels of the formats in charts. Forms of a run are compared with each other, once for each kind of
    scoring; differences between runs are corrected for all forms, as `multiform compare` does. Differences of one
    family of metrics are drawn on the same axis.
    """
    rows = {id(comparison): row for results in runs for row, comparison in named_comparisons(results)}
    changes = compare_all_runs(runs)
    listed: list[tuple[dict[str, Any], FormComparison, list[dict[str, Any]]]] = []
    for name, comparison, models in _compare_across_runs(runs, labels):
        of_form = [change for change in changes if change[2].name == name]
        entry = _entry(comparison, None, _short_name(name, shorts), models)
        entry["compared"] = of_form[0][2].comparisons if of_form else 0
        listed.append((entry, comparison, [_change_row(*change, labels) for change in of_form]))
    for run, results in enumerate(runs):
        for comparison in results.comparisons:
            if len(comparison.forms) > 1:
                formats = [_format(name, shorts) for name in comparison.forms]
                entry = _entry(comparison, run, comparison.name, formats, rows.get(id(comparison)))
                listed.append((entry, comparison, difference_rows(comparison, lambda name: _format(name, shorts))))
    families = {id(comparison): _family(comparison) for _, comparison, _ in listed}
    ends = {
        family: difference_end(
            (row for _, comparison, rows in listed if families[id(comparison)] == family for row in rows), "difference"
        )
        for family in set(families.values())
    }
    return [
        {**entry, **_difference_chart(str(entry["task"]), rows, ends[families[id(comparison)]])}
        for entry, comparison, rows in listed
    ]


def _family(comparison: FormComparison) -> str:
    return "accuracy" if comparison.metric in RIGHT_OR_WRONG else comparison.metric


def _difference_chart(name: str, rows: list[dict[str, Any]], end: float) -> dict[str, Any]:
    """The chart of the largest differences, and how many more there are."""
    largest = sorted(rows, key=lambda row: -abs(row["difference"]))[:_PAIRS]
    chart = describe_chart("differences", f"paired differences of {name}", [difference_panel(largest, end)])
    return {"chart": chart.to_dict() if largest else None, "more": len(rows) - len(largest)}


def _change_row(first: int, second: int, change: FormChange, labels: Sequence[str]) -> dict[str, Any]:
    """A later run minus an earlier one; interval and p value hold for all comparisons of runs at once."""
    low, high = change.simultaneous
    row = {"pair": f"{labels[second]} − {labels[first]}", "difference": change.difference.value}
    return {**row, "low": low, "high": high, "p": change.p_simultaneous}


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
    """The score over the wordings of a format, the effects of their axes, and the shrunken score of each wording."""
    population, name = entry.population, f"{comparison.name}@{entry.label}"
    scores = [
        {"form": names[index], "raw": comparison.means[index].value, "score": score.value}
        | {"low": score.low, "high": score.high}
        for index, score in zip(entry.forms, population.shrunken, strict=True)
    ]
    shrunken = ChartPanel(
        mark="interval", x=metric_axis(_family(comparison), scores), y=ChartAxis(field="form"), rows=scores, tick="raw"
    )
    rows = [
        {"axis": f"{effect.axis}={effect.value}", "difference": effect.effect.value, "p": effect.p}
        | {"low": effect.effect.low, "high": effect.effect.high}
        for effect in entry.effects
    ]
    effects = difference_panel(rows, difference_end(rows, "difference"), field="axis")
    return {
        "label": entry.label,
        **_population_numbers(population),
        "effect_p": min((effect.p for effect in entry.effects), default=None),
        "effects": describe_chart("effects", f"effects of axes on {name}", [effects]).to_dict()
        if entry.effects
        else None,
        "chart": describe_chart("wordings", f"shrunken scores of {name}", [shrunken]).to_dict(),
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

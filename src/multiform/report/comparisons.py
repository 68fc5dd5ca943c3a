"""Comparisons in a report: between the forms of a task or group, and between runs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from multiform.results.chart_spec import ChartAxis, ChartPanel, describe_chart, difference_end, metric_axis
from multiform.results.charts import difference_panel, difference_rows
from multiform.results.form_comparison import FormatPopulation, FormComparison
from multiform.results.pivot import named_comparisons
from multiform.results.results import Results
from multiform.results.run_comparison import FormChange, compare_wordings
from multiform.results.values import metric_kind
from multiform.statistics.paired import holm
from multiform.statistics.wordings import WordingPopulation

#: How many differences are drawn for a task: the largest.
_PAIRS = 28


def task_entries(runs: Sequence[Results], shorts: Mapping[str, str]) -> list[dict[str, Any]]:
    """An entry for each task and group with several forms, which are compared once for each kind of scoring.

    `shorts` are the labels of the formats in charts. Differences of one family of metrics are drawn on the same axis.
    """
    listed = [
        (run, comparison, difference_rows(comparison, lambda name: _format(name, shorts)))
        for run, results in enumerate(runs)
        for comparison in results.comparisons
        if len(comparison.forms) > 1
    ]
    table_rows = {id(comparison): row for results in runs for row, comparison in named_comparisons(results)}
    by_family: dict[str, list[Mapping[str, Any]]] = {}
    for _, comparison, rows in listed:
        by_family.setdefault(metric_kind(comparison.metric), []).extend(rows)
    ends = {family: difference_end(rows, "difference") for family, rows in by_family.items()}
    entries = [
        {
            **_entry(comparison, run, [_format(name, shorts) for name in comparison.forms]),
            **_difference_chart(comparison.name, rows, ends[metric_kind(comparison.metric)]),
            "row": table_rows.get(id(comparison)),
        }
        for run, comparison, rows in listed
    ]
    _correct_spreads(entries)
    return entries


def _correct_spreads(entries: Sequence[dict[str, Any]]) -> None:
    """Add Holm's correction of the p values of spreads: for the rows of a run's table, for the tasks that are folded
    into them, and for the comparisons across kinds of scoring."""
    families: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for entry in entries:
        if entry["spread"] is not None:
            kind = (entry["run"], entry["scoring"] == "any", entry["row"] is None)
            families.setdefault(kind, []).append(entry["spread"])
    for spreads in families.values():
        for spread, p in zip(spreads, holm([spread["p"] for spread in spreads]).tolist(), strict=True):
            spread |= {"p_holm": p, "among": len(spreads)}


def change_entry(first: int, second: int, kind: str, change: FormChange) -> dict[str, Any]:
    """A "group" or "form" of two runs, by their numbers."""
    low, high = (None if math.isnan(bound) else bound for bound in change.simultaneous)
    return {
        "first": first,
        "second": second,
        "kind": kind,
        "name": change.name,
        "metric": change.metric,
        "before": change.first.value,
        "after": change.second.value,
        "difference": change.difference.value,
        "low": low,
        "high": high,
        "p": change.p_simultaneous,
        "higher": change.higher_is_better,
        "raised": len(change.raised),
        "lowered": len(change.lowered),
    }


def changes_chart(entries: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> dict[str, Any] | None:
    """The differences between runs, which have these labels; None without any.

    A panel for each kind of metric has its groups, and then the largest differences of forms.
    """
    kinds: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        runs = f", {labels[entry['second']]} − {labels[entry['first']]}" if len(labels) > 2 else ""
        shown = {key: entry[key] for key in ("kind", "difference", "low", "high", "p")}
        kinds.setdefault(metric_kind(entry["metric"]), []).append({"name": entry["name"] + runs, **shown})
    panels = []
    for kind, rows in kinds.items():
        largest = sorted(rows, key=lambda row: (row["kind"] == "form", -abs(row["difference"])))[:_PAIRS]
        more = "" if len(largest) == len(rows) else f": {len(largest)} of {len(rows):,} differences, the largest"
        panels.append(difference_panel(largest, field="name", title=kind + more))
    return describe_chart("changes", "differences between runs", panels).to_dict() if panels else None


def _difference_chart(name: str, rows: list[dict[str, Any]], end: float) -> dict[str, Any]:
    """The chart of the largest differences, and how many more there are."""
    largest = sorted(rows, key=lambda row: -abs(row["difference"]))[:_PAIRS]
    chart = describe_chart("differences", f"paired differences of {name}", [difference_panel(largest, end=end)])
    return {"chart": chart.to_dict() if largest else None, "more": len(rows) - len(largest)}


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


def _entry(comparison: FormComparison, run: int, names: Sequence[str]) -> dict[str, Any]:
    """A comparison for the page; `names` are the labels of its forms."""
    shares, spread = comparison.rightness, comparison.spread
    return {
        "task": comparison.name,
        "run": run,
        "metric": comparison.metric,
        "scoring": comparison.scoring,
        "n": comparison.n,
        "clusters": comparison.clusters,
        "variance": None if comparison.variance is None else comparison.variance.shares,
        "compared": len(comparison.differences),
        "spread": None if spread is None else {**spread.spread.numbers(), "by_chance": spread.by_chance, "p": spread.p},
        "forms": [
            {"name": form, "label": label, "tied": index in comparison.tied_with_best}
            for index, (form, label) in enumerate(zip(comparison.forms, names, strict=True))
        ],
        "wordings": [_wordings(comparison, entry, names) for entry in comparison.populations],
        "all": None if shares is None else shares.under_all.value,
        "some": None if shares is None else shares.under_some.value,
        "none": None if shares is None else shares.under_none.value,
        "flips": None if shares is None else shares.flip_rate.value,
    }


def _wordings(comparison: FormComparison, entry: FormatPopulation, names: Sequence[str]) -> dict[str, Any]:
    """The score over the wordings of a format, the effects of their axes, and the shrunken score of each wording."""
    population, name = entry.population, f"{comparison.name}@{entry.label}"
    scores = [
        {"form": names[index], "raw": comparison.means[index].value, "score": score.value}
        | {"low": score.low, "high": score.high}
        for index, score in zip(entry.forms, population.shrunken, strict=True)
    ]
    shrunken = ChartPanel(
        mark="interval",
        x=metric_axis(metric_kind(comparison.metric), scores),
        y=ChartAxis(field="form"),
        rows=scores,
        tick="raw",
    )
    rows = [
        {"axis": f"{effect.axis}={effect.value}", "difference": effect.effect.value, "p": effect.p}
        | {"low": effect.effect.low, "high": effect.effect.high}
        for effect in entry.effects
    ]
    charts = {
        "effects": describe_chart("effects", f"effects of axes on {name}", [difference_panel(rows, field="axis")])
        if rows
        else None,
        "chart": describe_chart("wordings", f"shrunken scores of {name}", [shrunken]),
    }
    return {
        "label": entry.label,
        **_population_numbers(population),
        "effect_p": min((effect.p for effect in entry.effects), default=None),
        **{key: None if chart is None else chart.to_dict() for key, chart in charts.items()},
    }


def _population_numbers(population: WordingPopulation) -> dict[str, Any]:
    return {
        "number": population.wordings,
        "mean": population.mean.numbers(),
        "observed": population.observed_deviation,
        "deviation": population.deviation.numbers(),
        "predicted": population.predicted.numbers(),
        "reliability": population.reliability,
    }

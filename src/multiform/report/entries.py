"""The entries of a report's data: each form with its documents, and comparisons between forms and between runs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from multiform.errors import ConfigError
from multiform.formats.axes import AXIS_WORDS
from multiform.formats.variation import Variation
from multiform.forms import ScoredSample
from multiform.prompts.prompt import shared_length
from multiform.report.sample import Question, flags_of, margin, pick, sample_score
from multiform.results.charts import (
    ChartAxis,
    ChartPanel,
    calibration_panel,
    describe_chart,
    difference_end,
    difference_panel,
    difference_rows,
    metric_axis,
    position_panel,
)
from multiform.results.compare import ScoredForm, calibration_of_form, chance_level, position_bias_of_form
from multiform.results.form_comparison import FormatPopulation, FormComparison
from multiform.results.pivot import named_comparisons, p_words
from multiform.results.results import Results
from multiform.results.run_comparison import FormChange, compare_wordings
from multiform.results.values import FormResult, metric_kind, metric_label
from multiform.statistics.differences import holm
from multiform.statistics.estimates import ALPHA, Estimate
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
    effects = describe_chart("effects", f"effects of axes on {name}", [difference_panel(rows, field="axis")])
    return {
        "label": entry.label,
        **_population_numbers(population),
        "effect_p": min((effect.p for effect in entry.effects), default=None),
        "effects": effects.to_dict() if rows else None,
        "chart": describe_chart("wordings", f"shrunken scores of {name}", [shrunken]).to_dict(),
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


#: Characters of a document that the list of documents shows.
_HEAD = 110


def variation_table(shorts: Mapping[str, str]) -> dict[str, Any]:
    """What each variation changes: the axes that any of them is on, and its value on each; None is the format's own."""
    variations = {}
    for label in shorts:
        with suppress(ConfigError):  # a task may have a format of any name
            variations[label] = Variation.parse(label)
    varied = {label: variation for label, variation in variations.items() if variation.choices}
    used = dict.fromkeys(axis for variation in varied.values() for axis in variation.choices)
    axes = [*(axis for axis in used if axis not in AXIS_WORDS), *(axis for axis in AXIS_WORDS if axis in used)]
    return {
        "axes": [{"name": axis, "words": AXIS_WORDS.get(axis, "an axis of the task")} for axis in axes],
        "rows": [
            {"format": label, "short": shorts[label], "values": [variation.choices.get(axis) for axis in axes]}
            for label, variation in varied.items()
        ],
    }


def form_entry(
    form: FormResult, run: int, asked: Sequence[tuple[ScoredSample, Question]], short: str
) -> dict[str, Any]:
    """A form with the score, the flags and the number of each of its documents.

    `asked` has the samples of one filter with their questions, and `short` is the label of the form's format in charts.
    """
    samples = [sample for sample, _ in asked]
    # What --predict_only writes instead of a score is none.
    estimates = {key: estimate for key, estimate in form.estimates.items() if key.partition(",")[0] != "bypass"}
    primary = form.primary if form.estimates and form.primary in estimates else ""
    name = primary.partition(",")[0]
    scores = [sample_score(sample, name) for sample in samples]
    higher = form.higher_is_better.get(name, True)
    flags = [flags_of(sample, wrong=higher and score == 0) for sample, score in zip(samples, scores, strict=True)]
    family = ScoredForm.of(form).family
    return {
        "metric": metric_label(primary),
        **estimates.pop(primary, Estimate(value=math.nan, n=0)).numbers("stderr"),
        "others": [{"metric": metric_label(key), **other.numbers("stderr")} for key, other in estimates.items()],
        "run": run,
        "name": form.name,
        "family": family,
        "chance": chance_level(samples) if family == "accuracy" else None,
        "key": f"{run}:{form.name}",
        "task": form.task,
        "format": form.format_label,
        "short": short,
        "n": form.n,
        "shots": form.num_fewshot,
        "higher": higher,
        "identity": form.identity,
        "overridden": list(form.overridden),
        "config": dict(form.config),
        "format_fields": form.format,
        "docs": [sample.doc_id for sample in samples],
        "scores": scores,
        "flags": flags,
        "picks": [pick(sample) for sample in samples],
        "lengths": [question.prompt_length for _, question in asked],
        "margins": [margin(sample) for sample in samples],
        "position": _position(form),
        "calibration": _calibration(form),
    }


def _position(form: FormResult) -> dict[str, Any] | None:
    """How often each position is picked and right, in words and as a chart; None for choices of different numbers."""
    bias = position_bias_of_form(form)
    if bias is None:
        return None
    panel = position_panel(form, bias)
    words = f"no position is shown to be picked more often than it is right ({p_words(bias.p)})"
    if bias.p < ALPHA:
        excess = 100 * bias.positions[bias.preferred].excess.value
        label = panel.rows[bias.preferred]["position"]
        words = f"position {label} is picked {excess:+.1f} points more often than it is right ({p_words(bias.p)})"
    return {"words": words, "chart": describe_chart("position_bias", f"picks of {form.name}", [panel]).to_dict()}


def _calibration(form: FormResult) -> dict[str, Any] | None:
    result = calibration_of_form(form)
    if result is None:
        return None
    error = result.error
    words = f"expected calibration error {error.value:.3f} ({error.interval_text()}), noise subtracted"
    panel = calibration_panel(form, result)
    return {"words": words, "chart": describe_chart("calibration", f"calibration of {form.name}", [panel]).to_dict()}


def question_heads(questions: Sequence[str]) -> list[str]:
    """How each question begins, without what all of them begin with, such as an instruction or "Question: ".

    >>> question_heads(["Question: Why?", "Question: " + "word " * 50])[1][-10:]
    'word word…'
    """
    first, last = min(questions, default=""), max(questions, default="")
    shared = first[: shared_length(first, last)] if first != last else ""
    start = max(shared.rfind("\n") + 1, shared.rfind(": ") + 2 if ": " in shared else 0)
    heads = [" ".join(question[start : start + 4 * _HEAD].split()) for question in questions]
    return [head if len(head) <= _HEAD else f"{head[: _HEAD - 1].rstrip()}…" for head in heads]

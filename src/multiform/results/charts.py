"""Charts: what each shows is described once, as data with its encoding, and drawn from that description.

`CHARTS` has a function for each chart, which returns a `ChartSpec`, and `results/drawing.py` makes an Altair chart of
any of them. A new chart is a function here, an entry of `CHARTS`, and a method of `Charts` there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import permutations
from typing import Any, Literal

from multiform.errors import DataError
from multiform.results.compare import (
    calibration_of,
    chance_level,
    document_values,
    metric_family,
    position_bias_of,
    scoring_of,
)
from multiform.results.extraction import is_unread
from multiform.results.form_comparison import FormComparison
from multiform.results.pivot import shown_comparisons
from multiform.results.values import FormResult, GroupResult, ResultsData

#: The colours of categories, which colour-blind readers can tell apart (Okabe and Ito), and of the lowest and highest
#: value of cells.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
CELLS = ("#f7fbff", "#08519c")
#: The most differences that are drawn, and the most rows that a text alternative has.
_PAIRS = 60
_TEXT_ROWS = 20
#: Metrics without an upper bound, and those of another range than 0 to 1.
_UNBOUNDED = ("perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte", "bits_per_byte_mean")
_RANGES = {"mcc": (-1.0, 1.0), "bleu": (0.0, 100.0), "chrf": (0.0, 100.0)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartAxis:
    """A column of the rows, and its axis: from `low` to `high` for numbers, else `names` or those of the rows."""

    field: str
    title: str | None = None
    low: float | None = None
    high: float | None = None
    names: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPanel:
    """One coordinate system with its data.

    An interval is a point at `x` with a line from the columns `low` to `high`; a cell is coloured by `value`; a bar
    begins at 0; a line joins points whose size is the column `n`.
    """

    mark: Literal["interval", "cell", "bar", "line"]
    x: ChartAxis
    y: ChartAxis
    rows: Sequence[Mapping[str, Any]]
    title: str | None = None
    #: The column whose values have different colours, in the order of the palette.
    color: str | None = None
    #: The axis of the cells' colours.
    value: ChartAxis | None = None
    #: A column that is marked by a tick on the axis of numbers, such as what chance alone would show.
    tick: str | None = None
    #: Reference lines across the axis of numbers, by what they mean, such as the chance level.
    lines: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSpec:
    """A chart: its panels, and a text that says what it shows."""

    name: str
    panels: Sequence[ChartPanel]
    text: str
    columns: int = 1

    def to_dict(self) -> dict[str, Any]:
        """The description as JSON."""
        return {**asdict(self), "palette": PALETTE, "cells": CELLS}


def scores_chart(results: ResultsData) -> ChartSpec:
    """The first score of every form with its 95 % interval, the best of each task first; the chance level as a line."""
    families: dict[str, list[FormResult]] = {}
    for form in _scored_forms(results):
        families.setdefault(_family(form), []).append(form)
    panels = []
    for family, forms in families.items():
        tasks = list(dict.fromkeys(form.task for form in forms))
        sign = 1 if forms[0].higher_is_better.get(_metric_name(forms[0]), True) else -1
        forms.sort(key=lambda form: (tasks.index(form.task), -sign * form.estimates[form.primary].value))
        rows = [
            {
                "form": form.name,
                "task": form.task,
                "metric": _metric(form),
                "scoring": scoring_of(form),
                "score": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "n": estimate.n,
            }
            for form in forms
            for estimate in [form.estimates[form.primary]]
        ]
        chances = {chance_level(form.samples) for form in forms} if family == "accuracy" else set()
        chance = chances.pop() if len(chances) == 1 else None
        panels.append(
            ChartPanel(
                mark="interval",
                title=_direction(family, sign > 0),
                x=_metric_axis(family, rows),
                y=ChartAxis(field="form"),
                color="scoring",
                rows=rows,
                lines=None if chance is None else {"chance": chance},
            )
        )
    return _chart("scores", "scores with 95 % intervals", panels)


def overview_chart(results: ResultsData) -> ChartSpec:
    """Every score on one axis for each metric: a row for each form of a single task, else for each group and task.

    The rows of a task or group name the group that they belong to in `parent`, and `missing` is the share of
    completions without an extracted answer.
    """
    forms = [form for form in _scored_forms(results) if has_score(form)]
    if not forms:
        raise DataError("there are no scores to draw", where="chart", hint="run without --predict_only")
    groups = [group for group in results.groups if group.estimates and any(f.name in group.forms for f in forms)]
    single = len({form.task for form in forms}) == 1 and not groups
    by_name = {form.name: form for form in forms}
    missing = {form.name: share for form in forms if (share := _missing_share(form)) is not None}
    parents = {name: group.path for group in sorted(groups, key=lambda group: group.depth) for name in group.forms}
    rows: dict[str, list[dict[str, Any]]] = {}
    entries: list[FormResult | GroupResult] = [*groups, *forms]
    for entry in entries:
        members = [entry] if isinstance(entry, FormResult) else [by_name[n] for n in entry.forms if n in by_name]
        key = next(iter(entry.estimates))
        estimate, metric = entry.estimates[key], key.partition(",")[0]
        if not math.isfinite(estimate.value):
            continue
        shares = [missing[form.name] for form in members if form.name in missing]
        label = entry.name.partition("@")[2] or "as written"
        name = label if single else entry.task if isinstance(entry, FormResult) else entry.path
        family = _family(members[0]) if _metric_name(members[0]) == metric else metric
        rows.setdefault(family, []).append(
            {
                "row": name,
                "form": entry.name,
                "format": label,
                "metric": _direction(metric, entry.higher_is_better.get(metric, True)),
                "scoring": scoring_of(members[0]),
                "score": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "n": entry.n,
                "missing": sum(shares) / len(shares) if shares else None,
                "kind": "form" if isinstance(entry, FormResult) else "group",
                "parent": parents.get(entry.name) if isinstance(entry, FormResult) else _parent(entry, groups),
            }
        )
    panels = []
    for family, listed in rows.items():
        higher = not any(row["metric"].endswith("↓") for row in listed)
        best = {name: _best_of([row for row in listed if row["row"] == name], higher) for name in _names(listed)}
        listed.sort(key=lambda row: (row["kind"] == "form", -best[row["row"]] if higher else best[row["row"]]))
        of_family = [form for form in forms if _family(form) == family]
        levels = [chance_level(form.samples) for form in of_family] if family == "accuracy" else []
        chances = {level for level in levels if level is not None}
        chance = chances.pop() if len(chances) == 1 else None
        panels.append(
            ChartPanel(
                mark="interval",
                title=_direction(family, higher),
                x=_metric_axis(family, listed),
                y=ChartAxis(field="row", names=_names(listed)),
                color="scoring",
                rows=listed,
                lines=None if chance is None else {"chance": chance},
            )
        )
    return _chart("overview", "scores with 95 % intervals", panels)


def has_score(form: FormResult) -> bool:
    """Whether a form has a score; what --predict_only writes instead of one is none."""
    return bool(form.estimates) and _metric_name(form) != "bypass" and math.isfinite(form.estimates[form.primary].value)


def _missing_share(form: FormResult) -> float | None:
    """The share of a form's completions that are wrong because no answer was extracted; None for ranked choices."""
    metric, _, scorer = form.primary.partition(",")
    samples = [sample for sample in form.samples if sample.scorer == scorer]
    if not samples or scoring_of(form) != "generated" or metric_family(form) != "accuracy":
        return None
    return sum(not sample.values.get(metric) and is_unread(sample) for sample in samples) / len(samples)


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(str(row["row"]) for row in rows))


def _best_of(rows: Sequence[Mapping[str, Any]], higher_is_better: bool) -> float:
    return float((max if higher_is_better else min)(row["score"] for row in rows))


def _parent(group: GroupResult, groups: Sequence[GroupResult]) -> str | None:
    """The path of the group that holds this one, in the same format."""
    return next((other.path for other in groups if group.name in other.members), None)


def spread_chart(results: ResultsData) -> ChartSpec:
    """How much better the best form of each task is than the worst; a tick is what equally good forms would show."""
    comparisons = _comparisons(results)
    names = [comparison.name for comparison in comparisons]
    rows = [
        {
            "task": name if names.count(name) == 1 else f"{name} ({comparison.scoring})",
            "scoring": comparison.scoring,
            "spread": comparison.spread.spread.value,
            "low": comparison.spread.spread.low,
            "high": comparison.spread.spread.high,
            "by_chance": comparison.spread.by_chance,
            "p": comparison.spread.p,
        }
        for name, comparison in zip(names, comparisons, strict=True)
        if comparison.spread is not None
    ]
    panel = ChartPanel(
        mark="interval",
        x=ChartAxis(field="spread", title="best − worst", low=0.0, high=_step(rows, "spread")),
        y=ChartAxis(field="task"),
        color="scoring",
        tick="by_chance",
        rows=rows,
    )
    return _chart("spread", "best minus worst form with 95 % intervals", [panel])


def heatmap_chart(results: ResultsData) -> ChartSpec:
    """Scores by task and format, darker where they are higher; of the metric that most forms have."""
    forms = _scored_forms(results)
    families = [_family(form) for form in forms]
    shown = max(dict.fromkeys(families), key=families.count)
    rows = [
        {
            "task": form.task,
            "format": form.format_label or "as written",
            "metric": _metric(form),
            "score": form.estimates[form.primary].value,
        }
        for form, family in zip(forms, families, strict=True)
        if family == shown
    ]
    panel = ChartPanel(
        mark="cell",
        title=shown,
        x=ChartAxis(field="format"),
        y=ChartAxis(field="task"),
        value=_metric_axis(shown, rows),
        rows=rows,
    )
    return _chart("heatmap", f"{shown} by task and format", [panel])


def differences_chart(results: ResultsData) -> ChartSpec:
    """The paired differences between the forms of each task or group, of many the largest.

    The intervals hold for all pairs of a task at once, as the p values do.
    """
    rows: list[dict[str, Any]] = [
        {
            "pair": f"{comparison.forms[pair.first]} − {comparison.forms[pair.second]}",
            "task": comparison.name,
            "difference": pair.estimate.value,
            "low": pair.simultaneous.low,
            "high": pair.simultaneous.high,
            "p": pair.p_simultaneous,
        }
        for comparison in _comparisons(results)
        for pair in comparison.differences
    ]
    largest = sorted(rows, key=lambda row: -abs(row["difference"]))[:_PAIRS]
    drawn = [row for row in rows if row in largest]
    title = None if len(drawn) == len(rows) else f"the {len(drawn)} largest of {len(rows):,} differences"
    return _chart("differences", "differences between forms", [_difference_panel(drawn, "pair", title)])


def flips_chart(results: ResultsData) -> ChartSpec:
    """The share of documents that are right under one form and wrong under the other, for each pair of forms."""
    scores = _document_scores(results)
    panels = []
    for comparison in _comparisons(results):
        rows = []
        for first, second in permutations(comparison.forms, 2):
            a, b = scores.get(first, {}), scores.get(second, {})
            shared = [doc for doc in a if doc in b]
            if shared:
                share = sum(a[doc] != b[doc] for doc in shared) / len(shared)
                rows.append({"form": first, "other": second, "flips": share})
        value = ChartAxis(field="flips", title="flip rate", low=0.0, high=1.0)
        x, y = (ChartAxis(field=field, names=comparison.forms) for field in ("form", "other"))
        panels.append(ChartPanel(mark="cell", x=x, y=y, value=value, rows=rows))
    return _chart("flips", "share of documents on which two forms differ", panels)


def position_bias_chart(results: ResultsData) -> ChartSpec:
    """How often each position among the choices is picked (bars), and how often it is right (ticks)."""
    panels = []
    for form, bias in _measures(results, position_bias_of):
        rows = [
            {"position": index + 1, "picked": position.picked.value, "right": position.gold.value}
            for index, position in enumerate(bias.positions)
        ]
        y = ChartAxis(field="picked", title="share of documents", low=0.0, high=1.0)
        x = ChartAxis(field="position", title="position")
        panels.append(ChartPanel(mark="bar", title=form.name, x=x, y=y, tick="right", rows=rows))
    return _chart("position_bias", "how often each position is picked", panels, columns=4)


def calibration_chart(results: ResultsData) -> ChartSpec:
    """How often the picked choice is right, by how sure the model is of it."""
    rows = []
    for form, result in _measures(results, calibration_of):
        low, high = result.error.interval
        name = f"{form.name} (ECE {result.error.value:.3f}, {low:.3f} to {high:.3f})"
        for part in result.bins:
            rows.append({"form": name, "confidence": part.confidence, "accuracy": part.accuracy, "n": part.n})
    x, y = (ChartAxis(field=name, title=name, low=0.0, high=1.0) for name in ("confidence", "accuracy"))
    return _chart("calibration", "accuracy by confidence", [ChartPanel(mark="line", x=x, y=y, color="form", rows=rows)])


#: The charts of a run by their names, also on the command line.
CHARTS: Mapping[str, Callable[[ResultsData], ChartSpec]] = {
    "scores": scores_chart,
    "heatmap": heatmap_chart,
    "spread": spread_chart,
    "differences": differences_chart,
    "flips": flips_chart,
    "position_bias": position_bias_chart,
    "calibration": calibration_chart,
}


def _metric_axis(metric: str, rows: Sequence[Mapping[str, Any]]) -> ChartAxis:
    """The axis of a metric, which does not depend on the scores where the metric has a range.

    >>> axis = _metric_axis("accuracy", [{"score": 0.43, "low": 0.41, "high": 0.45}])
    >>> axis.low, axis.high
    (0.0, 1.0)
    """
    values = [row[name] for row in rows for name in ("score", "low", "high") if row.get(name) is not None]
    low, high = _RANGES.get(metric, (0.0, 1.0))
    if metric in _UNBOUNDED or not all(low <= value <= high for value in values):
        low, high = -_ceiling(-min(values)) if min(values) < 0 else 0.0, _ceiling(max(values))
    return ChartAxis(field="score", title=metric, low=low, high=high)


def _ceiling(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50 and so on."""
    steps = (factor * 10.0**power for power in range(9) for factor in (1, 2, 5))
    return next((step for step in steps if value <= step), value)


def _step(rows: Iterable[Mapping[str, Any]], field: str) -> float:
    """The end of an axis of differences: a tenth, a fifth, half or all of the range, so that charts can be compared."""
    bounds = [abs(row[name]) for row in rows for name in (field, "low", "high") if row.get(name) is not None]
    largest = max(bounds, default=0.0)
    return next((step for step in (0.1, 0.2, 0.5) if largest <= step), _ceiling(largest))


def _difference_panel(rows: Sequence[Mapping[str, Any]], name: str, title: str | None) -> ChartPanel:
    end = _step(rows, "difference")
    axis = ChartAxis(field="difference", title="difference", low=-end, high=end)
    y = ChartAxis(field=name)
    return ChartPanel(mark="interval", title=title, x=axis, y=y, rows=rows, lines={"no difference": 0.0})


def _chart(name: str, title: str, panels: Sequence[ChartPanel], *, columns: int = 1) -> ChartSpec:
    lines = [line for panel in panels for line in map(_row_words(panel), panel.rows)]
    more = [f"and {len(lines) - _TEXT_ROWS} more"] if len(lines) > _TEXT_ROWS else []
    return ChartSpec(
        name=name, panels=panels, text=f"{title}: {'; '.join([*lines[:_TEXT_ROWS], *more])}", columns=columns
    )


def _row_words(panel: ChartPanel) -> Callable[[Mapping[str, Any]], str]:
    """What a row of a panel shows, in words."""
    number = panel.value or (panel.x if panel.mark == "interval" else panel.y)
    names = [axis.field for axis in (panel.y, panel.x) if axis is not number]

    def words(row: Mapping[str, Any]) -> str:
        where = ", ".join(f"{row[name]:.2f}" if isinstance(row[name], float) else str(row[name]) for name in names)
        low, high = row.get("low"), row.get("high")
        interval = "" if low is None or high is None else f" ({low:.3f} to {high:.3f})"
        return f"{where}: {row[number.field]:.3f}{interval}"

    return words


def _document_scores(results: ResultsData) -> dict[str, dict[tuple[str, int], Any]]:
    """The score of each document under every form, and under every group's forms."""
    scores = {
        form.name: {(form.task, doc): value for doc, value in document_values(form).items()}
        for form in results.forms
        if form.estimates
    }
    groups = {
        group.name: {doc: value for name in group.forms for doc, value in scores.get(name, {}).items()}
        for group in results.groups
    }
    return scores | groups


def _scored_forms(results: ResultsData) -> list[FormResult]:
    forms = [form for form in results.forms if form.estimates]
    if not forms:
        raise DataError("there are no scores to draw", where="chart", hint="run without --predict_only")
    return forms


def _comparisons(results: ResultsData) -> list[FormComparison]:
    comparisons = [comparison for comparison in shown_comparisons(results) if len(comparison.forms) > 1]
    if not comparisons:
        message = "no task has two forms with scores of the same documents"
        raise DataError(message, where="chart", hint="run a task under several formats, e.g. quiz@mcqa+cloze")
    return comparisons


def _measures(results: ResultsData, measure: Callable[..., Any]) -> list[tuple[FormResult, Any]]:
    """A measure of the samples of each form that has it."""
    measures = [(form, measure(form.samples)) for form in results.forms]
    known = [(form, value) for form, value in measures if value is not None]
    if not known:
        message = "no form ranks choices of equal number on enough documents"
        raise DataError(message, where="chart", hint="run a task with choices, e.g. quiz@mcqa")
    return known


def _metric_name(form: FormResult) -> str:
    return form.primary.partition(",")[0]


def _family(form: FormResult) -> str:
    return metric_family(form) or _metric_name(form)


def _metric(form: FormResult) -> str:
    return _direction(_metric_name(form), form.higher_is_better.get(_metric_name(form), True))


def _direction(metric: str, higher_is_better: bool) -> str:
    return f"{metric} {'↑' if higher_is_better else '↓'}"

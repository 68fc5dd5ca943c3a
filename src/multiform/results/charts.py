"""Charts: a function for each, which returns its description.

`results/drawing.py` makes an Altair chart of any of them. A new chart is a function here, an entry of `CHARTS`, and a
method of `Charts` there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from typing import Any

from multiform.errors import DataError
from multiform.results.chart_spec import ChartAxis, ChartPanel, ChartSpec, describe_chart, difference_end, metric_axis
from multiform.results.compare import (
    calibration_of,
    chance_level,
    document_values,
    metric_family,
    position_bias_of,
    scoring_of,
)
from multiform.results.form_comparison import FormComparison
from multiform.results.pivot import shown_comparisons
from multiform.results.values import FormResult, ResultsData

#: The most differences that are drawn.
_PAIRS = 60


def scores_chart(results: ResultsData) -> ChartSpec:
    """The first score of every form with its 95 % interval, the best of each task first; the chance level as a line."""
    families: dict[str, list[FormResult]] = {}
    for form in scored_forms(results):
        families.setdefault(family_of(form), []).append(form)
    panels = []
    for family, forms in families.items():
        tasks = list(dict.fromkeys(form.task for form in forms))
        sign = 1 if forms[0].higher_is_better.get(metric_name(forms[0]), True) else -1
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
                title=direction_words(family, sign > 0),
                x=metric_axis(family, rows),
                y=ChartAxis(field="form"),
                color="scoring",
                rows=rows,
                lines=None if chance is None else {"chance": chance},
            )
        )
    return describe_chart("scores", "scores with 95 % intervals", panels)


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
        x=ChartAxis(field="spread", title="best − worst", low=0.0, high=difference_end(rows, "spread")),
        y=ChartAxis(field="task"),
        color="scoring",
        tick="by_chance",
        rows=rows,
    )
    return describe_chart("spread", "best minus worst form with 95 % intervals", [panel])


def heatmap_chart(results: ResultsData) -> ChartSpec:
    """Scores by task and format, darker where they are higher; of the metric that most forms have."""
    forms = scored_forms(results)
    families = [family_of(form) for form in forms]
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
        value=metric_axis(shown, rows),
        rows=rows,
    )
    return describe_chart("heatmap", f"{shown} by task and format", [panel])


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
    return describe_chart("differences", "differences between forms", [_difference_panel(drawn, "pair", title)])


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
    return describe_chart("flips", "share of documents on which two forms differ", panels)


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
    return describe_chart("position_bias", "how often each position is picked", panels, columns=4)


def calibration_chart(results: ResultsData) -> ChartSpec:
    """How often the picked choice is right, by how sure the model is of it."""
    rows = []
    for form, result in _measures(results, calibration_of):
        low, high = result.error.interval
        name = f"{form.name} (ECE {result.error.value:.3f}, {low:.3f} to {high:.3f})"
        for part in result.bins:
            rows.append({"form": name, "confidence": part.confidence, "accuracy": part.accuracy, "n": part.n})
    x, y = (ChartAxis(field=name, title=name, low=0.0, high=1.0) for name in ("confidence", "accuracy"))
    return describe_chart(
        "calibration", "accuracy by confidence", [ChartPanel(mark="line", x=x, y=y, color="form", rows=rows)]
    )


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


def _difference_panel(rows: Sequence[Mapping[str, Any]], name: str, title: str | None) -> ChartPanel:
    end = difference_end(rows, "difference")
    axis = ChartAxis(field="difference", title="difference", low=-end, high=end)
    y = ChartAxis(field=name)
    return ChartPanel(mark="interval", title=title, x=axis, y=y, rows=rows, lines={"no difference": 0.0})


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


def scored_forms(results: ResultsData) -> list[FormResult]:
    """The forms with a score; an error where there are none."""
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


def metric_name(form: FormResult) -> str:
    """The name of a form's first metric."""
    return form.primary.partition(",")[0]


def family_of(form: FormResult) -> str:
    """The metrics that are drawn on one axis, by a common name."""
    return metric_family(form) or metric_name(form)


def _metric(form: FormResult) -> str:
    return direction_words(metric_name(form), form.higher_is_better.get(metric_name(form), True))


def direction_words(metric: str, higher_is_better: bool) -> str:
    """A metric with an arrow in the direction that is better."""
    return f"{metric} {'↑' if higher_is_better else '↓'}"

"""The scores of a family of models over its checkpoints, or of one model over the dates of its runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from multiform.report.leaderboard import form_label, headlines, model_labels
from multiform.report.payload import minute
from multiform.results.chart_spec import ChartAxis, ChartPanel, ChartSpec, describe_chart, metric_axis
from multiform.results.results import Results
from multiform.scoring.metrics.base import RIGHT_OR_WRONG

#: How names and arguments of models say which checkpoint they are.
_STEP = re.compile(r"(?:global_?step|step|checkpoint|ckpt|iter)[-_=]?(\d+)([kKmM]?)\b")
_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000}
#: The most series of a chart.
_SERIES = 7


def checkpoint(label: str) -> tuple[str, int] | None:
    """The family of a model and its step; None for a model that names none.

    >>> checkpoint("pythia-70m (revision=step3000)"), checkpoint("pythia-70m")
    (('pythia-70m (revision=step…)', 3000), None)
    """
    match = _STEP.search(label)
    if match is None:
        return None
    family = label[: match.start(1)] + "…" + label[match.end() :]
    return family, int(match.group(1)) * _FACTORS[match.group(2).lower()]


def history_charts(runs: Mapping[str, Results]) -> list[ChartSpec]:
    """A chart for each family of checkpoints, and for each model that ran more than once, of the scores that recur."""
    families: dict[str, list[tuple[Any, str, str, Results]]] = {}
    for key, label in model_labels(runs).items():
        found = checkpoint(label)
        family, at = (label, minute(runs[key])) if found is None else found
        families.setdefault(family, []).append((at, key, f"{at:,}" if isinstance(at, int) else at, runs[key]))
    return [
        chart
        for family, points in families.items()
        if len({at for at, *_ in points}) > 1
        for chart in _charts(family, sorted(points, key=lambda point: point[0]))
    ]


def _charts(family: str, points: list[tuple[Any, str, str, Results]]) -> Iterator[ChartSpec]:
    by_metric: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for _, key, at, results in points:
        for entry in headlines(results):
            kind = "accuracy" if entry.metric in RIGHT_OR_WRONG else entry.metric
            label, score = form_label(entry, results), entry.score
            row = {"at": at, "series": label, "score": score.value, "low": score.low, "high": score.high}
            by_metric.setdefault(kind, {}).setdefault(label, []).append({**row, "run": key})
    panels = []
    for metric, series in by_metric.items():
        recurring = [rows for rows in series.values() if len(rows) > 1]
        rows = [row for some in recurring[:_SERIES] for row in some]
        more = f" (the first {_SERIES} of {len(recurring)} columns)" if len(recurring) > _SERIES else ""
        if rows:
            panels.append(
                ChartPanel(
                    mark="line",
                    title=metric + more,
                    x=ChartAxis(field="at", names=list(dict.fromkeys(at for _, _, at, _ in points))),
                    y=metric_axis(metric, rows),
                    color="series",
                    rows=rows,
                )
            )
    if panels:
        yield describe_chart(family, f"scores of {family}", panels)

"""The chart of a report's first screen: every score of a run on one axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from multiform.errors import DataError
from multiform.results.chart_spec import ChartAxis, ChartPanel, ChartSpec, describe_chart, metric_axis
from multiform.results.charts import direction_words, family_of, metric_name, scored_forms
from multiform.results.compare import chance_level, metric_family, scoring_of
from multiform.results.extraction import is_unread
from multiform.results.values import FormResult, GroupResult, ResultsData


def overview_chart(results: ResultsData) -> ChartSpec:
    """Every score on one axis for each metric: a row for each form of a single task, else for each group and task.

    The rows of a task or group name the group that they belong to in `parent`, and `missing` is the share of
    completions without an extracted answer.
    """
    forms = [form for form in scored_forms(results) if has_score(form)]
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
        family = family_of(members[0]) if metric_name(members[0]) == metric else metric
        rows.setdefault(family, []).append(
            {
                "row": name,
                "form": entry.name,
                "format": label,
                "metric": direction_words(metric, entry.higher_is_better.get(metric, True)),
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
        of_family = [form for form in forms if family_of(form) == family]
        levels = [chance_level(form.samples) for form in of_family] if family == "accuracy" else []
        chances = {level for level in levels if level is not None}
        chance = chances.pop() if len(chances) == 1 else None
        panels.append(
            ChartPanel(
                mark="interval",
                title=direction_words(family, higher),
                x=metric_axis(family, listed),
                y=ChartAxis(field="row", names=_names(listed)),
                color="scoring",
                rows=listed,
                lines=None if chance is None else {"chance": chance},
            )
        )
    return describe_chart("overview", "scores with 95 % intervals", panels)


def has_score(form: FormResult) -> bool:
    """Whether a form has a score; what --predict_only writes instead of one is none."""
    return bool(form.estimates) and metric_name(form) != "bypass" and math.isfinite(form.estimates[form.primary].value)


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

"""The values of one document: what a task's own code gives, as one value for each metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from multiform.errors import DataError, shorten
from multiform.scoring.aggregations import Aggregation, ItemKind, item_kind
from multiform.scoring.metrics import Metric
from multiform.scoring.scorers import Scorer


def given_values(
    scorer: Scorer, values: Mapping[str, Any], aggregation_of: Callable[[str], Aggregation]
) -> dict[str, Any]:
    """The values that `process_results` returned, lists of repeated values reduced to one.

    A list is what a task's own aggregation gets as it is, unless the metric names a reduction. A registered
    aggregation takes one number, or one pair, for each document: a list of these holds repeats.
    """
    made: dict[str, Any] = {}
    for key, value in values.items():
        metric = scorer.named(str(key))
        repeats = _repeats(value, item_kind(aggregation_of(str(key))), metric)
        if repeats is None:
            made[str(key)] = value
        elif not repeats:
            what = f"process_results gave metric '{key}' an empty list"
            raise DataError(what, hint="give a value, such as 0.0, or leave the metric out of this document")
        else:
            made |= scorer.reduced([{str(key): repeat} for repeat in repeats])
    return made


def _repeats(value: Any, kind: ItemKind, metric: Metric | None) -> list[Any] | None:
    """The values that a list repeats; None where the value is passed on as it is."""
    asked = metric is not None and metric.reduction is not None
    if isinstance(value, list) and (kind == "number" or _holds_pairs(value) or (kind == "any" and asked)):
        return value if kind != "any" or asked else None
    return [value] if asked else None


def _holds_pairs(value: list[Any]) -> bool:
    return all(isinstance(item, list | tuple) and len(item) == 2 for item in value)


def check_values(values: Mapping[str, Any], scorer: Scorer, aggregation_of: Callable[[str], Aggregation]) -> None:
    """Refuse a value that its metric's aggregation cannot add up, as soon as there is one.

    Text that no metric is named after, such as what a judge wrote, is for the samples alone.
    """
    for key, value in values.items():
        if item_kind(aggregation_of(key)) != "number" or _is_number(value):
            continue
        if scorer.named(key) is None and is_note(value):
            continue
        what = f"metric '{key}' has the value {shorten(value)}, not a number"
        raise DataError(what, hint="give a number for each document, or an aggregation that takes such values")


def is_note(value: Any) -> bool:
    """Whether a value can only be meant for the samples."""
    return value is None or isinstance(value, str)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True

"""The values that a task's own code returns for a document, checked and reduced to one for each metric."""

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
    """The values that `process_results` returned, with the values of repeats reduced to one.

    A task's own aggregation gets a list as it is, unless the metric has a reduction. A registered aggregation takes
    one number, or one pair, for each document, so that a list of these holds repeats.
    """
    reduced: dict[str, Any] = {}
    for key, value in values.items():
        metric = scorer.named(str(key))
        repeats = _repeats(value, item_kind(aggregation_of(str(key))), metric)
        if repeats is None:
            reduced[str(key)] = value
        elif not repeats:
            message = f"process_results gave metric '{key}' an empty list"
            raise DataError(message, hint="give a value, such as 0.0, or leave the metric out of this document")
        else:
            reduced |= scorer.reduced([{str(key): repeat} for repeat in repeats])
    return reduced


def _repeats(value: Any, kind: ItemKind, metric: Metric | None) -> list[Any] | None:
    """The values that a list repeats; None where the value is passed on as it is."""
    reduces = metric is not None and metric.reduction is not None
    if isinstance(value, list) and (kind == "number" or _holds_pairs(value) or (kind == "any" and reduces)):
        return value if kind != "any" or reduces else None
    return [value] if reduces else None


def _holds_pairs(value: list[Any]) -> bool:
    return all(isinstance(item, list | tuple) and len(item) == 2 for item in value)


def check_values(values: Mapping[str, Any], scorer: Scorer, aggregation_of: Callable[[str], Aggregation]) -> None:
    """Raise a DataError for a value that the aggregation of its metric cannot use.

    Text under a name that is no metric, such as a judge's response, is only written to the samples.
    """
    for key, value in values.items():
        if item_kind(aggregation_of(key)) != "number" or _is_number(value):
            continue
        if scorer.named(key) is None and is_note(value):
            continue
        message = f"metric '{key}' has the value {shorten(value)}, not a number"
        raise DataError(message, hint="give a number for each document, or an aggregation that takes such values")


def is_note(value: Any) -> bool:
    """Whether a value is not aggregated but only written to the samples."""
    return value is None or isinstance(value, str)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True

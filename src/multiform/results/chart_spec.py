"""ChartSpec: what a chart shows, as data with its encoding. Altair and the page draw from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

#: The colours of categories, which colour-blind readers can tell apart (Okabe and Ito), and of the lowest and highest
#: value of cells.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
CELLS = ("#f7fbff", "#08519c")
#: The most rows that a text alternative has.
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
    #: The column whose values have different colours, and these values in the order of the palette; by default, the
    #: order of the rows.
    color: str | None = None
    domain: Sequence[str] | None = None
    #: The axis of the cells' colours, and the column that is written into them; by default, the value itself.
    value: ChartAxis | None = None
    label: str | None = None
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


def metric_axis(metric: str, rows: Sequence[Mapping[str, Any]]) -> ChartAxis:
    """The axis of a metric, which does not depend on the scores where the metric has a range.

    >>> axis = metric_axis("accuracy", [{"score": 0.43, "low": 0.41, "high": 0.45}])
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


def difference_end(rows: Iterable[Mapping[str, Any]], field: str) -> float:
    """The end of an axis of differences: a tenth, a fifth, half or all of the range, so that charts can be compared."""
    bounds = [abs(row[name]) for row in rows for name in (field, "low", "high") if row.get(name) is not None]
    largest = max(bounds, default=0.0)
    return next((step for step in (0.1, 0.2, 0.5) if largest <= step), _ceiling(largest))


def describe_chart(name: str, title: str, panels: Sequence[ChartPanel], *, columns: int = 1) -> ChartSpec:
    """A chart with a text that says what it shows."""
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

"""One line of the table: a figure of both sides, and their ratio."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A figure of both sides. `ratio` is lm-eval's over ours: more is better for us."""

    measure: str
    case: str
    unit: str
    note: str = ""
    ours: float
    theirs: float | None = None
    #: What the ratio is to reach, or what our figure is to stay below where there is no other side.
    needed: float | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.theirs is None or not self.ours else self.theirs / self.ours

    @property
    def met(self) -> bool | None:
        if self.needed is None:
            return None
        return self.ours <= self.needed if self.ratio is None else self.ratio >= self.needed

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "met": self.met}


def say(text: str) -> None:
    """Tell what is going on; the table alone goes to standard output."""
    print(text, file=sys.stderr, flush=True)


def print_rows(rows: Iterable[Row]) -> None:
    """Print the table."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("Measure", "Case", "Unit"):
        table.add_column(name, no_wrap=True)
    for name in ("Multiform", "lm-eval", "Ratio", "Needed"):
        table.add_column(name, justify="right")
    table.add_column("")
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        needed = "" if row.needed is None else f"{'≤ ' if row.ratio is None else '≥ '}{row.needed:g}"
        mark = {None: "", True: "met", False: "MISSED"}[row.met]
        cells = (row.measure, row.case, row.unit, _figure(row.ours), _figure(row.theirs), ratio, needed)
        table.add_row(*cells, f"{mark} {row.note}".strip())
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"

"""Growth: how the cost of each side rises with documents, shots and choices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.rows import Row
from benchmarks.scoring import Pair, measured
from benchmarks.sides import Setting
from benchmarks.workloads import WORKLOADS

FIGURES = {"cpu": "CPU time", "read": "tokens read", "peak_mb": "peak memory"}


def measure(setting: Setting) -> Iterator[Row]:
    """Each figure at the larger size over that at the smaller one."""
    few, many = (4, 8) if setting.short else (20, 200)
    for workload in WORKLOADS[2:3] if setting.short else WORKLOADS:
        less, more = (measured(setting, workload.name, docs) for docs in (few, many))
        yield from _rows(f"{workload.name}, {few} to {many} docs", less, more, flat=("peak_mb",))
    docs = few if setting.short else 20
    base: dict[str, Any] = {"setting": setting, "name": "texts, 5-shot", "docs": docs}
    yield from _rows("texts, 1 to 5 shots", measured(**base, shots=1), measured(**base, shots=5))
    base["name"] = "texts, 0-shot"
    yield from _rows("texts, 2 to 4 choices", measured(**base, choices=2), measured(**base, choices=4))


def _rows(case: str, less: Pair, more: Pair, flat: tuple[str, ...] = ()) -> Iterator[Row]:
    for key, name in FIGURES.items():
        ours, theirs = more.ours[key] / less.ours[key], more.theirs[key] / less.theirs[key]
        note = "to stay flat" if key in flat else ""
        yield Row(measure=f"growth of {name}", case=case, unit="times", ours=ours, theirs=theirs, note=note)

"""Growth: how the cost of each side rises with documents, shots and choices."""

from __future__ import annotations

from collections.abc import Iterator

from tools.benchmarks.rows import Row
from tools.benchmarks.scoring import ONE_SHOT, TWO_CHOICES, Case, Pair, measured
from tools.benchmarks.sides import Setting
from tools.benchmarks.workloads import WORKLOADS

FIGURES = {"cpu": "CPU time", "read": "tokens read", "peak_mb": "peak memory"}


def measure(setting: Setting) -> Iterator[Row]:
    """Each figure at the larger size over that at the smaller one."""
    few, many = setting.docs
    for workload in WORKLOADS[2:3] if setting.short else WORKLOADS:
        less, more = (measured(setting, Case(name=workload.name), docs) for docs in (few, many))
        yield from _rows(f"{workload.name}, {few} to {many} docs", less, more, ours_alone=not setting.short)
    docs = many if setting.short else few
    texts, shots = (measured(setting, Case(name=name), docs) for name in ("texts, 0-shot", "texts, 5-shot"))
    yield from _rows("texts, 0 to 5 shots", texts, shots)
    if not setting.short:
        yield from _rows("texts, 1 to 5 shots", measured(setting, ONE_SHOT, docs), shots)
        yield from _rows("texts, 2 to 4 choices", measured(setting, TWO_CHOICES, docs), texts)


def _rows(case: str, less: Pair, more: Pair, *, ours_alone: bool = False) -> Iterator[Row]:
    for key, name in FIGURES.items():
        ours, theirs = more.ours[key] / less.ours[key], more.theirs[key] / less.theirs[key]
        other = None if ours_alone else theirs  # lm-eval answers for few documents alone
        yield Row(measure=f"growth of {name}", case=case, unit="times", ours=ours, theirs=other)

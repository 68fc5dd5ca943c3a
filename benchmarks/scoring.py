"""Answering: tokens, CPU and wall time, and memory on the six workloads, with equal results."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from benchmarks.agreement import differences, largest_error
from benchmarks.rows import Row, say
from benchmarks.sides import NAMES, Setting
from benchmarks.workloads import WORKLOADS, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Both sides on one workload."""

    ours: dict[str, Any]
    theirs: dict[str, Any]
    repeats: int

    def row(self, measure: str, case: str, unit: str, key: str, **more: Any) -> Row:
        return Row(measure=measure, case=case, unit=unit, ours=self.ours[key], theirs=self.theirs[key], **more)


@cache
def measured(setting: Setting, name: str, docs: int, shots: int | None = None, choices: int | None = None) -> Pair:
    """Run both sides in turn on a workload; raises where they do not agree."""
    workload = next(one for one in WORKLOADS if one.name == name)
    config = _varied(workload, shots, choices)
    asked = {side: setting.run("requests", side, config=config, limit=docs)["requests"] for side in NAMES}
    if asked["multiform"] != asked["lm-eval"]:
        raise SystemExit(f"{name}: the requests of both sides are not the same")
    requests = asked["multiform"]
    repeats = 1 if setting.short or docs > 50 else 2
    say(f"{name}, {docs} documents, {config['num_fewshot']} shots: {len(requests)} requests")
    runs: dict[str, list[dict[str, Any]]] = {side: [] for side in NAMES}
    for _ in range(repeats):
        for side in NAMES:
            runs[side].append(setting.run("score", side, requests=requests, tree=side == "lm-eval"))
            last = runs[side][-1]
            say(f"  {side}: {last['cpu']:.1f} s CPU, {last['wall']:.1f} s, {last['peak_mb']:.0f} MB")
    ours, theirs = (_middle(runs[side]) for side in NAMES)
    wrong = differences(requests, ours["answers"], theirs["answers"], theirs["scored"])
    if wrong:
        raise SystemExit(f"{name}: {len(wrong)} answers differ, such as {'; '.join(wrong[:3])}")
    return Pair(ours=ours, theirs=theirs, repeats=repeats)


def _varied(workload: Workload, shots: int | None, choices: int | None) -> dict[str, Any]:
    config = workload.config()
    if shots is not None:
        config["num_fewshot"] = shots
    if choices is not None:
        config |= {"doc_to_choice": f"{{{{choices[:{choices}]}}}}", "doc_to_target": 0}
    return config


def _middle(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """A run's figures, with the median of the times."""
    times = {key: statistics.median(run[key] for run in runs) for key in ("cpu", "wall", "load_wall", "peak_mb")}
    return {**runs[-1], **times}


def measure(setting: Setting) -> Iterator[Row]:
    """The rows of all workloads."""
    for docs in (8,) if setting.short else (20, 200):
        for workload in WORKLOADS:
            yield from _rows(setting, workload, docs)


def _rows(setting: Setting, workload: Workload, docs: int) -> Iterator[Row]:
    pair = measured(setting, workload.name, docs)
    ours, theirs = pair.ours, pair.theirs
    case = f"{workload.name}, {docs} docs"
    writes = isinstance(ours["answers"][0], str)
    bound = theirs["nodes"]
    yield pair.row("tokens read", case, "tokens", "read", note=f"tree {bound:,}")
    limit = None if writes else 1.03
    yield Row(measure="tokens read / tree", case=case, unit="times", ours=ours["read"] / bound, needed=limit)
    if writes:
        yield pair.row("tokens written", case, "slots", "written")
    needed = workload.needed if docs >= 200 else None
    error = "" if writes else f"off by {largest_error(ours['answers'], theirs['answers'], theirs['scored']):.1e}"
    yield pair.row("CPU time", case, "s", "cpu", needed=needed, note=error)
    yield pair.row("wall time", case, "s", "wall")
    yield pair.row("peak memory", case, "MB", "peak_mb", needed=1.0)

"""Building requests: MMLU with five shots, all 57 subjects, the same strings on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tools.benchmarks.rows import Row, say
from tools.benchmarks.sides import NAMES, Setting
from tools.benchmarks.workloads import LABELS_TASK, Workload

#: A tenth of a subject of MMLU, which has 246 documents on average.
TENTH = 25


def measure(setting: Setting) -> Iterator[Row]:
    """Time and memory of building; raises where the requests differ."""
    subjects = sorted(path.name for path in (setting.mirror / "cais" / "mmlu").iterdir() if path.is_dir())
    workload = Workload(name="labels, 5-shot", task=LABELS_TASK, shots=5)
    configs = [workload.config(subject) for subject in subjects[: 4 if setting.short else None]]
    ours, theirs = (setting.run("build", side, configs=configs, limit=None) for side in NAMES)
    if ours["sha"] != theirs["sha"]:
        raise SystemExit(f"building: {ours['requests']} requests differ from lm-eval's {theirs['requests']}")
    case = f"MMLU 5-shot, {ours['docs']:,} docs"
    say(f"{case}: {ours['cpu']:.1f} s against {theirs['cpu']:.1f} s CPU, {ours['requests']:,} equal requests")
    note = " and ".join(f"{side['docs'] / side['cpu']:,.0f}" for side in (ours, theirs)) + " docs/s"
    yield Row(measure="building requests", case=case, unit="s CPU", ours=ours["cpu"], theirs=theirs["cpu"], note=note)
    yield Row(measure="peak memory", case=case, unit="MB", ours=ours["peak_mb"], theirs=theirs["peak_mb"])
    yield _streamed(setting, configs)


def _streamed(setting: Setting, configs: list[dict[str, Any]]) -> Row:
    """How memory grows from a tenth of the documents, about, to all of them where requests are not kept."""
    few, many = (setting.run("stream", "multiform", configs=configs, limit=limit) for limit in (TENTH, None))
    return Row(
        measure="growth of peak memory",
        case="MMLU 5-shot, streamed",
        unit="times",
        ours=many["peak_mb"] / few["peak_mb"],
        needed=1.1,
        note=f"{few['requests']:,} to {many['requests']:,} requests, {few['peak_mb']:.0f} to {many['peak_mb']:.0f} MB",
    )

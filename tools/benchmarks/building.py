"""Building requests and whole runs: MMLU with five shots, all 57 subjects, the same strings on both sides; and the CPU
time of one command of each side, from its start to its results, with equal scores.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.benchmarks.sides import NAMES, Setting
from tools.benchmarks.tables import Row, say
from tools.benchmarks.workloads import LABELS_TASK, WORKLOADS, Workload

#: A tenth of a subject of MMLU, which has 246 documents on average.
TENTH = 25
DOCS = 60
WORKLOAD = "texts, 5-shot"
#: How many times less CPU time than lm-eval's a run of that many documents takes.
NEEDED = 9.0


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


def measure_whole(setting: Setting) -> Iterator[Row]:
    """CPU time of both sides, with all that is done once: imports, loading, hashes, trials."""
    docs = setting.docs[0] if setting.short else DOCS
    config = next(workload for workload in WORKLOADS if workload.name == WORKLOAD).config()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "task.yaml").write_text(json.dumps(config), encoding="utf-8")
        ours, theirs = (setting.run("whole", side, folder=name, task=config["task"], limit=docs) for side in NAMES)
    if abs(ours["acc"] - theirs["acc"]) > 1e-9:
        raise SystemExit(f"the accuracies differ: {ours['acc']} and {theirs['acc']}")
    say(f"whole run of {docs} documents: {ours['process_cpu']:.1f} s CPU, lm-eval {theirs['process_cpu']:.1f}")
    yield Row(
        measure="whole run",
        case=f"{WORKLOAD}, {docs} docs",
        unit="s CPU",
        ours=ours["process_cpu"],
        theirs=theirs["process_cpu"],
        needed=None if setting.short else NEEDED,
    )


def run_whole(job: dict[str, Any]) -> dict[str, Any]:
    """Run a task file in this process, and give back its accuracy."""
    if job["side"] == "multiform":
        from multiform.cli.main import main

        os.environ["MULTIFORM_CACHE"] = job["folder"]  # nothing is known of the model
        results = Path(job["folder"]) / "results"
        task, model = f"{job['folder']}/task.yaml", f"pretrained={job['model']}"
        options = ("--limit", str(job["limit"]), "--model", "hf", "--model_args", model, "--no_cache")
        sys.argv = ["multiform", "run", "--tasks", task, *options, "--output_path", str(results)]
        if code := main():
            raise SystemExit(code)
        (file,) = results.rglob("results_*.json")
        return {"acc": json.loads(file.read_text())["results"][job["task"]]["acc,none"]}
    import lm_eval
    from lm_eval.tasks import TaskManager

    from tools.parity.theirs import reading_from

    with reading_from(Path(job["mirror"])):
        manager = TaskManager(include_path=job["folder"], include_defaults=False)
        arguments = {"model_args": f"pretrained={job['model']},dtype=float32", "device": "cpu", "batch_size": 8}
        found = lm_eval.simple_evaluate(
            model="hf", tasks=[job["task"]], task_manager=manager, limit=job["limit"], bootstrap_iters=0, **arguments
        )
    return {"acc": found["results"][job["task"]]["acc,none"]}

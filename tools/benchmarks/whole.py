"""Whole runs: the CPU time of one command of each side, from its start to its results, with equal scores."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.benchmarks.rows import Row, say
from tools.benchmarks.sides import NAMES, Setting
from tools.benchmarks.workloads import WORKLOADS

DOCS = 60
WORKLOAD = "texts, 5-shot"
#: How many times less CPU time than lm-eval's a run of that many documents takes.
NEEDED = 9.0


def measure(setting: Setting) -> Iterator[Row]:
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
        import os
        import sys

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

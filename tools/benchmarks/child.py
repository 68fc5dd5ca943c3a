"""What runs in a measured process: one side, one job; the result goes to a file as JSON."""

from __future__ import annotations

import hashlib
import json
import resource
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

#: What is counted of the tokens that go through a model.
COUNTED = ("read", "written", "passes")


def score(job: dict[str, Any]) -> dict[str, Any]:
    """Load a model and have it answer."""
    measured: dict[str, Any] = score_each({**job, "runs": [job["requests"]]})["runs"][0]
    return measured


def score_each(job: dict[str, Any]) -> dict[str, Any]:
    """Load a model and have it answer several sets of requests, one after the other."""
    import torch
    from transformers import AutoTokenizer

    from tools.benchmarks.answering import SIDES, Count, model_inputs, tree_nodes

    torch.set_num_threads(job["threads"])
    model, answer = SIDES[job["side"]](job["model"])
    count, runs = Count(model), []
    for requests in job["runs"]:
        before = {name: getattr(count, name) for name in COUNTED}
        began, cpu = time.monotonic(), time.process_time()
        answers = answer(requests)
        cpu, ended = time.process_time() - cpu, time.monotonic()
        counts = {name: getattr(count, name) - before[name] for name in COUNTED}
        runs.append({"cpu": cpu, "began": began, "ended": ended, "peak_mb": peak_mb(), **counts, "answers": answers})
    # Once all is measured: this needs time and memory of its own.
    tokenizer = AutoTokenizer.from_pretrained(job["model"])
    for run, requests in zip(runs, job["runs"], strict=True):
        inputs, scored = model_inputs(tokenizer, requests)
        run |= {"nodes": tree_nodes(inputs), "scored": scored}
    return {"runs": runs}


def build(job: dict[str, Any]) -> dict[str, Any]:
    """Make the requests of many tasks; reading the rows is not counted."""
    from tools.benchmarks.workloads import lm_eval_task

    mirror = Path(job["mirror"])
    if job["side"] == "multiform":
        from multiform.forms import Task

        tasks = [Task.from_config(config, dataset_mirror=mirror) for config in job["configs"]]
        for task in tasks:
            task.eval_docs, task.fewshot_docs()
    else:
        tasks = [lm_eval_task(config, mirror) for config in job["configs"]]
        for task in tasks:
            task.set_fewshot_seed(1234)
    wall, cpu = time.monotonic(), time.process_time()
    for task in tasks:
        task.build_all_requests(limit=job["limit"])
    cpu, wall = time.process_time() - cpu, time.monotonic() - wall
    digest, number, docs = hashlib.sha256(), 0, 0
    for task in tasks:
        for instance in task.instances:
            digest.update(json.dumps(_arguments(instance)).encode())
            number += 1
        docs += len({instance.doc_id for instance in task.instances})
    return {"cpu": cpu, "wall": wall, "peak_mb": peak_mb(), "requests": number, "docs": docs, "sha": digest.hexdigest()}


def stream(job: dict[str, Any]) -> dict[str, Any]:
    """Make Multiform's requests of many tasks one after the other, none of which is kept."""
    from multiform.forms import Task

    number = 0
    for config in job["configs"]:
        task = Task.from_config(config, dataset_mirror=Path(job["mirror"]))
        docs = islice(task.doc_iterator(), job["limit"])
        number += sum(len(task.sample(doc_id, doc).instances) for doc_id, doc in docs)
    return {"requests": number, "peak_mb": peak_mb()}


def requests(job: dict[str, Any]) -> dict[str, Any]:
    """The requests of some tasks as a side makes them."""
    from tools.benchmarks.workloads import lm_eval_requests, multiform_requests

    make = multiform_requests if job["side"] == "multiform" else lm_eval_requests
    return {"requests": [make(config, Path(job["mirror"]), job["limit"]) for config in job["configs"]]}


def prompt(job: dict[str, Any]) -> dict[str, Any]:
    """lm-eval's way to the first prompt of a task by name: index all tasks, load one, build."""
    from lm_eval.tasks import TaskManager, get_task_dict

    from tests.parity.reference import reading_from

    with reading_from(Path(job["mirror"])):
        task = get_task_dict([job["task"]], TaskManager())[job["task"]]
        task.build_all_requests(limit=1)
    return {"prompt": task.instances[0].args[0]}


def start(job: dict[str, Any]) -> dict[str, Any]:
    """The CPU seconds from the beginning of the process to the first forward pass, or of loading alone."""
    from tools.benchmarks.phases import load_with_transformers, to_first_pass

    if job["side"] == "transformers":
        return {"phases": load_with_transformers(job["model"])}
    return {"phases": to_first_pass(job["model"], job["folder"])}


def whole(job: dict[str, Any]) -> dict[str, Any]:
    """A whole run of a task file."""
    from tools.benchmarks.building import run_whole

    return run_whole(job)


JOBS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "score": score,
    "score_each": score_each,
    "build": build,
    "stream": stream,
    "requests": requests,
    "prompt": prompt,
    "start": start,
    "whole": whole,
}


def peak_mb() -> float:
    """The most memory that this process has had.

    Linux starts `ru_maxrss` at what the parent had; its own count of this program alone is VmHWM.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _arguments(instance: Any) -> list[Any]:
    """Context and continuation of an instance of either side."""
    if hasattr(instance, "request"):
        return [instance.request.context, instance.request.continuation]
    return list(instance.args)


if __name__ == "__main__":
    given, result = map(Path, sys.argv[1:])
    job = json.loads(given.read_text(encoding="utf-8"))
    result.write_text(json.dumps(JOBS[job["job"]](job)), encoding="utf-8")

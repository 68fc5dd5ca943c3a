"""Many workers: how much sooner two Ray workers with a thread each are done than one, when both have loaded."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.util import find_spec

from benchmarks.rows import Row, say
from benchmarks.sides import Setting
from benchmarks.workloads import WORKLOADS


def measure(setting: Setting) -> Iterator[Row]:
    """Wall time of texts, 5-shot, with one worker and with two, and the tokens that they computed."""
    if find_spec("ray") is None:
        say("Ray is not installed: pip install 'multiform[ray]'")
        return
    from multiform.engine.executors import responses
    from multiform.engine.executors.cluster import ClusterOptions
    from multiform.engine.executors.pool import PoolExecutor
    from multiform.engine.executors.ray import RayPool
    from multiform.engine.progress import Silent
    from multiform.engine.run import pending_samples
    from multiform.forms import Task
    from multiform.requests import LoglikelihoodRequest

    workload = next(workload for workload in WORKLOADS if workload.name == "texts, 5-shot")
    task = Task.from_config(workload.config(), dataset_mirror=setting.mirror)
    docs = setting.docs[1]
    pending = pending_samples(task)[:docs]
    requests = [instance.request for entry in pending for instance in entry.sample.instances]
    seconds, computed = {}, {}
    for workers in (1, 2):
        options = ClusterOptions.of("local", workers, "cpu=1")
        pool = RayPool(options, "hf", {"pretrained": str(setting.model), "device": "cpu"}, Silent())
        try:
            pool.loaded(workers)
            executor = PoolExecutor(pool)
            # One request for each, so that nobody has to try out its model while the time is taken.
            first = [[LoglikelihoodRequest(f"Worker {number} says", " yes")] for number in range(workers)]
            for _ in executor.run(first):
                pass
            before = executor.computed
            begun = time.monotonic()
            answered = sum(1 for _ in responses(executor, requests))
            seconds[workers], computed[workers] = time.monotonic() - begun, executor.computed - before
        finally:
            pool.close()
        say(f"{workers} workers: {answered} responses in {seconds[workers]:.1f} s, {computed[workers]:,} tokens")
    case = f"{workload.name}, {docs} docs"
    yield Row(measure="2 workers for 1", case=case, unit="s wall", ours=seconds[2], theirs=seconds[1], needed=1.7)
    yield Row(measure="tokens of 2 workers for 1", case=case, unit="ratio", ours=computed[2] / computed[1], needed=1.05)

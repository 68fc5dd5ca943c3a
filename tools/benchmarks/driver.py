"""The driver: what it does for each request and each message, however many workers there are, in processor time.

These are the constants of `tools/scripts/simulate_scale.py`.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.benchmarks.rows import Row, say
from tools.benchmarks.sides import Setting
from tools.benchmarks.workloads import WORKLOADS

#: Workers that the requests are cut for.
WORKERS = 1000
MESSAGES = 2000


def measure(setting: Setting) -> Iterator[Row]:
    """Rendering, cutting, storing and scoring of texts, 5-shot, and the memory of a request."""
    from multiform.forms import Task
    from multiform.models.dummy import DummyModel
    from multiform.requests import LoglikelihoodRequest
    from multiform.run.executors import units
    from multiform.run.executors.pool import subtrees
    from multiform.run.pending import PendingSample
    from multiform.run.progress import Silent
    from multiform.run.runner import Runner
    from multiform.run.store import Store

    workload = next(workload for workload in WORKLOADS if workload.name == "texts, 5-shot")

    def render() -> list[PendingSample]:
        form = Task.from_config(workload.config(), dataset_mirror=setting.mirror).form
        return [PendingSample(form, form.sample(doc_id, doc)) for doc_id, doc in form.docs()]

    def run(pending: list[PendingSample], store: Store | None = None) -> None:
        documents = {pending[0].form.name: len(pending)}
        Runner(model=DummyModel(), store=store).run([pending], Silent(), documents=documents)

    render()  # compiles templates, reads the rows
    begun = time.process_time()
    pending = render()
    rendered = time.process_time() - begun
    requests = [instance.request for entry in pending for instance in entry.sample.instances]
    case = f"{workload.name}, {len(pending)} docs"
    yield _row("driver: render a request", case, rendered / len(requests))
    # Tasks that share nothing with each other, as in a large run.
    scored = [request for request in requests if isinstance(request, LoglikelihoodRequest)]
    many = [
        LoglikelihoodRequest(f"{number} {request.context}", request.continuation)
        for number in range(20)
        for request in scored
    ]
    begun = time.process_time()
    subtrees(units(many), WORKERS)
    yield _row(f"driver: cut, for {WORKERS:,} workers", case, (time.process_time() - begun) / len(many))
    with TemporaryDirectory() as folder:
        begun = time.process_time()
        run(pending, Store(Path(folder) / "answers.db"))
        taken = time.process_time() - begun
    yield _row("driver: answer (dummy), store, score", case, taken / len(requests))
    del pending, many
    tracemalloc.start()
    pending = render()
    run(pending)
    memory, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    yield Row(measure="driver: memory of a request", case=case, unit="bytes", ours=memory / len(requests))
    if find_spec("ray") is None:
        say("Ray is not installed: pip install 'multiform[ray]'")
        return
    yield _row("driver: message of a Ray worker", f"{MESSAGES:,} messages", _message_seconds())


def _message_seconds() -> float:
    """The processor time of the driver for a message with one response."""
    from multiform.requests import LoglikelihoodRequest
    from multiform.run.executors import Unit, responses, units
    from multiform.run.executors.cluster import ClusterOptions
    from multiform.run.executors.pool import PoolExecutor
    from multiform.run.executors.ray import RayPool
    from multiform.run.progress import Silent

    class Eager(RayPool):
        """Whose workers send each response at once."""

        def ask(self, worker: int, unit: Unit) -> None:
            stream = self._actors[worker].ask.options(num_returns="streaming").remote(unit, 0.0, 0)
            self._streams[stream] = worker

    pool = Eager(ClusterOptions.of("local", 1, "cpu=1"), "dummy", {}, Silent())
    try:
        pool.wait_until_loaded()
        requests = [LoglikelihoodRequest(f"Question {number}", " yes") for number in range(MESSAGES)]
        begun = time.process_time()
        answered = sum(1 for _ in responses(PoolExecutor(pool), units(requests)))
        return (time.process_time() - begun) / answered
    finally:
        pool.close()


def _row(measure: str, case: str, seconds: float) -> Row:
    return Row(measure=measure, case=case, unit="µs CPU", ours=seconds * 1e6)

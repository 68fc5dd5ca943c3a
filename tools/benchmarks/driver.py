"""The driver: what it does for each response, document and message of its workers, in processor time.

These are the constants of `tools/scripts/simulate_scale.py`.
"""

from __future__ import annotations

import pickle
import resource
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tools.benchmarks.rows import Row, say
from tools.benchmarks.sides import Setting
from tools.benchmarks.streams import CHOICES, write_task

if TYPE_CHECKING:
    from multiform.run.executors.ranges import RangedDocs
    from multiform.run.pending import Batch

#: The responses that the driver gets, and the messages of which the time is measured.
RESPONSES = 300_000
MESSAGES = 2000


def measure(setting: Setting) -> Iterator[Row]:
    """What the driver takes for the responses of workers that render and score, and for an empty message of Ray."""
    if find_spec("ray") is None:
        say("Ray is not installed: pip install 'multiform[ray]'")
        return
    responses = RESPONSES // 3 if setting.short else RESPONSES
    with TemporaryDirectory() as name:
        for stored in (False, True):
            figures = play_back(Path(name), responses, stored=stored)
            case = f"{responses:,} responses, {'stored' if stored else 'not stored'}"
            yield _row("driver: a response", case, figures["cpu"] / responses)
            yield Row(measure="driver: memory", case=case, unit="MB", ours=figures["peak_mb"])
    yield _row("driver: message of a Ray worker", f"{MESSAGES:,} messages", _message_seconds())


def play_back(folder: Path, responses: int, *, stored: bool) -> dict[str, float]:
    """Run documents in this process with the time of the worker left out: the driver alone takes time.

    Messages have 512 responses, as 1,000 workers send them at 100,000 responses in a second. No document is checked
    ahead, for which the driver takes 5 % of the time that passes.
    """
    from multiform.models.dummy import DummyModel
    from multiform.run import documents as of_documents
    from multiform.run.documents import Documents
    from multiform.run.executors import work_units
    from multiform.run.executors.pool import PoolExecutor
    from multiform.run.executors.ranges import RangeWorker
    from multiform.run.options import RunOptions
    from multiform.run.progress import Silent
    from multiform.run.runner import Runner
    from multiform.run.setup import load_forms
    from multiform.run.store import Store

    of_documents._AHEAD_SHARE, work_units.RANGE_REQUESTS = 0.0, 512
    documents = responses // CHOICES
    options = RunOptions(tasks=str(write_task(folder, documents)), model="dummy")
    forms, _ = load_forms(options)
    rendered = Documents(options, forms, None, Silent())

    class Played(PoolExecutor):
        """Has the messages of its worker already, as bytes."""

        worker_count = 1
        busy = 0.0
        _model = DummyModel()

        def run_ranges(self, documents: RangedDocs, cache: Store | None, *, stores: bool) -> Iterator[Batch]:
            worker = RangeWorker(self.model, documents.job(None, stores=stores))
            for refs in documents.ranges():
                # The worker's time does not count.
                started = time.process_time()
                messages = [pickle.dumps(batch) for batch in worker.run(refs, pause=60.0)]
                self.busy += time.process_time() - started
                for message in messages:
                    yield pickle.loads(message)

    executor = Played()
    store = Store(folder / "answers.db") if stored else None
    runner = Runner(executor, store, forms, rendered.counts, Silent())
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    runner.run_all(rendered)
    outcome = runner.outcome()
    cpu = time.process_time() - started - executor.busy
    assert len(outcome.scored["numbers"]) == documents
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"cpu": cpu, "peak_mb": after / 1024, "grown_mb": (after - before) / 1024}


def _message_seconds() -> float:
    """The processor time of the driver for a message with one response."""
    from multiform.requests import LoglikelihoodRequest
    from multiform.run.executors import units
    from multiform.run.executors.cluster import ClusterOptions
    from multiform.run.executors.pool import PoolExecutor
    from multiform.run.executors.ray import RayPool
    from multiform.run.progress import Silent

    class Eager(RayPool):
        """Whose workers send each response at once."""

        def submit(self, worker: int, unit: Sequence[Any]) -> None:
            stream = self._actors[worker].run.options(num_returns="streaming").remote(unit, (), 0.0, 0)
            self._streams[stream] = worker
            self._heard[worker] = time.monotonic(), -1

    pool = Eager(ClusterOptions.of("local", 1, "cpu=1"), "dummy", {}, Silent())
    try:
        pool.wait_until_loaded()
        requests = [LoglikelihoodRequest(f"Question {number}", " yes") for number in range(MESSAGES)]
        begun = time.process_time()
        answered = sum(1 for _ in PoolExecutor(pool).run(units(requests)))
        return (time.process_time() - begun) / answered
    finally:
        pool.close()


def _row(measure: str, case: str, seconds: float) -> Row:
    return Row(measure=measure, case=case, unit="µs CPU", ours=seconds * 1e6)

"""PoolExecutor: distributes sub-trees of requests and ranges of documents to the free workers of a pool.

A worker that dies is replaced, and the requests of its unit without a response are run again. A unit that fails twice
is halved, and halved again, until the requests that make workers fail are alone; these are reported as failed.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from multiform.errors import ModelError
from multiform.models.model import Usage
from multiform.requests import FailedRequest
from multiform.run.executors.local import Executor, Responses, Unit
from multiform.run.executors.ranges import RangedDocs
from multiform.run.executors.work_units import DocRef, halves, subtrees
from multiform.run.pending import Batch
from multiform.run.store import Store
from multiform.stopping import stop_requested

logger = logging.getLogger("multiform")

#: How often units with a request may make a worker fail before the request, once it is alone, counts as failed.
ATTEMPTS = 3
#: The maximum number of consecutive failures for each worker, without a response in between, before the run ends.
_MAX_FAILURES = 20


@dataclass(frozen=True, slots=True)
class Ready:
    """A worker has loaded the model and is free."""

    worker: int


@dataclass(frozen=True, slots=True)
class Responded:
    """What a worker has done of its unit since its last message."""

    worker: int
    batch: Batch


@dataclass(frozen=True, slots=True)
class Finished:
    """A worker has finished its unit and is free."""

    worker: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A worker failed on its unit: it is `dead`, with its node or alone, or the model raised an error."""

    worker: int
    reason: str
    dead: bool


Event: TypeAlias = Ready | Responded | Finished | Failed


class Pool(Protocol):
    """Workers somewhere, each with one copy of the model.

    Workers have numbers. The pool replaces a dead worker by one with a new number, which reports `Ready`. Errors that
    would occur on every worker, such as a model that cannot be loaded, are raised by `events`.
    """

    size: int

    def start(self) -> None:
        """Start the workers, unless they are running."""

    def begin_job(self, documents: RangedDocs, cache: Store | None, *, stores: bool) -> None:
        """Have workers run these documents from now on, and look responses up in the store."""

    def submit(self, worker: int, unit: Sequence[Any]) -> None:
        """Send a unit to a free worker: requests, or a range of documents."""

    def events(self) -> Sequence[Event]:
        """The events since the last call; waits a moment where there are none."""

    def stop(self) -> None:
        """Tell the workers to begin nothing new; they finish what is in flight, and take units of later runs."""

    def abandon(self) -> None:
        """Kill all workers and discard what they compute; `start` starts others."""


@dataclass(slots=True)
class _Task:
    """A unit to run on a worker, and how often its requests or documents have made a worker fail."""

    unit: Sequence[Any]
    failures: int = 0
    completed: set[int] = field(default_factory=set)

    @property
    def missing(self) -> list[Any]:
        return [item for position, item in enumerate(self.unit) if position not in self.completed]


class PoolExecutor(Executor):
    """Runs requests, or ranges of documents, on a pool of workers, and counts the tokens that they compute."""

    takes_ahead = True
    pool: Pool

    def __init__(self, pool: Pool | None = None) -> None:
        if pool is not None:
            self.pool = pool
        #: What the workers have computed, as far as their model counts tokens and they lived to report it.
        self.usage = Usage()
        #: The tokens that servers have counted for them.
        self.server_tokens = Counter[str]()
        self.retry_count = 0
        self._free: list[int] = []

    def run(self, units: Iterable[Unit]) -> Responses:
        parts = (part for unit in units for part in subtrees(unit, self.pool.size))
        for task, batch in self._run(parts):
            for position, output in batch.outputs:
                yield task.unit[position], output
            for request, reason, retried in batch.given_up:
                yield request, FailedRequest(reason=reason, retried=retried)

    def run_ranges(self, documents: RangedDocs, cache: Store | None, *, stores: bool) -> Iterator[Batch]:
        """Have workers render and run documents; yields what is done with them. Cached responses are not run again."""
        has_responses = cache is not None and cache.has_responses(self.model.identity)
        self.pool.begin_job(documents, cache if has_responses else None, stores=stores)
        for _, batch in self._run(documents.ranges()):
            yield batch

    def _run(self, units: Iterable[Sequence[Any]]) -> Iterator[tuple[_Task, Batch]]:
        is_complete = False
        try:
            self.pool.start()
            yield from self._loop(iter(units))
            is_complete = True
        finally:
            if not is_complete:  # nobody waits for what the workers compute: the next run needs others
                self._free.clear()
                self.pool.abandon()

    def _loop(self, units: Iterator[Sequence[Any]]) -> Iterator[tuple[_Task, Batch]]:
        """Each unit with what came of it."""
        waiting: deque[_Task] = deque()
        busy: dict[int, _Task] = {}
        failures = 0
        stopped = False
        is_last = False
        while not is_last or waiting or busy:
            if stop_requested() and not stopped:
                stopped = is_last = True
                waiting.clear()
                self.pool.stop()
                continue
            # The next units are cut before workers run out of work.
            while not is_last and len(waiting) < self.pool.size:
                unit = next(units, None)
                is_last = unit is None
                waiting.extend([] if unit is None else [_Task(unit)])
            while waiting and self._free:
                worker = self._free.pop()
                busy[worker] = waiting.popleft()
                self.pool.submit(worker, busy[worker].unit)
            for event in self.pool.events():
                match event:
                    case Ready(worker):
                        self._free.append(worker)
                    case Responded(worker, batch):
                        failures = 0
                        task = busy[worker]
                        self.usage += batch.usage
                        self.server_tokens.update(batch.server_tokens)
                        self.retry_count += batch.responses if task.failures else 0
                        done = batch.finished if batch.unreadable is None else range(len(task.unit))
                        task.completed.update(done)
                        yield task, batch
                    case Finished(worker):
                        task = busy.pop(worker)
                        self._free.append(worker)
                        if task.missing and not stopped:
                            yield from self._retry(task, "its worker left requests without a response", waiting)
                    case Failed(worker, reason, dead):
                        failures += 1
                        task = busy.pop(worker)
                        if not dead:
                            self._free.append(worker)
                        if failures > _MAX_FAILURES * self.pool.size:
                            message = f"the workers fail on every unit: {reason}"
                            raise ModelError(message, hint="run one document without --executor ray to see why")
                        if not stopped:
                            yield from self._retry(task, reason, waiting)

    def _retry(self, task: _Task, reason: str, waiting: deque[_Task]) -> Iterator[tuple[_Task, Batch]]:
        """Queue what is missing of a failed unit again, halved after two failures; or give a single item up."""
        missing = task.missing
        failed = task.failures + 1
        if not missing:
            return
        if len(missing) == 1 and failed >= ATTEMPTS:
            yield task, Batch(given_up=[(missing[0], reason, failed - 1)])
            return
        what = "documents" if isinstance(missing[0], DocRef) else "requests"
        logger.warning("a worker failed, %d %s of its unit are run again: %s", len(missing), what, reason)
        units = [missing] if failed + 1 < ATTEMPTS or len(missing) == 1 else halves(missing)
        waiting.extendleft(_Task(unit, failed) for unit in reversed(units))

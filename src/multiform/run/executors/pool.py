"""PoolExecutor: distributes sub-trees of the requests to the free workers of a pool.

A worker that dies is replaced, and the requests of its unit without a response are run again. A unit that fails twice
is halved, and halved again, until the requests that make workers fail are alone; these are reported as failed.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from multiform.errors import ModelError
from multiform.models.usage import Usage
from multiform.requests import FailedRequest, Output, Request, Response
from multiform.run.executors.local import Unit
from multiform.run.executors.subtrees import halves, subtrees
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
    """Responses of a worker, by the positions of the requests in its unit, and what it computed for them."""

    worker: int
    responses: Sequence[Response[Output | FailedRequest]]
    usage: Usage = field(default_factory=Usage)


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

    def submit(self, worker: int, unit: Unit) -> None:
        """Send a unit to a free worker."""

    def events(self) -> Sequence[Event]:
        """The events since the last call; waits a moment where there are none."""

    def stop(self) -> None:
        """Tell the workers to begin nothing new; they finish what is in flight, and take units of later runs."""

    def abandon(self) -> None:
        """Kill all workers and discard what they compute; `start` starts others."""


@dataclass(slots=True)
class _Task:
    """A unit to run on a worker, and how often its requests have made a worker fail."""

    requests: Unit
    failures: int = 0
    completed: set[int] = field(default_factory=set)

    @property
    def missing(self) -> list[Request]:
        return [request for position, request in enumerate(self.requests) if position not in self.completed]


class PoolExecutor:
    """Runs requests on a pool of workers, and counts the tokens that they compute."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        #: What the workers have computed, as far as their model counts tokens and they lived to report it.
        self.usage = Usage()
        self.retry_count = 0
        self._free: list[int] = []

    def run(self, units: Sequence[Unit]) -> Iterator[tuple[Request, Output | FailedRequest]]:
        is_complete = False
        try:
            self.pool.start()
            yield from self._responses(deque(_Task(part.requests) for part in subtrees(units, self.pool.size)))
            is_complete = True
        finally:
            if not is_complete:  # nobody waits for what the workers compute: the next run needs others
                self._free.clear()
                self.pool.abandon()

    def _responses(self, waiting: deque[_Task]) -> Iterator[tuple[Request, Output | FailedRequest]]:
        busy: dict[int, _Task] = {}
        failures = 0
        stopped = False
        while waiting or busy:
            if stop_requested() and not stopped:
                stopped = True
                waiting.clear()
                self.pool.stop()
                continue
            while waiting and self._free:
                worker = self._free.pop()
                busy[worker] = waiting.popleft()
                self.pool.submit(worker, busy[worker].requests)
            for event in self.pool.events():
                match event:
                    case Ready(worker):
                        self._free.append(worker)
                    case Responded(worker, responses, usage):
                        failures = 0
                        self.usage += usage
                        task = busy[worker]
                        for position, output in responses:
                            task.completed.add(position)
                            yield task.requests[position], output
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

    def _retry(
        self, task: _Task, reason: str, waiting: deque[_Task]
    ) -> Iterator[tuple[Request, Output | FailedRequest]]:
        """Queue the missing requests of a failed unit again, halved after two failures; or give a single one up."""
        missing = task.missing
        failed = task.failures + 1
        if not missing:
            return
        if len(missing) == 1 and failed >= ATTEMPTS:
            yield missing[0], FailedRequest(reason=reason, retried=failed - 1)
            return
        self.retry_count += len(missing)
        logger.warning("a worker failed, %d requests of its unit are run again: %s", len(missing), reason)
        units = [missing] if failed + 1 < ATTEMPTS or len(missing) == 1 else [part.requests for part in halves(missing)]
        waiting.extendleft(_Task(requests, failed) for requests in reversed(units))

"""PoolExecutor: sub-trees of the requests go to the workers of a pool, to whoever is free.

A worker that dies is replaced, and what is unanswered of its unit is asked again. A unit that fails twice is halved,
and halved again, until the requests that make workers fail are alone; these are reported as failed.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from multiform.engine.executors.base import Unit
from multiform.engine.executors.subtrees import halves, subtrees
from multiform.errors import ModelError
from multiform.models.usage import Usage
from multiform.requests import FailedRequest, Output, Request, Response
from multiform.stopping import stop_requested

logger = logging.getLogger("multiform")

#: How often the requests of a unit may make a worker fail before one that is alone is given up.
ATTEMPTS = 3
#: So many failures for each worker, and no response in between, mean that no unit will ever be answered.
_PATIENCE = 20


@dataclass(frozen=True, slots=True)
class Ready:
    """A worker has loaded the model and is free."""

    worker: int


@dataclass(frozen=True, slots=True)
class Answered:
    """Responses of a worker, by the positions of the requests in its unit, and what it computed for them."""

    worker: int
    responses: Sequence[Response[Output | FailedRequest]]
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Finished:
    """A worker is done with its unit; it is free."""

    worker: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A worker failed on its unit: it is `dead`, with its node or alone, or the model raised an error."""

    worker: int
    reason: str
    dead: bool


Event: TypeAlias = Ready | Answered | Finished | Failed


class Pool(Protocol):
    """Workers somewhere, each with one copy of the model.

    Workers have numbers. A dead one is replaced by the pool, whose `Ready` comes under a new number. Errors that no
    other worker would make good, such as a model that cannot be loaded anywhere, are raised by `events`.
    """

    size: int

    def start(self) -> None:
        """Start the workers, unless they are."""

    def ask(self, worker: int, unit: Unit) -> None:
        """Have a free worker answer a unit."""

    def events(self) -> Sequence[Event]:
        """What has happened since the last time; waits a moment for something to happen."""

    def stop(self) -> None:
        """Have workers begin nothing new; they finish what is in flight, and answer the units of later runs."""

    def abandon(self) -> None:
        """Give all workers up, with what they compute; `start` starts others."""


@dataclass(slots=True)
class _Task:
    """A unit that a worker is to answer, and how often its requests have made one fail."""

    requests: Unit
    failures: int = 0
    answered: set[int] = field(default_factory=set)

    @property
    def missing(self) -> list[Request]:
        return [request for position, request in enumerate(self.requests) if position not in self.answered]


class PoolExecutor:
    """Has a pool of workers answer the requests; counts what that took."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        #: What begins a run: by default, it starts the workers.
        self.start: Callable[[], object] = pool.start
        #: What the workers have computed, as far as they could say it and their model counts tokens.
        self.usage = Usage()
        self.asked_again = 0
        self._free: list[int] = []

    def run(self, units: Sequence[Unit]) -> Iterator[tuple[Request, Output | FailedRequest]]:
        is_complete = False
        try:
            self.start()
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
                self.pool.ask(worker, busy[worker].requests)
            for event in self.pool.events():
                match event:
                    case Ready(worker):
                        self._free.append(worker)
                    case Answered(worker, responses, usage):
                        failures = 0
                        self.usage += usage
                        task = busy[worker]
                        for position, output in responses:
                            task.answered.add(position)
                            yield task.requests[position], output
                    case Finished(worker):
                        task = busy.pop(worker)
                        self._free.append(worker)
                        if task.missing and not stopped:
                            yield from self._again(task, "its worker left requests without a response", waiting)
                    case Failed(worker, reason, dead):
                        failures += 1
                        task = busy.pop(worker)
                        if not dead:
                            self._free.append(worker)
                        if failures > _PATIENCE * self.pool.size:
                            what = f"the workers fail on whatever they are asked: {reason}"
                            raise ModelError(what, hint="run one document without --executor ray to see why")
                        if not stopped:
                            yield from self._again(task, reason, waiting)

    def _again(
        self, task: _Task, reason: str, waiting: deque[_Task]
    ) -> Iterator[tuple[Request, Output | FailedRequest]]:
        """Put what is unanswered of a failed unit back, in two parts once it has failed twice; or give it up."""
        missing = task.missing
        failed = task.failures + 1
        if not missing:
            return
        if len(missing) == 1 and failed >= ATTEMPTS:
            yield missing[0], FailedRequest(reason=reason, retried=failed - 1)
            return
        self.asked_again += len(missing)
        logger.warning("a worker failed, %d requests of its unit are asked again: %s", len(missing), reason)
        parts = [missing] if failed + 1 < ATTEMPTS or len(missing) == 1 else [part.requests for part in halves(missing)]
        waiting.extendleft(_Task(requests, failed) for requests in reversed(parts))

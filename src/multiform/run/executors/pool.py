"""PoolExecutor: distributes sub-trees of the requests to the free workers of a pool.

A worker that dies is replaced, and the requests of its unit without a response are run again. A unit that fails twice
is halved, and halved again, until the requests that make workers fail are alone; these are reported as failed.

Requests in the order of their texts are a walk through the prefix tree, as in `models.torch.plan`, and a section of
that walk is a sub-tree. A cut costs the prefix that the requests on both of its sides share, which is then computed
twice. Lengths are estimated from the texts, so that the driver needs neither the tokenizer nor torch.
"""

from __future__ import annotations

import heapq
import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Protocol, TypeAlias

from multiform.errors import ModelError
from multiform.models.model import Usage
from multiform.requests import (
    FailedRequest,
    GenerationRequest,
    LoglikelihoodRequest,
    Request,
    RollingRequest,
    resolved_names,
)
from multiform.run.executors.local import Executor, Responses, Unit
from multiform.run.executors.ranges import DocRef, RangedDocs
from multiform.run.pending import Batch
from multiform.run.store import Store
from multiform.stopping import stop_requested

#: Bytes of text in a token, about.
_BYTES_PER_TOKEN = 4
#: Tokens of an image or a sound, about.
_MEDIA_TOKENS = 500
#: Tokens of a completion whose request names no limit.
_COMPLETION_TOKENS = 256
#: The share of tokens that may be computed again because prefixes are cut.
MAX_OVERHEAD = 0.04
#: Tokens that are too few to tell whether documents share a prefix.
_ROUNDING = 4
#: Units for each worker: with several, a worker that is done early takes work from the others.
UNITS_PER_WORKER = 4


@dataclass(frozen=True, slots=True)
class Subtree:
    """Requests of one kind that are computed together, and about how many tokens that takes."""

    requests: Unit
    tokens: int


def subtrees(units: Sequence[Unit], workers: int) -> list[Subtree]:
    """The units cut into sub-trees for a number of workers, the largest first.

    Cutting ends once it would add more than `MAX_OVERHEAD` to the tokens of the run, unless a worker would be idle.

    >>> requests = [LoglikelihoodRequest(f"{task} " * 40 + f"{doc}?", " yes") for task in "ab" for doc in range(4)]
    >>> [len(part.requests) for part in subtrees([requests], 2)]
    [4, 4]
    """
    walks = [_Walk.of(unit) for unit in units]
    total = sum(walk.tokens(0, len(walk.requests)) for walk in walks)
    spare = MAX_OVERHEAD * total
    # The largest sub-tree is cut next; those that are not worth cutting are left uncut.
    heap = [(-walk.tokens(0, len(walk.requests)), n, 0, len(walk.requests)) for n, walk in enumerate(walks)]
    heapq.heapify(heap)
    uncut: list[tuple[int, int, int, int]] = []
    while heap and len(heap) + len(uncut) < UNITS_PER_WORKER * workers:
        section = heapq.heappop(heap)
        _, number, first, last = section
        walk = walks[number]
        cut = walk.cheapest_cut(first, last)
        if cut is None or (
            walk.shared[cut] > spare and not _worth(walk, section, cut, len(heap) + len(uncut), workers)
        ):
            uncut.append(section)
            continue
        spare -= walk.shared[cut]
        heapq.heappush(heap, (-walk.tokens(first, cut), number, first, cut))
        heapq.heappush(heap, (-walk.tokens(cut, last), number, cut, last))
    sections = sorted([*heap, *uncut])
    return [Subtree(walks[number].requests[first:last], -cost) for cost, number, first, last in sections]


def smallest_range(samples: Sequence[Sequence[Request]]) -> int | None:
    """How many documents in a row are to be computed together at least; None where those far apart share prefixes.

    `samples` are the requests of the first documents of a form. Ranges of that size compute at most `MAX_OVERHEAD` more
    than all documents together; workers keep the prefix that nine of ten share.
    """
    size = 1
    whole = _tree_tokens([request for sample in samples for request in sample])
    first = _Walk.of([sample[0] for sample in samples if sample])
    kept = sorted(first.shared)[1 + len(first.shared) // 10] + _ROUNDING if len(first.shared) > 1 else 0
    while 2 * size <= len(samples):
        parts = [samples[first : first + size] for first in range(0, len(samples), size)]
        ranges = [[request for sample in part for request in sample] for part in parts]
        tokens = sum(map(_tree_tokens, ranges))
        if tokens - kept * (len(ranges) - 1) <= (1 + MAX_OVERHEAD) * whole:
            return size
        size *= 2
    return None if len(samples) > 1 else 1


def _tree_tokens(requests: Unit) -> int:
    """About how many tokens requests take together."""
    walk = _Walk.of(requests)
    return walk.tokens(0, len(requests))


def halves(unit: Sequence[Any]) -> list[Sequence[Any]]:
    """A unit of two or more items in two: requests near the middle where the least is shared, documents in their order.

    Forms of one document are the last that are separated.
    """
    if isinstance(unit[0], DocRef):
        unit = sorted(unit, key=lambda ref: ref.position)
        cut = len(unit) // 2
    else:
        walk = _Walk.of(unit)
        unit, cut = walk.requests, walk.cheapest_cut(0, len(unit)) or len(unit) // 2
    return [unit[:cut], unit[cut:]]


def _worth(walk: _Walk, section: tuple[int, int, int, int], cut: int, others: int, workers: int) -> bool:
    """Whether a costly cut ends the run sooner, as a worker would be idle without it."""
    cost, _, first, last = section
    return others + 1 < workers and max(walk.tokens(first, cut), walk.tokens(cut, last)) < -0.8 * cost


@dataclass(frozen=True, slots=True)
class _Walk:
    """The requests of a unit in the order of their texts.

    `shared` are the tokens that each has in common with the one before, and `added` the sums of what they add.
    """

    requests: Sequence[Request]
    shared: Sequence[int]
    added: Sequence[int]

    @classmethod
    def of(cls, unit: Unit) -> _Walk:
        requests = sorted(unit, key=_texts)
        shared = [0] * len(requests)
        for index in range(1, len(requests)):
            shared[index] = _shared_tokens(_texts(requests[index - 1]), _texts(requests[index]))
        new = (_tokens(request) - common for request, common in zip(requests, shared, strict=True))
        return cls(requests, shared, [0, *accumulate(max(1, tokens) for tokens in new)])

    def tokens(self, first: int, last: int) -> int:
        """The tokens of a section that is computed by itself."""
        return self.added[last] - self.added[first] + self.shared[first]

    def cheapest_cut(self, first: int, last: int) -> int | None:
        """Where to cut a section into two with at least a quarter of its tokens each, at the least cost.

        Of equal costs, the cut nearest to the middle. None where no cut leaves that much on both sides.
        """
        begin, end = self.added[first], self.added[last]
        middle, quarter = (begin + end) / 2, (end - begin) / 4
        inside = [index for index in range(first + 1, last) if abs(self.added[index] - middle) <= quarter]
        return min(inside, key=lambda index: (self.shared[index], abs(self.added[index] - middle)), default=None)


def _texts(request: Request) -> tuple[str, str]:
    """The text of a request; that of a continuation apart, so that no context is copied."""
    if isinstance(request, RollingRequest):
        return request.text, ""
    return request.context, request.continuation if isinstance(request, LoglikelihoodRequest) else ""


def _tokens(request: Request) -> int:
    """About how many tokens a request takes alone, with those of its completion."""
    context, continuation = _texts(request)
    tokens = _length(context) + _length(continuation)
    if isinstance(request, RollingRequest):
        return tokens
    tokens += _MEDIA_TOKENS * len(request.media)
    if isinstance(request, GenerationRequest):
        limit = resolved_names(request.gen_kwargs).get("max_gen_toks")
        tokens += int(limit) if isinstance(limit, int | float) else _COMPLETION_TOKENS
    return tokens


def _shared_tokens(first: tuple[str, str], second: tuple[str, str]) -> int:
    if first[0] != second[0]:
        return _length(first[0][: _common(first[0], second[0])])
    return _length(first[0]) + _length(first[1][: _common(first[1], second[1])])


def _length(text: str) -> int:
    """About how many tokens a text has."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -(-size // _BYTES_PER_TOKEN)


def _common(first: str, second: str) -> int:
    """The number of characters that two texts have in common at their beginning.

    >>> _common("the cat", "the car")
    6
    """
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


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

    def complete(self, batch: Batch) -> None:
        self.completed.update(batch.finished if batch.unreadable is None else range(len(self.unit)))


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
        parts = (part.requests for unit in units for part in subtrees([unit], self.pool.size))
        for task, batch in self._run(parts):
            for position, output in batch.outputs:
                yield task.unit[position], output
            for request, reason, retried in batch.given_up:
                yield request, FailedRequest(reason=reason, retried=retried)

    def run_ranges(self, documents: RangedDocs, cache: Store | None, *, stores: bool) -> Iterator[Batch]:
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
                        task.complete(batch)
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

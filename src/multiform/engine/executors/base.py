"""Executors run units of work on a model and yield the responses as they arrive."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Protocol, TypeAlias, get_args

from multiform.engine.failures import checked
from multiform.engine.store import Store
from multiform.requests import FailedRequest, Output, Request

#: Requests of one kind that go to one model together, because they share prefixes: all of a run, or those below one
#: node of the prefix tree.
Unit: TypeAlias = Sequence[Request]


class Executor(Protocol):
    """Runs units of work, in any order and on any machine."""

    #: Requests that were run more than once so far, because a worker failed on their unit.
    asked_again: int

    def run(self, units: Sequence[Unit]) -> Iterator[tuple[Request, Output | FailedRequest]]:
        """Yield every request of every unit once, with its output as soon as it is known, or how it failed.

        After `stop_requested()` no further request is started; those in flight are still yielded.
        """


def responses(
    executor: Executor, requests: Iterable[Request], *, identity: str = "", store: Store | None = None
) -> Generator[tuple[Request, Output | FailedRequest], None, None]:
    """Yield every distinct request with its output, as soon as the model has it; it is stored at that moment.

    A request that failed is not stored, and neither is an invalid output, such as a log-likelihood of NaN: that is
    a failed request, too. `identity` is that of the model, under which its responses are stored.
    """
    with nullcontext(_forget) if store is None else store.recording(identity) as record:
        for request, output in executor.run(units(requests)):
            response = checked(request, output)
            if not isinstance(response, FailedRequest):
                record(request, response)
            yield request, response


def units(requests: Iterable[Request]) -> list[Unit]:
    """The distinct requests as units of work: one for each kind, so that requests that share a prefix stay together.

    >>> from multiform.requests import LoglikelihoodRequest, RollingRequest
    >>> [len(unit) for unit in units([RollingRequest("a"), LoglikelihoodRequest("a", "b"), RollingRequest("a")])]
    [1, 1]
    """
    distinct = dict.fromkeys(requests)
    by_kind = ([request for request in distinct if isinstance(request, kind)] for kind in get_args(Request))
    return [unit for unit in by_kind if unit]


def _forget(request: Request, output: Output) -> None:
    """Takes the place of a store where there is none."""

"""Asks what the forms of a run want to know: each distinct request once, and none that was answered before."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import nullcontext

from multiform.engine.executors import Executor, Unit
from multiform.engine.store import Store
from multiform.requests import GenerationRequest, LoglikelihoodRequest, Output, Request, RollingRequest


def answers(
    executor: Executor, requests: Iterable[Request], *, identity: str = "", store: Store | None = None
) -> Generator[tuple[Request, Output], None, None]:
    """Every distinct request with its output, as soon as the model has it; the store gets each at that moment.

    `identity` is that of the model, under which its answers are stored.
    """
    with nullcontext(_forget) if store is None else store.recording(identity) as record:
        for request, output in executor.run(units(requests)):
            record(request, output)
            yield request, output


def units(requests: Iterable[Request]) -> list[Unit]:
    """The distinct requests as units of work: one for each kind, so that nothing that can be shared is apart.

    >>> [len(unit) for unit in units([RollingRequest("a"), LoglikelihoodRequest("a", "b"), RollingRequest("a")])]
    [1, 1]
    """
    distinct = dict.fromkeys(requests)
    kinds = (LoglikelihoodRequest, RollingRequest, GenerationRequest)
    made = ([request for request in distinct if isinstance(request, kind)] for kind in kinds)
    return [unit for unit in made if unit]


def _forget(request: Request, output: Output) -> None:
    """Where there is no store."""

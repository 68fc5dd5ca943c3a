"""Asks a model what the forms of a run want to know: each distinct request once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from multiform.errors import ModelError, MultiformError
from multiform.models.base import Model
from multiform.requests import GenerationRequest, LoglikelihoodRequest, Output, Request, RollingRequest

R = TypeVar("R")


def answers(model: Model, requests: Iterable[Request]) -> Iterator[tuple[Request, Output]]:
    """Every distinct request with its output, as soon as the model has it."""
    distinct = list(dict.fromkeys(requests))
    kinds: Sequence[tuple[type[Any], Callable[[Any], Iterator[tuple[int, Output]]]]] = (
        (LoglikelihoodRequest, model.loglikelihood),
        (RollingRequest, model.loglikelihood_rolling),
        (GenerationRequest, model.generate),
    )
    for kind, ask in kinds:
        asked = [request for request in distinct if isinstance(request, kind)]
        if asked:
            yield from _asked(model, asked, ask)


def _asked(
    model: Model, requests: list[R], ask: Callable[[list[R]], Iterator[tuple[int, Output]]]
) -> Iterator[tuple[R, Output]]:
    missing = set(range(len(requests)))
    try:
        for position, output in ask(requests):
            missing.discard(position)
            yield requests[position], output
    except MultiformError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError, OSError) as error:
        what = f"model '{model.name}' failed: {type(error).__name__}: {error}"
        raise ModelError(what, hint="run again with a smaller --batch_size or another device") from error
    if missing:
        raise ModelError(f"model '{model.name}' left {len(missing)} of {len(requests)} requests without an answer")

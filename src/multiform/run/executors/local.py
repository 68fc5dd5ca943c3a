"""Executors: a run's model, and how its requests are run. The local executor has the model in this process."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeAlias, get_args

from multiform.errors import ModelError, MultiformError, reason
from multiform.models import Model, models
from multiform.requests import FailedRequest, LoglikelihoodRequest, Output, Request, RollingRequest
from multiform.run.limits import validate_output
from multiform.run.loading import load_model, load_now
from multiform.run.progress import Progress
from multiform.run.store import CachedResponses, Store
from multiform.stopping import stop_requested

#: Requests of one kind that go to one model together, because they share prefixes: all of a run, or those below one
#: node of the prefix tree.
Unit: TypeAlias = Sequence[Request]


#: Stores the response to a request.
Record: TypeAlias = Callable[[Request, Output], None]


class ResponseStore(Protocol):
    """Where responses are looked up and stored: the store of the driver, or a worker's view of it."""

    def known(self, identity: str, requests: Iterable[Request]) -> CachedResponses:
        """The requests whose responses by this model are cached, with their outputs."""

    def recording(self, identity: str) -> AbstractContextManager[Record]:
        """A context manager that gives what stores responses of this model."""


class UnitRunner(Protocol):
    """Runs units of work, in any order and on any machine."""

    def run(self, units: Iterable[Unit]) -> Iterator[tuple[Request, Output | FailedRequest]]:
        """Yield every request of every unit once, with its output as soon as it is known, or how it failed.

        Units are taken when they can be run, and no earlier: only then are they rendered. After `stop_requested()` no
        further request is started; those in flight are still yielded.
        """


class Executor(UnitRunner, Protocol):
    """Loads the model of a run and runs its requests; it keeps the model, so that several runs load it once."""

    @property
    def retry_count(self) -> int:
        """Requests that were run more than once so far, because a worker failed on their unit."""

    def load(
        self, model: str | Model | Any, arguments: Mapping[str, Any], progress: Progress, store: Store | None
    ) -> Model:
        """The model, or the registered one of that name; loaded when it is needed if the store has its facts."""

    def close(self) -> None:
        """Release the model."""


def responses(
    executor: UnitRunner, units: Iterable[Unit], *, identity: str = "", store: ResponseStore | None = None
) -> Generator[tuple[Request, Output | FailedRequest], None, None]:
    """Yield every request of the units with its output, as soon as the model has it; it is stored at that moment.

    A request that failed is not stored, and neither is an invalid output, such as a log-likelihood of NaN: that is
    a failed request, too. `identity` is that of the model, under which its responses are stored.
    """
    with nullcontext(_forget) if store is None else store.recording(identity) as record:
        for request, output in executor.run(units):
            response = validate_output(request, output)
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


class LocalExecutor:
    """Runs one unit after the other on the model, in this process."""

    retry_count = 0

    def __init__(self, model: Model | None = None) -> None:
        self._model = model
        self._loaded: tuple[tuple[str, str], Model] | None = None

    @property
    def model(self) -> Model:
        if self._model is None:
            raise RuntimeError("the executor has no model yet")
        return self._model

    def load(
        self, model: str | Model | Any, arguments: Mapping[str, Any], progress: Progress, store: Store | None
    ) -> Model:
        def load() -> Model:
            key = model_key(str(model), arguments)
            if self._loaded is None or self._loaded[0] != key:
                self._loaded = None  # before the next one is loaded, which may need the memory
                self._loaded = key, load_now(str(model), arguments, progress)
            return self._loaded[1]

        self._model = load_model(model, arguments, progress, store, load=load)
        return self._model

    def close(self) -> None:
        self._model = self._loaded = None

    def run(self, units: Iterable[Unit]) -> Iterator[tuple[Request, Output | FailedRequest]]:
        for unit in units:
            if stop_requested():
                return
            yield from self._responses(unit)

    def _responses(self, unit: Unit) -> Iterator[tuple[Request, Output | FailedRequest]]:
        if kinds := {
            item.kind for request in unit if not isinstance(request, RollingRequest) for item in request.media
        }:
            self.model.check_media(kinds)
        missing = dict.fromkeys(range(len(unit)))
        name = self.model.name
        try:
            for position, output in self._method(unit)(unit):
                if position not in missing:
                    message = (
                        f"model '{name}' gave a second response to request {position}, or there is no such request"
                    )
                    raise ModelError(message, hint="yield one (position, output) for each request")
                del missing[position]
                yield unit[position], output
                if stop_requested() and not self.model.handles_stop:
                    return
        except MultiformError:
            raise
        except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError, OSError) as error:
            message = f"model '{name}' failed: {reason(error)}"
            raise ModelError(message, hint="run again with a smaller --batch_size or another device") from error
        if not stop_requested():
            for position in missing:
                yield unit[position], FailedRequest(reason=f"model '{name}' gave no response")

    def _method(self, unit: Unit) -> Callable[[Any], Iterator[tuple[int, Output | FailedRequest]]]:
        """The method of the model for the kind of the unit's requests."""
        if isinstance(unit[0], LoglikelihoodRequest):
            return self.model.loglikelihood
        if isinstance(unit[0], RollingRequest):
            return self.model.loglikelihood_rolling
        return self.model.generate


class CachedExecutor:
    """Runs nothing: a run uses cached responses only, and fails where it needs others."""

    retry_count = 0

    def load(
        self, model: str | Model | Any, arguments: Mapping[str, Any], progress: Progress, store: Store | None
    ) -> Model:
        if isinstance(model, str) and model in models and models.get(model).signature(arguments) is not None:
            return load_model(model, arguments, progress, store, load=_refuse_to_load)
        # The identity of other models, such as those on servers, is known once they are loaded.
        return load_model(model, arguments, progress, store)

    def run(self, units: Iterable[Unit]) -> Iterator[tuple[Request, Output | FailedRequest]]:
        if missing := sum(map(len, units)):
            message = f"{missing} responses are not stored"
            raise ModelError(message, hint="run the same command without --cached to compute them")
        return iter(())

    def close(self) -> None:
        pass


def _refuse_to_load() -> Model:
    message = "nothing of this model is stored"
    raise ModelError(message, hint="run the same command without --cached to ask it")


def model_key(model: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
    """What tells a model from others: its name and its arguments."""
    return model, repr(sorted(arguments.items()))

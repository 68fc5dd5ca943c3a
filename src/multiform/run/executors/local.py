"""Executors: a run's model, and how its requests are run. The local executor has the model in this process."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any, TypeAlias

from multiform.errors import ModelError, MultiformError, UsageError, reason, shorten
from multiform.models import Model, models
from multiform.models.arguments import check_arguments
from multiform.models.foreign import as_model
from multiform.requests import (
    Completion,
    FailedRequest,
    GenerationRequest,
    LLOutput,
    LoglikelihoodRequest,
    Output,
    Request,
    RollingRequest,
)
from multiform.run.executors.work_units import Unit
from multiform.run.loading import Facts, LazyModel
from multiform.run.progress import Progress
from multiform.run.store import Store
from multiform.stopping import stop_requested

#: Requests with their outputs.
Responses: TypeAlias = Generator[tuple[Request, Output | FailedRequest], None, None]


class Executor(ABC):
    """Loads the model of a run and runs its requests; it keeps the model, so that several runs load it once."""

    #: Whether units are taken before those that were taken earlier have all their responses.
    takes_ahead = False
    #: Requests that were run more than once so far, because a worker failed on their unit.
    retry_count = 0
    _model: Model | None = None

    @property
    def model(self) -> Model:
        if self._model is None:
            raise RuntimeError("the executor has no model yet")
        return self._model

    def load(
        self,
        model: str | Model | Any,
        arguments: Mapping[str, Any],
        progress: Progress,
        open_store: Callable[[], Store | None] = lambda: None,
    ) -> Model:
        """The model, or the registered one of that name; loaded when it is needed if the store has its facts."""
        if isinstance(model, str):
            self._model = self._load_lazily(model, arguments, progress, open_store)
        else:
            self._model = as_model(model)
        return self._model

    def _load_lazily(
        self, name: str, arguments: Mapping[str, Any], progress: Progress, open_store: Callable[[], Store | None]
    ) -> Model:
        entry = models.get(name)
        store = open_store() if entry.signature_from else None
        signed = None if store is None else entry.signature(arguments)
        if store is None or signed is None:
            return self._load(name, arguments, progress)
        signature = f"{name} {signed}"

        def remember(facts: Facts) -> None:
            store.remember(signature, asdict(facts))

        known = store.facts(signature)
        if known is not None and set(known) == set(Facts.__dataclass_fields__):
            load = lambda: self._load(name, arguments, progress)  # noqa: E731
            return LazyModel(Facts(**known), load, remember, lambda: entry.chat(arguments))
        loaded = self._load(name, arguments, progress)
        remember(Facts.of(loaded))
        return loaded

    def _load(self, name: str, arguments: Mapping[str, Any], progress: Progress) -> Model:
        """The registered model of that name, loaded now."""
        raise NotImplementedError

    @abstractmethod
    def run(self, units: Iterable[Unit]) -> Responses:
        """Yield every request of every unit once, with its output as soon as it is known, or how it failed.

        Units are taken when they can be run, and no earlier: only then are they rendered. After `stop_requested()` no
        further request is started; those in flight are still yielded.
        """

    def close(self) -> None:
        """Release the model."""
        self._model = None


def model_key(model: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
    """What tells a model from others: its name and its arguments."""
    return model, repr(sorted(arguments.items()))


def load_now(model: str, arguments: Mapping[str, Any], progress: Progress) -> Model:
    """The registered model of that name, loaded into this process."""
    progress.message(f"loading model '{model}'")
    started = time.monotonic()
    loaded = create_model(model, arguments)
    loaded.loading_seconds = time.monotonic() - started
    return loaded


def create_model(model: str, arguments: Mapping[str, Any]) -> Model:
    """The registered model of that name with these arguments, which are checked."""
    try:
        factory = models.get(model).load()
    except ImportError as error:
        message = f"model '{model}' needs a package that is not installed: {error}"
        raise UsageError(message, where="--model", hint="pip install 'multiform[hf]'") from error
    try:
        if arguments:
            check_arguments(factory, arguments)
        return factory(**arguments)
    except UsageError as error:
        raise error.or_at("--model_args") from error
    except TypeError as error:
        raise UsageError(reason(error), where="--model_args", hint=f"see what model '{model}' takes") from error


class LocalExecutor(Executor):
    """Runs one unit after the other on the model, in this process."""

    def __init__(self, model: Model | None = None) -> None:
        self._model = model
        self._loaded: tuple[tuple[str, str], Model] | None = None

    def _load(self, name: str, arguments: Mapping[str, Any], progress: Progress) -> Model:
        key = model_key(name, arguments)
        if self._loaded is None or self._loaded[0] != key:
            self._loaded = None  # before the next one is loaded, which may need the memory
            self._loaded = key, load_now(name, arguments, progress)
        return self._loaded[1]

    def close(self) -> None:
        self._model = self._loaded = None

    def run(self, units: Iterable[Unit]) -> Responses:
        for unit in units:
            if stop_requested():
                return
            yield from self._responses(unit)

    def _responses(self, unit: Unit) -> Responses:
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
                yield unit[position], validate_output(unit[position], output)
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


def validate_output(request: Request, output: Any) -> Output | FailedRequest:
    """The output, or a failed request where it is invalid, such as a log-likelihood of NaN.

    >>> from multiform.requests import LoglikelihoodRequest
    >>> validate_output(LoglikelihoodRequest("a", "b"), LLOutput(float("nan")))
    FailedRequest(reason='the log-likelihood is nan', retried=0)
    """
    if isinstance(output, FailedRequest):
        return output
    if isinstance(request, GenerationRequest):
        right = isinstance(output, Completion) and isinstance(output.text, str)
        return output if right else FailedRequest(reason=f"expected a completion, got {shorten(output)}")
    if not isinstance(output, LLOutput):
        return FailedRequest(reason=f"expected a log-likelihood, got {shorten(output)}")
    try:
        loglikelihood = float(output.loglikelihood)
    except (TypeError, ValueError):
        return FailedRequest(reason=f"the log-likelihood is {shorten(output.loglikelihood)}")
    if not loglikelihood < math.inf:
        return FailedRequest(reason=f"the log-likelihood is {loglikelihood}")
    return output if type(output.loglikelihood) is float else replace(output, loglikelihood=loglikelihood)


class CachedExecutor(Executor):
    """Runs nothing: a run uses cached responses only, and fails where it needs others."""

    takes_ahead = True

    def _load(self, name: str, arguments: Mapping[str, Any], progress: Progress) -> Model:
        if models.get(name).signature(arguments) is not None:
            message = "nothing of this model is stored"
            raise ModelError(message, hint="run the same command without --cached to ask it")
        # The identity of other models, such as those on servers, is known once they are loaded.
        return load_now(name, arguments, progress)

    def run(self, units: Iterable[Unit]) -> Responses:
        message = f"at least {sum(map(len, units))} responses are not stored"
        raise ModelError(message, hint="run the same command without --cached to compute them")

"""Executors: they load the model of a run and run its requests. The local executor has the model in this process.

What the results of a run say about its model is stored when the model is first loaded. If all responses of a run are
cached, that is all it needs: no weights, and no torch.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeAlias, get_args

from multiform.errors import ModelError, UsageError, excerpt, reason
from multiform.models import Model, models
from multiform.models.arguments import check_arguments
from multiform.models.foreign import as_model
from multiform.models.model import Completions, Loglikelihoods, Usage
from multiform.models.registry import ChatFormatter
from multiform.prompts.media import Kind
from multiform.prompts.prompt import Content, Messages
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
from multiform.run.progress import Progress
from multiform.run.store import Store
from multiform.stopping import stop_requested

#: Requests of one kind that go to one model together, because they share prefixes: all of a run, or those below one
#: node of the prefix tree.
Unit: TypeAlias = Sequence[Request]

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
        assert self._model is not None, "the executor has no model yet"
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
        entry, load = models.get(name), partial(self._load, name, arguments, progress)
        store = open_store() if entry.signature_from else None
        signed = None if store is None else entry.signature(arguments)
        if store is None or signed is None:
            return load()
        remember = partial(store.remember, f"{name} {signed}")
        known = store.facts(f"{name} {signed}")
        if known is not None and set(known) == set(Facts.__dataclass_fields__):
            return LazyModel(Facts(**known), load, remember, partial(entry.chat, arguments))
        loaded = load()
        remember(asdict(Facts.of(loaded)))
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


def units(requests: Iterable[Request]) -> list[Unit]:
    """The distinct requests as units of work: one for each kind, so that requests that share a prefix stay together.

    >>> [len(unit) for unit in units([RollingRequest("a"), LoglikelihoodRequest("a", "b"), RollingRequest("a")])]
    [1, 1]
    """
    distinct = dict.fromkeys(requests)
    by_kind = ([request for request in distinct if isinstance(request, kind)] for kind in get_args(Request))
    return [unit for unit in by_kind if unit]


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
        return output if right else FailedRequest(reason=f"expected a completion, got {excerpt(output)}")
    if not isinstance(output, LLOutput):
        return FailedRequest(reason=f"expected a log-likelihood, got {excerpt(output)}")
    try:
        loglikelihood = float(output.loglikelihood)
    except (TypeError, ValueError):
        return FailedRequest(reason=f"the log-likelihood is {excerpt(output.loglikelihood)}")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the results of a run say about its model."""

    identity: str
    name: str
    info: dict[str, Any]
    tokenizer_info: dict[str, Any]
    chat_template_name: str
    chat_template_text: str | None

    @classmethod
    def of(cls, model: Model) -> Facts:
        return cls(
            identity=model.identity,
            name=model.name,
            info=model.info(),
            tokenizer_info=model.tokenizer_info(),
            chat_template_name=model.chat_template_name(),
            chat_template_text=model.chat_template_text(),
        )


class FactsModel(Model):
    """Stands for a model of which the facts are known."""

    def __init__(self, facts: Facts) -> None:
        self.facts, self.identity, self.name = facts, facts.identity, facts.name

    def chat_template_name(self) -> str:
        return self.facts.chat_template_name

    def chat_template_text(self) -> str | None:
        return self.facts.chat_template_text

    def info(self) -> dict[str, Any]:
        return self.facts.info

    def tokenizer_info(self) -> dict[str, Any]:
        return self.facts.tokenizer_info


class LazyModel(FactsModel):
    """Stands for a model whose facts are stored, and loads it for its first request.

    `chat` gives what writes conversations without the model, where that is possible.
    """

    stored = True

    def __init__(
        self,
        facts: Facts,
        load: Callable[[], Model],
        remember: Callable[[dict[str, Any]], None],
        chat: Callable[[], ChatFormatter | None],
    ) -> None:
        super().__init__(facts)
        self._load = load
        self._remember = remember
        self._make_chat = chat
        self._model: Model | None = None
        self._keeps_prefixes = False

    @cached_property
    def _chat(self) -> ChatFormatter:
        return self.model if self._model else self._make_chat() or self.model

    @property
    def model(self) -> Model:
        """The model itself, loaded."""
        if self._model is None:
            model = self._load()
            if model.identity != self.identity:
                self._remember(asdict(Facts.of(model)))
                raise ModelError(f"model '{self.name}' is not what it was", hint="run the same command again")
            model.keep_prefixes(self._keeps_prefixes)
            self._model = model
        return self._model

    @property
    def loading_seconds(self) -> float:  # type: ignore[override]
        return 0.0 if self._model is None else self._model.loading_seconds

    @property
    def handles_stop(self) -> bool:  # type: ignore[override]
        return self.model.handles_stop

    @property
    def media(self) -> frozenset[Kind]:  # type: ignore[override]
        return self.model.media

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Loglikelihoods:
        return self.model.loglikelihood(requests)

    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> Loglikelihoods:
        return self.model.loglikelihood_rolling(requests)

    def generate(self, requests: Sequence[GenerationRequest]) -> Completions:
        return self.model.generate(requests)

    def apply_chat_template(self, messages: Messages, *, add_generation_prompt: bool = True) -> Content:
        plain = self.facts.chat_template_text and all(isinstance(message["content"], str) for message in messages)
        chat = self._chat if plain else self.model  # which knows what to say to parts, or without a template
        return chat.apply_chat_template(messages, add_generation_prompt=add_generation_prompt)

    def keep_prefixes(self, keep: bool) -> None:
        self._keeps_prefixes = keep
        if self._model is not None:
            self._model.keep_prefixes(keep)

    def plan(self, requests: Sequence[Request]) -> str | None:
        return self.model.plan(requests)

    def workload(self, requests: Sequence[Request]) -> Usage | None:
        return self.model.workload(requests)

    def usage(self) -> Usage | None:
        return Usage() if self._model is None else self._model.usage()

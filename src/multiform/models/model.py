"""Model, the interface of all models, and Usage: the tokens that requests take, and those that a model has computed."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar

from multiform.errors import ModelError, UsageError
from multiform.models.prices import Price
from multiform.prompts.media import Kind
from multiform.prompts.prompt import Content, Messages
from multiform.requests import (
    Completion,
    FailedRequest,
    GenerationRequest,
    LLOutput,
    LoglikelihoodRequest,
    Request,
    Response,
    RollingRequest,
)


@dataclass(slots=True, kw_only=True)
class Usage:
    """Tokens of requests: those that a model has computed so far, or those that requests take before they are sent.

    `prefill` are prompt tokens and `decode` those of completions, with how long each took; before, the most that
    completions may have. `unshared` are the prompt tokens as if nothing were shared between requests.
    `completion_tokens` are those of the `completions` that are finished.
    """

    prefill: int = 0
    decode: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    unshared: int = 0
    completions: int = 0
    completion_tokens: int = 0

    @property
    def computed_tokens(self) -> int:
        """All tokens that were computed."""
        return self.prefill + self.decode

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in _NAMES})

    def scale(self, factor: float) -> Usage:
        """The tokens of requests that are `factor` times as many."""
        return Usage(**{name: round(getattr(self, name) * factor) for name in _NAMES})

    def since(self, earlier: Usage) -> Usage:
        """What was added after an earlier state, such as the beginning of a run."""
        return Usage(**{name: getattr(self, name) - getattr(earlier, name) for name in _NAMES})


_NAMES = tuple(field.name for field in fields(Usage))


@dataclass(slots=True, kw_only=True)
class Counters(Usage):
    """The usage of a model that is still counting: padding included, with the number of forward passes.

    The time between two counts belongs to the pass that is counted second; `resume` leaves out what came before.
    """

    passes: int = 0
    _last: float | None = None

    def resume(self) -> None:
        """Requests are about to be computed."""
        self._last = time.monotonic()

    def count_prefill(self, tokens: int) -> None:
        """Count a forward pass over that many prompt tokens."""
        self.prefill += tokens
        self.passes += 1
        self.prefill_seconds += self._seconds_since_last()

    def count_decode(self, tokens: int) -> None:
        """Count a forward pass that adds one token to each of that many sequences."""
        self.decode += tokens
        self.passes += 1
        self.decode_seconds += self._seconds_since_last()

    def count_prompt(self, tokens: int) -> None:
        """Count the response to a request with that many prompt tokens."""
        self.unshared += tokens

    def count_completion(self, tokens: int) -> None:
        """Count a completion of that many tokens."""
        self.completions += 1
        self.completion_tokens += tokens

    def _seconds_since_last(self) -> float:
        now = time.monotonic()
        elapsed = 0.0 if self._last is None else now - self._last
        self._last = now
        return elapsed


#: What the methods of a model yield: for each request its position among them, and an output or a failure.
Loglikelihoods: TypeAlias = Iterator[Response[LLOutput | FailedRequest]]
Completions: TypeAlias = Iterator[Response[Completion | FailedRequest]]
Out = TypeVar("Out", LLOutput, Completion, LLOutput | FailedRequest, Completion | FailedRequest)
#: Arguments that say how a local model runs; other models accept and ignore them.
LOCAL_ARGUMENTS = frozenset({"batch_size", "max_batch_size", "device", "trust_remote_code"})


def mark_truncated(responses: Iterable[Response[Out]], truncated: Collection[int]) -> Iterator[Response[Out]]:
    """The responses, those to requests whose context lost its beginning marked as such."""
    for position, output in responses:
        if position in truncated and isinstance(output, Completion | LLOutput):
            yield position, replace(output, context_truncated=True)
        else:
            yield position, output


def no_loglikelihoods(model: str, form: str, *, labels: bool = False, of_texts: bool = False) -> UsageError:
    """The error that a model does not give what a form scores.

    `labels` says that it scores labels of one token, `of_texts` that it scores no texts, and labels perhaps.
    """
    none = "gives no log-likelihoods of texts, which" if of_texts else "gives no log-likelihoods, which"
    gives = "scores labels of one token alone, and not what" if labels else none
    formats = "the labels are scored (@mcqa) or the model writes" if labels else "the model writes"
    hint = (
        f"choose a format in which {formats} (@generate, @cot), "
        "or --model openai-completions with a server that echoes prompts, such as vLLM"
    )
    return UsageError(f"the model '{model}' {gives} '{form}' scores", where="--model", hint=hint)


def no_continuation(form: str) -> UsageError:
    """The error that a form scores choices after a thought, on a server that gets messages instead of a text."""
    message = f"'{form}' scores choices after a thought, and this server begins a new answer instead"
    hint = "use --model openai-completions with tokenizer=NAME, or a format whose answer is written (@mcq_cot)"
    return UsageError(message, where="--model", hint=hint)


def no_chat_template(model: str) -> ModelError:
    """The error that a model has no chat template."""
    return ModelError(f"model '{model}' has no chat template", hint="run without --apply_chat_template")


class Model(ABC):
    """A language model.

    `loglikelihood`, `loglikelihood_rolling` and `generate` yield a response `(position, output)` to each
    request as soon as it is known, in whatever order is fastest. No request is dropped: one that fails for good
    yields a `FailedRequest` in the place of the output, and the others go on.
    """

    #: Identifies the weights and all settings that change outputs: equal identities give equal outputs.
    identity: str
    #: What results files and tables call the model.
    name: str
    #: The media that prompts may contain beside text.
    media: frozenset[Kind] = frozenset()
    #: Whether it gives log-likelihoods; one that only generates says False, and tasks that need them are refused.
    scores: ClassVar[bool] = True
    #: Whether prompts are texts that it continues; a chat server makes messages of them, after which its answer begins.
    continues_texts: ClassVar[bool] = True
    #: Whether it ends completions at the labels that a request names (`requests.STOP_AT_LABEL`).
    stops_at_labels: ClassVar[bool] = False
    #: Whether outputs are stored where the user has not said so. A class says it for itself alone: its code decides
    #: its outputs, and a subclass may return others under the same `identity`.
    stored: ClassVar[bool] = False
    #: Whether it looks at `stop_requested()` itself: once that is true, it begins nothing new, yields the responses
    #: to what is in flight, and ends. The streams of other models are closed after their next response.
    handles_stop: bool = False
    #: Whether requests go to a server in batches, which cannot be stopped one by one.
    batch: bool = False
    #: How long loading it took, where the engine has loaded it.
    loading_seconds: float = 0.0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.stored = vars(cls).get("stored", False)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {getattr(self, 'name', 'without a name')}>"

    @abstractmethod
    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Loglikelihoods:
        """The log-likelihood of each continuation after its context, and whether it is the greedy one."""

    @abstractmethod
    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> Loglikelihoods:
        """The log-likelihood of each whole text, in windows where it is longer than the model's context."""

    @abstractmethod
    def generate(self, requests: Sequence[GenerationRequest]) -> Completions:
        """The completion of each context, cut at the first stop string."""

    def apply_chat_template(self, messages: Messages, *, add_generation_prompt: bool = True) -> Content:
        """The messages as one prompt in the model's chat format, or as messages where a server applies its template."""
        raise no_chat_template(self.name)

    def check_scoring(self, *, labels: bool, form: str) -> None:
        """Raise a UsageError unless the model gives log-likelihoods: with `labels`, of labels of one token alone.

        `form` is the one that needs them. Models whose entry says `probed_early` are asked this before any data is
        read.
        """
        if not self.scores:
            raise no_loglikelihoods(self.name, form)

    def check_media(self, kinds: Iterable[Kind]) -> None:
        """Raise a ModelError unless prompts may contain all these kinds of media."""
        missing = sorted(set(kinds) - self.media)
        if missing:
            read = ", ".join(["text", *sorted(self.media)])
            message = f"model '{self.name}' reads {read}; the task's prompts have {' and '.join(missing)}"
            words = " or ".join(f"{kind}-text model" for kind in missing)
            raise ModelError(message, hint=f"use --model hf-multimodal with an {words} of transformers")

    def check_parts(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Raise a ModelError when messages have image or audio parts that the model does not support."""
        lists = [message["content"] for message in messages if isinstance(message["content"], list)]
        self.check_media(part["type"] for parts in lists for part in parts if part["type"] != "text")

    def chat_template_name(self) -> str:
        """The tokenizer or server whose chat template is used; it is part of a prompt's identity."""
        return self.name

    def chat_template_text(self) -> str | None:
        """The chat template itself, for the results file."""
        return None

    def begin_run(self, *, fresh: bool, flush: Callable[[], bool]) -> None:  # noqa: B027 (most models forget nothing)
        """A run is about to send requests. With `fresh`, responses that a server has from earlier runs do not count.

        `flush()` waits until all responses so far are stored, and says whether they are: before that, a model does not
        forget what would give them again.
        """

    def keep_prefixes(self, keep: bool) -> None:  # noqa: B027 (most models keep nothing)
        """Whether a run asks in several calls, which have prefixes in common: they may stay in memory between them."""

    def plan(self, requests: Sequence[Request]) -> str | None:
        """The cost of the requests in words, without running them; None where the model does not plan."""
        return None

    def workload(self, requests: Sequence[Request]) -> Usage | None:
        """The tokens that the requests take, without running them; None where the model does not count tokens."""
        return None

    def usage(self) -> Usage | None:
        """The tokens that the model has computed so far; None where it does not count them.

        It is also asked while the model computes, by another thread.
        """
        return None

    def server_tokens(self) -> dict[str, int]:
        """The tokens of prompts and completions that a server has counted so far; empty where there is none."""
        return {}

    def estimate_tokens(self, requests: Sequence[Request]) -> dict[str, int]:
        """About how many tokens of prompts, and at most how many of completions, a server would count; else empty."""
        return {}

    def price(self, file: Path | None = None) -> Price | None:
        """What the tokens of a server cost, by a user's file or the known prices; None where that is not known."""
        return None

    def info(self) -> dict[str, Any]:
        """Facts about the model for the results file, beside its name and arguments."""
        return {}

    def tokenizer_info(self) -> dict[str, Any]:
        """Facts about the tokenizer and the context length for the results file."""
        return {}

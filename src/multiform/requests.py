"""Requests to a model, and its responses.

A request holds content alone, so that equal requests of different forms are one request. An
`Instance` ties a request to the document that it was made for.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from multiform.errors import ConfigError, excerpt
from multiform.prompts.media import Media
from multiform.prompts.prompt import Messages, Prompt
from multiform.schema import has_type

T = TypeVar("T")

#: How a completion ended, if not by itself.
Ending: TypeAlias = Literal["refused", "filtered", "cut off", "other"]
#: What servers call these ends, in lower case; any other name is "other".
_ENDINGS: Mapping[str, Ending] = {
    **dict.fromkeys(("refusal", "refused"), "refused"),
    **dict.fromkeys(("content_filter", "content_filtered", "guardrail_intervened", "sensitive"), "filtered"),
    **dict.fromkeys(("safety", "recitation", "blocklist", "prohibited_content", "spii", "language"), "filtered"),
    **dict.fromkeys(("image_safety", "image_prohibited_content", "image_recitation", "error_toxic"), "filtered"),
}

#: The names that models, servers and harnesses have for the same generation argument. If several are given, the
#: first counts, as in lm-eval.
GENERATION_ALIASES: Mapping[str, tuple[str, ...]] = {
    "max_gen_toks": ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"),
    "until": ("until", "stop"),
}

#: A generation argument of forms, not of users: labels at which a completion ends, once it begins with one for certain.
STOP_AT_LABEL = "stop_at_label"


def resolved_names(gen_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a generation, each under its one name.

    >>> resolved_names({"temperature": 0.5, "max_tokens": 8, "stop": "."})
    {'temperature': 0.5, 'max_gen_toks': 8, 'until': '.'}
    >>> resolved_names({"max_tokens": 8, "max_gen_toks": 4})
    {'max_gen_toks': 4}
    """
    names = {alias: name for name, aliases in GENERATION_ALIASES.items() for alias in aliases}
    resolved: dict[str, Any] = {}
    for key in gen_kwargs:
        name = names.get(key, key)
        known = [alias for alias in GENERATION_ALIASES.get(name, (key,)) if gen_kwargs.get(alias) is not None]
        resolved[name] = gen_kwargs[known[0] if known else key]
    return resolved


@cache
def _generation_types() -> dict[str, tuple[Any, str]]:
    """The types of generation arguments, also in words."""
    from pydantic import Field as Limits  # which --help does not need

    stop = Annotated[str, Limits(min_length=1)]
    stops = (stop | list[stop] | tuple[stop, ...], "a string or a list of strings, none of them empty")
    return {
        **dict.fromkeys(GENERATION_ALIASES["until"], stops),
        **dict.fromkeys(
            GENERATION_ALIASES["max_gen_toks"],
            (Annotated[int, Limits(ge=1)] | Literal["context"], "a whole number of 1 or more"),
        ),
        "seed": (int, "a whole number"),
        "thinking_budget": (Annotated[int, Limits(ge=0)], "a number of tokens, 0 for no thinking"),
        "temperature": (Annotated[float, Limits(ge=0, lt=math.inf)], "a number of 0 or more"),
        "do_sample": (bool | Literal[0, 1], "true or false"),
    }


def generation_overrides(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Check the generation arguments with which a run overrides those of its tasks, and replace aliases.

    >>> generation_overrides({"max_tokens": 8, "stop": "."})
    {'max_gen_toks': 8, 'until': ['.']}
    """
    check_generation(kwargs)
    for name, aliases in GENERATION_ALIASES.items():
        twice = [alias for alias in aliases if alias in kwargs]
        if len(twice) > 1:
            message = f"{' and '.join(twice)} mean the same"
            raise ConfigError(message, where=f"generation_kwargs.{name}", hint=f"give {name} alone")
    overrides = resolved_names(kwargs)
    if isinstance(overrides.get("until"), str):
        overrides["until"] = [overrides["until"]]
    return overrides


def check_generation(kwargs: Mapping[str, Any]) -> None:
    """Raise a ConfigError for a generation argument with a value that no model can use.

    >>> check_generation({"max_gen_toks": 0})
    Traceback (most recent call last):
    multiform.errors.ConfigError: generation_kwargs.max_gen_toks: max_gen_toks is 0; give a whole number of 1 or more
    """
    for name, (hint, expected) in _generation_types().items():
        value = kwargs.get(name)
        if value is not None and not has_type(value, hint):
            raise ConfigError(f"{name} is {excerpt(value)}", where=f"generation_kwargs.{name}", hint=f"give {expected}")


@dataclass(frozen=True, slots=True, init=False)
class PromptRequest:
    """A request with a prompt.

    Its context is a text, the messages of a chat, or a `Prompt`; `media` are the images and audio clips that its
    placeholders stand for, in their order.
    """

    prompt: Prompt

    @property
    def context(self) -> str:
        """The prompt as a text."""
        return self.prompt.text

    @property
    def media(self) -> tuple[Media, ...]:
        return self.prompt.media


@dataclass(frozen=True, slots=True, init=False)
class LoglikelihoodRequest(PromptRequest):
    """A request for the log-likelihood of a continuation after a context."""

    continuation: str

    def __init__(self, context: Prompt | str | Messages, continuation: str, media: Sequence[Media] = ()) -> None:
        object.__setattr__(self, "prompt", Prompt.of(context, media))
        object.__setattr__(self, "continuation", continuation)

    @property
    def arguments(self) -> tuple[str, str]:
        """The arguments of the request, as lm-eval has them."""
        return self.context, self.continuation


@dataclass(frozen=True, slots=True)
class RollingRequest:
    """A request for the log-likelihood of a whole text."""

    text: str

    @property
    def arguments(self) -> tuple[str]:
        """The arguments of the request, as lm-eval has them."""
        return (self.text,)


@dataclass(frozen=True, slots=True, init=False)
class GenerationRequest(PromptRequest):
    """A request to complete a context.

    `options` are the generation arguments as sorted pairs; `sample` tells repeats apart.
    """

    options: tuple[tuple[str, Any], ...]
    sample: int

    def __init__(
        self,
        context: Prompt | str | Messages,
        options: tuple[tuple[str, Any], ...] = (),
        sample: int = 0,
        media: Sequence[Media] = (),
    ) -> None:
        object.__setattr__(self, "prompt", Prompt.of(context, media))
        object.__setattr__(self, "options", options)
        object.__setattr__(self, "sample", sample)

    @classmethod
    def of(
        cls,
        context: Prompt | str | Messages,
        gen_kwargs: Mapping[str, Any],
        sample: int = 0,
        media: Sequence[Media] = (),
    ) -> GenerationRequest:
        """The request with these generation arguments."""
        return cls(context, tuple((key, _freeze(gen_kwargs[key])) for key in sorted(gen_kwargs)), sample, media)

    @property
    def gen_kwargs(self) -> dict[str, Any]:
        return {key: _thaw(value) for key, value in self.options}

    @property
    def arguments(self) -> tuple[str, dict[str, Any]]:
        """The arguments of the request, as lm-eval has them."""
        return self.context, self.gen_kwargs


class Pairs(tuple[tuple[Any, Any], ...]):
    """The keys and values of a mapping among the arguments of a generation, such as `logit_bias`."""

    __slots__ = ()


def _freeze(value: Any) -> Any:
    """The value of an argument as one that can be compared and hashed."""
    if isinstance(value, Mapping):
        return Pairs((key, _freeze(item)) for key, item in value.items())
    return tuple(map(_freeze, value)) if isinstance(value, list | tuple) else value


def _thaw(value: Any) -> Any:
    if isinstance(value, Pairs):
        return {key: _thaw(item) for key, item in value}
    return list(map(_thaw, value)) if isinstance(value, tuple) else value


Request: TypeAlias = LoglikelihoodRequest | RollingRequest | GenerationRequest

#: The assumed length of a completion, in characters, where a model does not count tokens.
_COMPLETION = 1000


def request_size(request: Request) -> int:
    """The length of a request, in characters."""
    if isinstance(request, RollingRequest):
        return len(request.text)
    return len(request.context) + (_COMPLETION if isinstance(request, GenerationRequest) else len(request.continuation))


def request_key(request: Request) -> bytes:
    """The SHA-256 of everything in a request: its kind, texts, options, media, and which repeat it is.

    >>> request_key(LoglikelihoodRequest("ab", "c")) == request_key(LoglikelihoodRequest("a", "bc"))
    False
    """
    if isinstance(request, RollingRequest):
        return sha256_of("rolling", request.text)
    if isinstance(request, LoglikelihoodRequest):
        kind, texts = "loglikelihood", [request.continuation]
    else:
        kind, texts = "generation", [json.dumps(request.options, default=repr), str(request.sample)]
    in_chat = " in a chat" if request.prompt.is_chat else ""  # which differs from a text that looks like it
    return sha256_of(kind + in_chat, request.context, *texts, *(f"{item.kind} {item.sha256}" for item in request.media))


def sha256_of(*texts: str) -> bytes:
    """The SHA-256 of several texts, with the borders between them."""
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        # With its length before it, a text cannot run into the next one.
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.digest()


#: What a model returns for a request: the request's position in the sequence that was passed, and its output.
Response: TypeAlias = tuple[int, T]


@dataclass(frozen=True, slots=True)
class LLOutput:
    """The output of a (rolling) log-likelihood request; `tokens` is the number of tokens that were scored.

    `context_truncated` says that the beginning of the context was cut off, as it did not fit into the model's.
    `seconds` says how long a server took; local models compute many requests at once, and none has a time of its own.
    """

    loglikelihood: float
    is_greedy: bool = False
    tokens: int | None = None
    context_truncated: bool = False
    seconds: float | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Completion:
    """The output of a generation request; `truncated` when it ran into the token limit.

    `context_truncated` says that the beginning of the prompt was cut off, as it did not fit into the model's context.
    `finish_reason` is the server's word for an unusual end, such as "content_filter"; None if the completion ended
    by itself or at the token limit, or nothing is known. `thought` is what the model thought before the text, and
    None if it did not think, or nothing is known of it. `tokens` and `seconds` say how much was generated and how long
    that took, where the model says so; a response that was cached has neither.
    """

    text: str
    truncated: bool = False
    context_truncated: bool = False
    finish_reason: str | None = None
    thought: str | None = None
    tokens: int | None = field(default=None, compare=False, repr=False)
    seconds: float | None = field(default=None, compare=False, repr=False)

    @property
    def is_thought_cut_off(self) -> bool:
        """Whether the token limit was reached while the model still thought: there is no answer to be wrong."""
        return self.truncated and self.thought is not None and not self.text.strip()

    @property
    def ending(self) -> Ending | None:
        """How it ended: "refused", "filtered", "cut off" or "other"; None if it ended by itself.

        >>> Completion("I", finish_reason="SAFETY").ending, Completion("It is", truncated=True).ending
        ('filtered', 'cut off')
        """
        if self.truncated:
            return "cut off"
        return None if self.finish_reason is None else _ENDINGS.get(self.finish_reason.lower(), "other")


def split_thought(text: str, think_end_token: str | None, *, begun: bool = False) -> tuple[str | None, str]:
    """The thought of a completion and the text after it; `begun` says that the prompt begins a thought.

    >>> split_thought("<think>2 + 2</think> 4", "</think>"), split_thought("4", "</think>")
    (('2 + 2', '4'), (None, '4'))
    >>> split_thought("<think>2 + ", "</think>")
    ('2 + ', '')
    """
    if not think_end_token:
        return None, text
    start = think_end_token.replace("/", "", 1)
    before, end, after = text.rpartition(think_end_token)
    if end:
        return before.removeprefix(start), after.lstrip()
    if start != think_end_token and text.lstrip().startswith(start):
        return text.lstrip().removeprefix(start), ""
    return (text, "") if begun else (None, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRequest:
    """Takes the place of the output of a request that failed for good.

    The results count it and name its document; it is never stored or scored. `reason` says on one line why it failed,
    and `retried` how often it was retried.
    """

    reason: str
    retried: int = 0


Output: TypeAlias = LLOutput | Completion


@dataclass(frozen=True, slots=True)
class Instance:
    """One request of one document: `idx` counts the document's requests."""

    doc_id: int
    idx: int
    request: Request
    #: What a task wants to go along with the request; a model does not see it.
    metadata: Any = field(default=None, compare=False)
    #: The model's response, for `Task.process_instances()`: an output, or the text or numbers that it holds.
    resps: list[Any] = field(default_factory=list, compare=False, repr=False)
    #: What the filters of each scorer left of it.
    filtered_resps: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

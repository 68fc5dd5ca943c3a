"""What all protocols have: the messages of a request with their media, generation arguments, thinking, completions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from multiform.errors import ModelError, UsageError, excerpt
from multiform.models.arguments import (
    DEFAULT_MAX_GEN_TOKS,
    LIMIT_NAMES,
    is_context_limit,
    read_temperature,
    read_until,
    stated_limit,
)
from multiform.models.servers.exchange import mapping_in
from multiform.prompts.media import Media, parts
from multiform.prompts.prompt import Messages, join_delimited
from multiform.requests import Completion, GenerationRequest, LoglikelihoodRequest

#: The limit of a completion that may fill the context, for servers that want a number.
CONTEXT_TOKENS = 8192
#: Marks a message of the assistant that is to be continued.
PREFILL = "prefix"
#: A text, image or audio clip as a part of a message, in the terms of a protocol.
PartOf = Callable[[str | Media], dict[str, Any]]
#: What servers call the end of a completion, in lower case: by itself or at a stop string, at the token limit, at the
#: end of the model's context, and through an error of the server.
_ENDED = frozenset({"", "stop", "end_turn", "stop_sequence", "eos", "eos_token", "complete", "completed"})
_AT_LIMIT = frozenset({"length", "max_tokens", "max_output_tokens"})
_CONTEXT_FULL = frozenset({"model_context_window_exceeded", "model_length"})
_FAILED = frozenset(
    {"error", "abort", "aborted", "cancelled", "failed", "network_error", "insufficient_system_resource"}
)
#: Where servers count tokens: the object, and its entries for prompts and completions.
_TOKEN_COUNTS = (
    ("usage", "prompt_tokens", "completion_tokens"),
    ("usage", "input_tokens", "output_tokens"),
    ("usageMetadata", "promptTokenCount", "candidatesTokenCount"),
)
#: Google counts what a model thought apart; it is billed as the completion is.
_THOUGHTS = "thoughtsTokenCount"
#: No request has as many tokens: a greater number is no count.
_MOST_TOKENS = 10**9


def counted_tokens(response: Any) -> dict[str, int]:
    """The tokens of the prompt and of the completion, as the server counts them; empty where it does not.

    >>> counted_tokens({"usage": {"prompt_tokens": 7, "completion_tokens": 2}})
    {'prompt': 7, 'completion': 2}
    """
    for key, prompt, completion in _TOKEN_COUNTS:
        listed = mapping_in(response, key)
        counts = {name: n for name, n in listed.items() if type(n) is int and 0 <= n < _MOST_TOKENS}
        if prompt in counts:
            return {"prompt": counts[prompt], "completion": counts.get(completion, 0) + counts.get(_THOUGHTS, 0)}
    return {}


def sent_messages(
    request: GenerationRequest | LoglikelihoodRequest, part_of: PartOf
) -> tuple[list[dict[str, Any]], bool]:
    """The messages of a chat with their media, and whether the last one is marked as one to be continued.

    Any other prompt is a message of the user, whatever it looks like.
    """
    content = request.prompt.content
    messages = [{"role": "user", "content": content}] if isinstance(content, str) else content
    filled = with_media(messages, request.media, part_of)
    return filled, bool(filled) and bool(filled[-1].pop(PREFILL, False))


def with_media(messages: Sequence[Mapping[str, Any]], media: Sequence[Media], part_of: PartOf) -> list[dict[str, Any]]:
    """The messages with the content of each image and audio clip in the place of its part or placeholder."""
    if not media:
        return [dict(message) for message in messages]
    remaining = iter(media)
    filled = []
    for message in messages:
        content = message["content"]
        split = parts([message], media)[0]["content"] if isinstance(content, str) else content
        filled.append({**message, "content": [part_of(_fill_part(part, remaining)) for part in split]})
    if (medium := next(remaining, None)) is not None:
        what = f"the messages have no place for {medium.kind} {medium.sha256[:12]}"
        raise ModelError(what, hint="mark it in the prompt")
    return filled


def _fill_part(part: Mapping[str, Any], media: Iterator[Media]) -> str | Media:
    """The text of a part, or the next of the media where the part is a placeholder."""
    if part["type"] not in ("image", "audio"):
        return str(part["text"])
    medium = next(media, None)
    if medium is None or medium.kind != part["type"]:
        raise ModelError(f"there is no {part['type']} for each of its places in the messages")
    return medium


def move_prefill(messages: Messages) -> list[dict[str, Any]]:
    r"""The messages with the beginning of the answer as the last line of what the user says.

    >>> move_prefill([{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "The answer is"}])
    [{'role': 'user', 'content': '2 + 2?\nThe answer is'}]
    """
    *others, last = [dict(message) for message in messages]
    if not others or others[-1]["role"] != "user":
        return [*others, {**last, "role": "user"}]
    content = others[-1]["content"]
    if isinstance(content, str):
        others[-1]["content"] = join_delimited(content, last["content"], "\n")
    else:
        others[-1]["content"] = [*content, {"type": "text", "text": f"\n{last['content']}"}]
    return others


def stop_strings(request: GenerationRequest) -> list[str]:
    """The strings at which a completion ends."""
    return list(read_until(request.gen_kwargs.get("until")))


def token_limit(request: GenerationRequest) -> int:
    """The most tokens of a completion; a number that servers take where it may fill the context."""
    if is_context_limit(request.gen_kwargs):
        return CONTEXT_TOKENS
    return int(stated_limit(request.gen_kwargs) or DEFAULT_MAX_GEN_TOKS)


def generation_arguments(
    request: GenerationRequest, seed: int | None, *, most_stops: int | None = None, fills_context: bool = False
) -> dict[str, Any]:
    """The arguments of a generation under OpenAI's names; any that is unknown here is passed on as it is.

    Servers accept `most_stops` stop strings, and completions are cut at all of them on arrival. Each repeat of a
    question has another seed. With `fills_context`, a completion without a limit gets none.

    >>> generation_arguments(GenerationRequest.of("", {"until": ["."], "max_gen_toks": 8, "top_p": 0.9}), seed=1)
    {'max_tokens': 8, 'temperature': 0.0, 'stop': ['.'], 'seed': 1, 'top_p': 0.9}
    """
    given = request.gen_kwargs
    arguments: dict[str, Any] = {"max_tokens": token_limit(request), "temperature": read_temperature(given)}
    if fills_context and is_context_limit(given):
        del arguments["max_tokens"]
    if stops := stop_strings(request)[:most_stops]:
        arguments["stop"] = stops
    if (first := given.get("seed", seed)) is not None:
        arguments["seed"] = first + request.sample
    read = ("until", "do_sample", "temperature", "seed", "thinking_budget", *LIMIT_NAMES)
    return arguments | {name: value for name, value in given.items() if name not in read}


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """The arguments of a model about thinking; None leaves a setting to the server.

    A budget of 0 tokens switches thinking off. What a completion has up to `think_end_token` is its thought, for
    servers that do not send thoughts apart.
    """

    enable_thinking: bool | None = None
    reasoning_effort: str | None = None
    thinking_budget: int | None = None
    think_end_token: str | None = None

    def __post_init__(self) -> None:
        budget = self.thinking_budget
        if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int) or budget < 0):
            raise UsageError(f"thinking_budget is {excerpt(budget)}", hint="give a number of tokens, 0 for no thinking")
        if self.enable_thinking is False and budget:
            message = f"enable_thinking is false and thinking_budget {budget}"
            raise UsageError(message, hint="give one of them")

    def settings(self) -> dict[str, Any]:
        """The arguments that were given."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def check(self, names: Collection[str], kind: str) -> None:
        """Raise a UsageError for an argument that a protocol has no word for."""
        for name in self.settings():
            if name not in names:
                hint = f"leave it out; '{kind}' takes {', '.join(names)}"
                raise UsageError(f"'{kind}' has no {name}", where=name, hint=hint)

    @property
    def budget(self) -> int | None:
        """The most tokens of a thought; 0 where thinking is switched off."""
        return 0 if self.enable_thinking is False else self.thinking_budget


def finish_reason(response: Mapping[str, Any], key: str) -> str | None:
    """The reason that a response gives for the end of its completion; None where it has no such key.

    >>> finish_reason({"finish_reason": None}, "finish_reason"), finish_reason({}, "finish_reason")
    ('null', None)
    """
    return ("null" if response[key] is None else str(response[key])) if key in response else None


def completion(
    request: GenerationRequest, response: Any, text: str, reason: str | None, *, thought: str | None = None
) -> Completion:
    """The completion in a response, up to its first stop string, with its tokens where the server counts them.

    `reason` is the server's word for its end, where it gives one, and `thought` what it sends apart as reasoning.

    >>> request = GenerationRequest.of("2 + 2?", {"until": [".", "More"]})
    >>> completion(request, {}, "four. And", "length").text, completion(request, {}, "It is", "MAX_TOKENS").truncated
    ('four', True)
    """
    tokens = counted_tokens(response).get("completion")
    ends = [text.find(stop) for stop in stop_strings(request) if stop in text]
    if ends:
        return Completion(text[: min(ends)], thought=thought, tokens=tokens)
    name = (reason or "").lower()
    if name in _FAILED:
        raise ModelError(f"the generation ended with finish reason '{reason}'")
    at_limit = name in _AT_LIMIT or name in _CONTEXT_FULL
    usual = name in _ENDED or name in _AT_LIMIT
    finish_reason = None if usual else reason
    return Completion(text, truncated=at_limit, finish_reason=finish_reason, thought=thought, tokens=tokens)

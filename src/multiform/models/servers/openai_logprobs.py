"""Log-likelihoods from the log-probabilities of an echoed prompt, or of tokens that vLLM's servers list or generate.

vLLM's servers list the log-probabilities of given tokens in one step (`logprob_token_ids`), and generate given tokens
where they run our logits processor (`--logits-processors`, with `vllm_xargs`), so that their prefix cache is used.
Servers ignore arguments that they do not know, so support is probed first, with tokens by their ids
(`return_tokens_as_token_ids`).

A malformed response that may be different next time is a ModelError; one that would be the same again is a
RefusedError.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from multiform.errors import ModelError, excerpt
from multiform.models.servers.exchange import RefusedError, mapping_in, mappings_in
from multiform.models.vllm.queries import FORCED_ARGUMENT, Query
from multiform.requests import LLOutput

#: Marks of tokenizers for white space: a server that writes them does not say how its tokens are spelled.
_MARKS = ("▁", "Ġ", "Ċ")
#: How far above 0 rounding may put a log-probability, and above 1 a sum of probabilities.
ROUNDING = 0.01
#: How far the log-probability of the same token after the same text may differ between two requests.
_NOISE = 0.25
_BYTES = re.compile(rb"\\x([0-9a-fA-F]{2})")
_TOKEN_ID = re.compile(r"token_id:(\d+)")
#: The most places at which a token may begin.
_MOST_PLACES = 200
_GENERATED: Mapping[str, Any] = {
    "echo": False,
    "logprobs": 1,
    "temperature": 0,
    "ignore_eos": True,
    "return_tokens_as_token_ids": True,
}
#: The first byte of a token in a prompt, and the one after its last.
Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """How a server echoes prompts: whether it puts a token before a text, whether the first token's log-probability is
    null, and how many generated tokens follow; None where that is not known."""

    adds_first: bool | None = None
    first_is_null: bool | None = None
    generated: int = 1


@dataclass(frozen=True, slots=True)
class Echo:
    """Echoed tokens with their log-probabilities and the likeliest tokens in their places."""

    tokens: Sequence[str]
    values: Sequence[Any]
    tops: Sequence[Any] | None
    #: How many of the tokens precede the prompt's own, and how many generated ones followed.
    added: int = 0
    generated: int = 0
    #: For each of the prompt's own tokens, the bytes of the prompt at which it may begin and end; of texts alone.
    spans: Sequence[Collection[Span]] = ()

    @classmethod
    def of(cls, choice: Mapping[str, Any]) -> Echo:
        """All tokens of a choice, the generated ones included; their lists have the same length."""
        logprobs = echoed_logprobs(choice)
        tokens, values, tops = logprobs.get("tokens"), logprobs["token_logprobs"], logprobs.get("top_logprobs")
        if not isinstance(tokens, list) or not tokens or not all(isinstance(token, str) for token in tokens):
            raise ModelError("the response has no tokens")
        if len(tokens) != len(values):
            raise ModelError(f"the response has {len(tokens)} tokens and {len(values)} log-probabilities")
        return cls(tokens, values, tops if isinstance(tops, list) and len(tops) == len(tokens) else None)

    def prompt(self, end: int, convention: Convention, added: int = 0, spans: Sequence[Collection[Span]] = ()) -> Echo:
        """The tokens before `end`, if their log-probabilities can be those of a prompt."""
        values = self.values[:end]
        if convention.first_is_null and values[0] is not None:
            raise ModelError(f"the first token has log-probability {values[0]!r}, and none in other responses")
        numbers = values[1:] if values[0] is None else values
        _check_logprobs(numbers)
        if len(numbers) > 2 and len(set(numbers)) == 1:
            raise ModelError(f"all {len(numbers)} tokens of a prompt have the log-probability {numbers[0]:g}")
        tops = None if self.tops is None else self.tops[:end]
        return Echo(self.tokens[:end], values, tops, added, len(self.tokens) - end, spans)

    def score(self, start: int) -> LLOutput:
        """The log-likelihood of the prompt's tokens from `start` on."""
        scored = self.values[start:]
        # Some servers write a number where there is no probability.
        if scored[0] is None or (start == 0 and (scored[0] == 0 or scored[0] <= -9999)):
            message = "the server gives no probability for the first token of a text"
            raise RefusedError(f"{message}; name the model's tokenizer, so that one can be put before it")
        return total_score(scored, self.tops[start:] if self.tops else None)


def only_choice(response: Any) -> Mapping[str, Any]:
    """The choice for the only prompt of a request: that of index 0, wherever it is in the list."""
    chosen = next((choice for choice in mappings_in(response, "choices") if choice.get("index", 0) == 0), None)
    if chosen is None:
        hint = "check that base_url is an OpenAI-compatible endpoint"
        raise ModelError(f"the response has no choices: {response!r}", hint=hint)
    return chosen


def is_logprob(value: Any) -> bool:
    """Whether a value of a response is a log-probability: a number that a float can hold, neither NaN nor above 0."""
    return (isinstance(value, float) or (type(value) is int and value > -(10**300))) and value <= ROUNDING


def echoed_logprobs(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    """The log-probabilities of a choice."""
    logprobs = mapping_in(choice, "logprobs")
    if isinstance(logprobs.get("token_logprobs"), list):
        return logprobs
    raise ModelError("the response has no log-probabilities")


def total_score(values: Sequence[Any], tops: Sequence[Any] | None) -> LLOutput:
    """The log-likelihood of tokens, from their log-probabilities and the likeliest tokens in their places."""
    _check_logprobs(values)
    best = [_best(top) for top in tops] if tops is not None else []
    pairs = list(zip(values, best, strict=False))
    if wrong := next(((value, top) for value, top in pairs if top is not None and value > top + ROUNDING), None):
        raise ModelError(f"a token has log-probability {wrong[0]:g}, and the likeliest in its place {wrong[1]:g}")
    # Where the server does not say which token is the likeliest, none is.
    greedy = len(best) == len(values) and all(top is not None and value >= top for value, top in pairs)
    return LLOutput(float(sum(values)), is_greedy=greedy, tokens=len(values))


def _check_logprobs(values: Sequence[Any]) -> None:
    if wrong := [value for value in values if not is_logprob(value)]:
        raise ModelError(f"not all log-probabilities of the response are numbers up to 0: {wrong[0]!r}")


def _best(top: Any) -> float | None:
    values = [value for value in top.values() if is_logprob(value)] if isinstance(top, Mapping) else []
    return max(values, default=None)


def echo_of_text(choice: Mapping[str, Any], prompt: str, convention: Convention) -> Echo:
    """The echo of a prompt that was sent as text; an error unless its tokens spell the prompt from its first character.

    `text_offset` is not used: servers count it in characters, bytes, or not at all, and the tokens say it themselves.
    """
    whole = Echo.of(choice)
    tokens, data = whole.tokens, prompt.encode("utf-8", "surrogatepass")
    adds_first = not tokens[0] if convention.adds_first is None else convention.adds_first
    for added in (1, 0) if adds_first else (0, 1):
        spans = _token_spans(tokens[added:], data, convention.generated)
        if spans:
            return whole.prompt(added + len(spans), convention, added, spans)
    message = f"the tokens of the response do not spell the prompt: {excerpt(''.join(tokens))}"
    if any(mark in token for token in tokens for mark in (*_MARKS, "\ufffd")):
        raise RefusedError(f"{message}; name the model's tokenizer, so that its tokens are sent")
    raise ModelError(message)


def score_text(choice: Mapping[str, Any], prompt: str, boundary: int, convention: Convention) -> LLOutput:
    """The log-likelihood of the prompt's text from a character on, by the server's own tokens.

    A token that spans the boundary is scored.
    """
    echo = echo_of_text(choice, prompt, convention)
    border = len(prompt[:boundary].encode("utf-8", "surrogatepass"))
    holders = [i for i, spans in enumerate(echo.spans) if any(start <= border < end for start, end in spans)]
    if len(holders) != 1:  # pieces of characters that can be put together in several ways
        message = "pieces of characters in the response do not say where the continuation begins"
        raise RefusedError(f"{message}; name the model's tokenizer, so that its tokens are sent")
    first = holders[0]
    while first and echo.spans[first - 1] == {(border, border)}:
        first -= 1  # a token without text is a piece of the character after it
    return echo.score(echo.added + first)


def _token_spans(tokens: Sequence[str], data: bytes, generated: int) -> list[set[Span]]:
    """The bytes of a prompt that each of its tokens may stand for; nothing if the tokens do not spell the prompt.

    Tokens that are pieces of a character are shown as U+FFFD, each for one to three bytes. A long text of such pieces
    alone can be put together in too many ways, and does not count as spelled.
    """
    spans: list[set[Span]] = []
    reached, ends = {0}, []
    for number, token in enumerate(tokens, start=1):
        spans.append({(start, start + size) for start in reached for size in _sizes(token, data, start)})
        reached = {end for _, end in spans[-1]}
        if len(data) in reached:
            ends.append(number)
        if not 0 < len(reached) <= _MOST_PLACES:
            break
    if not ends:
        return []
    number = len(tokens) - generated if len(tokens) - generated in ends else ends[0]
    spans, following = spans[:number], {len(data)}
    for place in range(number - 1, -1, -1):  # only what leads to the end of the prompt
        spans[place] = {span for span in spans[place] if span[1] in following}
        following = {start for start, _ in spans[place]}
    return spans


def _sizes(token: str, data: bytes, start: int) -> Iterator[int]:
    """The numbers of bytes that a token may stand for at a place of the prompt."""
    if token.startswith("bytes:"):  # as OpenAI's servers write pieces of characters
        piece = _BYTES.sub(lambda match: bytes([int(match[1], 16)]), token[len("bytes:") :].encode())
        if data.startswith(piece, start):
            yield len(piece)
    text = token.encode("utf-8", "surrogatepass")
    if data.startswith(text, start):
        yield len(text)
    pieces = token.count("\ufffd")
    for size in range(len(text) - 2 * pieces, len(text) + 1) if pieces else ():
        if data[start : start + size].decode("utf-8", "replace") == token and start + size <= len(data):
            yield size


def echo_of_ids(
    choice: Mapping[str, Any], ids: Sequence[int], spellings: Mapping[int, Collection[str]], convention: Convention
) -> Echo:
    """The echo of a prompt that was sent as token ids; an error unless these are the tokens of the response."""
    whole = Echo.of(choice)
    check_tokens(whole.tokens, ids, spellings)
    return whole.prompt(len(ids), convention)


def check_tokens(tokens: Any, ids: Sequence[int], spellings: Mapping[int, Collection[str]]) -> None:
    """Raise an error unless the tokens of a response are those that were sent, perhaps with a generated one.

    `spellings` are those of `token_spellings`.
    """
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise ModelError("the response has no tokens")
    end = len(ids)

    def first_difference(shift: int) -> int | None:
        pairs = zip(tokens[shift:], ids, strict=False)
        return next((i for i, (token, id) in enumerate(pairs) if not _is_spelled(token, id, spellings[id])), None)

    place = first_difference(0)
    if place is not None and len(tokens) > end and first_difference(1) is None:
        message = f"the server puts the token {excerpt(tokens[0])} before the tokens of a prompt"
        raise RefusedError(f"{message}; turn that off at the server, or leave the tokenizer out, so that text is sent")
    if len(tokens) not in (end, end + 1):  # one more is the token that the server generated
        raise ModelError(f"the server scored {len(tokens)} tokens of a prompt of {end}")
    if place is not None:
        sent = max(spellings[ids[place]], key=len)
        message = f"token {place} of a prompt is {excerpt(sent)}, and {excerpt(tokens[place])} in the response"
        raise RefusedError(f"{message}; name the tokenizer of the server's model")


def _is_spelled(token: str, id: int, spellings: Collection[str]) -> bool:
    """Whether a token of a response may be the one with this id; one without visible characters may be any."""
    if match := _TOKEN_ID.fullmatch(token):
        return int(match[1]) == id
    bare = _visible(token)
    return not bare or not spellings or token.startswith("bytes:") or bare in spellings


def _visible(token: str) -> str:
    """A token without white space, marks of tokenizers, and pieces of characters."""
    for mark in (*_MARKS, "\ufffd"):
        token = token.replace(mark, " ")
    return "".join(token.split())


def token_spellings(tokenizer: Any, ids: Iterable[int]) -> dict[int, frozenset[str]]:
    """How a server may spell each token, as text or as in the vocabulary; nothing for pieces of characters."""
    spellings = {}
    for id in set(ids):
        texts = [str(tokenizer.decode([id])), str(tokenizer.convert_ids_to_tokens(id))]
        spellings[id] = frozenset() if "\ufffd" in texts[0] else frozenset(map(_visible, texts))
    return spellings


def compare_echoes(first: Echo, second: Echo) -> str | None:
    """What is wrong with the log-probabilities of two prompts that begin and end alike, in words; None if nothing is.

    Tokens before the difference have equal ones, the tokens that differ have not, and neither have those after it,
    which are the same tokens in another context.
    """
    number = min(len(first.tokens), len(second.tokens))
    same = next((i for i in range(number) if first.tokens[i] != second.tokens[i]), number)
    for token, one, two in zip(first.tokens[:same], first.values, second.values, strict=False):
        if (one is None) != (two is None) or (one is not None and two is not None and abs(one - two) > _NOISE):
            return f"that of {excerpt(token)} depends on what follows it ({one} and {two})"
    if same == number:
        return "different prompts have the same tokens"
    if first.values[same] is not None and first.values[same] == second.values[same]:
        tokens = f"{excerpt(first.tokens[same])} and {excerpt(second.tokens[same])}"
        return f"those of {tokens} after the same text are equal ({first.values[same]})"
    most = number - same
    tail = next((i for i in range(most) if first.tokens[-1 - i] != second.tokens[-1 - i]), most)
    if tail and first.values[-tail] == second.values[-tail]:
        return f"that of {excerpt(first.tokens[-tail])} is the same in two contexts ({first.values[-tail]})"
    return None


def query_arguments(query: Query) -> dict[str, Any]:
    """The arguments of the completion request for a query of labels or of forced tokens."""
    tokens = list(query.tokens)
    if query.kind == "labels":
        return {**_GENERATED, "max_tokens": 1, "logprob_token_ids": list(dict.fromkeys(tokens))}
    return {**_GENERATED, "max_tokens": len(tokens), "vllm_xargs": {FORCED_ARGUMENT: tokens}}


def query_scores(query: Query, response: Any) -> dict[int, LLOutput]:
    """The score of each pair of a query by its position; a ModelError where the response does not have them."""
    generated = Echo.of(only_choice(response))
    number = mapping_in(response, "usage").get("prompt_tokens")
    if number is not None and number != len(query.prompt):
        raise ModelError(f"the server read {number} tokens of a prompt of {len(query.prompt)}")
    if query.kind == "forced":
        if generated.tokens != [_name(token) for token in query.tokens]:
            raise ModelError("the server did not generate the tokens of a continuation")
        return {query.pairs[0]: total_score(generated.values, generated.tops)}
    top = generated.tops[0] if generated.tops else None
    listed: dict[int, Any] = (
        {token: top.get(_name(token)) for token in query.tokens} if isinstance(top, Mapping) else {}
    )
    if not listed or not all(map(is_logprob, listed.values())):
        raise ModelError("the response has no log-probabilities of the labels")
    total = sum(map(math.exp, listed.values()))
    if total > 1 + ROUNDING:
        raise ModelError(f"the probabilities of the labels add up to {total:.3g}")
    best = generated.tokens[0]
    return {
        position: LLOutput(float(listed[token]), is_greedy=best == _name(token), tokens=1)
        for position, token in zip(query.pairs, query.tokens, strict=True)
    }


def _name(token: int) -> str:
    return f"token_id:{token}"

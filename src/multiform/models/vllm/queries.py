"""Queries: the prompts that score continuations with vLLM, and the log-likelihoods from its outputs. No import of vLLM.

Three kinds. `labels`: one step after a context lists the log-probabilities of all continuations of one token. `forced`:
the tokens of a continuation are generated one after the other, whatever the model prefers. Both use vLLM's prefix
cache. `prompt`: context and continuation are the prompt, and its log-probabilities are requested, which computes all of
it without the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from multiform.errors import ModelError
from multiform.models.torch.plan import Pair
from multiform.models.torch.tree import Tokens
from multiform.requests import LLOutput, Response

Kind: TypeAlias = Literal["labels", "forced", "prompt"]
#: The extra argument of a request with the tokens that it generates, which our logits processor reads.
FORCED_ARGUMENT = "multiform_tokens"
#: The most tokens whose log-probabilities vLLM lists in one step.
MAX_LABELS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What an engine supports: forced tokens, and the log-probabilities of up to `labels` given tokens in one step."""

    forced: bool
    labels: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One prompt; `tokens` are the tokens to list or to generate, `pairs` the positions that it scores.

    Of labels, there is one token for each pair.
    """

    kind: Kind
    prompt: Tokens
    tokens: tuple[int, ...]
    pairs: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOutput:
    """What vLLM returned for a prompt.

    `tokens` were generated, each with its `ranks` (1 is the likeliest) and the log-probabilities of those listed in its
    place. `prompt` has log-probability and rank of the prompt's tokens, where these were requested. `cached` prompt
    tokens came from the prefix cache.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[Mapping[int, float], ...] = ()
    ranks: tuple[int, ...] = ()
    prompt: tuple[tuple[float, int] | None, ...] = ()
    at_limit: bool = False
    cached: int = 0


def scoring_queries(pairs: Sequence[Pair], abilities: Abilities) -> list[Query]:
    """The queries that score the pairs with something to score, in the order of a walk through their prefix tree.

    >>> from array import array
    >>> pairs = [Pair(array("i", [1, 2, 3, 4]), 2), Pair(array("i", [1, 2, 7]), 2), Pair(array("i", [1, 2, 6]), 2)]
    >>> for query in scoring_queries(pairs, Abilities(forced=True, labels=8)):
    ...     print(query.kind, query.prompt.tolist(), query.tokens, query.pairs)
    forced [1, 2] (3, 4) (0,)
    labels [1, 2] (6, 7) (2, 1)
    """
    labels: dict[bytes, list[int]] = {}
    queries: list[tuple[Tokens, Query]] = []
    for position in sorted(range(len(pairs)), key=lambda position: pairs[position].tokens):
        pair = pairs[position]
        scored = pair.continuation_length
        if scored == 1 and abilities.labels:
            labels.setdefault(pair.tokens[: pair.start].tobytes(), []).append(position)
        elif scored and abilities.forced and scored <= pair.start:
            prompt, tokens = pair.tokens[: pair.start], tuple(pair.continuation)
            queries.append((pair.tokens, Query(kind="forced", prompt=prompt, tokens=tokens, pairs=(position,))))
        elif scored:
            # Of a text that is longer than its context, little or nothing is in the cache.
            queries.append((pair.tokens, Query(kind="prompt", prompt=pair.tokens, tokens=(), pairs=(position,))))
    for members in labels.values():
        first = pairs[members[0]]
        for start in range(0, len(members), abilities.labels):
            listed = tuple(members[start : start + abilities.labels])
            tokens = tuple(pairs[position].tokens[-1] for position in listed)
            query = Query(kind="labels", prompt=first.tokens[: first.start], tokens=tokens, pairs=listed)
            queries.append((first.tokens, query))
    return [query for _, query in sorted(queries, key=lambda entry: entry[0])]


def log_likelihoods(query: Query, output: EngineOutput, pairs: Sequence[Pair]) -> Iterator[Response[LLOutput]]:
    """The log-likelihood of each pair that a query scores; a ModelError where the output does not have them."""
    if query.kind == "labels":
        listed = output.logprobs[0] if output.logprobs else {}
        for position, token in zip(query.pairs, query.tokens, strict=True):
            if token not in listed:
                raise _engine_error("lists no log-probability of a label")
            yield position, LLOutput(listed[token], is_greedy=output.tokens[0] == token, tokens=1)
        return
    position = query.pairs[0]
    if query.kind == "forced":
        if output.tokens != query.tokens or len(output.logprobs) != len(query.tokens):
            raise _engine_error("did not generate the tokens of a continuation")
        values = [listed[token] for token, listed in zip(output.tokens, output.logprobs, strict=True)]
        ranks = list(output.ranks)
    else:
        scored = output.prompt[pairs[position].start :]
        if len(output.prompt) != len(query.prompt) or None in scored:
            raise _engine_error("lists no log-probabilities of a prompt")
        values = [entry[0] for entry in scored if entry]
        ranks = [entry[1] for entry in scored if entry]
    yield position, LLOutput(sum(values), is_greedy=set(ranks) == {1}, tokens=len(values))


def computed_tokens(query: Query, output: EngineOutput) -> int:
    """The tokens that vLLM computed for a query: those not in its cache, and all but the last generated one."""
    return len(query.prompt) - output.cached + max(0, len(query.tokens) - 1 if query.kind == "forced" else 0)


def _engine_error(what: str) -> ModelError:
    hint = "report it with the version of vLLM; scoring=prompt_logprobs scores without forced tokens"
    return ModelError(f"vLLM {what}", where="vllm", hint=hint)

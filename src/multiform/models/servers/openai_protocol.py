"""OpenAI's protocol: requests, responses, and scores from the log-probabilities of generated tokens.

Servers that do not echo prompts may still list the top log-probabilities of the tokens that they generate. Those of
the first token score labels of one token, and no other continuations.

vLLM's servers list the log-probabilities of given tokens in one step (`logprob_token_ids`), and generate given tokens
where they run our logits processor (`--logits-processors`, with `vllm_xargs`), so that their prefix cache is used.
Servers ignore arguments that they do not know, so support is probed first, with tokens by their ids
(`return_tokens_as_token_ids`).
"""

from __future__ import annotations

import base64
import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from multiform.errors import ModelError
from multiform.models.model import Loglikelihoods
from multiform.models.servers import protocol
from multiform.models.servers.client import Client
from multiform.models.servers.openai_logprobs import ROUNDING, echoed_logprobs, is_logprob, total_score
from multiform.models.vllm.queries import FORCED_ARGUMENT, Query
from multiform.prompts.media import Media
from multiform.prompts.prompt import Prompt
from multiform.requests import FailedRequest, GenerationRequest, LLOutput, LoglikelihoodRequest

#: Servers accept no more stop strings than this; completions are cut at all of them on arrival.
MAX_STOPS = 4
logger = logging.getLogger("multiform")

#: How a server scores continuations: by the tokens of an echoed prompt, by the first generated token, or not.
Scoring: TypeAlias = Literal["echo", "first_token", "none"]
#: The log-probability of each token that was listed in the place of the first one.
Alternatives: TypeAlias = Mapping[str, float]
#: How many alternatives are requested: the most that servers list, then fewer.
NUMBERS = (20, 5)
#: The least log-probability that the likeliest of all tokens of a vocabulary can have, with room to spare.
_LEAST_BEST = -50.0
#: How often a server is probed for log-probabilities, before it counts as one that has none.
PROBE_ATTEMPTS = 3
_GENERATED: Mapping[str, Any] = {
    "echo": False,
    "logprobs": 1,
    "temperature": 0,
    "ignore_eos": True,
    "return_tokens_as_token_ids": True,
}


class OpenAIProtocol:
    """What the two interfaces of OpenAI's protocol share."""

    default_url = "https://api.openai.com/v1"
    url_env = "OPENAI_BASE_URL"
    key_env = "OPENAI_API_KEY"
    endpoints: ClassVar[Collection[str]] = ("/chat/completions", "/completions")

    def models_path(self) -> str:
        return "models"

    def auth(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    def version(self, response: Mapping[str, Any]) -> dict[str, Any]:
        names = {"model": "model_version", "system_fingerprint": "system_fingerprint"}
        return {name: response[key] for key, name in names.items() if isinstance(response.get(key), str)}


def generation_payload(request: GenerationRequest, seed: int | None, limit_name: str = "max_tokens") -> dict[str, Any]:
    """The payload for a generation; unknown arguments are passed to the server as they are.

    >>> generation_payload(GenerationRequest.of("", {"until": ["."], "max_gen_toks": 8, "top_p": 0.9}), seed=1)
    {'max_tokens': 8, 'temperature': 0.0, 'stop': ['.'], 'seed': 1, 'top_p': 0.9}
    """
    payload: dict[str, Any] = {
        limit_name: protocol.token_limit(request),
        "temperature": protocol.temperature(request),
    }
    if stops := protocol.stop_strings(request):
        payload["stop"] = stops[:MAX_STOPS]
    if (number := protocol.request_seed(request, seed)) is not None:
        payload["seed"] = number
    return payload | protocol.other_arguments(request)


def message_part(content: str | Media) -> dict[str, Any]:
    """A part of a message."""
    if isinstance(content, str):
        return {"type": "text", "text": content}
    if content.kind == "image":
        return {"type": "image_url", "image_url": {"url": content.data_url()}}
    data = base64.b64encode(content.encoded()[1]).decode()
    return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}


def only_choice(response: Any) -> Mapping[str, Any]:
    """The choice for the only prompt of a request: that of index 0, wherever it is in the list."""
    choices = response.get("choices") if isinstance(response, Mapping) else None
    listed = [choice for choice in choices if isinstance(choice, Mapping)] if isinstance(choices, list) else []
    chosen = next((choice for choice in listed if choice.get("index", 0) == 0), None)
    if chosen is None:
        hint = "check that base_url is an OpenAI-compatible endpoint"
        raise ModelError(f"the response has no choices: {response!r}", hint=hint)
    return chosen


def chat_alternatives(choice: Mapping[str, Any]) -> Alternatives:
    """The alternatives in a choice of a chat completion."""
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    first = content[0] if isinstance(content, list) and content else None
    listed = first.get("top_logprobs") if isinstance(first, Mapping) else None
    entries = [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []
    return merge_alternatives([(entry.get("token"), entry.get("logprob")) for entry in entries])


def completion_alternatives(choice: Mapping[str, Any]) -> Alternatives:
    """The alternatives in a choice of a completion; llama.cpp's server lists them as in a chat."""
    logprobs = choice.get("logprobs")
    if isinstance(logprobs, Mapping) and isinstance(logprobs.get("content"), list):
        return chat_alternatives(choice)
    tops = logprobs.get("top_logprobs") if isinstance(logprobs, Mapping) else None
    first = tops[0] if isinstance(tops, list) and tops else None
    return merge_alternatives(list(first.items()) if isinstance(first, Mapping) else [])


def merge_alternatives(pairs: Sequence[tuple[Any, Any]]) -> Alternatives:
    """The log-probability of each listed token; a ModelError where the numbers cannot be those of the likeliest tokens.

    Tokens with different ids may be spelled alike: their probabilities are added. One that is listed twice with the
    same number is counted once.

    >>> merge_alternatives([("A", -1.0), ("B", -2.0), ("A", -1.0), ("B", -2.5)])
    {'A': -1.0, 'B': -1.5259...}
    """
    if not pairs or not all(isinstance(token, str) and is_logprob(value) for token, value in pairs):
        raise ModelError("the response has no log-probabilities of its first token")
    values: dict[str, set[float]] = {}
    for token, value in pairs:
        values.setdefault(token, set()).add(float(value))
    merged = {token: max(listed) if len(listed) == 1 else _log_sum(listed) for token, listed in values.items()}
    total = sum(map(math.exp, merged.values()))
    if total > 1 + ROUNDING:
        raise ModelError(f"the probabilities of the first token's alternatives add up to {total:.3g}")
    if max(merged.values()) < _LEAST_BEST or (len(merged) > 2 and len(set(merged.values())) == 1):
        best = max(merged.values())
        raise ModelError(
            f"the likeliest of {len(merged)} first tokens has log-probability {best:g}: it cannot be right"
        )
    return merged


def _log_sum(values: Collection[float]) -> float:
    """The logarithm of the sum of probabilities; minus infinity where it is too small for a float."""
    total = sum(map(math.exp, values))
    return math.log(total) if total else -math.inf


def label_scores(labels: Sequence[str], alternatives: Alternatives) -> dict[str, LLOutput | None]:
    """The score of each label: that of the tokens which spell it, with or without white space; None where none does.

    >>> label_scores([" A", " B"], {"A": -0.5, " A": -2.5, "C": -1.0})[" A"].loglikelihood
    -0.3730...
    >>> label_scores([" A", " B"], {"A": -0.5})[" B"] is None
    True
    """
    likeliest = max(alternatives, key=lambda token: alternatives[token]).strip()
    scores: dict[str, LLOutput | None] = {}
    for label in labels:
        total = _log_sum([value for token, value in alternatives.items() if token.strip() == label.strip()])
        listed = total > -math.inf
        scores[label] = LLOutput(total, is_greedy=label.strip() == likeliest, tokens=1) if listed else None
    return scores


def score_labels(
    client: Client,
    requests: Sequence[LoglikelihoodRequest],
    payload: Callable[[LoglikelihoodRequest], Mapping[str, Any]],
    alternatives: Callable[[Any], Alternatives],
) -> Loglikelihoods:
    """The scores of labels, by one request for all labels after the same prompt.

    A label that is not among the listed tokens counts as less likely than all of them, and how many such labels
    there are is logged. Where no label is listed, nothing is known, and the requests have failed.
    """
    groups: dict[Prompt, list[int]] = {}
    for index, request in enumerate(requests):
        if not request.continuation.strip() or len(request.continuation.split()) > 1:
            message = f"'{request.continuation}' is no label of one token, and the server scores nothing else"
            raise ModelError(
                message, hint="choose a format whose labels are scored (@mcqa), or one that writes (@generate)"
            )
        groups.setdefault(request.prompt, []).append(index)
    members = list(groups.values())
    missed = 0
    responses = client.ask(
        [requests[positions[0]] for positions in members], payload, lambda request, response: alternatives(response)
    )
    for group, listed in responses:
        positions = members[group]
        if isinstance(listed, FailedRequest):
            yield from ((position, listed) for position in positions)
            continue
        labels = [requests[position].continuation for position in positions]
        scores = label_scores(labels, listed)
        if not any(scores.values()):
            failed = FailedRequest(reason=f"none of the labels is among the {len(listed)} likeliest first tokens")
            yield from ((position, failed) for position in positions)
            continue
        floor = unlisted_score(labels, listed)
        for position in positions:
            score = scores[requests[position].continuation]
            missed += score is None
            yield position, score or LLOutput(floor, tokens=1)
    logger.warning(
        "the server does not echo prompts: labels are scored by the first token that it writes; "
        "%d of %d are not among the tokens that it lists, and count as less likely than these",
        missed,
        len(requests),
    )


def unlisted_score(labels: Sequence[str], alternatives: Alternatives) -> float:
    """The score of a label that is not listed: below that of every listed token, and at most the remaining probability.

    It stays below after a division by the lengths of the labels, as by `acc_norm`.

    >>> round(unlisted_score([" A", " B"], {"A": -0.1, "B": -9.5}), 3)
    -9.5
    >>> unlisted_score([" A", " B"], {"A": -0.1, "B": -9.5}) < -9.5
    True
    """
    rest = 1 - sum(map(math.exp, alternatives.values()))
    listed = [value for value in alternatives.values() if math.exp(value)]
    most = min(*listed, math.log(max(rest, 1e-12)))
    stripped = [label.strip() for label in labels]
    longest = max(len(label.encode()) for label in stripped) / min(map(len, stripped))
    return most * longest * (1 + 1e-9)


def query_arguments(query: Query) -> dict[str, Any]:
    """The arguments of the completion request for a query of labels or of forced tokens."""
    tokens = list(query.tokens)
    if query.kind == "labels":
        return {**_GENERATED, "max_tokens": 1, "logprob_token_ids": list(dict.fromkeys(tokens))}
    return {**_GENERATED, "max_tokens": len(tokens), "vllm_xargs": {FORCED_ARGUMENT: tokens}}


def query_scores(query: Query, response: Any) -> dict[int, LLOutput]:
    """The score of each pair of a query by its position; a ModelError where the response does not have them."""
    logprobs = echoed_logprobs(only_choice(response))
    names, values = logprobs.get("tokens"), logprobs["token_logprobs"]
    usage = response.get("usage")
    number = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
    if number is not None and number != len(query.prompt):
        raise ModelError(f"the server read {number} tokens of a prompt of {len(query.prompt)}")
    if query.kind == "labels":
        return _label_scores(query, names, logprobs.get("top_logprobs"))
    if names != [_name(token) for token in query.tokens] or len(values) != len(names):
        raise ModelError("the server did not generate the tokens of a continuation")
    tops = logprobs.get("top_logprobs")
    return {query.pairs[0]: total_score(values, tops if isinstance(tops, list) else None)}


def _label_scores(query: Query, names: Any, tops: Any) -> dict[int, LLOutput]:
    listed = tops[0] if isinstance(tops, list) and tops and isinstance(tops[0], Mapping) else {}
    scores: dict[int, LLOutput] = {}
    for position, token in zip(query.pairs, query.tokens, strict=True):
        value: Any = listed.get(_name(token))
        if not is_logprob(value) or not isinstance(names, list) or not names:
            raise ModelError("the response has no log-probabilities of the labels")
        scores[position] = LLOutput(float(value), is_greedy=names[0] == _name(token), tokens=1)
    total = sum(math.exp(listed[_name(token)]) for token in set(query.tokens))
    if total > 1 + ROUNDING:
        raise ModelError(f"the probabilities of the labels add up to {total:.3g}")
    return scores


def _name(token: int) -> str:
    return f"token_id:{token}"

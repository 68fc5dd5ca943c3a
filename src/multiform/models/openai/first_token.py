"""Scores of labels from the log-probabilities of the first generated token.

Servers that do not echo prompts may still list the top log-probabilities of the tokens that they generate. That
scores labels of one token, and no other continuations.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from multiform.errors import ModelError
from multiform.models.base import Loglikelihoods
from multiform.models.openai.logprobs import is_logprob
from multiform.models.servers.client import Client
from multiform.requests import FailedRequest, LLOutput, LoglikelihoodRequest

logger = logging.getLogger("multiform")

#: How a server scores continuations: by the tokens of an echoed prompt, by the first generated token, or not.
Scoring: TypeAlias = Literal["echo", "first_token", "none"]
#: The log-probability of each token that was listed in the place of the first one.
Alternatives: TypeAlias = Mapping[str, float]
#: How many alternatives are requested: the most that servers list, then fewer.
NUMBERS = (20, 5)
#: How often a server is probed for log-probabilities, before it counts as one that has none.
PROBE_ATTEMPTS = 3


def chat_alternatives(choice: Mapping[str, Any]) -> Alternatives:
    """The alternatives in a choice of a chat completion."""
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    first = content[0] if isinstance(content, list) and content else None
    listed = first.get("top_logprobs") if isinstance(first, Mapping) else None
    entries = [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []
    return _checked([(entry.get("token"), entry.get("logprob")) for entry in entries])


def completion_alternatives(choice: Mapping[str, Any]) -> Alternatives:
    """The alternatives in a choice of a completion; llama.cpp's server lists them as in a chat."""
    logprobs = choice.get("logprobs")
    if isinstance(logprobs, Mapping) and isinstance(logprobs.get("content"), list):
        return chat_alternatives(choice)
    tops = logprobs.get("top_logprobs") if isinstance(logprobs, Mapping) else None
    first = tops[0] if isinstance(tops, list) and tops else None
    return _checked(list(first.items()) if isinstance(first, Mapping) else [])


def _checked(pairs: Sequence[tuple[Any, Any]]) -> Alternatives:
    if not pairs or not all(isinstance(token, str) and is_logprob(value) for token, value in pairs):
        raise ModelError("the response has no log-probabilities of its first token")
    return dict(pairs)


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
        values = [value for token, value in alternatives.items() if token.strip() == label.strip()]
        total = math.log(sum(map(math.exp, values))) if any(value > -700 for value in values) else None
        scores[label] = None if total is None else LLOutput(total, is_greedy=label.strip() == likeliest, tokens=1)
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
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, request in enumerate(requests):
        if not request.continuation.strip() or len(request.continuation.split()) > 1:
            message = f"'{request.continuation}' is no label of one token, and the server scores nothing else"
            raise ModelError(
                message, hint="choose a format whose labels are scored (@mcqa), or one that writes (@generate)"
            )
        groups.setdefault((request.context, request.chat, request.media), []).append(index)
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
        scores = label_scores([requests[position].continuation for position in positions], listed)
        if not any(scores.values()):
            failed = FailedRequest(reason=f"none of the labels is among the {len(listed)} likeliest first tokens")
            yield from ((position, failed) for position in positions)
            continue
        floor = least_of(listed)
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


def least_of(alternatives: Alternatives) -> float:
    """The most that the log-probability of a token can be which is not listed."""
    rest = 1 - sum(map(math.exp, alternatives.values()))
    return min(*alternatives.values(), math.log(max(rest, 1e-12)))

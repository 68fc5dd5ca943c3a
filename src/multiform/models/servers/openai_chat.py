"""OpenAI's protocol, and OpenAIChat: a model behind a chat-completions endpoint.

Servers that do not echo prompts may still list the top log-probabilities of the tokens that they generate. Those of
the first token score labels of one token, and no other continuations.
"""

from __future__ import annotations

import base64
import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

from multiform.errors import ModelError
from multiform.models.model import Loglikelihoods, no_loglikelihoods
from multiform.models.servers import protocol
from multiform.models.servers.batch_client import BatchClient
from multiform.models.servers.batch_interfaces import OpenAIBatches
from multiform.models.servers.client import Client
from multiform.models.servers.exchange import mapping_in, mappings_in
from multiform.models.servers.openai_logprobs import ROUNDING, is_logprob, only_choice
from multiform.models.servers.server_model import BEGUN, PROBE_REQUEST, ChatServer
from multiform.prompts.media import Kind, Media
from multiform.prompts.prompt import Prompt
from multiform.requests import (
    Completion,
    FailedRequest,
    GenerationRequest,
    LLOutput,
    LoglikelihoodRequest,
    split_thought,
)

logger = logging.getLogger("multiform")

#: Servers accept no more stop strings than this.
MAX_STOPS = 4
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
#: Tells vLLM, SGLang and others to continue the last message of a chat instead of answering it.
CONTINUE: Mapping[str, Any] = {"continue_final_message": True, "add_generation_prompt": False}
#: Where servers put what a model thought: DeepSeek, vLLM and SGLang; OpenRouter and newer vLLM.
_THOUGHTS = ("reasoning_content", "reasoning")


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


def message_part(content: str | Media) -> dict[str, Any]:
    """A part of a message."""
    if isinstance(content, str):
        return {"type": "text", "text": content}
    if content.kind == "image":
        return {"type": "image_url", "image_url": {"url": content.data_url()}}
    data = base64.b64encode(content.encode()[1]).decode()
    return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}


def chat_alternatives(choice: Mapping[str, Any]) -> Alternatives:
    """The alternatives in a choice of a chat completion."""
    content = mapping_in(choice, "logprobs").get("content")
    entries = mappings_in(content[0], "top_logprobs") if isinstance(content, list) and content else []
    return merge_alternatives([(entry.get("token"), entry.get("logprob")) for entry in entries])


def completion_alternatives(choice: Mapping[str, Any]) -> Alternatives:
    """The alternatives in a choice of a completion; llama.cpp's server lists them as in a chat."""
    logprobs = mapping_in(choice, "logprobs")
    if isinstance(logprobs.get("content"), list):
        return chat_alternatives(choice)
    tops = logprobs.get("top_logprobs")
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
    client: Client | BatchClient,
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
            message = f"'{request.continuation}' is not a label of one token, and the server scores nothing else"
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


class OpenAIChat(OpenAIProtocol, ChatServer):
    """A chat model on a server that speaks OpenAI's protocol.

    Where the server lists the likeliest first tokens of a completion, it scores labels of one token, and nothing else.
    """

    kind = "openai-chat"
    stored = True
    batches = OpenAIBatches
    scores = True
    media = frozenset[Kind]({"image", "audio"})
    thinking_arguments = ("enable_thinking", "reasoning_effort", "thinking_budget", "think_end_token")

    def path(self) -> str:
        return "chat/completions"

    def payload(self, request: GenerationRequest) -> dict[str, Any]:
        arguments = protocol.generation_arguments(request, self.seed, most_stops=MAX_STOPS, fills_context=True)
        # OpenAI's newer models refuse the name that all other servers know.
        if self.root.host == "api.openai.com" and "max_tokens" in arguments:
            arguments["max_completion_tokens"] = arguments.pop("max_tokens")
        messages, is_begun = protocol.sent_messages(request, message_part)
        if is_begun:
            arguments |= CONTINUE
        thinking = self.thinking_of(request).settings()
        thinking.pop("think_end_token", None)
        effort = {"reasoning_effort": thinking.pop("reasoning_effort")} if "reasoning_effort" in thinking else {}
        variables = {"chat_template_kwargs": thinking} if thinking else {}  # of the server's chat template
        return {"model": self.name, "messages": messages, **effort, **variables, **arguments}

    def continues_answers(self) -> bool:
        """Whether the server reads another number of tokens where it is told to continue an answer."""
        if self.root.host == "api.openai.com":
            return False
        payload = self.payload(GenerationRequest.of(BEGUN, {"max_gen_toks": 1}))
        counts = [
            self.client.single(
                {**payload, **more}, lambda response: protocol.counted_tokens(response).get("prompt"), attempts=1
            )
            for more in ({}, CONTINUE)
        ]
        return None not in counts and counts[0] != counts[1]

    @cached_property
    def scoring(self) -> Scoring:
        """Whether the server lists the likeliest first tokens of a completion."""

        def has_some(response: Any) -> bool:
            return bool(chat_alternatives(only_choice(response)))

        payload = self._label_payload(PROBE_REQUEST)
        return "first_token" if self.client.single(payload, has_some, attempts=PROBE_ATTEMPTS) else "none"

    def check_scoring(self, *, labels: bool, form: str) -> None:
        if not labels or self.scoring == "none":
            raise no_loglikelihoods(self.name, form, of_texts=not labels)

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Loglikelihoods:
        self.check_scoring(labels=True, form="this form")
        return score_labels(
            self.sender, requests, self._label_payload, lambda response: chat_alternatives(only_choice(response))
        )

    def _label_payload(self, request: LoglikelihoodRequest | GenerationRequest) -> dict[str, Any]:
        """The payload that requests the likeliest first tokens after a prompt."""
        generation = GenerationRequest.of(request.prompt, {"max_gen_toks": 1})
        return {**self.payload(generation), "logprobs": True, "top_logprobs": NUMBERS[0]}

    def completion(self, request: GenerationRequest, response: Any) -> Completion:
        return read_chat(request, response, self.thinking.think_end_token)


def read_chat(request: GenerationRequest, response: Any, think_end_token: str | None) -> Completion:
    """The completion in the response to a chat; thoughts are apart, or end with the token."""
    choice = only_choice(response)
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise ModelError("the response has no message", hint="check that it is a chat endpoint")
    reason = "refusal" if message.get("refusal") else protocol.finish_reason(choice, "finish_reason")
    thought = next((text for key in _THOUGHTS if isinstance(text := message.get(key), str) and text), None)
    text = _text(message.get("content"))
    if thought is None:
        thought, text = split_thought(text, think_end_token)
    return protocol.completion(request, response, text, reason, thought=thought)


def _text(content: Any) -> str:
    """The text of a message: empty after a refusal, or where all tokens were spent on reasoning.

    >>> _text([{"type": "thinking", "thinking": []}, {"type": "text", "text": "four"}])
    'four'
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    if not all(isinstance(part, Mapping) and isinstance(part.get("type"), str) for part in parts):
        raise ModelError("the response's message is not text", hint="check that it is a chat endpoint")
    texts = [part.get("text") for part in parts if part["type"] == "text"]
    if not all(isinstance(text, str) for text in texts):
        raise ModelError("the response's message has a part of text without text")
    return "".join(map(str, texts))

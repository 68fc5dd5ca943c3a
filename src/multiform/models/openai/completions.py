"""OpenAICompletions: a model behind a completions endpoint."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from multiform.errors import UsageError
from multiform.inference.plan import Tokens
from multiform.inference.sequences import Pair
from multiform.models.chat import apply_tokenizer_template
from multiform.models.openai.logprobs import score_text, score_tokens
from multiform.models.openai.payload import completion, first_choice, generation_payload, stop_strings, token_limit
from multiform.models.openai.server import ServerModel, resolve_arguments
from multiform.models.rolling import rolling_windows, score_rolling
from multiform.models.tokenizer import Encoder, fit, load_encoder
from multiform.requests import Completion, GenerationRequest, LLOutput, LoglikelihoodRequest, Response, RollingRequest

logger = logging.getLogger("multiform")

T = TypeVar("T")

#: Requests the log-probabilities of the prompt's tokens; the server generates one token more.
ECHO: Mapping[str, Any] = {"echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
#: The context length for windows over long texts, where `max_length` is not set.
DEFAULT_MAX_LENGTH = 2048


class OpenAICompletions(ServerModel):
    """A model on a server that completes prompts, and scores continuations where the server echoes prompts.

    With the `tokenizer` of the model, prompts are sent as token ids, split into context and
    continuation as for a local model, and truncated at the left to `max_length`. Without one,
    text is sent, and the server's own tokens say where a continuation begins.
    """

    kind = "openai-completions"
    path = "completions"
    stored = True

    def __init__(self, *, add_bos_token: bool = False, **arguments: Any) -> None:
        resolved = resolve_arguments(OpenAICompletions, arguments, more=["prefix_token_id"])
        self.add_bos_token = add_bos_token
        self.prefix_token_id = resolved.pop("prefix_token_id", None)
        super().__init__(**resolved)
        if self.max_length is not None and self.tokenizer_name is None:
            raise UsageError("max_length needs a tokenizer to count with", where=self.kind, hint="add tokenizer=NAME")

    def settings(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "tokenizer": self.tokenizer_name,
            "max_length": self.max_length,
            "add_bos_token": self.add_bos_token,
            "prefix_token_id": self.prefix_token_id,
        }

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        texts = [(request.context, request.continuation) for request in requests]
        if self.tokenizer_name is None:
            return self._score_texts([(context + text, len(context.rstrip())) for context, text in texts])
        pairs = list(self.encoder.pairs(texts))
        if self.max_length is None:
            return self._score_pairs(pairs)
        # The server gets the whole pair and generates one token more.
        fitting = [fit(pair, self.max_length - 2, text) for pair, (_, text) in zip(pairs, texts, strict=True)]
        self._warn_about_truncation(sum(a is not b for a, b in zip(pairs, fitting, strict=True)))
        return self._score_pairs(fitting)

    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> Iterator[Response[LLOutput]]:
        texts = [request.text for request in requests]
        if self.tokenizer_name is None:
            return self._score_texts([(text, 0) for text in texts])
        encoded = self.encoder.encode(texts)
        longest = (self.max_length or DEFAULT_MAX_LENGTH) - 2

        def windows(tokens: Tokens) -> Iterator[Pair]:
            return rolling_windows(tokens, self.encoder.prefix_token_id, longest)

        return score_rolling([encoded[text] for text in texts], windows, self._score_pairs)

    def generate(self, requests: Sequence[GenerationRequest]) -> Iterator[Response[Completion]]:
        encoded = self.encoder.prompts(request.context for request in requests) if self.tokenizer_name else {}
        if self.max_length is not None:
            self._warn_about_truncation(
                sum(len(encoded[request.context]) > self._max_prompt_length(request) for request in requests)
            )

        def payload(request: GenerationRequest) -> dict[str, Any]:
            prompt: Any = request.context
            if self.tokenizer_name is not None:
                prompt = encoded[request.context].tolist()
                prompt = prompt if self.max_length is None else prompt[-self._max_prompt_length(request) :]
            return {"model": self.name, "prompt": prompt, **generation_payload(request, self.seed)}

        def read(request: GenerationRequest, response: Any) -> Completion:
            choice = first_choice(response, self.url)
            return completion(choice.get("text"), choice, stop_strings(request))

        return self.client.ask(requests, payload, read)

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True) -> str:
        if self.tokenizer_name is None:
            return super().apply_chat_template(messages, add_generation_prompt=add_generation_prompt)
        return apply_tokenizer_template(self.encoder.tokenizer, messages, add_generation_prompt=add_generation_prompt)

    def chat_template_name(self) -> str:
        return self.tokenizer_name or self.name

    @cached_property
    def encoder(self) -> Encoder:
        """The model's tokenizer, loaded when it is first needed."""
        assert self.tokenizer_name is not None
        return load_encoder(self.tokenizer_name, self.prefix_token_id, self.add_bos_token)

    def _score_pairs(self, pairs: Sequence[Pair]) -> Iterator[Response[LLOutput]]:
        return self._echoed(
            [pair if pair.start < len(pair.tokens) else None for pair in pairs],
            lambda pair: pair.tokens.tolist(),
            lambda pair, choice: score_tokens(choice, pair.start, len(pair.tokens), self.url),
        )

    def _score_texts(self, texts: Sequence[tuple[str, int]]) -> Iterator[Response[LLOutput]]:
        """The log-likelihood of each text from a character on."""
        return self._echoed(
            [item if item[1] < len(item[0]) else None for item in texts],
            lambda item: item[0],
            lambda item, choice: score_text(choice, *item, self.url),
        )

    def _echoed(
        self, items: Sequence[T | None], prompt: Callable[[T], Any], score: Callable[[T, Any], LLOutput]
    ) -> Iterator[Response[LLOutput]]:
        """The score of each item from the server's log-probabilities of its prompt; None has nothing to score."""
        scored = [(index, item) for index, item in enumerate(items) if item is not None]
        yield from ((index, LLOutput(0.0, True, 0)) for index, item in enumerate(items) if item is None)
        seed = {} if self.seed is None else {"seed": self.seed}
        responses = self.client.ask(
            [item for _, item in scored],
            lambda item: {"model": self.name, "prompt": prompt(item), **ECHO, **seed},
            lambda item, response: score(item, first_choice(response, self.url)),
        )
        for position, output in responses:
            yield scored[position][0], output

    def _max_prompt_length(self, request: GenerationRequest) -> int:
        """The most tokens of a prompt that leave room for the completion in `max_length`."""
        assert self.max_length is not None
        length = self.max_length - 1 - token_limit(request)
        if length < 1:
            what = f"max_gen_toks is {token_limit(request)} and max_length {self.max_length}"
            raise UsageError(what, where=self.kind, hint="set a smaller max_gen_toks")
        return length

    def _warn_about_truncation(self, count: int) -> None:
        if count:
            logger.warning("%d contexts lose their beginning: max_length is %s", count, self.max_length)

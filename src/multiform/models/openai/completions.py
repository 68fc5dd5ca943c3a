"""OpenAICompletions: a model behind a completions endpoint."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from multiform.errors import UsageError
from multiform.models.openai.accepted import our_arguments
from multiform.models.openai.logprobs import score_text, score_tokens
from multiform.models.openai.payload import completion, generation_payload, read_choice, stop_strings, token_limit
from multiform.models.openai.server import ServerModel
from multiform.models.openai.tokenizer import chat_text, load_encoder
from multiform.requests import Completion, GenerationRequest, LLOutput, LoglikelihoodRequest, Response, RollingRequest

if TYPE_CHECKING:  # transformers is imported when a tokenizer is named and needed
    from multiform.inference.sequences import Pair
    from multiform.models.tokenizer import Encoder

logger = logging.getLogger("multiform")

T = TypeVar("T")

#: Asks for the log-probabilities of the prompt's tokens; the server writes one token more.
ECHO: Mapping[str, Any] = {"echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
#: The context of a server for windows over long texts, where `max_length` does not say.
DEFAULT_MAX_LENGTH = 2048


class OpenAICompletions(ServerModel):
    """A model on a server that continues text, and scores it where the server echoes prompts.

    With the `tokenizer` of the model, prompts are sent as token ids, split into context and
    continuation as a local model splits them, and cut at the left to `max_length`. Without one,
    text is sent, and the server's own tokens say where a continuation begins.
    """

    kind = "openai-completions"
    path = "completions"

    def __init__(self, *, add_bos_token: bool = False, **arguments: Any) -> None:
        ours = our_arguments(arguments)
        self.add_bos_token = add_bos_token
        self.given_prefix = ours.pop("prefix_token_id", None)
        super().__init__(**ours)
        if self.max_length is not None and self.tokenizer_name is None:
            raise UsageError("max_length needs a tokenizer to count with", where=self.kind, hint="add tokenizer=NAME")

    def settings(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "tokenizer": self.tokenizer_name,
            "max_length": self.max_length,
            "add_bos_token": self.add_bos_token,
            "prefix_token_id": self.given_prefix,
        }

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        texts = [(request.context, request.continuation) for request in requests]
        if self.tokenizer_name is None:
            return self._score_texts([(context + text, len(context.rstrip())) for context, text in texts])
        from multiform.models.tokenizer import fit

        pairs = list(self.encoder.pairs(texts))
        if self.max_length is None:
            return self._score_pairs(pairs)
        # The server reads the whole pair and writes one token more.
        fitting = [fit(pair, self.max_length - 2, text) for pair, (_, text) in zip(pairs, texts, strict=True)]
        self._warn_about_cuts(sum(a is not b for a, b in zip(pairs, fitting, strict=True)))
        return self._score_pairs(fitting)

    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> Iterator[Response[LLOutput]]:
        texts = [request.text for request in requests]
        if self.tokenizer_name is None:
            yield from self._score_texts([(text, 0) for text in texts])
            return
        from multiform.models.tokenizer import rolling_windows

        encoded = self.encoder.encode(texts)
        longest = (self.max_length or DEFAULT_MAX_LENGTH) - 2
        windows: list[Pair] = []
        owners: list[int] = []
        for index, text in enumerate(texts):
            windows += rolling_windows(encoded[text], self.encoder.prefix_token_id, longest)
            owners += [index] * (len(windows) - len(owners))
            if not encoded[text]:
                yield index, LLOutput(0.0, tokens=0)
        missing = Counter(owners)
        totals = dict.fromkeys(missing, 0.0)
        for position, output in self._score_pairs(windows):
            owner = owners[position]
            totals[owner] += output.loglikelihood
            missing[owner] -= 1
            if not missing[owner]:
                yield owner, LLOutput(totals[owner], tokens=len(encoded[texts[owner]]))

    def generate(self, requests: Sequence[GenerationRequest]) -> Iterator[Response[Completion]]:
        encoded = self.encoder.prompts(request.context for request in requests) if self.tokenizer_name else {}
        if self.max_length is not None:
            self._warn_about_cuts(sum(len(encoded[request.context]) > self._room(request) for request in requests))

        def payload(request: GenerationRequest) -> dict[str, Any]:
            prompt: Any = request.context
            if self.tokenizer_name is not None:
                prompt = encoded[request.context].tolist()
                prompt = prompt if self.max_length is None else prompt[-self._room(request) :]
            return {"model": self.name, "prompt": prompt, **generation_payload(request, self.seed)}

        def read(request: GenerationRequest, answer: Any) -> Completion:
            choice = read_choice(answer, self.url)
            return completion(choice.get("text"), choice, stop_strings(request))

        return self.client.ask(requests, payload, read)

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True) -> str:
        if self.tokenizer_name is None:
            return super().apply_chat_template(messages, add_generation_prompt=add_generation_prompt)
        return chat_text(self.encoder.tokenizer, messages, add_generation_prompt)

    def chat_template_name(self) -> str:
        return self.tokenizer_name or self.name

    @cached_property
    def encoder(self) -> Encoder:
        """The model's tokenizer, loaded when it is first needed."""
        assert self.tokenizer_name is not None
        return load_encoder(self.tokenizer_name, self.given_prefix, self.add_bos_token)

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
        """The score of each item by the server's log-probabilities of its prompt; None has nothing to score."""
        asked = [(index, item) for index, item in enumerate(items) if item is not None]
        yield from ((index, LLOutput(0.0, True, 0)) for index, item in enumerate(items) if item is None)
        seed = {} if self.seed is None else {"seed": self.seed}
        answers = self.client.ask(
            [item for _, item in asked],
            lambda item: {"model": self.name, "prompt": prompt(item), **ECHO, **seed},
            lambda item, answer: score(item, read_choice(answer, self.url)),
        )
        for position, output in answers:
            yield asked[position][0], output

    def _room(self, request: GenerationRequest) -> int:
        """How many tokens of a prompt leave enough of `max_length` for the text."""
        assert self.max_length is not None
        room = self.max_length - 1 - token_limit(request)
        if room < 1:
            what = f"max_gen_toks is {token_limit(request)} and max_length {self.max_length}"
            raise UsageError(what, where=self.kind, hint="set a smaller max_gen_toks")
        return room

    def _warn_about_cuts(self, count: int) -> None:
        if count:
            logger.warning("%d contexts lose their beginning: max_length is %s", count, self.max_length)

"""LocalModel: what models that run on this machine share, whichever engine computes them."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from multiform.inference.counters import Counters
from multiform.inference.plan import Tokens
from multiform.inference.sequences import Pair
from multiform.models.base import Model
from multiform.models.chat import ChatTemplate
from multiform.models.rolling import score_rolling
from multiform.models.tokenizer import Encoder, special_tokens
from multiform.models.usage import Usage
from multiform.requests import LLOutput, LoglikelihoodRequest, Response, RollingRequest

if TYPE_CHECKING:
    from transformers import GenerationConfig, PreTrainedTokenizerBase

logger = logging.getLogger("multiform")


class LocalModel(Model):
    """A model of transformers' files, with its tokenizer: requests become tokens here, and an engine computes them."""

    handles_stop = True

    tokenizer: PreTrainedTokenizerBase
    encoder: Encoder
    chat: ChatTemplate
    counters: Counters
    #: The context length in tokens.
    max_length: int
    _has_warned_about_limit = False

    @abstractmethod
    def _pairs(self, requests: Sequence[LoglikelihoodRequest]) -> tuple[list[Pair], set[int]]:
        """The tokens of each request, and the positions of those whose contexts are truncated."""

    @abstractmethod
    def _windows(self, tokens: Tokens) -> Iterator[Pair]:
        """The windows in which a whole text is scored."""

    @abstractmethod
    def _score(self, pairs: Sequence[Pair]) -> Iterator[Response[LLOutput]]:
        """The log-likelihood of each pair's continuation, counted."""

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        pairs, cut = self._pairs(requests)
        for position, output in self._score(pairs):
            yield position, replace(output, context_truncated=True) if position in cut else output

    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> Iterator[Response[LLOutput]]:
        encoded = self.encoder.encode(request.text for request in requests)
        texts = [encoded[request.text] for request in requests]
        return score_rolling(texts, self._windows, self._score)

    def usage(self) -> Usage | None:
        if self.media:
            return None
        return Usage(**{name: getattr(self.counters, name) for name in Usage.__dataclass_fields__})

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True) -> str:
        if self.chat.text is None:
            return super().apply_chat_template(messages, add_generation_prompt=add_generation_prompt)
        self.check_parts(messages)
        return self.chat.apply_chat_template(messages, add_generation_prompt=add_generation_prompt)

    def chat_template_name(self) -> str:
        return str(self.tokenizer.name_or_path).replace("/", "__") + self.chat.variant

    def chat_template_text(self) -> str | None:
        return self.chat.text

    def tokenizer_info(self) -> dict[str, Any]:
        return {**special_tokens(self.tokenizer), "max_length": self.max_length}

    def _max_new_tokens(self, config: GenerationConfig) -> int | None:
        """`max_new_tokens` of the model's generation config, which takes precedence over a request's limit."""
        configured = getattr(config, "max_new_tokens", None)
        if configured is None:
            return None
        if not self._has_warned_about_limit:
            message = "the model's generation config sets max_new_tokens=%d, which takes precedence over max_gen_toks"
            logger.warning(message, configured)
            self._has_warned_about_limit = True
        return int(configured)

    def _warn_about_truncation(self, count: int) -> None:
        if count:
            logger.warning("%d contexts lose their beginning: the model reads %d tokens", count, self.max_length)

"""Token sequences: those that are scored, and those that are being decoded."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from multiform.models.torch.plan import Tokens
from multiform.requests import Completion, FailedRequest

if TYPE_CHECKING:  # tokenizing needs neither torch nor transformers
    from transformers import GenerationConfig, LogitsProcessorList, PreTrainedTokenizerBase

    from multiform.models.torch.sampling import Sampling


@dataclass(frozen=True, slots=True)
class Pair:
    """A context and its continuation as one token sequence; the continuation begins at `start`, which is above 0."""

    tokens: Tokens
    start: int

    @property
    def inputs(self) -> int:
        """The number of tokens that a model reads to score the continuation: all but the last."""
        return len(self.tokens) - 1 if self.start < len(self.tokens) else 0

    @property
    def context(self) -> list[int]:
        return self.tokens[: self.start].tolist()

    @property
    def continuation(self) -> list[int]:
        return self.tokens[self.start :].tolist()


@dataclass(slots=True, kw_only=True)
class Generation:
    """A sequence being decoded: the prompt, the limits and the tokens generated so far.

    `index` is the position of its request, `limit` the most tokens that are generated, `stops` the strings
    at which it ends, `think_end` the string or token up to which its thought is removed, and `rng` its own random
    numbers. The first `prefix` tokens of the prompt are shared with other sequences. `processors` are made when
    the first token is chosen, where the model's generation config asks for any. It has `failed` where the largest
    logit was NaN or infinite, so that no token could be chosen.
    """

    index: int
    prompt: list[int]
    limit: int
    stops: tuple[str, ...]
    sampling: Sampling
    rng: random.Random
    num_beams: int = 1
    think_end: str | int | None = None
    prefix: int = 0
    tokens: list[int] = field(default_factory=list)
    processors: LogitsProcessorList | None = None
    finished: bool = False
    at_limit: bool = False
    failed: bool = False

    @property
    def max_own_tokens(self) -> int:
        """The most tokens that the sequence can have beyond the shared prefix."""
        return len(self.prompt) - self.prefix + self.limit

    @property
    def stop_window(self) -> int:
        """How many of the last tokens can hold a stop string that ends in the newest one.

        A token has at least one byte; a few more make up for characters cut at the window's edge.
        """
        return max((len(stop.encode()) for stop in self.stops), default=0) + 4

    def append(self, token: int, tokenizer: PreTrainedTokenizerBase, end_tokens: frozenset[int]) -> None:
        """Add the next token; the sequence is finished at an end token, a stop string or its limit."""
        self.tokens.append(token)
        stopped = token in end_tokens or self._has_stop(tokenizer)
        self.at_limit = len(self.tokens) >= self.limit and not stopped
        self.finished = self.at_limit or stopped or self.failed

    def check(self, largest_logit: float) -> None:
        """Take note of logits from which no token can be chosen, as those of broken weights."""
        self.failed = self.failed or not largest_logit < math.inf

    def completion(self, tokenizer: PreTrainedTokenizerBase) -> Completion:
        """The generated text after its thought, up to its first stop string.

        Special tokens are not part of a text. An end token that is not special is: models have such ones.
        """
        if self.failed:
            # Models may return a failed request in the place of any response.
            return cast(Completion, FailedRequest(reason="the model's logits are NaN or infinite"))
        tokens = self.tokens
        if isinstance(self.think_end, int) and self.think_end in tokens:
            tokens = tokens[len(tokens) - tokens[::-1].index(self.think_end) :]
        text = str(tokenizer.decode(tokens, skip_special_tokens=True))
        if isinstance(self.think_end, str):
            text = text.rpartition(self.think_end)[2]
        if self.think_end is not None:
            text = text.lstrip()
        full_text = text
        for stop in self.stops:
            text = text.partition(stop)[0]
        return Completion(text, truncated=self.at_limit and text == full_text)

    def _has_stop(self, tokenizer: PreTrainedTokenizerBase) -> bool:
        if not self.stops:
            return False
        tail = str(tokenizer.decode(self.tokens[-self.stop_window :]))
        return any(stop in tail for stop in self.stops)


def end_tokens(config: GenerationConfig | None, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """The tokens that end a completion: the tokenizer's, and those of the model's generation config."""
    configured = getattr(config, "eos_token_id", None)
    listed = configured if isinstance(configured, list) else [configured]
    return frozenset(token for token in [tokenizer.eos_token_id, *listed] if isinstance(token, int))

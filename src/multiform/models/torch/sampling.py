"""Sequences being decoded, and the choice of their next tokens by a request's options and the generation config.

What a model's `generation_config.json` asks for beyond a request is done as `generate` of transformers does it, by the
same logits processors. Random numbers depend on the request alone.
"""

from __future__ import annotations

import copy
import hashlib
import math
import random
import re
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessorList, PreTrainedModel, PreTrainedTokenizerBase

from multiform.errors import UsageError
from multiform.models.arguments import GenerationOptions
from multiform.models.torch.device import device_of
from multiform.requests import STOP_AT_LABEL, Completion, FailedRequest, GenerationRequest, split_thought

#: The settings of a generation config by what becomes of them, each with the values that change nothing.
_SETTINGS: dict[str, dict[str, list[Any]]] = tomllib.loads(
    Path(__file__).with_name("generation_config.toml").read_text(encoding="utf-8")
)
#: Those that logits processors carry out.
PROCESSED = _SETTINGS["processed"]
#: What transformers takes when neither the request nor the model sets it.
DEFAULT_TOP_K = 50


def in_force(config: GenerationConfig | None) -> dict[str, Any]:
    """The settings of a generation config that change completions: those of greedy ones, and of sampled ones."""
    kinds = ("followed", "processed", *(["beams"] if num_beams(config) > 1 else []), "sampled")
    settings = _active(config, *kinds)
    if "watermarking_config" in settings:
        settings["watermarking_config"] = settings["watermarking_config"].to_dict()
    return settings


def num_beams(config: GenerationConfig | None) -> int:
    """The number of beams that a generation config asks for; 1 is no beam search."""
    return int(getattr(config, "num_beams", None) or 1)


def check_config(config: GenerationConfig | None, *, is_sampled: bool, where: str) -> None:
    """Raise a UsageError for a setting that is not supported and would change the completion."""
    for name, value in _active(config, "unsupported", *(["unsupported_sampling"] if is_sampled else [])).items():
        raise UsageError(
            f"the model's generation config sets {name}={value!r}, which is not supported",
            where=where,
            hint="remove it from generation_config.json",
        )


def has_processors(config: GenerationConfig | None) -> bool:
    """Whether logits have to be processed before a token is chosen."""
    return bool(_active(config, "processed"))


def logits_processors(model: PreTrainedModel, prompt: Sequence[int], limit: int) -> LogitsProcessorList:
    """The processors of a decoder-only model for one sequence, in the order in which `generate` applies them.

    A repetition penalty is not among them: requests may have one of their own.
    """
    device = device_of(model)
    config = copy.deepcopy(model.generation_config)
    config.update(do_sample=False, num_beams=1, repetition_penalty=1.0, max_length=len(prompt) + limit)
    if config.min_new_tokens is not None:
        config.min_length = config.min_new_tokens + len(prompt)
    model._prepare_special_tokens(config, kwargs_has_attention_mask=True, device=device)
    return model._get_logits_processor(
        config, input_ids_seq_length=len(prompt), encoder_input_ids=torch.tensor([prompt], device=device), device=device
    )


def _active(config: GenerationConfig | None, *kinds: str) -> dict[str, Any]:
    """The settings of these kinds that are set to a value that changes something."""
    neutral = {name: values for kind in kinds for name, values in _SETTINGS[kind].items()}
    values = {name: getattr(config, name, None) for name in neutral}
    return {name: value for name, value in values.items() if value is not None and value not in neutral[name]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How tokens are chosen; temperature 0 is greedy, and 0 or 1 elsewhere means no restriction."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    @property
    def is_argmax(self) -> bool:
        """Whether the next token is always the one with the highest logit."""
        return not self.temperature and self.repetition_penalty == 1.0


def sampling(options: GenerationOptions, config: GenerationConfig | None) -> Sampling:
    """A request's options, completed by the generation config of the model."""

    def pick(name: str, default: float) -> float:
        requested = getattr(options, name)
        configured = getattr(config, name, None)
        return float(requested if requested is not None else configured if configured is not None else default)

    return Sampling(
        temperature=options.temperature,
        top_k=max(0, int(pick("top_k", DEFAULT_TOP_K))),
        top_p=pick("top_p", 1.0),
        min_p=pick("min_p", 0.0),
        repetition_penalty=pick("repetition_penalty", 1.0),
    )


def random_numbers(request: GenerationRequest) -> random.Random:
    """Random numbers that depend on the request alone, so neither on batching nor on order."""
    options = tuple(pair for pair in request.options if pair[0] != STOP_AT_LABEL)
    content = repr((request.context, options, request.sample))
    digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest()
    return random.Random(int.from_bytes(digest[:8]))


def next_token(logits: Tensor, previous: Tensor, sampling: Sampling, rng: random.Random) -> int:
    """The next token, from float32 logits and the previous tokens of prompt and completion."""
    if sampling.repetition_penalty != 1.0:
        repeated = logits[previous]
        penalty = sampling.repetition_penalty
        penalised = torch.where(repeated < 0, repeated * penalty, repeated / penalty)
        logits = logits.index_put((previous,), penalised)
    if sampling.temperature == 0.0:
        return int(logits.argmax())
    count = sampling.top_k if 0 < sampling.top_k < len(logits) else len(logits)
    values, tokens = (logits.double() / sampling.temperature).topk(count)
    probabilities = values.softmax(-1)
    # Tokens come in order of probability; one is left out when those before it already make up top_p.
    keep = (probabilities.cumsum(-1) - probabilities < sampling.top_p) & (
        probabilities >= sampling.min_p * probabilities[0]
    )
    keep[0] = True
    # In the order of token ids a tiny difference in the logits cannot make two tokens change places.
    tokens, order = tokens[keep].sort()
    sums = probabilities[keep][order].cumsum(-1)
    index = int(torch.searchsorted(sums, rng.random() * sums[-1], right=True))
    return int(tokens[min(index, len(tokens) - 1)])


@dataclass(slots=True, kw_only=True)
class Generation:
    """A sequence being decoded: the prompt, the limits and the tokens generated so far.

    `index` is the position of its request, `limit` the most tokens that are generated, `stops` the strings
    at which it ends, `think_end` the string or token up to which its thought is removed, and `rng` its own random
    numbers. It also ends once its text matches `leading_label`. The first `prefix` tokens of the prompt are shared
    with other sequences. `processors` are made when the first token is chosen, where the model's generation config
    asks for any. It has `failed` where the largest logit was NaN or infinite, so that no token could be chosen.
    """

    index: int
    prompt: list[int]
    limit: int
    stops: tuple[str, ...]
    sampling: Sampling
    rng: random.Random
    num_beams: int = 1
    think_end: str | int | None = None
    leading_label: re.Pattern[str] | None = None
    prefix: int = 0
    tokens: list[int] = field(default_factory=list)
    processors: LogitsProcessorList | None = None
    finished: bool = False
    at_limit: bool = False
    failed: bool = False
    #: When the first token was chosen.
    started: float | None = None

    @property
    def max_own_tokens(self) -> int:
        """The most tokens that the sequence can have beyond the shared prefix."""
        return len(self.prompt) - self.prefix + self.limit

    def append(self, token: int, tokenizer: PreTrainedTokenizerBase, end_tokens: frozenset[int]) -> None:
        """Add the next token; the sequence is finished at an end token, a stop string or its limit."""
        self.tokens.append(token)
        self.started = self.started or time.monotonic()
        stopped = token in end_tokens or self._has_stop(tokenizer) or self._has_label(tokenizer)
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
        tokens, thought = self.tokens, None
        if isinstance(self.think_end, int) and self.think_end in tokens:
            end = len(tokens) - tokens[::-1].index(self.think_end)
            thought = str(tokenizer.decode(tokens[: end - 1], skip_special_tokens=True))
            tokens = tokens[end:]
        text = str(tokenizer.decode(tokens, skip_special_tokens=True))
        if isinstance(self.think_end, str):
            thought, text = split_thought(text, self.think_end, begun=self._is_thinking(tokenizer, self.think_end))
        elif self.think_end is not None and thought is None:
            begun = self._is_thinking(tokenizer, str(tokenizer.decode([self.think_end])))
            thought, text = (text, "") if begun else (None, text)
        if self.think_end is not None:
            text = text.lstrip()
        full_text = text
        for stop in self.stops:
            text = text.partition(stop)[0]
        seconds = None if self.started is None else round(time.monotonic() - self.started, 3)
        truncated = self.at_limit and text == full_text
        return Completion(text, truncated=truncated, thought=thought, tokens=len(self.tokens), seconds=seconds)

    def _is_thinking(self, tokenizer: PreTrainedTokenizerBase, think_end: str) -> bool:
        """Whether the prompt or the completion begins a thought, as "<think>" does."""
        start = think_end.replace("/", "", 1)
        prompt, text = (str(tokenizer.decode(tokens)) for tokens in (self.prompt[-len(start) - 4 :], self.tokens[:16]))
        return start != think_end and (prompt.rstrip().endswith(start) or text.lstrip().startswith(start))

    def _has_stop(self, tokenizer: PreTrainedTokenizerBase) -> bool:
        if not self.stops:
            return False
        # A token has at least one byte; a few more tokens make up for characters cut at the window's edge.
        window = max(len(stop.encode()) for stop in self.stops) + 4
        tail = str(tokenizer.decode(self.tokens[-window:]))
        return any(stop in tail for stop in self.stops)

    def _has_label(self, tokenizer: PreTrainedTokenizerBase) -> bool:
        """Whether the text begins with a label for certain; a stop string that may be beginning could still cut it."""
        if self.leading_label is None:
            return False
        text = str(tokenizer.decode(self.tokens, skip_special_tokens=True))
        match = self.leading_label.match(text)
        if match is None:
            if "\n" in text.lstrip(": \t\n"):  # the first line is complete, and has none
                self.leading_label = None
            return False
        return not any(stop.startswith(text[start:]) for stop in self.stops for start in range(match.end()))


def end_tokens(config: GenerationConfig | None, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """The tokens that end a completion: the tokenizer's, and those of the model's generation config."""
    configured = getattr(config, "eos_token_id", None)
    listed = configured if isinstance(configured, list) else [configured]
    return frozenset(token for token in [tokenizer.eos_token_id, *listed] if isinstance(token, int))

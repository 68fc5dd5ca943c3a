"""Sampling: the choice of the next token from logits, reproducibly."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import GenerationConfig

from multiform.models.torch.generation_options import GenerationOptions
from multiform.requests import GenerationRequest

#: What transformers takes when neither the request nor the model sets it.
DEFAULT_TOP_K = 50


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
    content = repr((request.context, request.options, request.sample))
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

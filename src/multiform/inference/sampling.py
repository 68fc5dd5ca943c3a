"""Choose the next token from logits, reproducibly."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import GenerationConfig

from multiform.inference.generation_options import GenerationOptions
from multiform.requests import GenerationRequest

#: What transformers takes when neither the request nor the model says anything.
DEFAULT_TOP_K = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How tokens are chosen; temperature 0 is greedy, and 0 or 1 elsewhere means no restriction."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0


def sampling(options: GenerationOptions, config: GenerationConfig | None) -> Sampling:
    """A request's options, completed by the generation config that comes with the model."""

    def pick(name: str, default: float) -> float:
        asked = getattr(options, name)
        own = getattr(config, name, None)
        return float(asked if asked is not None else own if own is not None else default)

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


def choose(logits: Tensor, seen: Tensor, how: Sampling, numbers: random.Random) -> int:
    """The next token, from float32 logits and the tokens of prompt and text so far."""
    if how.repetition_penalty != 1.0:
        old = logits[seen]
        changed = torch.where(old < 0, old * how.repetition_penalty, old / how.repetition_penalty)
        logits = logits.index_put((seen,), changed)
    if how.temperature == 0.0:
        return int(logits.argmax())
    kept = how.top_k if 0 < how.top_k < len(logits) else len(logits)
    values, tokens = (logits.double() / how.temperature).topk(kept)
    chances = values.softmax(-1)
    # Tokens come likeliest first; one is out when those before it already make up top_p.
    keep = (chances.cumsum(-1) - chances < how.top_p) & (chances >= how.min_p * chances[0])
    keep[0] = True
    # In the order of token ids a tiny difference in the logits cannot make two tokens change places.
    tokens, order = tokens[keep].sort()
    sums = chances[keep][order].cumsum(-1)
    index = int(torch.searchsorted(sums, numbers.random() * sums[-1], right=True))
    return int(tokens[min(index, len(tokens) - 1)])

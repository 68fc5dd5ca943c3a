"""Backends: how a kind of model, decoder-only or encoder-decoder, tokenizes, scores and generates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from multiform.models.tokenizer import Encoder, fit
from multiform.models.torch.decode.beams import beam_search
from multiform.models.torch.decode.generate import generate, prefill_cost
from multiform.models.torch.limits import Limits
from multiform.models.torch.plan import Cost, Tokens, describe
from multiform.models.torch.planner import Planner
from multiform.models.torch.scoring.score import score, scoring_cost
from multiform.models.torch.sequences import Generation, Pair
from multiform.models.usage import Counters
from multiform.requests import Completion, LLOutput, Response


class Backend(Protocol):
    """What decoder-only and encoder-decoder models do differently."""

    def pairs(self, texts: Sequence[tuple[str, str]]) -> Iterator[Pair]:
        """The tokens of each (context, continuation)."""

    def fit(self, pair: Pair, text: str) -> Pair:
        """The pair with its context truncated to the model's; an error where its continuation, a text, is too long."""

    def score(self, pairs: Sequence[Pair]) -> Iterator[Response[LLOutput]]:
        """The log-likelihood of each pair's continuation."""

    def prompts(self, texts: Iterable[str], *, truncation: bool) -> dict[str, Tokens]:
        """The tokens of each text as a prompt."""

    def max_prompt_length(self, max_gen_toks: int) -> int:
        """The most tokens of a prompt that leave room for a completion of that length; below 1 if none do."""

    def generate(self, generations: Sequence[Generation]) -> Iterator[Response[Completion]]:
        """The completion of each sequence."""

    def keep_verdicts(self, identity: str) -> None:
        """Keep the verdicts of trials for later runs of the model with this identity."""

    def scoring_tokens(self, pairs: Sequence[Pair]) -> int:
        """The tokens that are computed to score the pairs, but for padding."""

    def prefill_tokens(self, generations: Sequence[Generation]) -> int:
        """The tokens of the prompts that are computed, but for padding."""

    def describe_scoring(self, pairs: Sequence[Pair]) -> str | None:
        """The cost of scoring the pairs, in words; None where that is not known, or nothing."""

    def describe_prefill(self, generations: Sequence[Generation]) -> str | None:
        """The cost of prefilling the prompts, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalBackend:
    """Decoder-only models: context and continuation are one sequence, and shared prefixes are computed once."""

    planner: Planner
    encoder: Encoder
    max_length: int
    limits: Limits
    generation_limits: Limits
    counters: Counters

    def pairs(self, texts: Sequence[tuple[str, str]]) -> Iterator[Pair]:
        return self.encoder.pairs(texts)

    def fit(self, pair: Pair, text: str) -> Pair:
        return fit(pair, self.max_length, text)

    def score(self, pairs: Sequence[Pair]) -> Iterator[Response[LLOutput]]:
        return score(self.planner, pairs, self.limits, self.counters)

    def prompts(self, texts: Iterable[str], *, truncation: bool) -> dict[str, Tokens]:
        return self.encoder.prompts(texts, truncation=truncation)

    def max_prompt_length(self, max_gen_toks: int) -> int:
        return self.max_length - max_gen_toks

    def generate(self, generations: Sequence[Generation]) -> Iterator[Response[Completion]]:
        model, tokenizer = self.planner.head.model, self.encoder.tokenizer
        single = [generation for generation in generations if generation.num_beams == 1]
        if single:
            yield from generate(self.planner, tokenizer, single, self.generation_limits, self.counters)
        with_beams = [generation for generation in generations if generation.num_beams > 1]
        yield from beam_search(model, tokenizer, with_beams, self.counters)

    def keep_verdicts(self, identity: str) -> None:
        self.planner.keep_verdicts(identity)

    def scoring_tokens(self, pairs: Sequence[Pair]) -> int:
        cost = scoring_cost(self.planner, pairs, self.limits) if pairs else None
        return sum(pair.inputs for pair in pairs) if cost is None else cost.computed

    def prefill_tokens(self, generations: Sequence[Generation]) -> int:
        cost = prefill_cost(self.planner, generations) if generations else None
        return sum(len(generation.prompt) for generation in generations) if cost is None else cost.computed

    def describe_scoring(self, pairs: Sequence[Pair]) -> str | None:
        return _described(scoring_cost(self.planner, pairs, self.limits))

    def describe_prefill(self, generations: Sequence[Generation]) -> str | None:
        return _described(prefill_cost(self.planner, generations))


def _described(cost: Cost | None) -> str | None:
    return describe(cost) if cost and cost.sequences else None

"""Decoder-only models: what their requests have in common is computed once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from multiform.inference.counters import Counters
from multiform.inference.decode import generate as generation
from multiform.inference.decode.generate import Row
from multiform.inference.limits import Limits
from multiform.inference.plan import Cost, Tokens, describe
from multiform.inference.planner import Planner
from multiform.inference.scoring.score import score, score_cost
from multiform.inference.sequences import Pair
from multiform.models.tokenizer import Encoder, fit
from multiform.requests import Completion, LLOutput, Response


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalBackend:
    """A decoder reads a context and its continuation as one sequence."""

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

    def room(self, max_gen_toks: int) -> int:
        return self.max_length - max_gen_toks

    def write(self, rows: Sequence[Row]) -> Iterator[Response[Completion]]:
        return generation.generate(self.planner, self.encoder.tokenizer, rows, self.generation_limits, self.counters)

    def score_cost(self, pairs: Sequence[Pair]) -> str | None:
        return _words(score_cost(self.planner, pairs))

    def read_cost(self, rows: Sequence[Row]) -> str | None:
        return _words(generation.read_cost(self.planner, rows))


def _words(cost: Cost | None) -> str | None:
    return describe(cost) if cost and cost.sequences else None

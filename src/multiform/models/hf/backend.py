"""The interface of a kind of model, decoder-only or encoder-decoder: how it splits, scores and writes texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from multiform.inference.decode.generate import Row
from multiform.inference.plan import Tokens
from multiform.inference.sequences import Pair
from multiform.requests import Completion, LLOutput, Response


class Backend(Protocol):
    """Everything that the kinds of models do each in their own way."""

    def pairs(self, texts: Sequence[tuple[str, str]]) -> Iterator[Pair]:
        """The tokens of each (context, continuation)."""

    def fit(self, pair: Pair, text: str) -> Pair:
        """The pair without what the model cannot read; an error where its continuation, a text, is too long."""

    def score(self, pairs: Sequence[Pair]) -> Iterator[Response[LLOutput]]:
        """The log-likelihood of each pair's continuation."""

    def prompts(self, texts: Iterable[str], *, truncation: bool) -> dict[str, Tokens]:
        """The tokens of each text as a prompt."""

    def room(self, max_gen_toks: int) -> int:
        """How many tokens a prompt may have where so many are written; none is too few."""

    def write(self, rows: Sequence[Row]) -> Iterator[Response[Completion]]:
        """The completion of each row."""

    def score_cost(self, pairs: Sequence[Pair]) -> str | None:
        """What scoring the pairs takes, in words; None where that is not known, or nothing."""

    def read_cost(self, rows: Sequence[Row]) -> str | None:
        """What reading the prompts takes, in words."""

"""Tokens to be scored, gathered over several passes until their logits are worth computing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from multiform.inference.lm_head import ALIKE, Head
from multiform.inference.scoring.loglikelihood import Totals, token_scores
from multiform.requests import LLOutput, Response

#: Lines of logits that are computed together, at least: for a few, to read the weights of the vocabulary takes longest.
ENOUGH = 32


class Gathered:
    """What passes have made of the positions that are scored, until it is projected onto the vocabulary."""

    def __init__(self, head: Head, totals: Totals) -> None:
        self.head = head
        self.totals = totals
        self._clear()

    def add(self, states: Tensor, places: NDArray[np.int64], tokens: Sequence[int], owners: Sequence[int]) -> None:
        """Take in the lines of a pass: each token has the place of its line and the pair that it belongs to."""
        self.states.append(states)
        self.places.append(places + self.lines)
        self.tokens.extend(tokens)
        self.owners.extend(owners)
        self.lines += len(states)

    @property
    def is_enough(self) -> bool:
        return self.lines >= ENOUGH

    def score(self) -> list[Response[LLOutput]]:
        """Score all that is there; gives the answers that are complete with it."""
        if not self.tokens:
            return []
        states = torch.cat(self.states)
        logits = self.head.logits(pad(states, (0, 0, 0, max(0, ALIKE - self.lines))))
        scores = token_scores(logits, np.concatenate(self.places), self.tokens)
        answers = list(self.totals.add(np.array(self.owners, dtype=np.int64), *scores))
        self._clear()
        return answers

    def _clear(self) -> None:
        self.states: list[Tensor] = []
        self.places: list[NDArray[np.int64]] = []
        self.tokens: list[int] = []
        self.owners: list[int] = []
        self.lines = 0

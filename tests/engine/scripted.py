"""A model that is right about as many documents as a test says."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from multiform import LLOutput, LoglikelihoodRequest
from multiform.models.dummy import DummyModel


class ScriptedModel(DummyModel):
    """Picks the first choice, `A`, for a share of the questions: `rate` of the question and the first choice's line.

    Which questions these are depends on their text alone, so that every form that has the same rate is right about
    the same ones. Requests are counted.
    """

    name = "scripted"

    def __init__(self, rate: Callable[[str, str], float]) -> None:
        super().__init__()
        self.identity = self.name
        self.rate = rate
        self.asked = 0

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[tuple[int, Any]]:
        for position, request in enumerate(requests):
            self.asked += 1
            question, first_choice = request.context.split("\n")[:2]
            digest = hashlib.sha256(question.partition("?")[0].encode()).digest()
            right = int.from_bytes(digest[:4], "big") / 2**32 < self.rate(question, first_choice)
            chosen = request.continuation.strip() == ("A" if right else "B")
            yield position, LLOutput(0.0 if chosen else -5.0, is_greedy=chosen)

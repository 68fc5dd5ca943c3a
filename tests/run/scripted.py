"""A model that is right about as many documents as a test says."""

from __future__ import annotations

import hashlib
import json
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


def write_task(folder, name, docs, extra=""):
    """A task file with documents whose right answer is the first choice."""
    rows = "".join(json.dumps(doc) + "\n" for doc in docs)
    (folder / f"{name}.jsonl").write_text(rows, encoding="utf-8")
    (folder / f"{name}.yaml").write_text(
        f"task: {name}\ndataset_path: {name}.jsonl\ntest_split: train\ndoc_to_text: q\ndoc_to_choice: c\n"
        f"doc_to_target: a\nformats: mcqa\n{extra}",
        encoding="utf-8",
    )


def documents(clusters, size):
    """Documents of which as many as `size` share a passage; the first choice is right."""
    return [
        {"q": f"Question {cluster}-{number}?", "c": ["yes", "no"], "a": 0, "passage": f"p{cluster}"}
        for cluster in range(clusters)
        for number in range(size)
    ]

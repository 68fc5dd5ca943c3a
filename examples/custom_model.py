"""A model of your own: three methods, each of which yields the position of a request and its output.

Responses may come in any order, so that a model can batch requests as it likes.

    python examples/custom_model.py

prints::

    capitals@cloze: acc 0.333
    capitals@generate: exact_match 0.333
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from multiform import (
    Completion,
    GenerationRequest,
    LLOutput,
    LoglikelihoodRequest,
    Model,
    RollingRequest,
    evaluate,
    register_model,
)
from multiform.requests import Response

TASK = Path(__file__).with_name("capitals.yaml")


@register_model("short")
class Short(Model):
    """Prefers short texts, and always generates the same letter."""

    name = "short"

    def __init__(self, *, letter: str = "A", **others: object) -> None:
        """`model_args` come in as keywords, with `batch_size` and `device` where a run names them."""
        self.letter = letter
        #: Responses are stored under this name: it has to change whenever they would.
        self.identity = f"short, letter {letter}"

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> Iterator[Response[LLOutput]]:
        """How likely each continuation is after its context."""
        for position, request in enumerate(requests):
            yield position, LLOutput(-float(len(request.continuation)), is_greedy=False)

    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> Iterator[Response[LLOutput]]:
        """How likely each whole text is."""
        for position, request in enumerate(requests):
            yield position, LLOutput(-float(len(request.text)))

    def generate(self, requests: Sequence[GenerationRequest]) -> Iterator[Response[Completion]]:
        """What follows each context; `request.gen_kwargs` holds `until`, `max_gen_toks` and so on."""
        for position, _ in enumerate(requests):
            yield position, Completion(f" {self.letter}")


if __name__ == "__main__":
    # By the name that is registered; an object does as well: model=Short(letter="B").
    results = evaluate(model="short", model_args={"letter": "B"}, tasks=f"{TASK}@cloze+generate")
    print(f"capitals@cloze: acc {results['capitals@cloze']['acc']:.3f}")
    print(f"capitals@generate: exact_match {results['capitals@generate']['exact_match']:.3f}")

"""ROUGE: F1 of what a text shares with the right answer, as the class says it."""

from __future__ import annotations

from abc import abstractmethod
from itertools import pairwise
from typing import TYPE_CHECKING

from multiform.compat.eval_framework.exceptions import LogicError
from multiform.compat.eval_framework.metrics.completion.f1 import calculate_f1
from multiform.formats.dialects.metric_classes import SingleValue

if TYPE_CHECKING:
    from multiform.formats.dialects.samples import Completion


class _Rouge(SingleValue["Completion"]):
    """0 for an empty text, otherwise what the class makes of the words and of all right answers."""

    def value(self, response: Completion) -> float:
        if response.completion == "":
            return 0.0
        truths = [truth for truth in response.ground_truth_list if truth is not None]
        if len(truths) < len(response.ground_truth_list):
            raise LogicError(f"{self.NAME} needs a right answer, and there is none")
        return self.best(response.completion.split(), [truth.split() for truth in truths])

    @abstractmethod
    def best(self, written: list[str], truths: list[list[str]]) -> float:
        """The score that the best-matching right answers give."""


class _WordMatch(_Rouge):
    """The highest score of all right answers."""

    def best(self, written: list[str], truths: list[list[str]]) -> float:
        return max(self.score(written, truth) for truth in truths)

    @abstractmethod
    def score(self, written: list[str], truth: list[str]) -> float:
        """How well the written words match the true ones."""


class ROUGE_1(_WordMatch):  # noqa: N801 - eval-framework's name
    """Of single words."""

    NAME = "ROUGE-1"

    def score(self, written: list[str], truth: list[str]) -> float:
        return calculate_f1(truth, written)


class ROUGE_2(_WordMatch):  # noqa: N801 - eval-framework's name
    """Of pairs of words."""

    NAME = "ROUGE-2"

    def score(self, written: list[str], truth: list[str]) -> float:
        return calculate_f1(list(pairwise(truth)), list(pairwise(written)))


class ROUGE_L(_WordMatch):  # noqa: N801 - eval-framework's name
    """Of the longest common subsequence of words."""

    NAME = "ROUGE-L"

    def score(self, written: list[str], truth: list[str]) -> float:
        lengths = [0] * (len(truth) + 1)
        for word in written:
            before = 0
            for index, right in enumerate(truth, start=1):
                here = lengths[index]
                lengths[index] = before + 1 if word == right else max(here, lengths[index - 1])
                before = here
        return 2 * lengths[-1] / (len(written) + len(truth)) if lengths[-1] else 0.0


class ROUGE_GEOMETRIC_MEAN(_Rouge):  # noqa: N801 - eval-framework's name
    """The geometric mean of the three."""

    NAME = "ROUGE-Geometric-Mean"

    def best(self, written: list[str], truths: list[list[str]]) -> float:
        return float(
            (ROUGE_1().best(written, truths) * ROUGE_2().best(written, truths) * ROUGE_L().best(written, truths))
            ** (1 / 3)
        )

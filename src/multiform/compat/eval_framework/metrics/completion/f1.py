"""How many words a text shares with the right answer."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from multiform.formats.dialects.metric_classes import SingleValue

if TYPE_CHECKING:
    from multiform.formats.dialects.samples import Completion


class F1(SingleValue["Completion"]):
    """F1 of the words in lower case, of the right answer that it is highest for."""

    NAME = "F1"

    def normalize(self, text: str) -> str:
        return text.lower()

    def tokenize(self, text: str) -> list[str]:
        return self.normalize(text).split()

    def value(self, response: Completion) -> float:
        written = self.tokenize(response.completion)
        truths = [self.tokenize(truth) for truth in response.ground_truth_list if truth is not None]
        return max((calculate_f1(truth, written) for truth in truths), default=0.0)


class F1SquadNormalized(F1):
    """F1 of the words as SQuAD has them: without punctuation and articles."""

    NAME = "F1 SQuAD Normalized"

    def normalize(self, text: str) -> str:
        plain = text.lower().translate(str.maketrans("", "", string.punctuation))
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", plain).split())


def calculate_f1(ref_tokens: Sequence[Any], hyp_tokens: Sequence[Any]) -> float:
    """F1 of the tokens that two lists share; 1 where both are empty."""
    if not ref_tokens or not hyp_tokens:
        return float(not ref_tokens and not hyp_tokens)
    shared = (Counter(ref_tokens) & Counter(hyp_tokens)).total()
    precision, recall = shared / len(hyp_tokens), shared / len(ref_tokens)
    return 2 * precision * recall / (precision + recall) if shared else 0.0

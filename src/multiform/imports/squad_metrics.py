"""Exact match and F1 of words, as the SQuAD benchmark defines them.

Stands in for `transformers.data.metrics.squad_metrics`, which transformers 5 no longer has and task files still import.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Hashable, Sequence

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def normalize_answer(s: str) -> str:
    """The text in lower case, without punctuation and articles, its words one space apart.

    >>> normalize_answer("The  Eiffel-Tower, an icon.")
    'eiffeltower icon'
    """
    return " ".join(_ARTICLES.sub(" ", s.lower().translate(_PUNCTUATION)).split())


def get_tokens(s: str) -> list[str]:
    """The words of the normalized text."""
    return normalize_answer(s).split() if s else []


def compute_exact(a_gold: str, a_pred: str) -> int:
    """1 where both are the same once normalized, else 0."""
    return int(normalize_answer(a_gold) == normalize_answer(a_pred))


def compute_f1(a_gold: str, a_pred: str) -> float:
    """The harmonic mean of the precision and the recall of words; of two texts without any words, 1.

    >>> compute_f1("the red house", "a red car")
    0.5
    """
    return token_f1(get_tokens(a_gold), get_tokens(a_pred))


def token_f1(gold: Sequence[Hashable], predicted: Sequence[Hashable]) -> float:
    """The same of two lists of words."""
    if not gold or not predicted:
        return float(not gold and not predicted)
    shared = (Counter(gold) & Counter(predicted)).total()
    if not shared:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(gold)
    return (2 * precision * recall) / (precision + recall)

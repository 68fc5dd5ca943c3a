"""Metrics of completions."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence

from multiform.deadline import MAX_SECONDS, within
from multiform.errors import UsageError
from multiform.scoring.metrics.base import register_metric
from multiform.scoring.outcome import ChoiceOutcome, TextOutcome

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_DIGITS = str.maketrans("", "", string.digits)


@register_metric("exact_match", output_type=["generate_until", "multiple_choice"])
def exact_match(
    outcome: TextOutcome | ChoiceOutcome,
    *,
    regexes_to_ignore: Sequence[str] = (),
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    ignore_numbers: bool = False,
) -> float:
    """Whether the prediction equals one of the references; for choices, whether greedy decoding gives a gold one."""
    if isinstance(outcome, ChoiceOutcome):
        return int(any(outcome.greedy[index] for index in outcome.gold))

    def clean(text: str) -> str:
        for pattern in regexes_to_ignore:
            text = re.sub(pattern, "", text)
        text = text.lower() if ignore_case else text
        text = text.translate(_PUNCTUATION) if ignore_punctuation else text
        return text.translate(_DIGITS) if ignore_numbers else text

    if outcome.prediction is None:
        return 0.0
    with within(MAX_SECONDS):
        return float(clean(outcome.prediction) in {clean(reference) for reference in outcome.references})


@register_metric("invalid", output_type="generate_until", higher_is_better=False)
def invalid(outcome: TextOutcome) -> float:
    """Whether no prediction could be extracted from the completion."""
    return float(outcome.prediction is None)


@register_metric("truncated", output_type="generate_until", higher_is_better=False)
def truncated(outcome: TextOutcome) -> float:
    """Whether the completion ended at the limit of tokens."""
    return float(outcome.truncated)


@register_metric("wer", output_type="generate_until", higher_is_better=False)
def word_error_rate(outcome: TextOutcome) -> float:
    """The word error rate: edits per word of the nearest reference."""
    predicted = (outcome.prediction or "").split()
    references = [reference.split() for reference in outcome.references]
    return min(_edits(predicted, reference) / max(1, len(reference)) for reference in references)


def _edits(predicted: Sequence[str], reference: Sequence[str]) -> int:
    """The Levenshtein distance of two lists of words."""
    row = list(range(len(reference) + 1))
    for removed, word in enumerate(predicted, start=1):
        above, row = row, [removed]
        for column, expected in enumerate(reference):
            row.append(min(above[column] + (word != expected), above[column + 1] + 1, row[column] + 1))
    return row[-1]


def _pair(outcome: TextOutcome) -> tuple[str | list[str], str]:
    """References and text, for a score of all texts together (needs the extra 'metrics')."""
    references = list(outcome.references)
    return references[0] if len(references) == 1 else references, outcome.prediction or ""


#: Metrics of all texts together, and whether more is better.
CORPUS = {"bleu": True, "chrf": True, "chrf++": True, "ter": False}

for _name, _better in CORPUS.items():
    register_metric(_name, output_type="generate_until", aggregation=_name, higher_is_better=_better)(_pair)


def _rouge(kind: str) -> Callable[[TextOutcome], float]:
    def rouge(outcome: TextOutcome) -> float:
        """The F-measure of ROUGE against the best reference."""
        try:
            from rouge_score import rouge_scorer
        except ImportError as error:
            raise UsageError(f"metric '{kind}' needs rouge-score", hint="pip install 'multiform[metrics]'") from error
        scorer = rouge_scorer.RougeScorer([kind], use_stemmer=False)
        return max(float(scorer.score(ref, outcome.prediction or "")[kind].fmeasure) for ref in outcome.references)

    return rouge


for _kind in ("rouge1", "rouge2", "rougeL", "rougeLsum"):
    register_metric(_kind, output_type="generate_until")(_rouge(_kind))

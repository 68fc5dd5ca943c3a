"""Metrics of completions."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher

from multiform.limits import MAX_SECONDS, within
from multiform.scoring.aggregations import CORPUS
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


def answer_words(text: str) -> list[str]:
    """The words of an answer as SQuAD compares them: in lower case, without punctuation and articles."""
    return re.sub(r"\b(?:a|an|the)\b", " ", text.lower().translate(_PUNCTUATION)).split()


@register_metric("token_em", output_type="generate_until")
def token_match(outcome: TextOutcome) -> float:
    """Whether the prediction has the same words as a reference, but for case, punctuation and articles."""
    predicted = answer_words(outcome.prediction or "")
    return float(any(predicted == answer_words(reference) for reference in outcome.references))


@register_metric("token_f1", output_type="generate_until")
def token_f1(outcome: TextOutcome, *, separator: str | None = None) -> float:
    """The F1 score of the prediction's words and those of the nearest reference, as SQuAD computes it.

    With a `separator`, answers are lists of spans, as in DROP: each span is matched with at most one other, and spans
    whose numbers differ do not match.
    """
    prediction = outcome.prediction or ""
    if separator is None:
        return max(word_f1(answer_words(prediction), answer_words(reference)) for reference in outcome.references)
    predicted = _spans(prediction, separator)
    return max(_alignment_score(predicted, _spans(reference, separator)) for reference in outcome.references)


def word_f1(predicted: Sequence[str], reference: Sequence[str]) -> float:
    """The F1 score of some words and those of a reference; of two texts without any words, 1."""
    if not predicted or not reference:
        return float(predicted == reference)
    same = sum((Counter(predicted) & Counter(reference)).values())
    return 2 * same / (len(predicted) + len(reference))


def _spans(text: str, separator: str) -> list[list[str]]:
    """The words of each span, numbers in one spelling."""
    spans = []
    for piece in text.split(separator):
        split = re.split(r"[\s-]+", piece.lower())
        words = [word if _is_number(word) else word.translate(_PUNCTUATION) for word in split]
        telling = [word for word in words if word and word not in ("a", "an", "the")]
        spans.append([str(float(word)) if _is_number(word) else word for word in telling])
    return spans


def _is_number(word: str) -> bool:
    return bool(re.fullmatch(r"[-+]?(?:\d+\.?\d*|\.\d+)", word))


def _alignment_score(predicted: Sequence[Sequence[str]], reference: Sequence[Sequence[str]]) -> float:
    """The best total of span scores, each span used once, over the number of spans in the longer list."""
    from scipy.optimize import linear_sum_assignment  # here, because it takes a moment to import

    scores = [[_span_score(span, other) for other in reference] for span in predicted]
    pairs = zip(*linear_sum_assignment(scores, maximize=True), strict=True)
    return math.fsum(scores[row][column] for row, column in pairs) / max(len(predicted), len(reference))


def _span_score(predicted: Sequence[str], reference: Sequence[str]) -> float:
    numbers = {word for word in reference if _is_number(word)}
    return word_f1(predicted, reference) if not numbers or numbers & set(predicted) else 0.0


@register_metric("contained", output_type="generate_until")
def containment(outcome: TextOutcome, *, any_of: bool = False) -> float:
    """The share of references that occur in the prediction, in any case; with `any_of`, whether one of them does."""
    prediction = str(outcome.prediction or "").lower()
    found = [reference.lower() in prediction for reference in outcome.references]
    return float(any(found)) if any_of else sum(found) / len(found)


@register_metric("relaxed_match", output_type="generate_until")
def relaxed_match(outcome: TextOutcome, *, tolerance: float = 0.05) -> float:
    """Whether the prediction is a number within a share of a reference, or the same text in any case.

    Percent signs and commas in numbers are ignored.
    """
    prediction = str(outcome.prediction or "")
    predicted = _as_number(prediction)
    for reference in outcome.references:
        expected = _as_number(reference)
        if predicted is not None and expected is not None:
            if abs(predicted - expected) <= tolerance * abs(expected):
                return 1.0
        elif prediction.strip(" .").casefold() == reference.strip(" .").casefold():
            return 1.0
    return 0.0


def _as_number(text: str) -> float | None:
    bare = text.strip(" .$%").replace(",", "")
    return float(bare) if re.fullmatch(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", bare) else None


@register_metric("similarity", output_type="generate_until")
def similarity(outcome: TextOutcome, *, same_start: int = 0) -> float:
    """The ratio of matching characters, as difflib computes it; 0 if the first `same_start` characters differ."""
    prediction = str(outcome.prediction or "")
    fitting = [text for text in outcome.references if text[:same_start] == prediction[:same_start]]
    rests = [(text[same_start:], prediction[same_start:]) for text in fitting]
    return max((SequenceMatcher(None, *rest).ratio() for rest in rests), default=0.0)


@register_metric("invalid", output_type="generate_until", higher_is_better=False)
def invalid(outcome: TextOutcome) -> float:
    """Whether no prediction could be extracted from the completion."""
    return float(outcome.prediction is None)


@register_metric("truncated", output_type="generate_until", higher_is_better=False)
def is_truncated(outcome: TextOutcome) -> float:
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


def _corpus_metric(title: str) -> Callable[[TextOutcome], tuple[str | list[str], str]]:
    def references_and_text(outcome: TextOutcome) -> tuple[str | list[str], str]:
        references = list(outcome.references)
        return references[0] if len(references) == 1 else references, outcome.prediction or ""

    references_and_text.__doc__ = f"{title} of all completions together (needs the extra 'metrics')."
    return references_and_text


for _name, _title in zip(CORPUS, ("BLEU", "chrF", "chrF++", "The translation edit rate"), strict=True):
    _metric = _corpus_metric(_title)
    register_metric(_name, output_type="generate_until", aggregation=_name, higher_is_better=_name != "ter")(_metric)


def _rouge(name: str) -> Callable[[TextOutcome], float]:
    def rouge(outcome: TextOutcome) -> float:
        from rouge_score import rouge_scorer

        scorer = rouge_scorer.RougeScorer([name], use_stemmer=False)
        return max(float(scorer.score(ref, outcome.prediction or "")[name].fmeasure) for ref in outcome.references)

    kind = name.removeprefix("rouge")
    rouge.__doc__ = f"The F-measure of ROUGE-{kind} against the best reference (needs the extra 'metrics')."
    return rouge


for _name in ("rouge1", "rouge2", "rougeL", "rougeLsum"):
    register_metric(_name, output_type="generate_until", package="rouge_score")(_rouge(_name))

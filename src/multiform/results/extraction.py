"""Extraction: from how many completions an answer could be extracted, and what a lenient extractor would give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from multiform.forms import ScoredSample
from multiform.requests import Completion
from multiform.results.values import FormResult
from multiform.scoring.filters import INVALID
from multiform.scoring.lenient import is_leniently_right, names_an_answer
from multiform.statistics.estimates import Estimate, mean_estimate

#: What a results file records of an estimate beside its value.
_BOUNDS = ("stderr", "low", "high")
_SHARES = ("right", "wrong", "missing", "lenient")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """Shares of a form's completions; the first three add up to 1."""

    right: Estimate
    #: An answer was extracted, and it is wrong.
    wrong: Estimate
    #: Nothing was extracted, or what names no answer ("I am not sure"); the score counts it as wrong.
    missing: Estimate
    #: The score with the lenient extractor wherever the form's own one is not sure to have read the answer.
    lenient: Estimate
    #: How many completions are `missing`, and how many of these were cut off at a limit of tokens.
    unread: int = 0
    cut_off: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The shares as JSON."""
        keys = ("value", *_BOUNDS)
        return {name: {key: getattr(getattr(self, name), key) for key in keys} for name in _SHARES}

    def __str__(self) -> str:
        words = (
            f"no answer could be extracted from {self.missing.value:.3f} of the completions, "
            f"a wrong one from {self.wrong.value:.3f}; a lenient extractor would give {self.lenient.value:.4f}"
        )
        if 2 * self.cut_off <= self.unread:
            return words
        share = f"{self.cut_off} of the {self.unread} without an answer were cut off at the limit of tokens"
        return f"{words}; {share}: raise it, e.g. --gen_kwargs max_gen_toks=1024"


class ReadAnswer(NamedTuple):
    """What became of one completion; one that is neither right nor missing is wrong."""

    right: bool
    missing: bool
    #: Right by the form's own extractor or by the lenient one.
    lenient: bool
    #: Missing, and cut off at a limit of tokens.
    cut_off: bool


def extraction_of(form: FormResult) -> Extraction | None:
    """How often answers could be extracted from a form's completions; None for forms not scored by an exact match."""
    metric, _, scorer = form.primary.partition(",") if form.estimates else ("", "", "")
    samples = [sample for sample in form.samples if sample.scorer == scorer]
    if form.extraction is not None:
        return _recorded_extraction(form, form.extraction, samples, metric)
    return summarize_answers([read_answer(form, sample) for sample in samples])


def read_answer(form: FormResult, sample: ScoredSample) -> ReadAnswer | None:
    """What became of a sample's completion; None where there is none that is scored by an exact match."""
    if not form.estimates or form.metric != "exact_match":
        return None
    right = bool(sample.values.get(form.metric))
    if sample.failure is not None:  # it counts as wrong
        return ReadAnswer(right, missing=False, lenient=right, cut_off=False)
    if not sample.sample.references or not any(isinstance(output, Completion) for output in sample.outputs[:1]):
        return None
    missing = not right and is_unread(sample)
    cut_off = missing and _is_cut_off(form, sample)
    return ReadAnswer(right, missing=missing, lenient=right or _is_leniently_right(sample), cut_off=cut_off)


def summarize_answers(answers: Sequence[ReadAnswer | None]) -> Extraction | None:
    """The shares of a form's completions; None where one of them cannot be told."""
    known = [answer for answer in answers if answer is not None]
    if not known or len(known) < len(answers):
        return None

    def share(hits: Iterable[bool]) -> Estimate:
        return mean_estimate(list(map(float, hits)))

    return Extraction(
        right=share(answer.right for answer in known),
        wrong=share(not answer.right and not answer.missing for answer in known),
        missing=share(answer.missing for answer in known),
        lenient=share(answer.lenient for answer in known),
        unread=sum(answer.missing for answer in known),
        cut_off=sum(answer.cut_off for answer in known),
    )


def _recorded_extraction(
    form: FormResult, recorded: Mapping[str, Mapping[str, Any]], samples: Sequence[ScoredSample], metric: str
) -> Extraction:
    """What a results file says of extraction; how many completions were cut off is counted again."""
    shares = {
        name: Estimate(
            value=float(recorded[name]["value"]), n=form.n, **{key: recorded[name].get(key) for key in _BOUNDS}
        )
        for name in _SHARES
    }
    unread = [sample for sample in samples if not sample.values.get(metric) and is_unread(sample)]
    return Extraction(**shares, unread=len(unread), cut_off=sum(_is_cut_off(form, sample) for sample in unread))


def _is_cut_off(form: FormResult, sample: ScoredSample) -> bool:
    return "cut off" in sample.endings and any(answer.ending == "cut off" for answer in form.answers(sample))


def pooled_extraction(extractions: Sequence[Extraction], *, weight_by_size: bool) -> Extraction:
    """The shares over all tasks of a group, weighted as the group says; the pool of one task is that task's own."""
    if len(extractions) == 1:
        return extractions[0]
    weights = [extraction.right.n if weight_by_size else 1 for extraction in extractions]

    def mean(share: str) -> Estimate:
        estimates: list[Estimate] = [getattr(extraction, share) for extraction in extractions]
        value = sum(e.value * weight for e, weight in zip(estimates, weights, strict=True)) / sum(weights)
        return Estimate(value=value, n=sum(estimate.n for estimate in estimates))

    return Extraction(
        **{share: mean(share) for share in _SHARES},
        unread=sum(extraction.unread for extraction in extractions),
        cut_off=sum(extraction.cut_off for extraction in extractions),
    )


def is_unread(sample: ScoredSample) -> bool:
    """Whether nothing was extracted from a completion, or a text that names no answer."""
    if sample.failure is not None:
        return False
    prediction = sample.prediction
    first = prediction[0] if isinstance(prediction, list) and prediction else prediction
    if first is None or first in ("", INVALID) or first == []:
        return True
    references = [str(reference) for reference in sample.sample.references]
    if not isinstance(first, str) or not references:
        return False
    return not names_an_answer(first, references, labels=sample.sample.labels, choices=sample.sample.texts)


def _is_leniently_right(sample: ScoredSample) -> bool:
    """Whether an answer that was not right can be read as right; one that names a choice is not read again."""
    labels, choices = sample.sample.labels, sample.sample.texts
    if (labels or choices) and not is_unread(sample):
        return False
    output = sample.outputs[0]
    assert isinstance(output, Completion)
    references = [str(reference) for reference in sample.sample.references]
    return is_leniently_right(output.text, references, labels=labels, choices=choices)

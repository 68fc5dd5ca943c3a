"""Checks of choices that speak of other choices, by place or label, under variations that move or relabel them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from multiform.errors import shorten
from multiform.forms import Form, Sample
from multiform.lint.finding import Finding

_PLACE = re.compile(
    r"\b(?:all|any|both|each|either|most|neither|none|one|some|two)\s+(?:of\s+)?(?:the\s+|these\s+)?(?:\w+\s+)?"
    r"(?:above|below|preceding|previous|foregoing)\b",
    re.IGNORECASE,
)
_ENDING = r"(?:\s+(?:only|alone|together|(?:are|is) (?:both )?(?:correct|true|right)))?"
_LABELS = re.compile(
    rf"(?i:both|either|neither|only)?\s*\(?[A-H]\)?(?:\s*(?:[&/]|,?\s*(?i:and|or|nor)\b|,)\s*\(?[A-H]\)?)+{_ENDING}\.?"
    rf"|(?i:only\s+|option\s+|choice\s+|answer\s+)\(?[A-H]\)?{_ENDING}\.?"
)


def refers(choice: str, *, by_place: bool) -> bool:
    """Whether a choice speaks of others by their labels or, with `by_place`, by where they stand.

    >>> [refers(text, by_place=True) for text in ("All of the above", "Both A and B", "(a) vitamin A", "A and C only.")]
    [True, True, False, True]
    >>> refers("None of the above", by_place=False)
    False
    """
    by_label = _LABELS.fullmatch(choice.strip()) is not None
    return by_label or (by_place and _PLACE.search(choice) is not None)


def reference_findings(form: Form, samples: Iterable[Sample]) -> list[Finding]:
    """Whether choices that speak of others are moved, or get labels that they do not mean."""
    by_place = form.choice_order is not None
    relabelled = form.format is not None and form.format.choice_labels not in (None, "letters")
    if not by_place and not ("labels" in form.axes and relabelled):
        return []
    referring = [
        (sample.doc_id, text)
        for sample in samples
        for text in (sample.texts or sample.choices)
        if refers(text, by_place=by_place)
    ]
    if not referring:
        return []
    doc_id, text = referring[0]
    return [
        Finding(
            code="choices_refer",
            task=form.task_name,
            where=form.where("doc_to_choice"),
            what="choices speak of other choices, which the variation moves or gives other labels",
            example=f"doc {doc_id}: {shorten(text, 60)}; {len({doc for doc, _ in referring})} documents",
            hint="write variations: {order: null, labels: [letters]} in the task, or leave these documents out",
        )
    ]

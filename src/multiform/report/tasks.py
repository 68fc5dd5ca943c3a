"""What a report says of all forms of a task together: paired differences, spread, agreement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from multiform.errors import DataError
from multiform.statistics.agreement import rightness
from multiform.statistics.means import form_means
from multiform.statistics.paired import paired_differences
from multiform.statistics.scores import DocumentScores, document_scores
from multiform.statistics.spread import spread_of

#: How many differences are drawn for a task: the largest.
_PAIRS = 28


def task_entries(forms: Sequence[Mapping[str, Any]], runs: Sequence[str]) -> list[dict[str, Any]]:
    """An entry for each task and metric that has several forms or runs; `forms` are entries of `form_entry`."""
    return [entry for group in _together(forms) if (entry := _entry(group, runs)) is not None]


def _together(forms: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """The forms that can be compared document by document: those of a run, then each form under all runs."""
    by_run: dict[Any, list[Mapping[str, Any]]] = {}
    by_form: dict[Any, list[Mapping[str, Any]]] = {}
    for form in forms:
        by_run.setdefault((form["run"], form["task"], form["metric"]), []).append(form)
        by_form.setdefault((form["name"], form["metric"]), []).append(form)
    yield from (group for group in by_run.values() if len(group) > 1)
    yield from (group for group in by_form.values() if len({form["run"] for form in group}) > 1)


def _entry(forms: Sequence[Mapping[str, Any]], runs: Sequence[str]) -> dict[str, Any] | None:
    try:
        scores = _scores(forms)
    except DataError:
        return None
    names = _labels(forms, runs)
    pairs = sorted(paired_differences(scores), key=lambda pair: -abs(pair.estimate.value))
    shares = rightness(scores) if scores.binary else None
    across = len({form["run"] for form in forms}) > 1
    return {
        "task": forms[0]["name"] if across else forms[0]["task"],
        "run": None if across else forms[0]["run"],
        "metric": forms[0]["metric"],
        "n": scores.n,
        "pairs": [_pair(pair, names) for pair in pairs[:_PAIRS]],
        "more": max(0, len(pairs) - _PAIRS),
        "spread": spread_of(form_means(scores)).spread.value,
        "all": None if shares is None else shares.under_all.value,
        "some": None if shares is None else shares.under_some.value,
        "none": None if shares is None else shares.under_none.value,
    }


def _scores(forms: Sequence[Mapping[str, Any]]) -> DocumentScores:
    """The scores of the documents that all forms have."""
    by_doc = [
        {doc: score for doc, score in zip(form["docs"], form["scores"], strict=True) if score is not None}
        for form in forms
    ]
    shared = [doc for doc in by_doc[0] if all(doc in scores for scores in by_doc)]
    return document_scores([[scores[doc] for scores in by_doc] for doc in shared])


def _labels(forms: Sequence[Mapping[str, Any]], runs: Sequence[str]) -> list[str]:
    if len({form["run"] for form in forms}) > 1:
        return [runs[form["run"]] for form in forms]
    return [form["format"] or form["name"] for form in forms]


def _pair(pair: Any, names: Sequence[str]) -> dict[str, Any]:
    """A difference with the better form first."""
    estimate, first, second = pair.estimate, names[pair.first], names[pair.second]
    sign = 1 if estimate.value >= 0 else -1
    low, high = sorted((sign * estimate.low, sign * estimate.high))
    label = f"{first} − {second}" if sign > 0 else f"{second} − {first}"
    return {"label": label, "difference": abs(estimate.value), "low": low, "high": high, "p": pair.p_holm}

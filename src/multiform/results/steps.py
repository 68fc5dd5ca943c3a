"""What each step from one form to another does to the score, on the same documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from multiform.errors import DataError, UsageError
from multiform.results.run_comparison import FormChange, compare_form
from multiform.results.values import FormResult
from multiform.statistics.estimates import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEffect:
    """A step with the score after it, and what it changed."""

    what: str
    metric: str
    score: Estimate
    #: The score after the step minus that before; its interval and p value hold for all steps at once. None if the two
    #: scores are not of one kind, such as accuracy and bits per byte.
    change: FormChange | None

    def to_dict(self) -> dict[str, Any]:
        """The effect as plain data."""
        about = {"what": self.what, "metric": self.metric, "score": self.score.value, "documents": self.score.n}
        if self.change is None:
            return about
        low, high = self.change.simultaneous
        return {
            **about,
            "change": self.change.difference.value,
            "low": low,
            "high": high,
            "p": self.change.p_simultaneous,
            "paired": self.change.paired,
            "raised": len(self.change.raised),
            "lowered": len(self.change.lowered),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTable:
    """The way from one form to another: the first score, the effect of every step, and of all steps together."""

    first: FormResult
    effects: tuple[StepEffect, ...]
    total: StepEffect
    #: Steps after which no prompt and no score of these documents was another one.
    idle: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The table as plain data."""
        start = {"metric": _metric(self.first), "score": self.first.score.value}
        effects = [effect.to_dict() for effect in self.effects]
        return {"start": start, "steps": effects, "total": self.total.to_dict(), "without_effect": list(self.idle)}


def step_table(forms: Mapping[str, FormResult], start: str, steps: Sequence[tuple[str, str]]) -> StepTable:
    """The effects of steps, each what it is and the name of the form after it, on the scores of these forms."""
    previous, effects, idle = forms[start], [], []
    for what, name in steps:
        form = forms[name]
        if _requests(form) == _requests(previous) and _values(form) == _values(previous):
            idle.append(what)
        else:
            effects.append(_effect(what, previous, form))
        previous = form
    effects = [
        e if e.change is None else replace(e, change=replace(e.change, comparisons=len(effects))) for e in effects
    ]
    total = _effect("all steps together", forms[start], previous)
    return StepTable(first=forms[start], effects=tuple(effects), total=total, idle=tuple(idle))


def _effect(what: str, before: FormResult, after: FormResult) -> StepEffect:
    change = None
    with suppress(UsageError):  # scores of two kinds
        try:
            change = compare_form(before, after)
        except DataError:  # other documents: only the scores can be compared
            change = compare_form(replace(before, samples=()), replace(after, samples=()))
    return StepEffect(what=what, metric=_metric(after), score=after.score, change=change)


def _metric(form: FormResult) -> str:
    name, _, pipeline = form.primary.partition(",")
    return name if pipeline == "none" else f"{name} ({pipeline})"


def _requests(form: FormResult) -> dict[int, Any]:
    return {sample.doc_id: [instance.request for instance in sample.sample.instances] for sample in form.samples}


def _values(form: FormResult) -> dict[tuple[int, str], Any]:
    return {(sample.doc_id, sample.scorer): sample.values for sample in form.samples}

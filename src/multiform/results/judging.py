"""What a run says about its judges: their cost, unreadable verdicts, biases, and how they compare with people."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from multiform.results.labels import CALIBRATED, calibration
from multiform.results.values import FormResult, ResultsData
from multiform.scoring.judges import JudgeUsage
from multiform.statistics.estimates import Estimate, mean_estimate

#: The share of preferences that the answer shown first gets if order does not matter.
_FAIR = 0.5


def judging_entry(usage: Mapping[str, JudgeUsage], forms: Sequence[FormResult], model: str) -> dict[str, Any]:
    """The key `judging` of a run's settings; `model` is the name of the model that was judged.

    A judge is the model itself or of its family by name; by how much such a judge prefers its own answers is known
    where other judges have scored the same documents.
    """
    kin = {name: kind for name, judge in usage.items() if (kind := _kinship(judge.model, model)) is not None}
    calibrated = {
        form.name: {
            "labels": powered.labels.n,
            "weight": powered.weight,
            "mean": powered.mean.numbers(),
            "human": powered.labels.numbers(),
            "bias": powered.bias.numbers(),
            "agreement": powered.agreement.numbers(),
        }
        for form in forms
        for scorer in dict.fromkeys(sample.scorer for sample in form.samples)
        if f"{CALIBRATED},{scorer}" in form.estimates
        and (powered := calibration(form.samples, scorer, name=form.name, cluster=form.cluster)) is not None
    }
    preferred = {
        form.name: {name: estimate.numbers()}
        for form in forms
        for name in kin
        if (estimate := _self_preference(form, name)) is not None
    }
    entry = {"kin": kin, "calibration": calibrated, "self_preference": preferred}
    return {
        "judges": {name: judge.to_dict() for name, judge in usage.items()},
        **{key: value for key, value in entry.items() if value},
    }


def _kinship(judge: str, model: str) -> str | None:
    """Whether a judge is the judged model ("itself") or has a name of the same family ("family").

    >>> _kinship("gpt-4.1", "gpt-4.1"), _kinship("Qwen/Qwen3-8B", "qwen2.5-7b"), _kinship("gpt-4.1", "claude-opus-4")
    ('itself', 'family', None)
    """
    if judge == model:
        return "itself"
    family, other = (re.sub(r"[^a-z].*", "", name.rpartition("/")[2].lower()) for name in (judge, model))
    return "family" if len(family) > 2 and family == other else None


def _self_preference(form: FormResult, judge: str) -> Estimate | None:
    """How much higher a judge scores the documents of a form than the other judges do."""
    key = f"judge({judge})"
    differences = []
    for sample in form.samples:
        others = [value for name, value in sample.values.items() if _is_of_a_judge(name) and name != key]
        if key in sample.values and others:
            differences.append(sample.values[key] - fmean(others))
    return mean_estimate(differences) if differences else None


def _is_of_a_judge(name: str) -> bool:
    """Whether a value is the grade of one of several judges, and not that of one turn of a conversation."""
    return name.startswith("judge(") and name.endswith(")")


def judging_notes(results: ResultsData) -> Iterator[str]:
    """Notes on the judges of a run, a line for each."""
    judging = results.run.get("judging") or {}
    for name, usage in judging.get("judges", {}).items():
        yield f"judge {name}: {_usage_words(usage)}"
    for form in results.forms:
        yield from _order_notes(form)
    for name, numbers in judging.get("calibration", {}).items():
        bias, direction = numbers["bias"], "higher" if numbers["bias"]["value"] >= 0 else "lower"
        yield (
            f"{name}: people would give {_words(numbers['mean'])}, by {numbers['labels']} labels; "
            f"the judge scores {_words(bias, sign=1 if direction == 'higher' else -1)} {direction} than they do, "
            f"and gives the same in {numbers['agreement']['value']:.0%} of the documents"
        )
    for name, kind in judging.get("kin", {}).items():
        is_model = "the model that it judges" if kind == "itself" else "of the family of the model that it judges"
        measured = [
            f"{form}: {_words(numbers[name], signed=True)} over the other judges"
            for form, numbers in judging.get("self_preference", {}).items()
            if name in numbers
        ]
        advice = "; ".join(measured) or "add a judge of another family to measure it"
        yield f"judge {name} is {is_model}, and may prefer its own answers: {advice}"


def _order_notes(form: FormResult) -> Iterator[str]:
    """By how much the answer that judges see first is preferred."""
    for key, estimate in form.estimates.items():
        metric, _, scorer = key.partition(",")
        swapped = form.estimates.get(f"inconsistent,{scorer}")
        if metric != "first_place" or swapped is None:
            continue
        biased = "no order bias is seen" if estimate.covers(_FAIR) else "there is an order bias"
        yield (
            f"{form.name}: {biased}: the answer shown first gets {estimate.value:.3f} ({estimate.interval_text()}) of "
            f"the preferences; in {swapped.value:.0%} of the documents, the preference changes with the order"
        )


def _usage_words(usage: Mapping[str, Any]) -> str:
    words = f"{usage['requests']:,} requests, {usage['cached']:,} of them cached"
    if usage.get("prompt_tokens") is not None:
        words += f"; {usage['prompt_tokens']:,} tokens of prompts and {usage['completion_tokens']:,} of completions"
    if usage.get("dollars") is not None:
        words += f", {usage['dollars']:.4f} dollars"
    unread = [f"{usage[key]:,} {key}" for key in ("refused", "unreadable") if usage[key]]
    return f"{words}; verdicts: {' and '.join(unread)} (the metric `invalid`)" if unread else words


def _words(numbers: Mapping[str, Any], *, sign: int = 1, signed: bool = False) -> str:
    value, low, high = (None if numbers[key] is None else sign * numbers[key] for key in ("value", "low", "high"))
    shown = f"{value:+.3f}" if signed else f"{value:.3f}"
    if low is None or high is None:
        return shown
    low, high = sorted((low, high))
    return f"{shown} ({low:.3f} to {high:.3f})"

"""Judges and people: labels that calibrate a judge, and what a run says about its judges: their cost, unreadable
verdicts, biases, and how they compare with people."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from multiform.errors import DataError, UsageError, excerpt, quantity
from multiform.forms import Form, ScoredSample
from multiform.requests import Completion
from multiform.results.values import FormResult, ResultsData
from multiform.scoring.judges import JudgeUsage
from multiform.scoring.scorers.ai_judge import AIJudge
from multiform.statistics.estimates import MIN_LABELS, Estimate, PoweredMean, mean_estimate, powered_mean
from multiform.tasks.datasets.files import read_rows

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
        and (powered := judge_calibration(form.samples, scorer, name=form.name, cluster=form.cluster)) is not None
    }
    measured = {form.name: {name: _self_preference(form, name) for name in kin} for form in forms}
    preferred = {
        form: {name: estimate.numbers() for name, estimate in by_judge.items() if estimate is not None}
        for form, by_judge in measured.items()
        if any(by_judge.values())
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
        # The grades of single turns of a conversation have names that go on after the bracket.
        judges = [name for name in sample.values if name.startswith("judge(") and name.endswith(")")]
        others = [sample.values[name] for name in judges if name != key]
        if key in sample.values and others:
            differences.append(sample.values[key] - fmean(others))
    return mean_estimate(differences) if differences else None


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
    words = f"{quantity(usage['requests'], 'request')}, {usage['cached']:,} of them cached"
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


logger = logging.getLogger("multiform")

#: The key of labels among the values of a sample, and the metric of the calibrated score.
HUMAN, CALIBRATED = "human", "judge_calibrated"
_WHERE = "--judge_labels"


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanLabel:
    """A person's label of the completion of one document; of one form, or of any form of the run.

    `completion` is the text that was labelled: where the model has written another one since, the label is not used.
    """

    doc_id: int
    label: Any
    form: str | None = None
    completion: str | None = None


def read_labels(path: str | Path) -> list[HumanLabel]:
    """Read a file of rows with the columns `doc_id`, `label` and perhaps `form` and `completion`."""
    path = Path(path).expanduser()
    labels = [_label(row, f"{_WHERE}: {path}: row {number}") for number, row in enumerate(read_rows(path), start=1)]
    counts = Counter((label.doc_id, label.form) for label in labels)
    twice = next((doc_id for (doc_id, _), number in counts.items() if number > 1), None)
    if twice is not None:
        hint = "give one for each completion, e.g. what most people say"
        raise DataError(f"doc {twice} has two labels", where=f"{_WHERE}: {path}", hint=hint)
    return labels


def attach_labels(labels: Sequence[HumanLabel], form: Form, samples: Sequence[ScoredSample]) -> list[ScoredSample]:
    """The samples with labels among their values, where a judge has scored them."""
    scorers = {scorer.name: scorer for scorer in form.scoring.scorers if isinstance(scorer, AIJudge)}
    fitting = [label for label in labels if label.form in (None, form.name, form.task_name)]
    # A label of this very form comes before one of the task, and that before one of any form.
    fitting.sort(key=lambda label: (label.form == form.name, label.form is not None))
    by_doc = {label.doc_id: label for label in fitting}
    if not scorers or not by_doc:
        return list(samples)
    if form.config.repeats > 1:
        message = f"a label is of one completion, and '{form.name}' has {form.config.repeats} of each document"
        raise UsageError(message, where=_WHERE, hint="calibrate the judge with repeats: 1")
    labelled, changed = [], 0
    for sample in samples:
        label, scorer = by_doc.get(sample.doc_id), scorers.get(sample.scorer)
        if label is not None and scorer is not None and sample.failure is None:
            if label.completion is None or label.completion.strip() == _completion(sample):
                sample = replace(sample, values={**sample.values, HUMAN: _value(scorer, label)})
            else:
                changed += 1
        labelled.append(sample)
    if changed:
        message = "%s: %d of %d labels are not used, as the model has written another completion since"
        logger.warning(message, form.name, changed, len(by_doc))
    return labelled


def judge_calibration(
    samples: Sequence[ScoredSample], scorer: str, *, name: str, cluster: str | None
) -> PoweredMean | None:
    """The score that people would give, from the labels of some samples; None where too few have one."""
    values = [sample.values for sample in samples if sample.scorer == scorer and "judge" in sample.values]
    labelled = [value for value in values if HUMAN in value]
    if not labelled:
        return None
    if cluster is not None or len(labelled) < MIN_LABELS:
        reason = f"documents are in clusters ({cluster})" if cluster is not None else f"{MIN_LABELS} labels are needed"
        logger.warning("%s: the judge is not calibrated by %d labels: %s", name, len(labelled), reason)
        return None
    return powered_mean(
        [value[HUMAN] for value in labelled],
        [value["judge"] for value in labelled],
        [value["judge"] for value in values if HUMAN not in value],
    )


def _label(row: Mapping[str, Any], where: str) -> HumanLabel:
    doc_id = str(row.get("doc_id"))
    if not doc_id.isdecimal() or row.get("label") in (None, ""):
        raise DataError(
            f"expected doc_id and label, got {excerpt(row)}", where=where, hint='write {"doc_id": 3, "label": 1}'
        )
    texts = {key: str(row[key]) for key in ("form", "completion") if row.get(key) not in (None, "")}
    return HumanLabel(doc_id=int(doc_id), label=row["label"], **texts)


def _value(scorer: AIJudge, label: HumanLabel) -> float:
    value = scorer.reader.label(label.label)
    if value is None:
        hint = "give a number on the judge's scale, or one of its words"
        raise DataError(f"doc {label.doc_id}: cannot read the label {excerpt(label.label)}", where=_WHERE, hint=hint)
    return value


def _completion(sample: ScoredSample) -> str:
    """What the model said in the end: thoughts and earlier replies of a conversation come before it."""
    return next((output.text.strip() for output in reversed(sample.outputs) if isinstance(output, Completion)), "")

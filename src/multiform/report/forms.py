"""The forms in a report: scores, wrong documents, biases, templates and samples of each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from multiform.errors import ConfigError
from multiform.formats.axes import AXIS_WORDS
from multiform.formats.variation import Variation
from multiform.forms import ScoredSample
from multiform.report.sample import Question, flags_of, margin, pick, sample_score, shared_length
from multiform.results.chart_spec import describe_chart
from multiform.results.charts import calibration_panel, position_panel
from multiform.results.compare import (
    calibration_of_form,
    chance_level,
    metric_family,
    position_bias_of_form,
)
from multiform.results.pivot import p_words
from multiform.results.values import FormResult
from multiform.statistics.estimates import ALPHA, Estimate

#: Characters of a document that the list of documents shows.
_HEAD = 110
#: The longest name of a format that charts show whole.
_LONGEST = 24


def short_formats(forms: Iterable[FormResult]) -> dict[str, str]:
    """The short label of each format in charts: its name, or a number where a variation's name is too long."""
    labels = dict.fromkeys(form.format_label or "as written" for form in forms)
    long = [label for label in labels if len(label) > _LONGEST]
    numbers = {label: f"{label.partition('[')[0][:_LONGEST]} [{at}]" for at, label in enumerate(long, start=1)}
    return {label: numbers.get(label, label) for label in labels}


def variation_table(shorts: Mapping[str, str]) -> dict[str, Any]:
    """What each variation changes: the axes that any of them is on, and its value on each; None is the format's own."""
    variations = {}
    for label in shorts:
        with suppress(ConfigError):  # a task may have a format of any name
            variations[label] = Variation.parse(label)
    varied = {label: variation for label, variation in variations.items() if variation.choices}
    used = dict.fromkeys(axis for variation in varied.values() for axis in variation.choices)
    axes = [*(axis for axis in used if axis not in AXIS_WORDS), *(axis for axis in AXIS_WORDS if axis in used)]
    return {
        "axes": [{"name": axis, "words": AXIS_WORDS.get(axis, "an axis of the task")} for axis in axes],
        "rows": [
            {"format": label, "short": shorts[label], "values": [variation.choices.get(axis) for axis in axes]}
            for label, variation in varied.items()
        ],
    }


def form_entry(
    form: FormResult, run: int, asked: Sequence[tuple[ScoredSample, Question]], short: str
) -> dict[str, Any]:
    """A form with the score, the flags and the number of each of its documents.

    `asked` has the samples of one filter with their questions, and `short` is the label of the form's format in charts.
    """
    samples = [sample for sample, _ in asked]
    # What --predict_only writes instead of a score is none.
    estimates = {key: estimate for key, estimate in form.estimates.items() if key.partition(",")[0] != "bypass"}
    metric = form.primary if form.estimates and form.primary in estimates else ""
    name = metric.partition(",")[0]
    scores = [sample_score(sample, name) for sample in samples]
    higher = form.higher_is_better.get(name, True)
    flags = [flags_of(sample, wrong=higher and score == 0) for sample, score in zip(samples, scores, strict=True)]
    family = metric_family(form)
    return {
        **_scores(metric, estimates),
        "run": run,
        "name": form.name,
        "family": family,
        "chance": chance_level(samples) if family == "accuracy" else None,
        "key": f"{run}:{form.name}",
        "task": form.task,
        "format": form.format_label,
        "short": short,
        "n": form.n,
        "shots": form.num_fewshot,
        "higher": higher,
        "identity": form.identity,
        "overridden": list(form.overridden),
        "config": dict(form.config),
        "format_fields": form.format,
        "docs": [sample.doc_id for sample in samples],
        "scores": scores,
        "flags": flags,
        "picks": [pick(sample) for sample in samples],
        "lengths": [question.prompt_length for _, question in asked],
        "margins": [margin(sample) for sample in samples],
        "position": _position(form),
        "calibration": _calibration(form),
    }


def _scores(primary: str, estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    first = estimates.get(primary, Estimate(value=math.nan, n=0))
    others = [
        {"metric": _metric(key), **estimate.numbers("stderr")} for key, estimate in estimates.items() if key != primary
    ]
    return {"metric": _metric(primary), **first.numbers("stderr"), "others": others}


def _metric(key: str) -> str:
    metric, _, scorer = key.partition(",")
    return metric if scorer in ("none", "") else f"{metric} ({scorer})"


def _position(form: FormResult) -> dict[str, Any] | None:
    """How often each position is picked and right, in words and as a chart; None for choices of different numbers."""
    bias = position_bias_of_form(form)
    if bias is None:
        return None
    panel = position_panel(form, bias)
    words = f"no position is shown to be picked more often than it is right ({p_words(bias.p)})"
    if bias.p < ALPHA:
        excess = 100 * bias.positions[bias.preferred].excess.value
        label = panel.rows[bias.preferred]["position"]
        words = f"position {label} is picked {excess:+.1f} points more often than it is right ({p_words(bias.p)})"
    return {"words": words, "chart": describe_chart("position_bias", f"picks of {form.name}", [panel]).to_dict()}


def _calibration(form: FormResult) -> dict[str, Any] | None:
    result = calibration_of_form(form)
    if result is None:
        return None
    error = result.error
    words = f"expected calibration error {error.value:.3f} ({error.interval_text()}), without noise"
    panel = calibration_panel(form, result)
    return {"words": words, "chart": describe_chart("calibration", f"calibration of {form.name}", [panel]).to_dict()}


def question_heads(questions: Sequence[str]) -> list[str]:
    """How each question begins, without what all of them begin with, such as an instruction or "Question: ".

    >>> question_heads(["Question: Why?", "Question: " + "word " * 50])[1][-10:]
    'word word…'
    """
    first, last = min(questions, default=""), max(questions, default="")
    shared = first[: shared_length(first, last)] if first != last else ""
    start = max(shared.rfind("\n") + 1, shared.rfind(": ") + 2 if ": " in shared else 0)
    heads = [" ".join(question[start : start + 4 * _HEAD].split()) for question in questions]
    return [head if len(head) <= _HEAD else f"{head[: _HEAD - 1].rstrip()}…" for head in heads]

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
from multiform.requests import GenerationRequest, LLOutput
from multiform.results.compare import (
    calibration_of,
    chance_level,
    clusters_of,
    metric_family,
    position_bias_of,
    scoring_of,
)
from multiform.results.export import sample_row
from multiform.results.extraction import is_unread
from multiform.results.pivot import p_words
from multiform.results.samples import choices_and_labels
from multiform.results.values import FormResult, GroupResult
from multiform.statistics.estimates import ALPHA, Estimate
from multiform.statistics.predictions import PositionBias

#: What can be said of a sample, as bits of a number.
WRONG, UNREADABLE, TRUNCATED, FAILED, PROMPT_TRUNCATED = 1, 2, 4, 8, 16
#: Characters of a document that the list of documents shows.
_HEAD = 110
#: Characters of an answer in the matrix of samples.
_PICK = 16
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


def form_entry(form: FormResult, run: int, samples: Sequence[ScoredSample], short: str) -> dict[str, Any]:
    """A form with the score, the flags and the number of each of its documents.

    `samples` are those of one filter, and `short` is the label of the form's format in charts.
    """
    # What --predict_only writes instead of a score is none.
    estimates = {key: estimate for key, estimate in form.estimates.items() if key.partition(",")[0] != "bypass"}
    metric = form.primary if form.estimates and form.primary in estimates else ""
    name = metric.partition(",")[0]
    scores = [sample_score(sample, name) for sample in samples]
    higher = form.higher_is_better.get(name, True)
    flags = [_flags(sample, wrong=higher and score == 0) for sample, score in zip(samples, scores, strict=True)]
    family = metric_family(form)
    return {
        **_scores(metric, estimates),
        "run": run,
        "name": form.name,
        "family": family,
        "scoring": scoring_of(form) if form.estimates else "ranked",
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
        "unreadable": sum(bool(flag & UNREADABLE) for flag in flags),
        "position": _position(samples, clusters_of(form, samples)),
        "calibration": _calibration(samples, clusters_of(form, samples)),
    }


def group_entry(group: GroupResult, run: int) -> dict[str, Any]:
    """A group with its scores."""
    metric = next(iter(group.estimates))
    return {
        **_scores(metric, group.estimates),
        "run": run,
        "name": group.name,
        "path": group.path,
        "depth": group.depth,
        "n": group.n,
    }


def primary_samples(form: FormResult) -> list[ScoredSample]:
    """The samples under the filter of the form's first metric, or under the first filter there is."""
    scorers = list(dict.fromkeys(sample.scorer for sample in form.samples))
    named = form.primary.partition(",")[2] if form.estimates else ""
    chosen = named if named in scorers else scorers[0] if scorers else ""
    return [sample for sample in form.samples if sample.scorer == chosen]


def sample_score(sample: ScoredSample, metric: str) -> float | None:
    """The value of a metric for one document, where it is a number."""
    value = sample.values.get(metric)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def pick(sample: ScoredSample) -> str:
    """The answer of a sample in a few characters: the label of the picked choice or its text, or what was extracted."""
    if sample.failure is not None or sample.prediction is None:
        return ""
    texts, labels = choices_and_labels(sample.sample)
    prediction = sample.prediction
    ranked = any(isinstance(output, LLOutput) for output in sample.outputs)
    if ranked and isinstance(prediction, int) and prediction < max(len(texts), len(labels)):
        prediction = labels[prediction] if prediction < len(labels) else texts[prediction]
    elif ranked:
        return ""
    while isinstance(prediction, list | tuple) and prediction:
        prediction = prediction[0]
    words = " ".join(str(prediction)[: 4 * _PICK].split())
    return words if len(words) <= _PICK else f"{words[: _PICK - 1]}…"


def _flags(sample: ScoredSample, *, wrong: bool) -> int:
    written = any(not isinstance(output, LLOutput) for output in sample.outputs)
    return (
        WRONG * wrong
        | UNREADABLE * (written and (sample.prediction is None or (wrong and is_unread(sample))))
        | FAILED * (sample.failure is not None)
        | TRUNCATED * any(getattr(output, "truncated", False) for output in sample.outputs)
        | PROMPT_TRUNCATED * any(getattr(output, "context_truncated", False) for output in sample.outputs)
    )


def _scores(primary: str, estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    entries = [{"metric": _metric(key), **_numbers(estimate)} for key, estimate in estimates.items() if key != primary]
    first = estimates.get(primary, Estimate(value=math.nan, n=0))
    return {"metric": _metric(primary), **_numbers(first), "others": entries}


def _numbers(estimate: Estimate) -> dict[str, float | None]:
    numbers = {name: getattr(estimate, name) for name in ("value", "stderr", "low", "high")}
    return {name: value if value is not None and math.isfinite(value) else None for name, value in numbers.items()}


def _metric(key: str) -> str:
    metric, _, scorer = key.partition(",")
    return metric if scorer in ("none", "") else f"{metric} ({scorer})"


def _position(samples: Sequence[ScoredSample], clusters: Sequence[str] | None) -> dict[str, Any] | None:
    if len({len(sample.sample.texts or sample.sample.choices) for sample in samples}) != 1:
        return None
    bias = position_bias_of(samples, clusters)
    if bias is None:
        return None
    labels = choices_and_labels(samples[0].sample)[1] or [str(index + 1) for index in range(len(bias.positions))]
    return {
        "picked": [position.picked.value for position in bias.positions],
        "gold": [position.gold.value for position in bias.positions],
        "labels": labels[: len(bias.positions)],
        "words": _position_words(bias, labels),
    }


def _position_words(bias: PositionBias, labels: Sequence[str]) -> str:
    if bias.p >= ALPHA:
        return f"no position is shown to be picked more often than it is right ({p_words(bias.p)})"
    excess = 100 * bias.positions[bias.preferred].excess.value
    return (
        f"position {labels[bias.preferred]} is picked {excess:+.1f} points more often than it is right "
        f"({p_words(bias.p)})"
    )


def _calibration(samples: Sequence[ScoredSample], clusters: Sequence[str] | None) -> dict[str, Any] | None:
    result = calibration_of(samples, clusters)
    if result is None:
        return None
    error = result.error
    return {
        "bins": [{"n": part.n, "confidence": part.confidence, "accuracy": part.accuracy} for part in result.bins],
        "words": f"expected calibration error {error.value:.3f} ({error.low:.3f} to {error.high:.3f}), without noise",
    }


def sample_entry(sample: ScoredSample, question_start: int) -> dict[str, Any]:
    """A sample as the page shows it; the question begins at `question_start` of its prompt."""
    row = sample_row(sample)
    names = ("prompt", "choices", "labels", "loglikelihoods", "gold", "picked", "raw", "extracted")
    steps = [
        {"step": step.name, "text": _step_text(step.value)} for step in sample.steps[1:]
    ]  # the first is the completion
    steps += [{"step": name, "text": value} for name, value in sample.values.items() if isinstance(value, str)]
    contexts = [item.request.context for item in sample.instances if isinstance(item.request, GenerationRequest)]
    if len(contexts) == len(sample.outputs) > 0:  # the last prompt of a conversation has all that was said before
        row["prompt"] = contexts[-1]
    return {
        **{name: row[name] for name in names},
        "target": None if sample.target is None else str(sample.target),
        "scores": {name: value for name, value in sample.values.items() if not isinstance(value, str)},
        "question_start": question_start,
        **({"steps": steps} if steps else {}),
    }


def _step_text(value: Any) -> str:
    """What a step left, as text: of one completion that alone."""
    if isinstance(value, list | tuple) and len(value) == 1:
        return _step_text(value[0])
    return "nothing" if value is None else str(value)


def question_heads(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """How each question begins, without the lines that all of them begin with, such as an instruction."""
    questions = [row["prompt"][row["question_start"] :] for row in rows]
    first, last = min(questions, default=""), max(questions, default="")
    start = first.rfind("\n", 0, _shared_length(first, last)) + 1 if first != last else 0
    return [" ".join(question[start : start + 4 * _HEAD].split())[:_HEAD] for question in questions]


def question_starts(form: FormResult, samples: Sequence[ScoredSample]) -> list[int]:
    """Where the question begins in each prompt, after the description and the few-shot examples; 0 where unknown.

    The task's delimiter says it where it stands between the examples alone. Elsewhere, as in chats, it is what the
    prompts before and after have in common, up to a line's end.
    """
    prompts = [sample.sample.prompt for sample in samples]
    shots = form.num_fewshot if isinstance(form.num_fewshot, int) else 0
    delimiter = str(form.config.get("fewshot_delimiter") or "\n\n")
    description = str(form.config.get("description") or "")
    return [_question_start(prompts, position, shots, delimiter, description) for position in range(len(prompts))]


def _question_start(prompts: Sequence[str], position: int, shots: int, delimiter: str, description: str) -> int:
    prompt = prompts[position]
    skipped = len(description) if description and prompt.startswith(description) else 0
    if not shots:
        return skipped
    if prompt.count(delimiter, skipped) == shots:
        return prompt.rfind(delimiter) + len(delimiter)
    neighbours = [prompts[near] for near in (position - 1, position + 1) if 0 <= near < len(prompts)]
    return prompt.rfind("\n", 0, max((_shared_length(prompt, neighbour) for neighbour in neighbours), default=0)) + 1


def _shared_length(text: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    return next((n for n, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))

"""One sample as the page shows it: its prompt, answer and verdict, and what the matrix of samples says of it."""

from __future__ import annotations

import math
from typing import Any

from multiform.forms import ScoredSample
from multiform.report.turns import chat_turns, shown_prompt
from multiform.requests import Completion, LLOutput
from multiform.results.export import sample_row
from multiform.results.extraction import is_unread
from multiform.results.samples import choices_and_labels
from multiform.results.sidecars import media_of
from multiform.results.values import FormResult

#: What can be said of a sample, as bits of a number.
WRONG, UNREADABLE, TRUNCATED, FAILED, PROMPT_TRUNCATED = 1, 2, 4, 8, 16
#: Characters of an answer in the matrix of samples.
_PICK = 16


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


def flags_of(sample: ScoredSample, *, wrong: bool) -> int:
    """What can be said of a sample, as bits."""
    written = any(not isinstance(output, LLOutput) for output in sample.outputs)
    return (
        WRONG * wrong
        | UNREADABLE * (written and (sample.prediction is None or (wrong and is_unread(sample))))
        | FAILED * (sample.failure is not None)
        | TRUNCATED * any(getattr(output, "truncated", False) for output in sample.outputs)
        | PROMPT_TRUNCATED * any(getattr(output, "context_truncated", False) for output in sample.outputs)
    )


def margin(sample: ScoredSample) -> float | None:
    """By how much the best log-likelihood of a choice exceeds the second best; None for other samples."""
    ranked = sample.outputs[: len(sample.sample.choices)]
    likelihoods = sorted(output.loglikelihood for output in ranked if isinstance(output, LLOutput))
    if len(likelihoods) < 2 or not math.isfinite(likelihoods[-2]):
        return None
    return round(likelihoods[-1] - likelihoods[-2], 4)


def sample_entry(sample: ScoredSample, question_start: int) -> dict[str, Any]:
    """A sample in full; the question begins at `question_start` of its prompt. What it does not have is left out."""
    row = {**sample_row(sample), "prompt": shown_prompt(sample)}
    names = ("prompt", "choices", "labels", "loglikelihoods", "gold", "picked", "raw", "extracted")
    completions = [output for output in sample.outputs if isinstance(output, Completion)]
    tokens = [output.tokens for output in sample.outputs if isinstance(output, LLOutput)]
    thoughts = [completion.thought for completion in completions]
    costs = [_cost_words(completion) for completion in completions]
    added = {
        "turns": [{"role": turn.role, "content": turn.content} for turn in chat_turns(row["prompt"])],
        "media": [medium.summary() for medium in media_of(sample)],
        "tokens": tokens if any(tokens) else None,
        "thoughts": thoughts if any(thoughts) else None,
        "costs": costs if any(costs) else None,
        "failure": sample.failure,
        "endings": sorted(sample.endings),
        # The first step is the completion; what judges wrote is the last.
        "steps": [
            *({"step": step.name, "text": _step_text(step.value)} for step in sample.steps[1:]),
            *({"step": name, "text": value} for name, value in sample.values.items() if isinstance(value, str)),
        ],
    }
    return {
        **{name: row[name] for name in names},
        "target": None if sample.target is None else str(sample.target),
        "scores": {name: value for name, value in sample.values.items() if not isinstance(value, str)},
        "question_start": question_start,
        **{name: value for name, value in added.items() if value},
    }


def _cost_words(completion: Completion) -> str:
    """How many tokens were generated and how long that took, as far as it is known."""
    tokens = "" if completion.tokens is None else f"{completion.tokens:,} token{'' if completion.tokens == 1 else 's'}"
    seconds = "" if completion.seconds is None else f"{completion.seconds:.2f} s"
    return " in ".join(filter(None, (tokens, seconds)))


def _step_text(value: Any) -> str:
    """What a step left, as text: of one completion that alone."""
    if isinstance(value, list | tuple) and len(value) == 1:
        return _step_text(value[0])
    return "nothing" if value is None else str(value)

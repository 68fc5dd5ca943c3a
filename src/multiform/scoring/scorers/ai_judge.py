"""The scorer `ai_judge`: another model grades the completions of all documents in one batch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from multiform.arguments import parse_arguments
from multiform.errors import ConfigError, DataError, MultiformError, shorten
from multiform.fields import Doc, Field, FieldSpec
from multiform.prompts.template import compile_template, render
from multiform.requests import GenerationRequest
from multiform.scoring.metrics import register_metric
from multiform.scoring.outcome import Outcome, TextOutcome
from multiform.scoring.scorers.base import Scorer, compiled, register_scorer
from multiform.scoring.scorers.judge_model import JudgeSpec, ask, check_wish, choose_judge
from multiform.tasks.keys import generation_overrides

#: "Verdict: CORRECT", "**Score:** 7", "Score: 7/10"; the verdict is the first group that matched.
DEFAULT_PATTERN = (
    r"(?i)(?:verdict|score|grade)[\s*_`\"]*(?:is|:|=)[\s*_`\"(\[]*"
    r"(correct|incorrect|-?\d+(?:\.\d+)?(?:\s*/\s*\d+(?:\.\d+)?)?)(?!\w)"
)
VERDICTS: Mapping[str, float] = {
    "correct": 1.0,
    "incorrect": 0.0,
    "right": 1.0,
    "wrong": 0.0,
    "yes": 1.0,
    "no": 0.0,
    "true": 1.0,
    "false": 0.0,
    "pass": 1.0,
    "fail": 0.0,
}
_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)(?:\s*/\s*(\d+(?:\.\d+)?))?")


@dataclass(frozen=True, slots=True)
class Scale:
    """The lowest and the highest score of a judge; 0 and 1 by default."""

    low: float = 0
    high: float = 1

    @classmethod
    def of(cls, spec: Any) -> Scale:
        """The scale of a number, which is the highest score, or of a pair of numbers.

        >>> Scale.of(10), Scale.of([1, 5]), Scale.of(None)
        (Scale(low=0, high=10), Scale(low=1, high=5), Scale(low=0, high=1))
        """
        if spec is None:
            return cls()
        ends = [0, spec] if not isinstance(spec, list | tuple) else spec
        numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends)
        if len(ends) == 2 and numbers and ends[0] < ends[1]:
            return cls(*ends)
        message = f"expected the best score or [worst, best], got {shorten(spec)}"
        raise ConfigError(message, where="scorer.kwargs.scale", hint="write scale: 10, or scale: [1, 5]")

    def share(self, score: float) -> float | None:
        """The score as a number from 0 to 1; None where it is not on the scale."""
        return (score - self.low) / (self.high - self.low) if self.low <= score <= self.high else None


def words(spec: Any) -> dict[str, float]:
    """The words of `verdicts:` in lower case, with their values from 0 to 1."""
    if isinstance(spec, Mapping) and all(isinstance(v, int | float) and 0 <= v <= 1 for v in spec.values()):
        return {str(word).casefold(): float(value) for word, value in spec.items()}
    message = f"expected words with their values from 0 to 1, got {shorten(spec)}"
    raise ConfigError(message, where="scorer.kwargs.verdicts", hint="write verdicts: {good: 1, fair: 0.5, poor: 0}")


def read_verdict(text: str, pattern: re.Pattern[str], worth: Mapping[str, float], scale: Scale) -> float | None:
    """The last verdict of a text as a number from 0 to 1, or None where it has none.

    >>> default = re.compile(DEFAULT_PATTERN)
    >>> read_verdict("Verdict: CORRECT? No.\\nVerdict: INCORRECT", default, VERDICTS, Scale())
    0.0
    >>> read_verdict("**Score:** 4", default, VERDICTS, Scale(1, 5)), read_verdict("Score: 8/10", default, {}, Scale())
    (0.75, 0.8)
    >>> read_verdict("It depends.", default, VERDICTS, Scale()) is None
    True
    """
    matches = list(pattern.finditer(text))
    if not matches:
        return None
    last = matches[-1]
    verdict = next((group for group in last.groups() if group), last[0]).strip()
    if verdict.casefold() in worth:
        return worth[verdict.casefold()]
    number = _NUMBER.fullmatch(verdict)
    if number is None:
        return None
    if number[2] and float(number[2]) not in (0, scale.high):
        return Scale(0, float(number[2])).share(float(number[1]))  # "8/10" brings its own scale along
    return scale.share(float(number[1]))


_TASK = """\
You are grading an answer to a question. Compare the answer with the reference: it is right if it says the same, \
however it is worded, and wrong if it contradicts the reference, is incomplete or gives several answers.

[Question]
{{ question }}

[Reference]
{{ references | join("\\nor: ") }}

[Answer]
{{ prediction }}

"""
RUBRIC = _TASK + 'Reason briefly, then end with one line: "Verdict: CORRECT" or "Verdict: INCORRECT".'
SCALED_RUBRIC = _TASK + (
    "Reason briefly, then end with one line that grades the answer from {{ scale.low }} (wrong) "
    'to {{ scale.high }} (right): "Score: N".'
)
#: Common columns of the question, for a scorer whose `question` is not set.
_QUESTIONS = ("question", "problem", "query", "prompt", "input", "instruction", "text")


@register_metric("judge", output_type="generate_until", reduction="mean")
def judge(outcome: Outcome) -> float:
    """The grade that another model gives the completion, from 0 to 1; computed by the scorer `ai_judge`."""
    raise ConfigError("metric 'judge' comes from another model", hint="write scorer: {type: ai_judge, kwargs: ...}")


@register_scorer("ai_judge")
@dataclass(kw_only=True, eq=False)
class AIJudge(Scorer):
    """Another model's verdict on the completion.

    `judge_model` is a registered model, a model of a known provider, or one of the server that the user names. Where
    it is and how it is loaded is up to the user: a task's `model_args` and `base_url` only say what it would like, and
    are refused unless the user chooses a judge (`--judge_model`, `--judge_args`).

    `rubric` is a Jinja template of the judge's prompt, with the variables `question`, `prompt`, `prediction`,
    `reference`, `references`, `choices`, `doc` and `scale`. `question` is the field of the document with the question;
    by default a column with a usual name. The last match of `verdict_pattern` in the judge's response is a number on
    the `scale` or a word of `verdicts`. The response is part of the values as `judge_text`.
    """

    default_metric_cfg: ClassVar[Sequence[str]] = ("judge", "invalid", "truncated")
    deferred: ClassVar[bool] = True

    judge_model: str | None = None
    model_args: str | Mapping[str, Any] | None = None
    base_url: str | None = None
    rubric: str | None = None
    question: FieldSpec = None
    verdict_pattern: str = DEFAULT_PATTERN
    verdicts: Mapping[str, float] | None = None
    scale: Any = None
    gen_kwargs: str | Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        self._wish = parse_arguments(self.model_args, where="scorer.kwargs.model_args")
        if self.base_url is not None:
            self._wish["base_url"] = self.base_url
        check_wish(self._wish)
        self._scale = Scale.of(self.scale)
        self._pattern = compiled(self.verdict_pattern, "verdict_pattern")
        self._words = words(VERDICTS if self.verdicts is None else self.verdicts)
        try:
            gen_kwargs = parse_arguments(self.gen_kwargs, where="gen_kwargs")
            self._options = {"max_gen_toks": 512, "temperature": 0.0, "do_sample": False, "until": []}
            self._options |= generation_overrides(gen_kwargs)
            self._rubric = compile_template(self.rubric or (RUBRIC if self.scale is None else SCALED_RUBRIC))
            self._question = None if self.question is None else Field.of(self.question)
        except MultiformError as error:
            raise error.at("scorer.kwargs") from error

    @property
    def judge(self) -> JudgeSpec:
        """The model that judges in this run; a ConfigError where the task asks for what only the user may choose."""
        return choose_judge(self.judge_model, self._wish)

    def score_instances(self, outcomes: Sequence[Sequence[Outcome]], docs: Sequence[Doc]) -> list[dict[str, Any]]:
        requests_by_doc = [
            [self._request(outcome, doc, index) for outcome in repeats]
            for index, (repeats, doc) in enumerate(zip(outcomes, docs, strict=True))
        ]
        responses = ask(self.judge, [request for requests in requests_by_doc for request in requests])
        return [
            self._values(repeats, [responses[request] for request in requests])
            for repeats, requests in zip(outcomes, requests_by_doc, strict=True)
        ]

    def judge_prompt(self, outcome: TextOutcome, doc: Doc) -> str:
        """The judge's prompt for one completion."""
        prompt = getattr(outcome, "prompt", "")
        question = self._question.read(doc) if self._question is not None else _question(doc) or prompt or dict(doc)
        names: dict[str, Any] = {
            "question": question,
            "prompt": prompt or question,
            "prediction": "" if outcome.prediction is None else outcome.prediction,
            "reference": outcome.references[0] if outcome.references else "",
            "references": list(outcome.references),
            "choices": list(outcome.choices),
            "doc": doc,
            "scale": asdict(self._scale),
        }
        return str(render(self._rubric, names))

    def _request(self, outcome: Outcome, doc: Doc, index: int) -> GenerationRequest:
        if not isinstance(outcome, TextOutcome):
            message = "ai_judge scores generated completions"
            raise ConfigError(message, where="scorer", hint="remove it, or set output_type: generate_until")
        try:
            prompt = self.judge_prompt(outcome, doc)
        except DataError as error:
            raise error.at(f"scorer.kwargs.rubric: document {index} of those scored") from error
        return GenerationRequest.of(prompt, self._options)

    def _values(self, outcomes: Sequence[Outcome], texts: Sequence[str]) -> dict[str, Any]:
        other_metrics = [metric for metric in self.metrics if metric.name not in ("judge", "invalid")]
        scored = []
        for outcome, text in zip(outcomes, texts, strict=True):
            value = read_verdict(text, self._pattern, self._words, self._scale)
            judged = {"judge": 0.0 if value is None else value, "invalid": float(value is None)}
            scored.append({**judged, **{metric.name: metric(outcome) for metric in other_metrics}})
        judge_texts = {"judge_text" if not i else f"judge_text_{i}": text for i, text in enumerate(texts)}
        return {**self.reduced(scored), **judge_texts}


def _question(doc: Doc) -> str | None:
    """The value of the first column with a usual name of a question."""
    return next((doc[name] for name in _QUESTIONS if isinstance(doc.get(name), str)), None)

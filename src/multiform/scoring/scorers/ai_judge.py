"""The scorer `ai_judge`: another model grades the completions of all documents in one batch.

The judge is chosen by the user, or by the name that a task asks for. A task file may be a stranger's. It never chooses
where requests and keys are sent, which variable of the environment is a key, or whose code is run: it may name a model,
and the rest comes from the user (`--judge_model`, `--judge_args`) or is that of the model's provider.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

from multiform.arguments import parse_arguments
from multiform.errors import ConfigError, DataError, ModelError, MultiformError, UsageError, nearest, reason, shorten
from multiform.fields import Doc, Field, FieldSpec
from multiform.models import Model, models
from multiform.prompts.prompt import Content
from multiform.prompts.template import compile_template, render
from multiform.requests import FailedRequest, GenerationRequest
from multiform.scoring.metrics import register_metric
from multiform.scoring.outcome import Outcome, TextOutcome
from multiform.scoring.scorers.base import Scorer, as_completion, compile_pattern, register_scorer
from multiform.tasks.keys import generation_overrides

logger = logging.getLogger("multiform")

#: Seconds between two lines that say how far the judge is.
_PAUSE = 5.0
#: The registered model that asks a server, for a name that is not registered.
SERVED = "openai-chat"
#: The registered models that ask the provider of a model, by the names that it gives its models.
_PROVIDERS = {
    "anthropic": re.compile(r"claude-[\w.:-]+"),
    "openai-chat": re.compile(r"(?:gpt-|chatgpt-|o\d)[\w.:-]*"),
    "gemini": re.compile(r"gemini-[\w.:-]+"),
}
#: Arguments that must not get into results files; nor may headers, any of which can be a key.
_SECRETS = ("api_key", "auth_token", "headers", "header")
_WHERE = "scorer.kwargs"


@dataclass(frozen=True, slots=True)
class JudgeSpec:
    """A registered model and its arguments, as JSON."""

    model: str
    arguments: str = field(default="{}", repr=False)

    @classmethod
    def of(cls, model: str, arguments: Mapping[str, Any]) -> JudgeSpec:
        """The specification of a registered model with these arguments."""
        return cls(model, json.dumps(dict(arguments), sort_keys=True, default=str))


@dataclass(frozen=True, slots=True)
class JudgeChoice:
    """The judge that the user chose: a model, its arguments, or both."""

    model: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, model: str | None, arguments: str | Mapping[str, Any] | None) -> JudgeChoice:
        """The choice of `--judge_model` and `--judge_args`."""
        return cls(model, parse_arguments(arguments, where="--judge_args"))

    def __bool__(self) -> bool:
        return self.model is not None or bool(self.arguments)

    def to_dict(self) -> dict[str, Any]:
        """The choice as results have it: without keys, and without what an address may hold beside the server."""
        hidden = {key: "***" for key in self.arguments if key.lower() in _SECRETS}
        address = re.sub(r"//[^/]*@|[?#].*", lambda match: "//" if match[0][0] == "/" else "", str(self.base_url))
        shown = {"base_url": address} if self.base_url else {}
        chosen = {"judge_model": self.model, "judge_args": {**self.arguments, **shown, **hidden}}
        return {name: value for name, value in chosen.items() if value}

    @property
    def base_url(self) -> Any:
        return self.arguments.get("base_url")


_choice: ContextVar[JudgeChoice] = ContextVar("judge", default=JudgeChoice())  # noqa: B039  (it is immutable)


@contextmanager
def judging_by(choice: JudgeChoice) -> Iterator[None]:
    """Have the judge that the user chose score what tasks give to a judge."""
    token = _choice.set(choice)
    try:
        yield
    finally:
        _choice.reset(token)


def check_wish(arguments: Mapping[str, Any]) -> None:
    """Refuse secrets among what a task asks for: its configuration is part of the results file."""
    for key in (*arguments, *(f"the header {name}" for name in arguments.get("headers") or ())):
        if key.lower() in ("api_key", "auth_token") or key.startswith("the header "):
            message = f"{key} would be written into the results"
            raise ConfigError(message, where=f"{_WHERE}.model_args", hint="give it in --judge_args")
    if re.search(r"//[^/]*@|\?", str(arguments.get("base_url") or "")):
        message = "the user, password or parameters of base_url would be written into the results"
        raise ConfigError(message, where=f"{_WHERE}.base_url", hint="give it in --judge_args")


def choose_judge(name: str | None, arguments: Mapping[str, Any]) -> JudgeSpec:
    """The model that judges, where a task asks for this one with these arguments; it is not loaded.

    The arguments of a task are not used: the user may repeat them.
    """
    choice = _choice.get()
    if arguments and not choice:
        listed = ", ".join(sorted(arguments))
        message = f"the task says where its judge is or how it is loaded ({listed}), which is up to the user"
        hint = "look at it; if you agree, give the same in --judge_model and --judge_args, or in evaluate()"
        raise ConfigError(message, where=_WHERE, hint=hint)
    if arguments:
        logger.info("the judge is that of --judge_model and --judge_args, not that of the task")
    keys = [key for key in choice.arguments if key.lower() in (*_SECRETS, "api_key_env")]
    if keys and not (choice.model or choice.base_url):
        message = f"{keys[0]} is a key for a judge that the task names, which would choose where the key is sent"
        raise ConfigError(message, where="--judge_args", hint="name the judge, too: --judge_model, or base_url=...")
    name = choice.model or name
    if not name:
        raise ConfigError("no judge is named", where=f"{_WHERE}.judge_model", hint="name one here or in --judge_model")
    if name in models:
        return JudgeSpec.of(name, choice.arguments)
    provider = next((model for model, names in _PROVIDERS.items() if names.fullmatch(name)), None)
    if provider is None and not choice.base_url and not os.environ.get("OPENAI_BASE_URL"):
        hint = f"{nearest(name, models, listed='models')}, or give the server that runs it: --judge_args base_url=..."
        where = "--judge_model" if choice.model else f"{_WHERE}.judge_model"
        raise ConfigError(f"unknown model '{name}'", where=where, hint=hint)
    return JudgeSpec.of(SERVED if choice.base_url else provider or SERVED, {**choice.arguments, "model": name})


def ask(spec: JudgeSpec, requests: Sequence[GenerationRequest]) -> dict[GenerationRequest, str]:
    """The judge's response to each request; equal requests are sent once."""
    distinct = list(dict.fromkeys(requests))
    if not distinct:
        return {}
    judge = _load_judge(spec)
    sent = [
        GenerationRequest.of(_chat(judge, request.context), request.gen_kwargs, request.sample) for request in distinct
    ]
    responses: dict[GenerationRequest, str] = {}
    started = logged = time.monotonic()
    logger.info("the judge '%s' runs %d requests", judge.name, len(sent))
    try:
        for position, completion in judge.generate(sent):
            if isinstance(completion, FailedRequest):
                raise ModelError(f"a request failed: {completion.reason}")
            responses[distinct[position]] = completion.text
            now = time.monotonic()
            if now - logged >= _PAUSE or len(responses) == len(sent):
                logged, spent = now, now - started
                seconds_left = spent / len(responses) * (len(sent) - len(responses))
                logger.info(
                    "judged %d of %d, %.0f s, about %.0f s left", len(responses), len(sent), spent, seconds_left
                )
    except MultiformError as error:
        raise error.at("judge") from error
    except Exception as error:  # a model may fail in any way
        message = f"model '{judge.name}' failed: {reason(error)}"
        raise ModelError(message, where="judge") from error
    if len(responses) < len(distinct):
        message = (
            f"model '{judge.name}' left {len(distinct) - len(responses)} of {len(distinct)} requests without a response"
        )
        raise ModelError(message, where="judge")
    return responses


@lru_cache(maxsize=1)  # several forms of a run have the same judge
def _load_judge(spec: JudgeSpec) -> Model:
    arguments = json.loads(spec.arguments)
    try:
        judge = models.get(spec.model)(**arguments)
    except ImportError as error:
        message = f"model '{spec.model}' needs a package that is not installed: {error}"
        raise UsageError(message, where=f"{_WHERE}.judge_model", hint="pip install 'multiform[hf]'") from error
    except TypeError as error:
        raise UsageError(reason(error), where="--judge_args", hint=f"see what model '{spec.model}' takes") from error
    except MultiformError as error:
        raise error.at("judge") from error
    from multiform.models.servers.server_model import ServerModel  # which needs httpx

    if isinstance(judge, ServerModel):
        key = "--judge_args" if arguments.get("api_key") else f"${arguments.get('api_key_env', judge.key_env)}"
        logger.info("the judge '%s' is asked at %s, with the key of %s", judge.name, judge.client.shown, key)
    return judge


def _chat(judge: Model, text: str) -> Content:
    """The text as a user's message in the model's chat template, if it has one."""
    try:
        return judge.apply_chat_template([{"role": "user", "content": text}])
    except ModelError:  # a model without a chat template reads plain text
        return text


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
        self._pattern = compile_pattern(self.verdict_pattern, "verdict_pattern")
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
        question = self._question.value(doc) if self._question is not None else _question(doc) or prompt or dict(doc)
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
        completion = as_completion(outcome, "ai_judge")
        try:
            prompt = self.judge_prompt(completion, doc)
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
        return {**self.reduce(scored), **judge_texts}


def _question(doc: Doc) -> str | None:
    """The value of the first column with a usual name of a question."""
    return next((doc[name] for name in _QUESTIONS if isinstance(doc.get(name), str)), None)

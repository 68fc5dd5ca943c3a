"""The scorer `ai_judge`: other models grade the completions of all documents, or compare them with other answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any, ClassVar

from multiform.arguments import parse_arguments
from multiform.errors import ConfigError, DataError, MultiformError, locating
from multiform.fields import Doc, Field, FieldSpec
from multiform.prompts.template import compile_template, render
from multiform.requests import GenerationRequest, generation_overrides
from multiform.scoring.judges import WHERE, JudgeSpec, current_judging, judge_names
from multiform.scoring.metrics import Metric, metrics, value_metric
from multiform.scoring.outcome import Outcome, TextOutcome
from multiform.scoring.scorers.base import Scorer, as_completion, register_own_metric, register_scorer
from multiform.scoring.scorers.verdicts import Verdict, VerdictReader

#: Common columns of the question, for a scorer whose `question` is not set.
_QUESTIONS = ("question", "problem", "query", "prompt", "input", "instruction", "text")

for _name, _about in (
    ("judge", "The grade that another model gives the completion, from 0 to 1"),
    ("inconsistent", "How often a judge prefers another one of two answers when their order is swapped"),
):
    _hint, _is_better = "write scorer: {type: ai_judge, kwargs: ...}", _name == "judge"
    register_own_metric(_name, _about, scorer="ai_judge", hint=_hint, reduction="mean", higher_is_better=_is_better)


@register_scorer("ai_judge")
@dataclass(kw_only=True, eq=False)
class AIJudge(Scorer):
    """The verdict of another model, or of several, on the completion.

    `judge_model` is a registered model, a model of a known provider, or one of the server that the user names; or a
    list of these, whose grades are averaged. Where it is and how it is loaded is up to the user (`--judge_model`,
    `--judge_args`): a task's `model_args` and `base_url` are refused.

    `rubric` is a Jinja template of the judge's prompt, with the variables that `verdicts` lists. `question` is the
    field with the question; by default a column with a usual name, or the conversation. The last match of
    `verdict_pattern` in the judge's response is a number on the `scale` or a word of `verdicts`; with `structured`, the
    judge writes JSON, and its key `verdict` counts. The response is part of the values as `judge_text`.

    `baseline` is a field with another answer, which the completion is compared with. The judge sees both in both orders
    (`first` and `second`), and says which is better; `judge` is how often the completion wins, with ties as a half.
    """

    default_metric_cfg: ClassVar[Sequence[str]] = ("judge", "invalid", "truncated")
    own_metrics: ClassVar[Sequence[str]] = ("judge", "invalid")

    judge_model: str | Sequence[str] | None = None
    model_args: str | Mapping[str, Any] | None = None
    base_url: str | None = None
    rubric: str | None = None
    question: FieldSpec = None
    baseline: FieldSpec = None
    verdict_pattern: str | None = None
    verdicts: Mapping[str, float] | None = None
    scale: Any = None
    structured: bool = False
    gen_kwargs: str | Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        for key, value in {"model_args": self.model_args, "base_url": self.base_url}.items():
            if value is not None:
                message = f"the task says where its judge is or how it is loaded ({key}), which is up to the user"
                hint = "remove it; if you agree with it, give the same in --judge_model and --judge_args"
                raise ConfigError(message, where=f"scorer.kwargs.{key}", hint=hint)
        self._names = judge_names(self.judge_model, WHERE)
        pairs, structured = self.baseline is not None, bool(self.structured)
        self.reader = VerdictReader(
            verdicts=self.verdicts, scale=self.scale, pattern=self.verdict_pattern, pairs=pairs, structured=structured
        )
        #: Words whose shares are reported, as they say more than the score: "not attempted" and "incorrect" are both 0.
        shown = self.verdicts is not None and not pairs and len(self.reader.words) > 2
        self._shown_words = tuple(self.reader.words) if shown else ()
        try:
            gen_kwargs = parse_arguments(self.gen_kwargs, where="gen_kwargs")
            self._options = {"max_gen_toks": 512, "temperature": 0.0, "do_sample": False, "until": []}
            self._options |= generation_overrides(gen_kwargs)
            self._rubric = compile_template(self.reader.rubric(self.rubric))
            self._question = None if self.question is None else Field.of(self.question)
            self._baseline = None if self.baseline is None else Field.of(self.baseline)
        except MultiformError as error:
            raise error.at("scorer.kwargs") from error

    @property
    def judges(self) -> list[JudgeSpec]:
        """The models that judge in this run; a ConfigError where the task asks for what only the user may choose."""
        return current_judging().choice.judges(self._names)

    def score_instances(self, outcomes: Sequence[Sequence[Outcome]], docs: Sequence[Doc]) -> list[dict[str, Any]]:
        requests = [
            [self._requests(outcome, doc, index) for outcome in repeats]
            for index, (repeats, doc) in enumerate(zip(outcomes, docs, strict=True))
        ]
        every = [request for repeats in requests for orders in repeats for request in orders]
        verdicts = {spec.name: self._ask(spec, every) for spec in self.judges}
        return [self._values(*document, verdicts) for document in zip(outcomes, requests, strict=True)]

    def _ask(self, spec: JudgeSpec, requests: Sequence[GenerationRequest]) -> dict[GenerationRequest, Verdict]:
        """The verdicts of a judge."""
        judging = current_judging()
        responses = judging.ask(spec, requests, self.reader.schema)
        verdicts = {request: self.reader.verdict(completion) for request, completion in responses.items()}
        if verdicts:
            usage, unread = judging.usage[spec.name], [each for each in verdicts.values() if each.value is None]
            usage.refused += sum(verdict.is_refused for verdict in unread)
            usage.unreadable += sum(not verdict.is_refused for verdict in unread)
        return verdicts

    def _judge_prompts(self, outcome: TextOutcome, doc: Doc) -> list[str]:
        """The judge's prompts for one completion: one, or one for each order of two answers."""
        if self._question is not None:
            question = self._question.value(doc)
        elif outcome.conversation:
            question = transcript(outcome.conversation)
        else:
            columns = (doc[name] for name in _QUESTIONS if isinstance(doc.get(name), str))
            question = next(columns, None) or outcome.prompt or dict(doc)
        prediction = "" if outcome.prediction is None else outcome.prediction
        names: dict[str, Any] = {
            "question": question,
            "prompt": outcome.prompt or question,
            "conversation": [dict(message) for message in outcome.conversation],
            "turn": doc.get("turn", 1) if outcome.conversation else 1,
            "prediction": prediction,
            "reference": outcome.references[0] if outcome.references else "",
            "references": list(outcome.references),
            "choices": list(outcome.choices),
            "doc": doc,
            "scale": asdict(self.reader.scale),
        }
        if self._baseline is None:
            return [str(render(self._rubric, names))]
        baseline = self._baseline.value(doc)
        if not isinstance(baseline, str) or not baseline.strip():
            raise DataError("there is no answer to compare the completion with", hint="check scorer.kwargs.baseline")
        names["baseline"] = baseline
        orders = ((prediction, baseline), (baseline, prediction))
        return [str(render(self._rubric, {**names, "first": first, "second": second})) for first, second in orders]

    def _requests(self, outcome: Outcome, doc: Doc, index: int) -> list[GenerationRequest]:
        completion = as_completion(outcome, "ai_judge")
        with locating(f"scorer.kwargs.rubric: document {index} of those scored"):
            prompts = self._judge_prompts(completion, doc)
        return [GenerationRequest.of(prompt, self._options) for prompt in prompts]

    def _values(
        self,
        outcomes: Sequence[Outcome],
        requests: Sequence[Sequence[GenerationRequest]],
        verdicts: Mapping[str, Mapping[GenerationRequest, Verdict]],
    ) -> dict[str, Any]:
        """The values of one document, from the requests about each repeat and the verdicts of each judge."""
        scored, details, texts = [], [], {}
        for repeat, (outcome, orders) in enumerate(zip(outcomes, requests, strict=True)):
            by_judge = {name: [read[request] for request in orders] for name, read in verdicts.items()}
            graded, detail = self._grade(by_judge)
            scored.append({**graded, **self.score(outcome)})
            details.append(detail)
            for name, order, verdict in ((n, *each) for n, read in by_judge.items() for each in enumerate(read)):
                key = "judge_text" + (f"({name})" if len(by_judge) > 1 else "") + ("_swapped" if order else "")
                texts[f"{key}_{repeat}" if repeat else key] = verdict.completion.text
        self.value_metrics |= {name: metric for name in details[0] if (metric := self._detail_metric(name)) is not None}
        return {
            **self.reduce(scored, outcomes),
            **{name: fmean(detail[name] for detail in details) for name in details[0]},
            **texts,
        }

    def _detail_metric(self, name: str) -> Metric | None:
        """The metric of a value beside the grade; for verdicts that are worth little, a lower share is better."""
        word = name.removeprefix("verdict_").replace("_", " ")
        if word in self._shown_words:
            return replace(value_metric(name), higher_is_better=self.reader.words[word] >= 0.5)
        name = name.partition("(")[0]  # the grade of one of several judges is called judge(NAME)
        return metrics.get(name) if name in metrics else None

    def _grade(self, by_judge: Mapping[str, Sequence[Verdict]]) -> tuple[dict[str, float], dict[str, float]]:
        """The mean grade of one completion and the share of verdicts that cannot be read; and what lies behind them."""
        pairs = self._baseline is not None
        unread = 0.5 if pairs else 0.0
        grades = {
            name: [(1 - verdict.value if order else verdict.value) for order, verdict in enumerate(verdicts)
                   if verdict.value is not None]
            for name, verdicts in by_judge.items()
        }  # fmt: skip
        means = {name: fmean(values) for name, values in grades.items() if values}
        every = [verdict for verdicts in by_judge.values() for verdict in verdicts]
        invalid = fmean(verdict.value is None for verdict in every)
        graded = {"judge": fmean(means.values()) if means else unread, "invalid": invalid}
        detail: dict[str, float] = {}
        if pairs:
            read = [verdict.value for verdict in every if verdict.value is not None]
            detail["tie"] = float(graded["judge"] == 0.5)
            detail["inconsistent"] = fmean(
                len(values) == 2 and (values[0] - 0.5) * (values[1] - 0.5) < 0 for values in grades.values()
            )
            detail["first_place"] = fmean(read) if read else 0.5
        for word in self._shown_words:
            detail[f"verdict_{word.replace(' ', '_')}"] = fmean(verdict.word == word for verdict in every)
        if len(by_judge) > 1:
            detail["unanimous"] = float(len(set(means.values())) == 1 and len(means) == len(by_judge))
            detail |= {f"judge({name})": means.get(name, unread) for name in by_judge}
        return graded, detail


def transcript(conversation: Sequence[Mapping[str, str]]) -> str:
    """The messages of a conversation as a text; that of one turn is its text.

    >>> print(transcript([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]))
    [User]
    Hi
    <BLANKLINE>
    [Assistant]
    Hello
    """
    if len(conversation) == 1:
        return conversation[0]["content"]
    return "\n\n".join(f"[{message['role'].capitalize()}]\n{message['content']}" for message in conversation)

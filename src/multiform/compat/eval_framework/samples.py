"""Samples, messages and responses as the hooks of Python tasks get them, and the metric classes that take responses.

The types have the names, fields and defaults of eval-framework's, so that a task or metric written for it runs here.
There are the metric classes that registered metrics equal, and those that a run refuses; all others are the code of
eval-framework itself, from the files of its install or clone.
"""

from __future__ import annotations

import importlib.util
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from multiform.errors import UsageError
from multiform.formats.dialects.metric_classes import BaseMetric
from multiform.formats.dialects.metric_results import Error, MetricResult
from multiform.scoring.metrics.base import build_metric
from multiform.scoring.outcome import ChoiceOutcome, TextOutcome

#: The languages that are told apart.
_LANGUAGES = ("en", "de", "es", "it", "fr", "nl", "pt", "fi")


class Role(Enum):
    """The author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class Message(BaseModel):
    """One message of a prompt; a last message of the assistant is the beginning of the completion."""

    role: Role | None = None
    property: str | None = None
    content: str
    has_loss: bool | None = None
    type: str | None = None


class BaseMetricContext(BaseModel):
    """What a task passes to its metrics beside the ground truth; subclasses define the fields."""

    model_config = ConfigDict(extra="allow")


class _Question(BaseModel):
    """The fields that samples and responses have."""

    model_config = ConfigDict(extra="forbid")

    id: int
    subject: str
    ground_truth: str | list[str] | None

    @property
    def ground_truth_list(self) -> list[str | None]:
        """The ground truth as a list, also where there is a single one."""
        return list(self.ground_truth) if isinstance(self.ground_truth, list) else [self.ground_truth]


class Sample(_Question):
    """One sample: its messages, few-shot examples included, the scored completions, and the ground truth."""

    messages: list[Message]
    possible_completions: list[str] | None
    context: BaseMetricContext | list[BaseMetricContext] | None = None


class Completion(_Question):
    """A generated completion before and after the task's post-processing, with the ground truth."""

    prompt: str
    prompt_sequence_positions: int | None
    completion: str
    messages: list[Message] | None
    raw_completion: str
    raw_completion_sequence_positions: int | None
    context: list[BaseMetricContext] | BaseMetricContext | None = None
    error: Error | None = None

    @property
    def user_instruction(self) -> str:
        """The messages of the user, joined by blank lines."""
        return "\n\n".join(message.content for message in self.messages or () if message.role is Role.USER)

    def outcome(self) -> TextOutcome:
        """The completion as registered metrics take it."""
        truths = tuple(truth for truth in self.ground_truth_list if truth is not None)
        return TextOutcome(prediction=self.completion, references=truths)


class Loglikelihood(_Question):
    """The log-likelihoods of completions, with the ground truth."""

    prompt: str
    prompt_sequence_positions: int | None
    loglikelihoods: dict[str, float]
    loglikelihoods_sequence_positions: dict[str, int]
    error: Error | None = None

    def outcome(self) -> ChoiceOutcome:
        """The log-likelihoods as registered metrics take them."""
        choices = tuple(self.loglikelihoods)
        return ChoiceOutcome(
            loglikelihoods=tuple(self.loglikelihoods.values()),
            greedy=(False,) * len(choices),
            choices=choices,
            gold=tuple(index for index, choice in enumerate(choices) if choice in self.ground_truth_list),
            scored=choices,
        )


MetricContext = TypeVar("MetricContext", bound=BaseMetricContext)


def extract_context_metric(response: Completion, metric_context_class: type[MetricContext]) -> MetricContext:
    """The context of the given class that a task passed to its metrics."""
    contexts = response.context if isinstance(response.context, list) else [response.context]
    for context in contexts:
        if isinstance(context, metric_context_class):
            return context
    known = ", ".join(type(context).__name__ for context in contexts if context is not None) or "none"
    message = f"a metric needs a {metric_context_class.__name__}, and _get_context gave {known}"
    raise UsageError(message, hint=f"return a {metric_context_class.__name__} from _get_context")


def calculate(metric: BaseMetric[Any], response: Completion | Loglikelihood) -> list[MetricResult]:
    """The values of a response: by the registered metric that a class stands for, or by its `calculate`."""
    if not metric.is_registered():
        return metric.calculate(response)
    registered = build_metric(metric.specs[0])
    value = None if response.error is not None else float(registered(response.outcome()))
    return metric.result(value, error=response.error, better=registered.higher_is_better)


class ConfidenceWeightedAccuracy(BaseMetric[Loglikelihood]):
    """The probability of the most likely completion where it is correct, and 0 where it is not."""

    NAME = "Confidence-weighted Accuracy"
    specs = ({"metric": "confidence_weighted_acc"},)


class DistributionalCorrectnessScore(BaseMetric[Loglikelihood]):
    """Probability of correct minus wrong completions, scaled down by the probability of "I don't know"."""

    NAME = "Distributional Correctness Score"
    specs = ({"metric": "dcs"},)


class TernaryScore(BaseMetric[Loglikelihood]):
    """1 for a correct answer, 0 for "I don't know", -1 for a wrong answer."""

    NAME = "Ternary Score"
    specs = ({"metric": "ternary_score"},)


@cache
def _language_detector() -> Any:
    import lingua  # type: ignore[import-not-found, unused-ignore]

    codes = [getattr(lingua.IsoCode639_1, code.upper()) for code in _LANGUAGES]
    return lingua.LanguageDetectorBuilder.from_iso_codes_639_1(*codes).build()


class LanguageRawConsistencyChecker(BaseMetric[Completion]):
    """Whether all that the model wrote is in the language of the question."""

    NAME = "Language Consistency Raw"

    def unavailable(self) -> str | None:
        installed = importlib.util.find_spec("lingua") is not None
        return None if installed else "it needs the package lingua-language-detector"

    def calculate(self, response: Completion) -> list[MetricResult]:
        if response.error is not None:
            return self.result(None, error=response.error)
        texts = (response.raw_completion, response.user_instruction)
        language, expected = (_language_detector().detect_language_of(text) for text in texts)
        return [] if language is expected is None else self.result(float(language == expected))


class CodeCompletionAssertion(BaseMetric[Any]):
    """Stands for the metrics that run the model's code; a run refuses it before the first request."""

    def calculate(self, response: Any) -> list[MetricResult]:
        raise NotImplementedError(self.unavailable())

    def unavailable(self) -> str:
        return "it runs the model's code in a container, and Multiform starts none"


class CodeExecutionPassAtOne(CodeCompletionAssertion):
    """The same by another name."""


class MultiPLECodeAssertion(CodeCompletionAssertion):
    """The same by another name."""

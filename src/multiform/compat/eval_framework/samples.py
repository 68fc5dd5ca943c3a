"""Samples, messages and responses as the hooks of Python tasks get them.

The types have the names, fields and defaults of eval-framework's, so that a task or metric written for it runs here.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from multiform.errors import UsageError
from multiform.formats.dialects.metric_results import Error
from multiform.scoring.outcome import ChoiceOutcome, TextOutcome


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

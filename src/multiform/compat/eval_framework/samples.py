"""Samples, messages and responses as the hooks of Python tasks get them.

The types have the names, fields and defaults of eval-framework's, so that a task or metric written for it runs here.
"""

from __future__ import annotations

import importlib
import importlib.util
from enum import Enum
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from multiform.errors import UsageError
from multiform.formats.dialects.metric_results import Error


class Role(Enum):
    """The author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class Property(Enum):
    """The part of an assistant's turn that a message is, for reasoning models."""

    ANSWER = "answer"
    THOUGHT = "thought"
    SOLUTION = "solution"


class Message(BaseModel):
    """One message of a prompt; a last message of the assistant is the beginning of the completion."""

    role: Role | None = None
    property: Property | None = None
    content: str
    has_loss: bool | None = None
    type: str | None = None


class BaseMetricContext(BaseModel):
    """What a task passes to its metrics beside the ground truth; subclasses define the fields."""

    model_config = ConfigDict(extra="allow")


class LanguageMetricContext(BaseMetricContext):
    """The expected language of the completion, as an ISO 639-1 code."""

    language: str


class Sample(BaseModel):
    """One sample: its messages, few-shot examples included, the scored completions, and the ground truth."""

    model_config = ConfigDict(extra="forbid")

    id: int
    subject: str
    messages: list[Message]
    ground_truth: str | list[str] | None
    possible_completions: list[str] | None
    context: BaseMetricContext | list[BaseMetricContext] | None = None


class _Graded(BaseModel):
    """The fields that all responses have."""

    model_config = ConfigDict(extra="forbid")

    prompt: str
    prompt_sequence_positions: int | None


class Completion(_Graded):
    """A generated completion before and after the task's post-processing, with the ground truth."""

    id: int
    subject: str
    ground_truth: str | list[str] | None
    completion: str
    messages: list[Message] | None
    raw_completion: str
    raw_completion_sequence_positions: int | None
    context: list[BaseMetricContext] | BaseMetricContext | None = None
    error: Error | None = None

    @property
    def ground_truth_list(self) -> list[str | None]:
        """The ground truth as a list, also where there is a single one."""
        return list(self.ground_truth) if isinstance(self.ground_truth, list) else [self.ground_truth]

    @property
    def user_instruction(self) -> str:
        """The messages of the user, joined by blank lines."""
        return "\n\n".join(message.content for message in self.messages or () if message.role is Role.USER)

    def get_completion_language(self) -> str:
        """The language of the completion, as an ISO 639-1 code."""
        return self._language(self.completion)

    def get_raw_completion_language(self) -> str:
        """The language of the completion before post-processing, as an ISO 639-1 code."""
        return self._language(self.raw_completion)

    def get_instruction_language(self) -> str:
        """The language of the user's messages, as an ISO 639-1 code."""
        return self._language(self.user_instruction)

    def _language(self, text: str) -> str:
        """The language that the context names, or the one that the text is most likely in."""
        return self.context.language if isinstance(self.context, LanguageMetricContext) else detected_language(text)


class Loglikelihood(_Graded):
    """The log-likelihoods of completions, with the ground truth."""

    id: int
    subject: str
    ground_truth: str | list[str]
    loglikelihoods: dict[str, float]
    loglikelihoods_sequence_positions: dict[str, int]
    error: Error | None = None

    @property
    def ground_truth_list(self) -> list[str]:
        """The ground truth as a list, also where there is a single one."""
        return list(self.ground_truth) if isinstance(self.ground_truth, list) else [self.ground_truth]


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


#: The languages that can be detected, as ISO 639-1 codes.
AVAILABLE_LANGUAGES = ("en", "de", "es", "it", "fr", "nl", "pt", "fi")
_detector: Any = None


def detects_languages() -> bool:
    """Whether the package for language detection is installed."""
    return importlib.util.find_spec("lingua") is not None


def detected_language(text: str) -> str:
    """The ISO 639-1 code of the most likely language of a text; empty where none is likely."""
    global _detector
    if not detects_languages():
        hint = "pip install lingua-language-detector"
        raise UsageError("detecting languages needs the package lingua-language-detector", hint=hint)
    lingua = importlib.import_module("lingua")
    if _detector is None:
        codes = [getattr(lingua.IsoCode639_1, code.upper()) for code in AVAILABLE_LANGUAGES]
        _detector = lingua.LanguageDetectorBuilder.from_iso_codes_639_1(*codes).build()
    language = _detector.detect_language_of(text)
    return language.iso_code_639_1.name.lower() if language else ""

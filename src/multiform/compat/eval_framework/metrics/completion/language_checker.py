"""Whether a model answers in the right language."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from multiform.compat.eval_framework.exceptions import LogicError
from multiform.formats.dialects.metric_classes import BaseMetric
from multiform.formats.dialects.samples import AVAILABLE_LANGUAGES, detects_languages

if TYPE_CHECKING:
    from multiform.formats.dialects.samples import Completion, MetricResult


class _OfLanguage(BaseMetric["Completion"]):
    """A metric of detected languages."""

    def unavailable(self) -> str | None:
        return None if detects_languages() else "it needs the package lingua-language-detector"

    def calculate(self, response: Completion) -> list[MetricResult]:
        if response.error is not None:
            return self.result(None, error=response.error)
        written, wanted = self.languages(response)
        return [] if written == wanted == "" else self.result(float(written == wanted))

    @abstractmethod
    def languages(self, response: Completion) -> tuple[str, str]:
        """The language that is written, and the one that is asked for."""


class LanguageChecker(_OfLanguage):
    """Whether the completion is in the language that is its right answer."""

    NAME = "Language Check"

    def languages(self, response: Completion) -> tuple[str, str]:
        wanted = response.ground_truth
        if not isinstance(wanted, str) or wanted not in AVAILABLE_LANGUAGES:
            raise LogicError(f"the ground truth {wanted!r} is none of the languages {', '.join(AVAILABLE_LANGUAGES)}")
        return response.get_completion_language(), wanted


class GermanCompletionChecker(_OfLanguage):
    """Whether what the model wrote is German."""

    NAME = "German Completion Check"

    def languages(self, response: Completion) -> tuple[str, str]:
        return response.get_raw_completion_language(), "de"


class LanguageConsistencyChecker(_OfLanguage):
    """Whether the completion is in the language of the question."""

    NAME = "Language Consistency"

    def languages(self, response: Completion) -> tuple[str, str]:
        return response.get_completion_language(), response.get_instruction_language()


class LanguageRawConsistencyChecker(_OfLanguage):
    """Whether all that the model wrote is in the language of the question."""

    NAME = "Language Consistency Raw"

    def languages(self, response: Completion) -> tuple[str, str]:
        return response.get_raw_completion_language(), response.get_instruction_language()

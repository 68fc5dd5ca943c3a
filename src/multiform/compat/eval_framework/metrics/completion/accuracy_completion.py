"""Whether what a model wrote is the right answer."""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING

from multiform.formats.dialects.metric_classes import AccuracyCompletion

if TYPE_CHECKING:
    from multiform.formats.dialects.samples import Completion

__all__ = ["AccuracyCompletion", "AccuracyCompletionOLMES", "AccuracyCompletionWithEvaluate"]


class AccuracyCompletionWithEvaluate(AccuracyCompletion):
    """The part of the right answers that the text equals, without what the patterns match in either."""

    def __init__(self, regexes_to_ignore: list[str], ignore_case: bool = False, ignore_punctuation: bool = False):
        self.regexes_to_ignore = regexes_to_ignore
        self.ignore_case = ignore_case
        self.ignore_punctuation = ignore_punctuation

    def value(self, response: Completion) -> float:
        written = self._cleaned(response.completion)
        equal = [written == self._cleaned(str(truth)) for truth in response.ground_truth_list]
        return sum(equal) / len(equal)

    def _cleaned(self, text: str) -> str:
        for pattern in self.regexes_to_ignore:
            text = re.sub(pattern, "", text)
        text = text.lower() if self.ignore_case else text
        return text.translate(str.maketrans("", "", string.punctuation)) if self.ignore_punctuation else text


class AccuracyCompletionOLMES(AccuracyCompletionWithEvaluate):
    """Numbers as OLMES compares them: after ``####``, without commas, dollars and a full stop at the end."""

    def __init__(self) -> None:
        super().__init__(regexes_to_ignore=[",", r"\$", "(?s).*#### ", r"\.$"])

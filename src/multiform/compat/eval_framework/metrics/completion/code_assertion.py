"""Whether code that a model wrote does what it is asked to, which needs a container to run it in."""

from __future__ import annotations

from typing import Any, NoReturn

from multiform.compat.eval_framework.tasks.utils import NO_CONTAINER
from multiform.errors import UsageError
from multiform.formats.dialects.metric_classes import BaseMetric


class RunsCode(BaseMetric[Any]):
    """A metric of code that is run: it is refused before a model is asked."""

    def calculate(self, response: Any) -> NoReturn:
        raise UsageError(f"{self.NAME}: {NO_CONTAINER}", hint="score these answers with eval-framework")

    def unavailable(self) -> str:
        return NO_CONTAINER


class CodeCompletionAssertion(RunsCode):
    """Whether the last thing that the code prints is True."""

    NAME = "Code Completion Accuracy"

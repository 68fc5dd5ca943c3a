"""Metrics that need another program: a language detector, lm-eval's checks of instructions, a container for code."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from multiform.compat.eval_framework.helpers import NO_CONTAINER, LogicError
from multiform.errors import UsageError
from multiform.formats.dialects.metric_classes import BaseMetric
from multiform.formats.dialects.samples import (
    AVAILABLE_LANGUAGES,
    BaseMetricContext,
    MetricResult,
    detects_languages,
    extract_context_metric,
)
from multiform.imports.finder import lm_eval_finder as finder
from multiform.tasks.functions import load_module

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


_PER_PROMPT = ("prompt_level_strict_acc", "prompt_level_loose_acc")
_PER_INSTRUCTION = ("inst_level_strict_acc", "inst_level_loose_acc")


class IFEvalMetricContext(BaseMetricContext):
    """The instructions of a prompt and their arguments."""

    key: int
    instruction_id_list: list[str]
    prompt: str
    additional_kwargs: list[dict[str, Any]]


class IFEvalMetric(BaseMetric["Completion"]):
    """The part of prompts, and of instructions, that are followed; loosely where small changes of the text count."""

    NAME = "IFEval"

    def unavailable(self) -> str | None:
        return None if _checks() is not None else "its checks are lm-eval's: pip install 'lm-eval[ifeval]'"

    def calculate(self, response: Completion) -> list[MetricResult]:
        if response.error is not None:
            return [self._result(name, None, response) for name in _PER_PROMPT]
        context = extract_context_metric(response, IFEvalMetricContext)
        instructions = {**context.model_dump(exclude={"additional_kwargs"}), "kwargs": context.additional_kwargs}
        check = _checks()
        assert check is not None
        graded = check(instructions, [response.completion])
        prompts = [self._result(name, graded[name], response) for name in _PER_PROMPT]
        return prompts + [self._result(name, value, response) for name in _PER_INSTRUCTION for value in graded[name]]

    def _result(self, name: str, value: bool | None, response: Completion) -> MetricResult:
        number = None if value is None else float(value)
        return MetricResult(
            metric_name=f"{self.NAME}/{name}", value=number, higher_is_better=True, error=response.error
        )


def _checks() -> Callable[..., dict[str, Any]] | None:
    """The function of lm-eval's task that grades a text."""
    folder = finder.real_folder()
    file = folder / "tasks" / "ifeval" / "utils.py" if folder is not None else None
    if file is None or not file.is_file():
        return None
    function: Callable[..., dict[str, Any]] = load_module(file).process_results
    return function


class RunsCode(BaseMetric[Any]):
    """A metric of code that is run: it is refused before a model is asked."""

    def calculate(self, response: Any) -> NoReturn:
        raise UsageError(f"{self.NAME}: {NO_CONTAINER}", hint="score these answers with eval-framework")

    def unavailable(self) -> str:
        return NO_CONTAINER


class CodeCompletionAssertion(RunsCode):
    """Whether the last thing that the code prints is True."""

    NAME = "Code Completion Accuracy"


class CodeExecutionBaseContext(BaseMetricContext):
    """What is run beside the model's code, and where."""

    run_env: str
    code_prompt: str
    test_code: str
    benchmark_timeout: int = 60
    package_downloads: dict[str, str | None]


class CodeExecutionPassAtOneContext(CodeExecutionBaseContext):
    """The same with the functions that put code and tests together and read their output, as text."""

    snippet_merge_fn: str
    output_parse_fn: str


class CodeExecutionPassAtOne(RunsCode):
    """Whether the code passes its tests."""

    NAME = "code-execution-pass@1"


class CodeExecutionPassAtOneWithCodebench(CodeExecutionPassAtOne):
    """The same in the container of BigCodeBench."""

    NAME = "code-execution-pass@1-codebench"


def estimate_pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that one of k attempts is right, where c of n were."""
    wrong = 1.0
    for i in range(k):
        wrong *= max(n - c - i, 0) / (n - i) if n > i else 0.0
    return 1 - wrong


class MultiPLEMetricContext(BaseMetricContext):
    """The beginning of the code, its tests and its language."""

    prompt: str
    tests: str
    language: str


class MultiPLECodeAssertion(RunsCode):
    """Whether prompt, completion and tests together run."""

    NAME = "MultiPL-E Code Assertion"

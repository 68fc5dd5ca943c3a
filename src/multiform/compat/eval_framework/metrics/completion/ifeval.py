"""Whether a text follows instructions that can be checked, by the checks of an installed lm-eval."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from multiform.config.functions import load_module
from multiform.formats.dialects.metric_classes import BaseMetric
from multiform.formats.dialects.samples import BaseMetricContext, MetricResult, extract_context_metric
from multiform.imports.lm_eval import finder

if TYPE_CHECKING:
    from multiform.formats.dialects.samples import Completion

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
            return [self._named(name, None, response) for name in _PER_PROMPT]
        context = extract_context_metric(response, IFEvalMetricContext)
        instructions = {**context.model_dump(exclude={"additional_kwargs"}), "kwargs": context.additional_kwargs}
        check = _checks()
        assert check is not None
        graded = check(instructions, [response.completion])
        prompts = [self._named(name, graded[name], response) for name in _PER_PROMPT]
        return prompts + [self._named(name, value, response) for name in _PER_INSTRUCTION for value in graded[name]]

    def _named(self, name: str, value: bool | None, response: Completion) -> MetricResult:
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

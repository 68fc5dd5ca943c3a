"""Multiform evaluates language models: one dataset, every prompt form.

A name is imported when it is first used, so that `multiform --help` reads no more than it needs.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiform.imports.answers import answer_from

if TYPE_CHECKING:
    from multiform import compat
    from multiform.catalog import BaseTask, Group, TaskManager
    from multiform.config import (
        FewshotConfig,
        FilterPipeline,
        FilterStep,
        GroupConfig,
        MetricConfig,
        ScorerConfig,
        TaskConfig,
    )
    from multiform.errors import ConfigError, DataError, ModelError, MultiformError, UsageError
    from multiform.evaluation import evaluate
    from multiform.fields import process_field
    from multiform.formats import (
        BPBFormat,
        BPBStyle,
        ClozeFormat,
        ClozeStyle,
        ClozeTemplateConfig,
        COTGenFormat,
        FormatConfig,
        GenerateFormat,
        HybridFormat,
        Language,
        MCCompletionStyle,
        MCQAFormat,
        MCQTemplateConfig,
        MCStyle,
        ResponseType,
        TaskStyle,
        TaskStyler,
        TemplateConfig,
        TemplateFactory,
        answer_key_to_index,
        format_mc_prompt,
        register_format,
        shuffle_correct_with_distractors,
    )
    from multiform.forms import (
        Form,
        GenerateTask,
        LoglikelihoodTask,
        MultipleChoiceTask,
        RollingTask,
        RunSettings,
        Sample,
        Sampler,
        ScoredSample,
        Task,
        register_sampler,
    )
    from multiform.models import Model, register_model
    from multiform.requests import (
        Completion,
        GenerationRequest,
        Instance,
        LLOutput,
        LoglikelihoodRequest,
        RollingRequest,
    )
    from multiform.results import FormResult, GroupResult, Results
    from multiform.scoring.filters import register_filter
    from multiform.scoring.metrics import Metric, register_metric
    from multiform.scoring.outcome import ChoiceOutcome, LikelihoodOutcome, TextOutcome
    from multiform.scoring.scorers import ReadingScorer, Scorer, register_scorer
    from multiform.scoring.statistics import Estimate

__all__ = [
    "BPBFormat",
    "BPBStyle",
    "BaseTask",
    "COTGenFormat",
    "ChoiceOutcome",
    "ClozeFormat",
    "ClozeStyle",
    "ClozeTemplateConfig",
    "Completion",
    "ConfigError",
    "DataError",
    "Estimate",
    "FewshotConfig",
    "FilterPipeline",
    "FilterStep",
    "Form",
    "FormResult",
    "FormatConfig",
    "GenerateFormat",
    "GenerateTask",
    "GenerationRequest",
    "Group",
    "GroupConfig",
    "GroupResult",
    "HybridFormat",
    "Instance",
    "LLOutput",
    "Language",
    "LikelihoodOutcome",
    "LoglikelihoodRequest",
    "LoglikelihoodTask",
    "MCCompletionStyle",
    "MCQAFormat",
    "MCQTemplateConfig",
    "MCStyle",
    "Metric",
    "MetricConfig",
    "Model",
    "ModelError",
    "MultiformError",
    "MultipleChoiceTask",
    "ReadingScorer",
    "ResponseType",
    "Results",
    "RollingRequest",
    "RollingTask",
    "RunSettings",
    "Sample",
    "Sampler",
    "ScoredSample",
    "Scorer",
    "ScorerConfig",
    "Task",
    "TaskConfig",
    "TaskManager",
    "TaskStyle",
    "TaskStyler",
    "TemplateConfig",
    "TemplateFactory",
    "TextOutcome",
    "UsageError",
    "answer_key_to_index",
    "compat",
    "evaluate",
    "format_mc_prompt",
    "process_field",
    "register_filter",
    "register_format",
    "register_metric",
    "register_model",
    "register_sampler",
    "register_scorer",
    "shuffle_correct_with_distractors",
]

# A task's file may import `lm_eval` or `eval_framework`; the modules of `compat` answer.
answer_from("multiform.compat", Path(__file__).parent / "compat")

#: Where the names come from; each of these modules imports those before it that it builds on.
_HOMES = (
    "multiform.errors",
    "multiform.requests",
    "multiform.fields",
    "multiform.formats",
    "multiform.config",
    "multiform.scoring.filters",
    "multiform.scoring.statistics",
    "multiform.scoring.outcome",
    "multiform.scoring.metrics",
    "multiform.scoring.scorers",
    "multiform.models",
    "multiform.forms",
    "multiform.catalog",
    "multiform.results",
    "multiform.evaluation",
)


def __getattr__(name: str) -> Any:
    if name == "compat":
        return import_module("multiform.compat")
    if name in __all__:
        for home in map(import_module, _HOMES):
            if name in vars(home):
                globals()[name] = vars(home)[name]
                return globals()[name]
    raise AttributeError(f"module 'multiform' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__

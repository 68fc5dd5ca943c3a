"""Multiform evaluates language models: one dataset, every prompt form.

A name is imported when it is first used, so that `multiform --help` reads no more than it needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiform import compat
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
    from multiform.models import Model, register_model
    from multiform.results import FormResult, Results
    from multiform.scoring.filters import register_filter
    from multiform.scoring.metrics import register_metric
    from multiform.scoring.scorers import register_scorer
    from multiform.tasks import BaseTask, Task, TaskManager, register_sampler

__all__ = [
    "BPBFormat",
    "BPBStyle",
    "BaseTask",
    "COTGenFormat",
    "ClozeFormat",
    "ClozeStyle",
    "ClozeTemplateConfig",
    "ConfigError",
    "DataError",
    "FewshotConfig",
    "FilterPipeline",
    "FilterStep",
    "FormResult",
    "FormatConfig",
    "GenerateFormat",
    "GroupConfig",
    "HybridFormat",
    "Language",
    "MCCompletionStyle",
    "MCQAFormat",
    "MCQTemplateConfig",
    "MCStyle",
    "MetricConfig",
    "Model",
    "ModelError",
    "MultiformError",
    "ResponseType",
    "Results",
    "ScorerConfig",
    "Task",
    "TaskConfig",
    "TaskManager",
    "TaskStyle",
    "TaskStyler",
    "TemplateConfig",
    "TemplateFactory",
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

#: Where the names come from; each of these modules imports those before it that it builds on.
_HOMES = (
    "multiform.errors",
    "multiform.fields",
    "multiform.formats",
    "multiform.config",
    "multiform.scoring.filters",
    "multiform.scoring.metrics",
    "multiform.scoring.scorers",
    "multiform.models",
    "multiform.tasks",
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

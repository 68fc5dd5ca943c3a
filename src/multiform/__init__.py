"""Multiform evaluates language models: one dataset, every prompt form.

A name is imported when it is first used, so that `multiform --help` reads no more than it needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from multiform.imports import lazy_names
from multiform.imports.finder import provide_from

if TYPE_CHECKING:
    from multiform import compat
    from multiform.compat.eval_framework.base_task import BaseTask
    from multiform.compat.eval_framework.samples import BaseMetricContext
    from multiform.errors import (
        ConfigError,
        DataError,
        IncompleteRunError,
        ModelError,
        MultiformError,
        RunInterrupted,
        UsageError,
    )
    from multiform.fields import Doc, process_field
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
    from multiform.formats.dialects.metric_classes import BaseMetric
    from multiform.formats.dialects.metric_results import MetricResult
    from multiform.forms import (
        ChatTemplate,
        Form,
        GenerateTask,
        MultipleChoiceTask,
        RunSettings,
        Sample,
        Sampler,
        ScoredSample,
        Task,
        register_sampler,
    )
    from multiform.lint import lint_form, lint_tasks
    from multiform.models import Model, register_model
    from multiform.requests import (
        Completion,
        FailedRequest,
        GenerationRequest,
        Instance,
        LLOutput,
        LoglikelihoodRequest,
        RollingRequest,
    )
    from multiform.results import Results, read_results
    from multiform.run.evaluate import evaluate
    from multiform.run.progress import Progress
    from multiform.run.rescoring import rescore
    from multiform.scoring.aggregations import register_aggregation
    from multiform.scoring.filters import Filter, register_filter
    from multiform.scoring.metrics import Metric, register_metric
    from multiform.scoring.reductions import register_reduction
    from multiform.scoring.scorers import ReadingScorer, Scorer, register_scorer
    from multiform.stopping import stop_requested
    from multiform.tasks import (
        FewshotConfig,
        FilterPipeline,
        FilterStep,
        GroupConfig,
        MetricConfig,
        ScorerConfig,
        TaskConfig,
        TaskManager,
    )

__all__ = [
    "BPBFormat",
    "BPBStyle",
    "BaseMetric",
    "BaseMetricContext",
    "BaseTask",
    "COTGenFormat",
    "ChatTemplate",
    "ClozeFormat",
    "ClozeStyle",
    "ClozeTemplateConfig",
    "Completion",
    "ConfigError",
    "DataError",
    "Doc",
    "FailedRequest",
    "FewshotConfig",
    "Filter",
    "FilterPipeline",
    "FilterStep",
    "Form",
    "FormatConfig",
    "GenerateFormat",
    "GenerateTask",
    "GenerationRequest",
    "GroupConfig",
    "HybridFormat",
    "IncompleteRunError",
    "Instance",
    "LLOutput",
    "Language",
    "LoglikelihoodRequest",
    "MCQAFormat",
    "MCQTemplateConfig",
    "MCStyle",
    "Metric",
    "MetricConfig",
    "MetricResult",
    "Model",
    "ModelError",
    "MultiformError",
    "MultipleChoiceTask",
    "Progress",
    "ReadingScorer",
    "ResponseType",
    "Results",
    "RollingRequest",
    "RunInterrupted",
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
    "UsageError",
    "answer_key_to_index",
    "compat",
    "evaluate",
    "format_mc_prompt",
    "lint_form",
    "lint_tasks",
    "process_field",
    "read_results",
    "register_aggregation",
    "register_filter",
    "register_format",
    "register_metric",
    "register_model",
    "register_reduction",
    "register_sampler",
    "register_scorer",
    "rescore",
    "shuffle_correct_with_distractors",
    "stop_requested",
]

# A task's file may import `lm_eval` or `eval_framework`; the table of `compat.paths` says what answers.
provide_from("multiform.compat.paths")

#: The module that each name comes from.
_look_up = lazy_names(
    __name__,
    {
        "compat.eval_framework.base_task": ("BaseTask",),
        "compat.eval_framework.samples": ("BaseMetricContext",),
        "errors": (
            "ConfigError",
            "DataError",
            "IncompleteRunError",
            "ModelError",
            "MultiformError",
            "RunInterrupted",
            "UsageError",
        ),
        "fields": ("Doc", "process_field"),
        "formats": (
            "BPBFormat",
            "BPBStyle",
            "COTGenFormat",
            "ClozeFormat",
            "ClozeStyle",
            "ClozeTemplateConfig",
            "FormatConfig",
            "GenerateFormat",
            "HybridFormat",
            "Language",
            "MCQAFormat",
            "MCQTemplateConfig",
            "MCStyle",
            "ResponseType",
            "TaskStyle",
            "TaskStyler",
            "TemplateConfig",
            "TemplateFactory",
            "answer_key_to_index",
            "format_mc_prompt",
            "register_format",
            "shuffle_correct_with_distractors",
        ),
        "formats.dialects.metric_classes": ("BaseMetric",),
        "formats.dialects.metric_results": ("MetricResult",),
        "forms": (
            "ChatTemplate",
            "Form",
            "GenerateTask",
            "MultipleChoiceTask",
            "RunSettings",
            "Sample",
            "Sampler",
            "ScoredSample",
            "Task",
            "register_sampler",
        ),
        "lint": ("lint_form", "lint_tasks"),
        "models": ("Model", "register_model"),
        "requests": (
            "Completion",
            "FailedRequest",
            "GenerationRequest",
            "Instance",
            "LLOutput",
            "LoglikelihoodRequest",
            "RollingRequest",
        ),
        "results": ("Results", "read_results"),
        "run.evaluate": ("evaluate",),
        "run.progress": ("Progress",),
        "run.rescoring": ("rescore",),
        "scoring.aggregations": ("register_aggregation",),
        "scoring.filters": ("Filter", "register_filter"),
        "scoring.metrics": ("Metric", "register_metric"),
        "scoring.reductions": ("register_reduction",),
        "scoring.scorers": ("ReadingScorer", "Scorer", "register_scorer"),
        "stopping": ("stop_requested",),
        "tasks": (
            "FewshotConfig",
            "FilterPipeline",
            "FilterStep",
            "GroupConfig",
            "MetricConfig",
            "ScorerConfig",
            "TaskConfig",
            "TaskManager",
        ),
    },
)


def __getattr__(name: str) -> Any:
    return import_module("multiform.compat") if name == "compat" else _look_up(name)


def __dir__() -> list[str]:
    return __all__

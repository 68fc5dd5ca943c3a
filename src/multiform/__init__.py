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
    from multiform.compat.eval_framework.samples import BaseMetricContext, Message, Role
    from multiform.errors import (
        ConfigError,
        DataError,
        IncompleteRunError,
        MissingColumnError,
        ModelError,
        MultiformError,
        RunInterrupted,
        UsageError,
    )
    from multiform.fields import Doc, FieldSpec, process_field
    from multiform.formats import (
        BlindFormat,
        BPBFormat,
        BPBStyle,
        ClozeFormat,
        ClozeStyle,
        ClozeTemplateConfig,
        COTGenFormat,
        FieldMapping,
        FormatConfig,
        GenerateFormat,
        HybridFormat,
        Language,
        MCCompletionStyle,
        MCQAFormat,
        MCQCOTFormat,
        MCQTemplateConfig,
        MCStyle,
        OpenFormat,
        OutputType,
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
    from multiform.formats.perturbation import Perturbation
    from multiform.forms import (
        ChatTemplate,
        Form,
        GenerateTask,
        LoglikelihoodTask,
        MultipleChoiceTask,
        Responses,
        RollingTask,
        RunSettings,
        Sample,
        Sampler,
        ScoredSample,
        Task,
        register_sampler,
    )
    from multiform.forms.samplers import BalancedSampler, FirstNSampler, RandomSampler
    from multiform.lint import Finding, FormFindings, lint_form, lint_tasks
    from multiform.models import Completions, Loglikelihoods, Model, register_model
    from multiform.prompts.media import Media
    from multiform.requests import (
        Completion,
        FailedRequest,
        GenerationRequest,
        Instance,
        LLOutput,
        LoglikelihoodRequest,
        Output,
        Request,
        Response,
        RollingRequest,
    )
    from multiform.results import FormResult, GroupResult, Results, read_results
    from multiform.results.values import FailedDoc, NoSuchResultError, Scores
    from multiform.run.evaluate import evaluate
    from multiform.run.progress import Progress
    from multiform.run.rescoring import rescore
    from multiform.scoring.aggregations import Aggregation, register_aggregation
    from multiform.scoring.filters import Filter, Pipeline, register_filter
    from multiform.scoring.metrics import Metric, register_metric
    from multiform.scoring.outcome import ChoiceOutcome, LikelihoodOutcome, Outcome, TextOutcome
    from multiform.scoring.reductions import Reduction, register_reduction
    from multiform.scoring.scorers import ReadingScorer, Scorer, register_scorer
    from multiform.statistics.estimates import Estimate
    from multiform.stopping import stop_requested
    from multiform.tasks import (
        FewshotConfig,
        FilterPipeline,
        FilterStep,
        Group,
        GroupConfig,
        MetricConfig,
        Node,
        ScorerConfig,
        TaskConfig,
        TaskManager,
    )

__all__ = [
    "Aggregation",
    "BPBFormat",
    "BPBStyle",
    "BalancedSampler",
    "BaseMetric",
    "BaseMetricContext",
    "BaseTask",
    "BlindFormat",
    "COTGenFormat",
    "ChatTemplate",
    "ChoiceOutcome",
    "ClozeFormat",
    "ClozeStyle",
    "ClozeTemplateConfig",
    "Completion",
    "Completions",
    "ConfigError",
    "DataError",
    "Doc",
    "Estimate",
    "FailedDoc",
    "FailedRequest",
    "FewshotConfig",
    "FieldMapping",
    "FieldSpec",
    "Filter",
    "FilterPipeline",
    "FilterStep",
    "Finding",
    "FirstNSampler",
    "Form",
    "FormFindings",
    "FormResult",
    "FormatConfig",
    "GenerateFormat",
    "GenerateTask",
    "GenerationRequest",
    "Group",
    "GroupConfig",
    "GroupResult",
    "HybridFormat",
    "IncompleteRunError",
    "Instance",
    "LLOutput",
    "Language",
    "LikelihoodOutcome",
    "LoglikelihoodRequest",
    "LoglikelihoodTask",
    "Loglikelihoods",
    "MCCompletionStyle",
    "MCQAFormat",
    "MCQCOTFormat",
    "MCQTemplateConfig",
    "MCStyle",
    "Media",
    "Message",
    "Metric",
    "MetricConfig",
    "MetricResult",
    "MissingColumnError",
    "Model",
    "ModelError",
    "MultiformError",
    "MultipleChoiceTask",
    "NoSuchResultError",
    "Node",
    "OpenFormat",
    "Outcome",
    "Output",
    "OutputType",
    "Perturbation",
    "Pipeline",
    "Progress",
    "RandomSampler",
    "ReadingScorer",
    "Reduction",
    "Request",
    "Response",
    "ResponseType",
    "Responses",
    "Results",
    "Role",
    "RollingRequest",
    "RollingTask",
    "RunInterrupted",
    "RunSettings",
    "Sample",
    "Sampler",
    "ScoredSample",
    "Scorer",
    "ScorerConfig",
    "Scores",
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

#: Where the names come from: the first of these modules that has one defines it. Each imports what it builds on of
#: those before it.
_HOMES = (
    "multiform.errors",
    "multiform.stopping",
    "multiform.prompts.media",
    "multiform.requests",
    "multiform.fields",
    "multiform.formats",
    "multiform.formats.perturbation",
    "multiform.tasks",
    "multiform.statistics.estimates",
    "multiform.scoring.aggregations",
    "multiform.scoring.reductions",
    "multiform.scoring.filters",
    "multiform.scoring.outcome",
    "multiform.scoring.metrics",
    "multiform.scoring.scorers",
    "multiform.models",
    "multiform.forms",
    "multiform.forms.samplers",
    "multiform.formats.dialects.metric_classes",
    "multiform.formats.dialects.metric_results",
    "multiform.compat.eval_framework.samples",
    "multiform.tasks",
    "multiform.compat.eval_framework.base_task",
    "multiform.lint",
    "multiform.run.progress",
    "multiform.results",
    "multiform.results.values",
    "multiform.run.evaluate",
    "multiform.run.rescoring",
)


_look_up = lazy_names(__name__, __all__, _HOMES)


def __getattr__(name: str) -> Any:
    return import_module("multiform.compat") if name == "compat" else _look_up(name)


def __dir__() -> list[str]:
    return __all__

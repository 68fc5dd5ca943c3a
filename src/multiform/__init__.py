"""Multiform evaluates language models: one dataset, every prompt form."""

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
from multiform.evaluate import evaluate
from multiform.fields import process_field
from multiform.formats import (
    BPBFormat,
    ClozeFormat,
    COTGenFormat,
    FormatConfig,
    GenerateFormat,
    HybridFormat,
    MCQAFormat,
    register_format,
)
from multiform.models import Model, register_model
from multiform.results import FormResult, Results
from multiform.scoring.filters import register_filter
from multiform.scoring.metrics import register_metric
from multiform.scoring.scorers import register_scorer
from multiform.tasks import Task, TaskManager, register_sampler

__all__ = [
    "BPBFormat",
    "COTGenFormat",
    "ClozeFormat",
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
    "MCQAFormat",
    "MetricConfig",
    "Model",
    "ModelError",
    "MultiformError",
    "Results",
    "ScorerConfig",
    "Task",
    "TaskConfig",
    "TaskManager",
    "UsageError",
    "evaluate",
    "process_field",
    "register_filter",
    "register_format",
    "register_metric",
    "register_model",
    "register_sampler",
    "register_scorer",
]

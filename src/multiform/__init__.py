"""Multiform evaluates language models: one dataset, every prompt form.

A name is imported when it is first used, so that `multiform --help` reads no more than it needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiform import compat as compat
    from multiform.compat.eval_framework.base_task import BaseTask as BaseTask
    from multiform.compat.eval_framework.samples import BaseMetricContext as BaseMetricContext
    from multiform.errors import ConfigError as ConfigError
    from multiform.errors import DataError as DataError
    from multiform.errors import IncompleteRunError as IncompleteRunError
    from multiform.errors import ModelError as ModelError
    from multiform.errors import MultiformError as MultiformError
    from multiform.errors import RunInterrupted as RunInterrupted
    from multiform.errors import UsageError as UsageError
    from multiform.fields import Doc as Doc
    from multiform.fields import process_field as process_field
    from multiform.formats.base import FormatConfig as FormatConfig
    from multiform.formats.base import register_format as register_format
    from multiform.formats.builtin import BPBFormat as BPBFormat
    from multiform.formats.builtin import ClozeFormat as ClozeFormat
    from multiform.formats.builtin import COTGenFormat as COTGenFormat
    from multiform.formats.builtin import GenerateFormat as GenerateFormat
    from multiform.formats.builtin import HybridFormat as HybridFormat
    from multiform.formats.builtin import MCQAFormat as MCQAFormat
    from multiform.formats.dialects.metric_classes import BaseMetric as BaseMetric
    from multiform.formats.dialects.metric_results import MetricResult as MetricResult
    from multiform.formats.dialects.styler import BPBStyle as BPBStyle
    from multiform.formats.dialects.styler import ClozeStyle as ClozeStyle
    from multiform.formats.dialects.styler import MCStyle as MCStyle
    from multiform.formats.dialects.styler import ResponseType as ResponseType
    from multiform.formats.dialects.styler import TaskStyle as TaskStyle
    from multiform.formats.dialects.styler import TaskStyler as TaskStyler
    from multiform.formats.dialects.styler import format_mc_prompt as format_mc_prompt
    from multiform.formats.dialects.styler import shuffle_correct_with_distractors as shuffle_correct_with_distractors
    from multiform.formats.dialects.template import ClozeTemplateConfig as ClozeTemplateConfig
    from multiform.formats.dialects.template import MCQTemplateConfig as MCQTemplateConfig
    from multiform.formats.dialects.template import TemplateConfig as TemplateConfig
    from multiform.formats.dialects.template_factory import TemplateFactory as TemplateFactory
    from multiform.formats.localization import Language as Language
    from multiform.forms import ChatTemplate as ChatTemplate
    from multiform.forms import Form as Form
    from multiform.forms import GenerateTask as GenerateTask
    from multiform.forms import MultipleChoiceTask as MultipleChoiceTask
    from multiform.forms import RunSettings as RunSettings
    from multiform.forms import Sample as Sample
    from multiform.forms import Sampler as Sampler
    from multiform.forms import ScoredSample as ScoredSample
    from multiform.forms import Task as Task
    from multiform.forms import register_sampler as register_sampler
    from multiform.labels import answer_key_to_index as answer_key_to_index
    from multiform.lint.forms import lint_form as lint_form
    from multiform.lint.forms import lint_tasks as lint_tasks
    from multiform.models import Model as Model
    from multiform.models import register_model as register_model
    from multiform.requests import Completion as Completion
    from multiform.requests import FailedRequest as FailedRequest
    from multiform.requests import GenerationRequest as GenerationRequest
    from multiform.requests import Instance as Instance
    from multiform.requests import LLOutput as LLOutput
    from multiform.requests import LoglikelihoodRequest as LoglikelihoodRequest
    from multiform.requests import RollingRequest as RollingRequest
    from multiform.results import Results as Results
    from multiform.results import read_results as read_results
    from multiform.run.evaluate import evaluate as evaluate
    from multiform.run.progress import Progress as Progress
    from multiform.run.rescoring import rescore as rescore
    from multiform.scoring.aggregations import register_aggregation as register_aggregation
    from multiform.scoring.filters import Filter as Filter
    from multiform.scoring.filters import register_filter as register_filter
    from multiform.scoring.metrics import Metric as Metric
    from multiform.scoring.metrics import register_metric as register_metric
    from multiform.scoring.reductions import register_reduction as register_reduction
    from multiform.scoring.scorers import ReadingScorer as ReadingScorer
    from multiform.scoring.scorers import Scorer as Scorer
    from multiform.scoring.scorers import register_scorer as register_scorer
    from multiform.stopping import stop_requested as stop_requested
    from multiform.tasks.config import TaskConfig as TaskConfig
    from multiform.tasks.group import GroupConfig as GroupConfig
    from multiform.tasks.keys import FewshotConfig as FewshotConfig
    from multiform.tasks.keys import FilterPipeline as FilterPipeline
    from multiform.tasks.keys import FilterStep as FilterStep
    from multiform.tasks.keys import MetricConfig as MetricConfig
    from multiform.tasks.keys import ScorerConfig as ScorerConfig
    from multiform.tasks.manager import TaskManager as TaskManager

#: The names of each module, as they are imported above for type checkers.
_HOMES = {
    "compat.eval_framework.base_task": "BaseTask",
    "compat.eval_framework.samples": "BaseMetricContext",
    "errors": "ConfigError DataError IncompleteRunError ModelError MultiformError RunInterrupted UsageError",
    "fields": "Doc process_field",
    "formats.base": "FormatConfig register_format",
    "formats.builtin": "BPBFormat COTGenFormat ClozeFormat GenerateFormat HybridFormat MCQAFormat",
    "formats.dialects.metric_classes": "BaseMetric",
    "formats.dialects.metric_results": "MetricResult",
    "formats.dialects.styler": (
        "BPBStyle ClozeStyle MCStyle ResponseType TaskStyle TaskStyler format_mc_prompt "
        "shuffle_correct_with_distractors"
    ),
    "formats.dialects.template": "ClozeTemplateConfig MCQTemplateConfig TemplateConfig",
    "formats.dialects.template_factory": "TemplateFactory",
    "formats.localization": "Language",
    "forms": (
        "ChatTemplate Form GenerateTask MultipleChoiceTask RunSettings Sample Sampler ScoredSample Task "
        "register_sampler"
    ),
    "labels": "answer_key_to_index",
    "lint.forms": "lint_form lint_tasks",
    "models": "Model register_model",
    "requests": "Completion FailedRequest GenerationRequest Instance LLOutput LoglikelihoodRequest RollingRequest",
    "results": "Results read_results",
    "run.evaluate": "evaluate",
    "run.progress": "Progress",
    "run.rescoring": "rescore",
    "scoring.aggregations": "register_aggregation",
    "scoring.filters": "Filter register_filter",
    "scoring.metrics": "Metric register_metric",
    "scoring.reductions": "register_reduction",
    "scoring.scorers": "ReadingScorer Scorer register_scorer",
    "stopping": "stop_requested",
    "tasks.config": "TaskConfig",
    "tasks.group": "GroupConfig",
    "tasks.keys": "FewshotConfig FilterPipeline FilterStep MetricConfig ScorerConfig",
    "tasks.manager": "TaskManager",
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = sorted(["compat", *_MODULES])


def __getattr__(name: str) -> Any:
    """A name, imported when it is first used."""
    if name == "compat":
        return import_module("multiform.compat")
    if name not in _MODULES:
        raise AttributeError(f"module 'multiform' has no attribute '{name}'")
    value = globals()[name] = getattr(import_module(f"multiform.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__

"""Forms: a task under one format with the settings of a run; its documents become samples, and responses scores."""

from multiform.forms.form import Form
from multiform.forms.sample import Sample, ScoredSample
from multiform.forms.samplers import Sampler, register_sampler, samplers
from multiform.forms.spec import FormSpec, RunSettings
from multiform.forms.task import GenerateTask, LoglikelihoodTask, MultipleChoiceTask, RollingTask, Task
from multiform.prompts.prompt import ChatTemplate

__all__ = [
    "ChatTemplate",
    "Form",
    "FormSpec",
    "GenerateTask",
    "LoglikelihoodTask",
    "MultipleChoiceTask",
    "RollingTask",
    "RunSettings",
    "Sample",
    "Sampler",
    "ScoredSample",
    "Task",
    "register_sampler",
    "samplers",
]

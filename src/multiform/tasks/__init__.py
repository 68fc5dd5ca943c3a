"""Tasks: from documents over few-shot examples and prompts to requests and scores."""

from multiform.tasks.distinct import distinct, same_task
from multiform.tasks.fewshot import Sampler, register_sampler, samplers
from multiform.tasks.form import ChatTemplate, Form, RunSettings
from multiform.tasks.group import Group, Node, node_name
from multiform.tasks.manager import TaskManager
from multiform.tasks.prompt import PromptOptions
from multiform.tasks.sample import Responses, Sample, ScoredSample
from multiform.tasks.styled import BaseTask, task_classes
from multiform.tasks.styling import NO_SUBJECT
from multiform.tasks.task import GenerateTask, LoglikelihoodTask, MultipleChoiceTask, RollingTask, Task

__all__ = [
    "NO_SUBJECT",
    "BaseTask",
    "ChatTemplate",
    "Form",
    "GenerateTask",
    "Group",
    "LoglikelihoodTask",
    "MultipleChoiceTask",
    "Node",
    "PromptOptions",
    "Responses",
    "RollingTask",
    "RunSettings",
    "Sample",
    "Sampler",
    "ScoredSample",
    "Task",
    "TaskManager",
    "distinct",
    "node_name",
    "register_sampler",
    "same_task",
    "samplers",
    "task_classes",
]

"""Tasks: from documents over few-shot examples and prompts to requests and scores."""

from multiform.tasks.distinct import distinct, same_task
from multiform.tasks.fewshot import register_sampler, samplers
from multiform.tasks.generation import GenerateTask
from multiform.tasks.group import Group, Node, node_name
from multiform.tasks.loglikelihood import LoglikelihoodTask, RollingTask
from multiform.tasks.manager import TaskManager
from multiform.tasks.multiple_choice import MultipleChoiceTask
from multiform.tasks.records import Answered, ChatTemplate, PromptOptions, ScoredDoc
from multiform.tasks.styled import NO_SUBJECT, BaseTask, task_classes
from multiform.tasks.task import Task

__all__ = [
    "NO_SUBJECT",
    "Answered",
    "BaseTask",
    "ChatTemplate",
    "GenerateTask",
    "Group",
    "LoglikelihoodTask",
    "MultipleChoiceTask",
    "Node",
    "PromptOptions",
    "RollingTask",
    "ScoredDoc",
    "Task",
    "TaskManager",
    "distinct",
    "node_name",
    "register_sampler",
    "same_task",
    "samplers",
    "task_classes",
]

"""Infer the raw question, choices and answer of a task whose `doc_to_text` is a finished prompt."""

from multiform.formats.infer.description import DescriptionWithoutChoices, about_choices, without_choices
from multiform.formats.infer.document import problem
from multiform.formats.infer.infer import TaskFields, infer, infer_task
from multiform.formats.infer.result import ADD_CHOICES, Recovered, Refused, shown

__all__ = [
    "ADD_CHOICES",
    "DescriptionWithoutChoices",
    "Recovered",
    "Refused",
    "TaskFields",
    "about_choices",
    "infer",
    "infer_task",
    "problem",
    "shown",
    "without_choices",
]

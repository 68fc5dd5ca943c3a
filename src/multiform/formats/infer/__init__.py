"""Infer the raw question, choices and answer of a task whose `doc_to_text` is a finished prompt."""

from multiform.formats.infer.document import ADD_CHOICES, problem, shown
from multiform.formats.infer.infer import Recovered, Refused, TaskFields, infer, infer_task
from multiform.formats.infer.words import DescriptionWithoutChoices, about_choices, without_choices

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

"""The raw question, choices and answer of a task that was written as a finished prompt."""

from multiform.formats.infer.document import problem
from multiform.formats.infer.infer import Prompt, infer
from multiform.formats.infer.result import Recovered, Refused, shown

__all__ = ["Prompt", "Recovered", "Refused", "infer", "problem", "shown"]

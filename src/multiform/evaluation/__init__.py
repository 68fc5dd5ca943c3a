"""A whole run: its options, its steps, its results; and recorded responses that are scored again."""

from multiform.evaluation.evaluate import TaskLike, evaluate
from multiform.evaluation.rescore import rescore

__all__ = ["TaskLike", "evaluate", "rescore"]

"""A whole run: its options, its steps, its results; and recorded responses that are scored again."""

from multiform.evaluation.evaluator import TaskLike, evaluate
from multiform.evaluation.rescoring import rescore

__all__ = ["TaskLike", "evaluate", "rescore"]

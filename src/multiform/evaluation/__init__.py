"""evaluate and rescore: a whole run from its options to its results, and recorded responses scored again."""

from multiform.evaluation.evaluator import TaskLike, evaluate
from multiform.evaluation.rescoring import rescore

__all__ = ["TaskLike", "evaluate", "rescore"]

"""A whole run: its options, its steps, its results."""

from multiform.evaluation.evaluate import TaskLike, evaluate

__all__ = ["TaskLike", "evaluate"]

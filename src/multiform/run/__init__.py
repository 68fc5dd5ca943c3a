"""Runs: options, the store of responses, executors, schedules, and the way from a command to its results."""

from multiform.run.evaluate import TaskLike, evaluate
from multiform.run.rescoring import rescore

__all__ = ["TaskLike", "evaluate", "rescore"]

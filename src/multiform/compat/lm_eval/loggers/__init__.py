"""What writes results to files."""

from multiform.compat.lm_eval.loggers.evaluation_tracker import EvaluationTracker

__all__ = ["EvaluationTracker"]

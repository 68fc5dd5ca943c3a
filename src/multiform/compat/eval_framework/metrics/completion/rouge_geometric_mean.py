"""ROUGE: the mean of three kinds."""

from multiform.compat.eval_framework.metrics.completion.rouge import ROUGE_GEOMETRIC_MEAN

__all__ = ["ROUGE_GEOMETRIC_MEAN"]

"""ROUGE of pairs of words."""

from multiform.compat.eval_framework.metrics.completion.rouge import ROUGE_2

__all__ = ["ROUGE_2"]

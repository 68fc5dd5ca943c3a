"""ROUGE of the longest common subsequence."""

from multiform.compat.eval_framework.metrics.completion.rouge import ROUGE_L

__all__ = ["ROUGE_L"]

"""ROUGE of single words."""

from multiform.compat.eval_framework.metrics.completion.rouge import ROUGE_1

__all__ = ["ROUGE_1"]

"""Samples and responses as metrics see them."""

from multiform.formats.dialects.samples import (
    BaseMetricContext,
    Completion,
    ConcatCompression,
    Error,
    LanguageMetricContext,
    Loglikelihood,
    MetricContext,
    RawCompletion,
    RawLoglikelihood,
    UntemplatedPrompt,
    extract_context_metric,
)

__all__ = [
    "BaseMetricContext",
    "Completion",
    "ConcatCompression",
    "Error",
    "LanguageMetricContext",
    "Loglikelihood",
    "MetricContext",
    "RawCompletion",
    "RawLoglikelihood",
    "UntemplatedPrompt",
    "extract_context_metric",
]

"""Whether the most likely completion is right."""

from multiform.formats.dialects.metric_classes import (
    AccuracyLoglikelihood,
    AccuracyNormLoglikelihood,
    PartialEvalAccuracy,
)

__all__ = [
    "AccuracyLoglikelihood",
    "AccuracyNormLoglikelihood",
    "PartialEvalAccuracy",
]

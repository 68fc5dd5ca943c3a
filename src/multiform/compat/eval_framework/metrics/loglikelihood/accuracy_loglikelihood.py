"""Whether the most likely completion is right."""

from multiform.formats.measures import (
    AccuracyLoglikelihood,
    AccuracyNormLoglikelihood,
    PartialEvalAccuracy,
)

__all__ = [
    "AccuracyLoglikelihood",
    "AccuracyNormLoglikelihood",
    "PartialEvalAccuracy",
]

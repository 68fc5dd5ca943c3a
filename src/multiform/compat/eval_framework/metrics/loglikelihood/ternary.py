"""A score with points for saying that one does not know."""

from multiform.formats.dialects.metric_classes import TernaryScore

__all__ = [
    "TernaryScore",
]

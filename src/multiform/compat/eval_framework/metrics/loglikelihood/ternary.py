"""A score with points for saying that one does not know."""

from multiform.formats.measures import (
    TernaryScore,
)

__all__ = [
    "TernaryScore",
]

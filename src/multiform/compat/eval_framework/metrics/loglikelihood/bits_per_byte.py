"""Bits per byte of the right completion."""

from multiform.formats.measures import (
    BitsPerByteLoglikelihood,
)

__all__ = [
    "BitsPerByteLoglikelihood",
]

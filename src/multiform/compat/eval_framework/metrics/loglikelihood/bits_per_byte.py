"""Bits per byte of the right completion."""

from multiform.formats.dialects.metric_classes import BitsPerByteLoglikelihood

__all__ = [
    "BitsPerByteLoglikelihood",
]

"""The configuration of a group."""

from multiform.config import GroupConfig

__all__ = ["GroupConfig"]

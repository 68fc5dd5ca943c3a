"""The index of task files: the tasks, groups and tags that folders define."""

from multiform.tasks.index.build import build_index, warn_of
from multiform.tasks.index.entry import Entry, Index

__all__ = ["Entry", "Index", "build_index", "warn_of"]

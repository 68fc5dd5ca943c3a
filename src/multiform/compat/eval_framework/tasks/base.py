"""Tasks as classes, and their samples."""

from multiform.catalog.base_task import BaseTask, SubjectType
from multiform.catalog.sample_hooks import RANDOM_SEED
from multiform.catalog.styler_hooks import NO_SUBJECT
from multiform.formats import Language, ResponseType, TaskStyle
from multiform.formats.dialects.samples import Sample

__all__ = [
    "NO_SUBJECT",
    "RANDOM_SEED",
    "BaseTask",
    "Language",
    "ResponseType",
    "Sample",
    "SubjectType",
    "TaskStyle",
]

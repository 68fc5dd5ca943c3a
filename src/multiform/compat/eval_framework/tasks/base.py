"""Tasks as classes, and their samples."""

from multiform.formats import (
    Language,
    ResponseType,
    TaskStyle,
)
from multiform.samples import (
    Sample,
)
from multiform.tasks.sampling import (
    RANDOM_SEED,
)
from multiform.tasks.styled import (
    BaseTask,
    SubjectType,
)
from multiform.tasks.styling import (
    NO_SUBJECT,
)

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

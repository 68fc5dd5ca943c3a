"""Stylers and their helpers."""

from multiform.compat.eval_framework.tasks.utils import get_n_letters
from multiform.formats import (
    BPBStyle,
    ClozeStyle,
    Language,
    MCCompletionStyle,
    MCStyle,
    ResponseType,
    TaskStyle,
    TaskStyler,
    answer_key_to_index,
    format_mc_prompt,
    shuffle_correct_with_distractors,
)

__all__ = [
    "BPBStyle",
    "ClozeStyle",
    "Language",
    "MCCompletionStyle",
    "MCStyle",
    "ResponseType",
    "TaskStyle",
    "TaskStyler",
    "answer_key_to_index",
    "format_mc_prompt",
    "get_n_letters",
    "shuffle_correct_with_distractors",
]

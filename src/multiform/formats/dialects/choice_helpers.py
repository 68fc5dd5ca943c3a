"""Helpers for tasks with choices: format a prompt, shuffle choices, read an answer key."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence

from multiform.errors import DataError, shorten
from multiform.formats.dialects.builtin_stylers import MCStyle


def format_mc_prompt(question_text: str, choices: list[str], *, space_prefixed_labels: bool = False) -> str:
    r"""A question and its choices with letters, each on a line of its own.

    >>> format_mc_prompt("Question: What is 1+1?", ["1", "2", "3"])
    'Question: What is 1+1?\nA. 1\nB. 2\nC. 3\n'
    >>> format_mc_prompt("Question: What is 1+1?", ["1", "2"], space_prefixed_labels=True)
    'Question: What is 1+1?\n A. 1\n B. 2\n'
    """
    style = MCStyle(question_prefix="", space_prefixed_labels=space_prefixed_labels)
    return style.get_instruction_text(question_text, choices)


def shuffle_correct_with_distractors(correct: str, distractors: Sequence[str], seed_text: str) -> tuple[list[str], int]:
    """The correct answer and the distractors in an order that depends on `seed_text`, and the correct one's index.

    >>> shuffle_correct_with_distractors("Paris", ["Berlin", "Rome"], "France?")
    (['Rome', 'Berlin', 'Paris'], 2)
    """
    choices = [*distractors, correct]
    order = list(range(len(choices)))
    random.Random(int(hashlib.sha256(seed_text.encode()).hexdigest(), 16)).shuffle(order)
    return [choices[index] for index in order], order.index(len(distractors))


def answer_key_to_index(key: str) -> int:
    """The index of the choice that an answer key names by a letter or a 1-based number.

    >>> answer_key_to_index("A"), answer_key_to_index("c"), answer_key_to_index("2")
    (0, 2, 1)
    """
    text = str(key).strip()
    if text.isdecimal() and int(text) > 0:
        return int(text) - 1
    if len(text) == 1 and text.isascii() and text.isalpha():
        return ord(text.upper()) - ord("A")
    raise DataError(f"{shorten(key)} is neither a letter nor a number of 1 or more", hint="check the answer key")

"""A small task with choices, from which tests make forms and tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from multiform import TaskConfig

ROWS = [
    {"question": "Can fish fly?", "choices": ["no", "yes"], "answer": 0},
    {"question": "Is snow white?", "choices": ["no", "yes"], "answer": 1},
    {"question": "Is fire cold?", "choices": ["no", "yes"], "answer": 0},
]
SHOTS = [
    {"question": "Is ice cold?", "choices": ["no", "yes"], "answer": 1},
    {"question": "Is lead light?", "choices": ["no", "yes"], "answer": 0},
]
KEYS: dict[str, Any] = {
    "task": "facts",
    "output_type": "multiple_choice",
    "custom_dataset": lambda **kwargs: {"test": ROWS, "shots": SHOTS},
    "test_split": "test",
    "fewshot_split": "shots",
    "fewshot_config": {"sampler": "first_n"},
    "doc_to_text": "{{question}}",
    "doc_to_choice": "choices",
    "doc_to_target": "answer",
}


@pytest.fixture
def config() -> Callable[..., TaskConfig]:
    """Makes the configuration of the task, with other keys where they are given."""

    def make(**keys: Any) -> TaskConfig:
        values = {key: value for key, value in {**KEYS, **keys}.items() if value is not None}
        return TaskConfig.from_dict(values)

    return make

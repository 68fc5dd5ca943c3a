"""A healthy task, and lint of what is made of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from multiform.forms import RunSettings, Task
from multiform.lint.forms import FormFindings, lint_form
from multiform.lint.tokens import Tokenizer
from multiform.tasks.manager import TaskManager

Row = dict[str, Any]

NAMES = [
    "Oslo",
    "Rome",
    "Bern",
    "Kyiv",
    "Lima",
    "Cairo",
    "Paris",
    "Tokyo",
    "Quito",
    "Delhi",
    "Seoul",
    "Hanoi",
    "Sofia",
    "Tunis",
    "Accra",
    "Dakar",
]


def row(number: int) -> Row:
    """A question with four cities, of which one is right; positions and lengths tell nothing."""
    cities = [NAMES[(5 * number + 3 * place) % len(NAMES)] for place in range(4)]
    answer = (number * 7 + number // 4) % 4
    return {"question": f"Which city has {number + 2} bridges?", "choices": cities, "answer": answer, "id": number}


def word_row(number: int) -> Row:
    """A question with a worked solution."""
    sums = f"{number} plus 3 is {number + 3}."
    return {"question": f"What is {number} plus 3?", "solution": sums, "answer": f"{number + 3} apples"}


#: The documents that are evaluated, and those that examples are drawn from.
ROWS, SHOTS = [row(number) for number in range(40)], [row(number) for number in range(40, 48)]
WORD_ROWS, WORD_SHOTS = [word_row(number) for number in range(40)], [word_row(number) for number in range(40, 48)]

CHOICES = {
    "task": "t",
    "dataset_path": "data",
    "test_split": "test",
    "fewshot_split": "shots",
    "output_type": "multiple_choice",
    "doc_to_text": "Question: {{question}}\nAnswer:",
    "doc_to_choice": "choices",
    "doc_to_target": "answer",
}
WORDS = {
    **CHOICES,
    "output_type": "generate_until",
    "doc_to_choice": None,
    "generation_kwargs": {"until": ["\n\n"], "max_gen_toks": 16},
    "metric_list": [{"metric": "exact_match"}],
}


class Lint:
    """Writes a task and its rows into a folder, and lints it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self,
        keys: Mapping[str, Any] = {},
        rows: Sequence[Row] | None = None,
        shots: Sequence[Row] | None = None,
        *,
        base: Mapping[str, Any] = CHOICES,
        name: str = "",
        tokenizer: Tokenizer | None = None,
        **settings: Any,
    ) -> FormFindings:
        words = base is WORDS
        self.write("data/test.jsonl", rows if rows is not None else WORD_ROWS if words else ROWS)
        self.write("data/shots.jsonl", shots if shots is not None else WORD_SHOTS if words else SHOTS)
        config = {key: value for key, value in {**base, **keys}.items() if value is not None}
        (self.folder / "task.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
        [loaded] = TaskManager().load(f"{self.folder / 'task.yaml'}{name}")
        task = Task.from_config(loaded).under(RunSettings(**settings))
        return lint_form(task.form, task.form.docs(), tokenizer)

    def write(self, name: str, rows: Sequence[Row]) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def lint(tmp_path: Path) -> Lint:
    return Lint(tmp_path)


@pytest.fixture(scope="session")
def make_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Tokenizer]:
    """Loads small tokenizers, which are made once for each chat template."""
    pytest.importorskip("transformers", reason="transformers is not installed: pip install 'multiform[hf]'")
    from tests.tiny_models import TEXT
    from tests.tiny_models import make_tokenizer as tiny

    def make(template: str | None = None, **options: Any) -> Tokenizer:
        folder = tmp_path_factory.mktemp("tokenizer")
        tokenizer = tiny(bos=True, text=TEXT + " A B C D" * 40)  # each label is one token
        tokenizer.chat_template = template
        tokenizer.save_pretrained(folder)
        return Tokenizer.load(str(folder), **options)

    return make

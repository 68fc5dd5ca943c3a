"""A task as a Python class: its methods give the data, and its styler writes and scores the prompts.

A file with such classes is a task file as well: `multiform run --tasks examples/custom_base_task.py --model dummy`.

    python examples/custom_base_task.py

prints::

    CapitalsChoice: acc 0.500
    CapitalsCloze: acc 0.167
    CapitalsChoice@cloze: acc 0.167
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from multiform import BaseTask, ClozeStyle, MCStyle, evaluate


class _Capitals(BaseTask[str]):
    """The data, which both tasks share: three methods that read a row."""

    DATASET_PATH = str(Path(__file__).with_name("capitals.jsonl"))
    SAMPLE_SPLIT = "test"
    FEWSHOT_SPLIT = "test"

    def _get_raw_question(self, item: dict[str, Any]) -> str:
        return str(item["question"])

    def _get_choices(self, item: dict[str, Any]) -> list[str]:
        return list(item["cities"])

    def _get_correct_index(self, item: dict[str, Any]) -> int:
        return self._get_choices(item).index(item["answer"])


class CapitalsChoice(_Capitals):
    """Choices with letters; the letters are ranked."""

    NAME = "CapitalsChoice"
    TASK_STYLER = MCStyle(space_prefixed_labels=True)


class CapitalsCloze(_Capitals):
    """No choices in the prompt; their texts are ranked."""

    NAME = "CapitalsCloze"
    TASK_STYLER = ClozeStyle(question_prefix="")


if __name__ == "__main__":
    # By class, by object, or by name with a format in the place of the styler.
    results = evaluate(model="dummy", tasks=[CapitalsChoice, CapitalsCloze(), "CapitalsChoice@cloze"])
    for form in ("CapitalsChoice", "CapitalsCloze", "CapitalsChoice@cloze"):
        print(f"{form}: acc {results[form]['acc']:.3f}")

"""A prompt format of your own: a dataclass below one of the built-in formats.

Its `format_name` is found after `@`, under `formats:` in a task file, and by `multiform ls formats`.

    python examples/custom_format.py

prints::

    What is the capital of France?
    (a) Lyon
    (b) Paris
    (c) Nice
    The answer is
    brackets: acc 0.167, mcqa: acc 0.500
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from multiform import MCQAFormat, Task, TaskManager, evaluate

TASK = Path(__file__).with_name("capitals.yaml")


@dataclass(frozen=True, kw_only=True)
class Brackets(MCQAFormat):
    """Choices as (a), (b), (c), without the word "Question"."""

    format_name = "brackets"
    question_prefix: str = ""
    choice_labels: tuple[str, ...] = ("a", "b", "c", "d", "e", "f")
    choice_format: str = "({label}) {choice}"
    answer_prompt: str = "The answer is"


if __name__ == "__main__":
    task = Task.from_config(TaskManager().load(f"{TASK}@brackets")[0])
    print(task.sample(0, task.eval_docs[0]).prompt)

    results = evaluate(model="dummy", tasks=f"{TASK}@brackets+mcqa")
    brackets, mcqa = results["capitals@brackets"]["acc"], results["capitals@mcqa"]["acc"]
    print(f"brackets: acc {brackets:.3f}, mcqa: acc {mcqa:.3f}")

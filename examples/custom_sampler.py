"""A few-shot sampler of your own: it draws the indexes of the documents shown before the question.

    python examples/custom_sampler.py

prints::

    Question: What is the capital of France?
    Answer: Paris

    Question: What is the capital of Canada?
    Answer: Ottawa

    Question: What is the capital of Australia?
    Answer:
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from multiform import RunSettings, Sampler, Task, TaskManager, register_sampler

TASK = Path(__file__).with_name("capitals.yaml")


@register_sampler("shortest")
class Shortest(Sampler):
    """Takes the documents with the shortest questions."""

    def sample(self, n: int, *, exclude: Any | None = None) -> list[int]:
        """The indexes of n documents of `self.pool`, none of which is the excluded one."""
        others = [index for index, doc in enumerate(self.pool) if doc != exclude]
        return sorted(others, key=lambda index: len(self.pool[index]["question"]))[:n]


if __name__ == "__main__":
    # In a task file: `fewshot_config: {sampler: shortest}`.
    (config,) = TaskManager().load(f"{TASK}@cloze", {"fewshot_config": {"sampler": "shortest"}})
    task = Task.from_config(config).under(RunSettings(num_fewshot=2))
    print(task.sample(1, task.eval_docs[1]).prompt)

"""A template of your own, for tasks that say `template:`.

A template writes the prompt in Python. If the fields of a format are enough, write a format instead
(`custom_format.py`): it works with every dialect and can be printed as Jinja.

    python examples/custom_template.py

prints::

    WHAT IS THE CAPITAL OF FRANCE? Lyon / Paris / Nice?
    shout: acc 0.167
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from multiform import Task, TaskManager, TemplateConfig, evaluate

TASK = Path(__file__).with_name("capitals.yaml")


@dataclass
class Shout(TemplateConfig):
    """The question in capitals, the choices between slashes; their texts are ranked."""

    template_type: ClassVar[str] = "shout"

    def format_prompt(self, question: str, choices: list[str] | None = None) -> str:
        """The prompt of one question."""
        return question.upper() + (f" {' / '.join(choices)}?" if choices else "")

    def to_dict(self) -> dict[str, Any]:
        """The template as `template:` has it."""
        return {"template_type": self.template_type}


if __name__ == "__main__":
    overrides = {"formats": None, "template": "shout"}  # what a task file says as `template: shout`
    (config,) = TaskManager().load(str(TASK), overrides)
    task = Task.from_config(config)
    print(task.doc_to_text(task.eval_docs[0]))

    results = evaluate(model="dummy", tasks=config)
    print(f"shout: acc {results['capitals']['acc']:.3f}")

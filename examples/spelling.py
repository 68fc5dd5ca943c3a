"""A task as a subclass of `Task`: override the methods that differ from an ordinary task.

`spelling.yaml` names the class, so that the command line finds it as well:
`multiform run --tasks examples/spelling.yaml --model dummy`.

    python examples/spelling.py

prints::

    Spell the name backwards: Paris
    -> siraP
    right letters: 0.242 of 6 documents
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from multiform import Doc, GenerateTask, Task, TaskManager, evaluate
from multiform.fields import FieldSpec

TASK = Path(__file__).with_name("spelling.yaml")


class Spelling(GenerateTask):
    """Has the model spell a name backwards, and counts the letters that stand in the right place."""

    def doc_to_text(self, doc: Doc, doc_to_text: FieldSpec = None) -> str:
        """The prompt of a document."""
        return f"Spell the name backwards: {doc['answer']}\n->"

    def doc_to_target(self, doc: Doc, doc_to_target: FieldSpec = None) -> str:
        """What the model should write."""
        return f" {doc['answer'][::-1]}"

    def process_results(self, doc: Doc, results: Sequence[Any]) -> Mapping[str, Any]:
        """The values of one document; `results` holds what the model wrote, once for each repeat."""
        written, right = results[0].strip(), self.doc_to_target(doc).strip()
        matches = sum(a == b for a, b in zip(written, right, strict=False))
        return {"right_letters": matches / len(right)}

    def aggregation(self) -> dict[str, Callable[[Sequence[Any]], float]]:
        """How the values of all documents become one number."""
        return {"right_letters": lambda values: sum(values) / len(values)}

    def higher_is_better(self) -> dict[str, bool]:
        """Whether more is better."""
        return {"right_letters": True}


if __name__ == "__main__":
    task = Task.from_config(TaskManager().load(str(TASK))[0])
    doc = task.eval_docs[0]
    print(task.doc_to_text(doc) + task.doc_to_target(doc))

    results = evaluate(model="dummy", model_args={"text": " siraP"}, tasks=str(TASK))
    scores = results["spelling"]
    print(f"right letters: {scores['right_letters']:.3f} of {scores['sample_len']} documents")

"""A scorer of your own: filters, answer extraction and metrics in one class.

Override `score` for one completion, `score_instances` for all documents at once, or `read_answer` of a `ReadingScorer`
to extract the answer from a completion. The fields of the class are the `kwargs` in the task file.

    python examples/custom_scorer.py

prints::

    within 10 %: close 0.667, error 0.121
    within 50 %: close 1.000, error 0.121
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from multiform import Scorer, TaskConfig, evaluate, register_scorer
from multiform.scoring.outcome import Outcome, TextOutcome

ROWS = [
    {"question": "How many metres high is the Eiffel Tower?", "metres": 330},
    {"question": "How many metres high is the roof of the Empire State Building?", "metres": 381},
    {"question": "How many metres high is the Chrysler Building?", "metres": 319},
]


@register_scorer("close_enough")
@dataclass(kw_only=True, eq=False)
class CloseEnough(Scorer):
    """Takes a number as right that is close to the right one."""

    within: float = 0.1

    def score(self, outcome: Outcome) -> dict[str, Any]:
        """The values of one completion, by the names under which they are reported."""
        assert isinstance(outcome, TextOutcome)
        right = float(outcome.references[0])
        try:
            error = abs(float(outcome.prediction) - right) / right
        except ValueError:  # no number at all
            error = 1.0
        return {"close": float(error <= self.within), "error": error}


def rows(**kwargs: Any) -> dict[str, list[dict[str, Any]]]:
    """The documents, as `custom_dataset` gives them: a list for each split."""
    return {"test": ROWS}


def config(within: float) -> TaskConfig:
    """The task with a scorer of this width."""
    return TaskConfig(
        task="heights",
        custom_dataset=rows,
        test_split="test",
        output_type="generate_until",
        doc_to_text="{{question}} Answer with a number.\n",
        doc_to_target="{{metres}}",
        generation_kwargs={"max_gen_toks": 8, "until": ["\n"]},
        scorer={"type": "close_enough", "kwargs": {"within": within}},
    )


if __name__ == "__main__":
    for within in (0.1, 0.5):
        scores = evaluate(model="dummy", model_args={"text": "300"}, tasks=config(within))["heights"]
        print(f"within {within:.0%}: close {scores['close']:.3f}, error {scores['error']:.3f}".replace("%", " %"))

"""A metric of your own: a function from the outcome of a document to a number.

An outcome is a `ChoiceOutcome` where choices are ranked, a `TextOutcome` where the model writes, and a
`LikelihoodOutcome` where one text is scored. An aggregation makes one number of all values; the mean is the default.

    python examples/custom_metric.py

prints::

    margin -2.77 ± 1.13, worst margin -6.96
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from multiform import TaskManager, evaluate, register_aggregation, register_metric
from multiform.scoring.outcome import ChoiceOutcome

TASK = Path(__file__).with_name("capitals.yaml")


@register_aggregation("lowest")
def lowest(values: Sequence[float]) -> float:
    """The lowest value of all documents."""
    return min(values)


def margin(outcome: ChoiceOutcome) -> float:
    """By how many nats the right choice is ahead of the best wrong one."""
    wrong = [value for index, value in enumerate(outcome.loglikelihoods) if index not in outcome.gold]
    return outcome.loglikelihoods[outcome.gold[0]] - max(wrong)


register_metric("margin", output_type="multiple_choice")(margin)
register_metric("worst_margin", output_type="multiple_choice", aggregation="lowest")(margin)


if __name__ == "__main__":
    # In a task file: `metric_list: [{metric: margin}, {metric: worst_margin}]`.
    metrics = {"metric_list": [{"metric": "margin"}, {"metric": "worst_margin"}]}
    results = evaluate(model="dummy", tasks=TaskManager().load(f"{TASK}@cloze", metrics))
    scores = results["capitals@cloze"]
    print(f"margin {scores['margin']:.2f} ± {scores['margin_stderr']:.2f}, worst margin {scores['worst_margin']:.2f}")

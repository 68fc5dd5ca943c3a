"""avg@k, pass@k and maj@k: closed forms, votes, and what they need."""

from __future__ import annotations

import itertools
import random
from statistics import mean
from typing import Any

import pytest

from multiform import Completion, ConfigError, Model, TaskConfig, evaluate
from multiform.scoring.reductions import build_reduction, majority, pass_at
from multiform.statistics.estimates import mean_estimate


def test_pass_at_k_is_the_mean_over_all_draws_of_k():
    values = [1, 0, 0, 1, 0, 0]
    for k in range(1, 7):
        draws = itertools.combinations(values, k)
        assert pass_at(values, k) == pytest.approx(mean(float(any(draw)) for draw in draws))


def test_majority_is_the_score_of_the_most_frequent_answer_not_of_most_scores():
    # 2 of 5 are right, and no other answer is given as often.
    assert majority([1, 0, 1, 0, 0], ["4", "1", "4", "2", "3"]) == 1.0
    assert majority([0, 0], [None, None]) == 0.0


def test_several_reductions_are_joined():
    reduction = build_reduction("avg@4+pass@2+maj@4")
    values, answers = [1, 0, 1, 0], ["a", "b", "a", "c"]
    assert reduction(values, answers) == {"avg@4": 0.5, "pass@2": pytest.approx(5 / 6), "maj@4": 1.0}
    assert reduction.needs == 4
    with pytest.raises(ConfigError, match="avg@5 needs 5 repeats, there are 4"):
        build_reduction("avg@5")(values)
    with pytest.raises(ConfigError, match="unknown reduction 'maj@0'"):
        build_reduction("maj@0")


class Guessing(Model):
    """Gives the right answer to every question in 2 of 5 repeats, and another wrong one each time else."""

    name = identity = "guessing"

    def loglikelihood(self, requests): ...

    def loglikelihood_rolling(self, requests): ...

    def generate(self, requests):
        for position, request in enumerate(requests):
            yield position, Completion(["4", "1", "4", "2", "3"][request.sample])


def test_a_run_with_repeats_has_all_three():
    task: dict[str, Any] = {
        "task": "sums",
        "formats": "open",
        "custom_dataset": lambda **_: {"test": [{"q": f"{n} + {4 - n}?", "a": "4"} for n in range(4)]},
        "test_split": "test",
        "doc_to_text": "q",
        "doc_to_target": "a",
        "repeats": 5,
        "metric_list": [{"metric": "exact_match", "reduction": "avg@5+pass@5+maj@5"}],
    }
    [form] = evaluate(model=Guessing(), tasks=[TaskConfig(**task)], use_cache=False).forms
    values = {key.partition("(")[0]: estimate.value for key, estimate in form.estimates.items() if "@" in key}
    assert values == {"avg@5": pytest.approx(0.4), "pass@5": 1.0, "maj@5": 1.0}


#: What 4 repeats give on average over documents whose chance p has the distribution Beta(2, 2): the mean of p, of
#: 1 - (1 - p)², and of p⁴ + 4p³(1 - p) + 3p²(1 - p)², where two answers of two repeats each count half.
TRUE_VALUES = {"avg@4": 1 / 2, "pass@2": 7 / 10, "maj@4": 1 / 2}


@pytest.mark.parametrize("name", TRUE_VALUES)
def test_intervals_cover_the_mean_over_documents_and_repeats(name):
    """95 % intervals over documents, each with 4 repeats, where documents differ in how hard they are."""
    rng, covered, runs, reduction = random.Random(1), 0, 400, build_reduction(name)
    for _ in range(runs):
        values = []
        for chance in (rng.betavariate(2, 2) for _ in range(60)):
            rights = [rng.random() < chance for _ in range(4)]
            values.append(reduction(rights, ["right" if right else "wrong" for right in rights])[name])
        low, high = mean_estimate(values).interval
        covered += low <= TRUE_VALUES[name] <= high
    assert 0.92 <= covered / runs <= 0.98

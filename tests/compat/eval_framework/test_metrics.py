"""eval-framework's metrics have the values here that they have there.

The values of metrics of texts and expressions below are those that the originals gave for the same inputs.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from multiform.compat.eval_framework.math_metrics import (
    MathMinervaCompletion,
    extract_answers,
    normalized_gold_from_solution,
)
from multiform.compat.eval_framework.metrics import (
    ConfidenceWeightedAccuracy,
    DistributionalCorrectnessScore,
    DropF1ExactMatch,
    DropMetricContext,
    IFEvalMetric,
    IFEvalMetricContext,
    TernaryScore,
    calculate,
)
from multiform.compat.eval_framework.samples import Completion, Loglikelihood
from multiform.formats.dialects.metric_classes import (
    AccuracyLoglikelihood,
    AccuracyNormLoglikelihood,
    BitsPerByteLoglikelihood,
)
from multiform.imports.finder import import_provided

needs_math_verify = pytest.mark.skipif(MathMinervaCompletion().unavailable() is not None, reason="no math-verify here")


#: What all responses say about the question.
ASKED: dict[str, Any] = {"id": 0, "subject": "sums", "prompt": "", "prompt_sequence_positions": None}


def completion(text, truth, context=None):
    raw: dict[str, Any] = {"raw_completion": text, "raw_completion_sequence_positions": None}
    return Completion(**ASKED, **raw, completion=text, ground_truth=truth, messages=None, context=context)


def values(metric, response):
    return [result.value for result in calculate(metric, response)]


@pytest.mark.parametrize(
    ("module", "name", "text", "truth", "expected"),
    [
        ("accuracy_completion", "AccuracyCompletion", "Paris", ["Rome", "Paris"], 1.0),
        ("accuracy_completion", "AccuracyCompletion", " Paris", "Paris", 0.0),
        ("accuracy_completion", "AccuracyCompletionOLMES", "so #### 1,234.", "1234", 1.0),
        ("accuracy_completion", "AccuracyCompletionOLMES", "$5", ["5", "6"], 0.5),
        ("f1", "F1", "the cat sat", "The cat", 0.8),
        ("f1", "F1", "", ["", "x"], 1.0),
        ("f1", "F1SquadNormalized", "The cat, sat!", "a cat", 0.6666666666666666),
    ],
)
def test_metrics_of_texts(module, name, text, truth, expected):
    metrics = import_provided(f"eval_framework.metrics.completion.{module}")
    assert values(getattr(metrics, name)(), completion(text, truth)) == [pytest.approx(expected)]


@pytest.mark.parametrize(
    ("text", "truths", "expected"),
    [
        ("12, the cat", [["cat", "12"]], [1.0, 1.0]),
        ("5 yards", [["5"], ["7"]], [0.67, 0.0]),
        ("New York", [["york"]], [0.67, 0.0]),
    ],
)
def test_drop_compares_spans(text, truths, expected):
    context = DropMetricContext(answer_tuples=truths)
    assert values(DropF1ExactMatch(), completion(text, None, context)) == expected


@needs_math_verify
@pytest.mark.parametrize(
    ("module", "name", "text", "truth", "expected"),
    [
        ("math_minerva_completion", "MathMinervaCompletion", r"so \boxed{x=5}", "5", [1.0, 1.0]),
        ("math_minerva_completion", "MathMinervaCompletion", "$1$ or $2 cm$", "2", [1.0, 1.0]),
        ("math_reasoning_completion", "MathReasoningCompletion", "x+1", "1+x", [1.0]),
        ("math_reasoning_completion", "MathReasoningCompletion", r"\frac{1}{2}", "0.5", [1.0]),
        ("math_reasoning_completion", "MathReasoningCompletion", "two", "2", [0.0]),
        ("math_reasoning_completion", "MathReasoningCompletion", "1,000 km", "1000", [1.0]),
    ],
)
def test_metrics_of_expressions(module, name, text, truth, expected):
    metrics = import_provided(f"eval_framework.metrics.completion.{module}")
    assert values(getattr(metrics, name)(), completion(text, truth)) == expected


def test_answers_of_math_are_found_and_normalised():
    stated = r"Final Answer: The final answer is $\frac12$. I hope it is correct."
    assert extract_answers(stated) == [r"\frac{1}{2}"]
    assert extract_answers("Final answer: the answer is 3 cm. I hope it is correct.", relaxed=True) == ["3"]
    assert extract_answers("a $b$ c $d$") == ["d"]
    assert normalized_gold_from_solution(r"It is $\boxed{x = 1,234 \text{ dollars}}$.") == "1234"
    assert normalized_gold_from_solution("nothing in a box") is None


def likelihoods(truth):
    scores = {" yes": -1.0, " no": -2.0, " I do not know": -4.0}
    return Loglikelihood(**ASKED, ground_truth=truth, loglikelihoods=scores, loglikelihoods_sequence_positions={})


def test_metrics_of_log_likelihoods():
    assert values(AccuracyLoglikelihood(), likelihoods(" yes")) == [1.0]
    assert values(AccuracyNormLoglikelihood(), likelihoods(" yes")) == [1.0]
    assert values(BitsPerByteLoglikelihood(), likelihoods(" yes")) == [pytest.approx(1 / (4 * math.log(2)))]
    assert values(TernaryScore(), likelihoods(" no")) == [-1.0]
    (confident,) = values(ConfidenceWeightedAccuracy(), likelihoods(" yes"))
    assert 1 / 3 < confident < 1 / 2


def test_saying_that_one_does_not_know_lowers_the_distributional_score():
    per_character = [math.exp(x / n) for x, n in ((-1, 4), (-2, 3), (-4, 14))]
    yes, no, idk = (weight / sum(per_character) for weight in per_character)
    (sure,) = values(DistributionalCorrectnessScore(), likelihoods(" yes"))
    assert sure == pytest.approx((yes - no) * (1 - idk))


def test_instructions_are_counted_one_by_one():
    rules = {"punctuation:no_comma": {}, "keywords:existence": {"keywords": ["ada"]}}
    context = IFEvalMetricContext(
        key=1, instruction_id_list=list(rules), prompt="Who?", additional_kwargs=list(rules.values())
    )
    results = IFEvalMetric().calculate(completion("Well, Ada", None, context))
    assert [(result.metric_name.partition("/")[2], result.value) for result in results] == [
        ("prompt_level_strict_acc", 0.0),
        ("inst_level_strict_acc", 0.0),
        ("inst_level_strict_acc", 1.0),
        ("prompt_level_loose_acc", 0.0),
        ("inst_level_loose_acc", 0.0),
        ("inst_level_loose_acc", 1.0),
    ]

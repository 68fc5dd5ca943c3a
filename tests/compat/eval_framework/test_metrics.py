"""eval-framework's metrics: those that registered metrics equal, and its own code for the others."""

from __future__ import annotations

import math
from typing import Any

import pytest

import multiform
from multiform import ConfigError, compat
from multiform.compat.eval_framework.samples import (
    Completion,
    ConfidenceWeightedAccuracy,
    DistributionalCorrectnessScore,
    Loglikelihood,
    TernaryScore,
    calculate,
)
from multiform.formats.dialects.metric_classes import (
    AccuracyCompletion,
    AccuracyLoglikelihood,
    AccuracyNormLoglikelihood,
    BitsPerByteLoglikelihood,
)

#: What all responses say about the question.
ASKED: dict[str, Any] = {"id": 0, "subject": "sums", "prompt": "", "prompt_sequence_positions": None}


def completion(text, truth, context=None):
    raw: dict[str, Any] = {"raw_completion": text, "raw_completion_sequence_positions": None}
    return Completion(**ASKED, **raw, completion=text, ground_truth=truth, messages=None, context=context)


def values(metric, response):
    return [result.value for result in calculate(metric, response)]


def test_metrics_of_texts():
    assert values(AccuracyCompletion(), completion("Paris", ["Rome", "Paris"])) == [1.0]
    assert values(AccuracyCompletion(), completion(" Paris", "Paris")) == [0.0]


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


#: A metric of eval-framework that needs another module of it.
F1 = """
from eval_framework.external.words import words
from eval_framework.metrics.base import BaseMetric, MetricResult
from eval_framework.shared.types import Completion


class F1(BaseMetric[Completion]):
    NAME = "F1"

    def calculate(self, response):
        shared = set(words(response.completion)) & set(words(response.ground_truth))
        return [MetricResult(metric_name=self.NAME, value=float(len(shared)), higher_is_better=True)]
"""
TASK = """
from eval_framework.metrics.completion.f1 import F1
from eval_framework.tasks.base import BaseTask, ResponseType


class Colours(BaseTask[str]):
    NAME = "compat_Colours"
    DATASET_PATH = "colours"
    SAMPLE_SPLIT = "test"
    RESPONSE_TYPE = ResponseType.COMPLETION
    METRICS = [F1]

    def __init__(self, num_fewshot: int = 0) -> None:
        super().__init__(num_fewshot)
        self.max_tokens = 8

    def _load_dataset(self, subject):
        self.dataset = {"test": [{"colour": "red"}, {"colour": "green"}]}

    def _get_instruction_text(self, item):
        return f"Say {item['colour']}."

    def _get_ground_truth(self, item):
        return item["colour"]

    def post_process_generated_completion(self, completion_text, sample=None):
        return "Red"
"""


@pytest.fixture
def clone(tmp_path):
    """A clone of eval-framework, with a benchmark and the modules of its metric."""
    package = tmp_path / "src" / "eval_framework"
    files = {
        "metrics/completion/f1.py": F1,
        "external/words.py": "def words(text):\n    return text.lower().split()\n",
        "metrics/completion/accuracy_completion.py": F1.replace("F1", "AccuracyCompletionOLMES"),
        "tasks/benchmarks/colours.py": TASK,
    }
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text, encoding="utf-8")
    yield package
    compat.uninstall("eval_framework")


def test_a_metric_that_is_not_here_is_that_of_the_clone_that_the_task_is_in(clone):
    file = clone / "tasks" / "benchmarks" / "colours.py"
    results = multiform.evaluate(model="dummy", tasks=[str(file)])
    assert results["compat_Colours"]["F1,none"] == 0.5


def test_the_names_that_a_module_here_lacks_are_those_of_the_clone(clone):
    file = clone / "tasks" / "benchmarks" / "colours.py"
    named = "from eval_framework.metrics.completion.accuracy_completion import AccuracyCompletion"
    both = f"{named}, AccuracyCompletionOLMES as F1\n"
    own = file.read_text().replace("from eval_framework.metrics.completion.f1 import F1\n", both)
    file.write_text(own.replace("METRICS = [F1]", "METRICS = [F1, AccuracyCompletion]"), encoding="utf-8")
    results = multiform.evaluate(model="dummy", tasks=[str(file)])["compat_Colours"]
    assert (results["AccuracyCompletionOLMES,none"], results["exact_match,none"]) == (0.5, 0.0)


def test_a_metric_that_is_not_here_is_that_of_the_installed_package(clone, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(clone.parent)
    (clone / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "mine.py").write_text(TASK, encoding="utf-8")
    results = multiform.evaluate(model="dummy", tasks=[str(tmp_path / "mine.py")])
    assert results["compat_Colours"]["F1,none"] == 0.5


def test_without_eval_framework_the_error_names_the_module_and_the_remedy(tmp_path):
    (tmp_path / "mine.py").write_text(TASK, encoding="utf-8")
    with pytest.raises(
        ConfigError,
        match=r"No module named 'eval_framework.metrics.completion.f1'; 'multiform docs styles' says what of "
        r"eval_framework.metrics.completion.f1 is provided; 'pip install --no-deps eval-framework' adds the rest",
    ):
        multiform.evaluate(model="dummy", tasks=[str(tmp_path / "mine.py")])

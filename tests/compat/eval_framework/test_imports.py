"""Code that imports eval-framework runs on our names."""

from __future__ import annotations

import importlib
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import multiform
from multiform import ConfigError, UsageError, compat
from multiform.imports import eval_framework_finder

CODE = """
import hashlib
from eval_framework.metrics.loglikelihood.accuracy_loglikelihood import (
    AccuracyLoglikelihood,
    AccuracyNormLoglikelihood,
)
from eval_framework.metrics.loglikelihood.bits_per_byte import BitsPerByteLoglikelihood
from eval_framework.tasks.base import BaseTask, Language, ResponseType, TaskStyle
from eval_framework.tasks.task_style import BPBStyle, ClozeStyle, MCStyle, answer_key_to_index
from eval_framework.tasks.utils import get_n_letters


class _ARC_Base(BaseTask[str]):
    DATASET_PATH = "allenai/ai2_arc"
    SAMPLE_SPLIT = "test"
    FEWSHOT_SPLIT = "train"
    SUBJECTS = ["ARC-Easy"]
    LANGUAGE = Language.ENG

    def _get_raw_question(self, item): return item["question"]
    def _get_choices(self, item): return item["choices"]["text"]
    def _get_correct_index(self, item): return item["choices"]["label"].index(item["answerKey"])


class ARC(_ARC_Base):
    NAME = "compat_ARC"
    TASK_STYLER = ClozeStyle()


class ARC_MC(_ARC_Base):
    NAME = "compat_ARC_MC"
    TASK_STYLER = MCStyle(space_prefixed_labels=True)


class ARC_BPB(_ARC_Base):
    NAME = "compat_ARC_BPB"
    TASK_STYLER = BPBStyle()
"""


@pytest.fixture(autouse=True)
def _clean():
    yield
    compat.uninstall("eval_framework")
    for name in [name for name in sys.modules if name.partition(".")[0] == "eval_framework"]:
        del sys.modules[name]


def test_names_of_the_document_resolve_to_ours():
    assert compat.install("eval_framework")
    style = importlib.import_module("eval_framework.tasks.task_style")
    dcs = importlib.import_module("eval_framework.metrics.loglikelihood.dcs")
    assert style.MCStyle is multiform.MCStyle
    assert issubclass(style.MCStyle, style.TaskStyler)
    assert style.format_mc_prompt is multiform.format_mc_prompt
    assert dcs.DistributionalCorrectnessScore.specs == ({"metric": "dcs"},)
    assert compat.install("eval_framework")  # a second time changes nothing


def test_the_real_package_is_left_alone(tmp_path, monkeypatch):
    (tmp_path / "eval_framework").mkdir()
    (tmp_path / "eval_framework" / "__init__.py").write_text("real = True", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert not compat.install("eval_framework")
    assert importlib.import_module("eval_framework").real
    assert not compat.install("eval_framework")


def test_an_unknown_package_is_an_error():
    with pytest.raises(UsageError, match="no names of 'eval_framwork' here; did you mean 'eval_framework'"):
        compat.install("eval_framwork")


def test_the_task_family_of_the_document_runs_as_it_is_written(tmp_path, mirror):
    file = tmp_path / "arc.py"
    file.write_text(CODE, encoding="utf-8")
    results = multiform.evaluate(model="dummy", tasks=[str(file)], limit=5, dataset_mirror=mirror)
    assert set(results) == {"compat_ARC", "compat_ARC_MC", "compat_ARC_BPB"}
    asked = {form.form: len(form.samples[0].instances) for form in results.forms}
    assert asked["compat_ARC_BPB"] == 1
    assert asked["compat_ARC"] == asked["compat_ARC_MC"] == 4


BASE = """
from eval_framework.metrics.base import BaseMetric, MetricResult
from eval_framework.shared.types import BaseMetricContext, Completion, extract_context_metric
from eval_framework.tasks.base import NO_SUBJECT, RANDOM_SEED, BaseTask, Language, ResponseType, Sample
from eval_framework.tasks.dataset_revisions import HF_REVISIONS_LOCKFILE
from eval_framework.tasks.registry import register_task
from template_formatting.formatter import Message, Role


class SumContext(BaseMetricContext):
    right: int


class Distance(BaseMetric[Completion]):
    NAME = "Distance"

    def calculate(self, response):
        right = extract_context_metric(response, SumContext).right
        off = float(abs(int(response.completion) - right))
        return [MetricResult(metric_name=self.NAME, value=off, higher_is_better=False)]


class Sums(BaseTask[str]):
    NAME = "compat_Sums"
    DATASET_PATH = "sums"
    SAMPLE_SPLIT = "test"
    FEWSHOT_SPLIT = "test"
    SUBJECTS = [NO_SUBJECT]
    REVISION_LOCKFILE = HF_REVISIONS_LOCKFILE
    RESPONSE_TYPE = ResponseType.COMPLETION
    METRICS = [Distance]
    LANGUAGE = Language.ENG

    def __init__(self, num_fewshot: int = 0) -> None:
        super().__init__(num_fewshot)
        self.stop_sequences = ["Question:"]
        self.max_tokens = 8

    def _load_dataset(self, subject):
        rows = [{"a": i} for i in range(5)]
        self.dataset = self._shuffle_splits({"test": rows})

    def _get_instruction_text(self, item):
        return f"Question: {item['a']} + 1?\\n"

    def _get_cue_text(self, item):
        return "Answer:"

    def _get_ground_truth(self, item):
        return f" {item['a'] + 1}"

    def _get_context(self, item):
        return SumContext(right=item["a"] + 1)

    def post_process_generated_completion(self, completion_text, sample=None):
        return "3"
"""
DERIVED = """
from eval_framework.tasks.benchmarks.sums import Sums


class Doubled(Sums):
    NAME = "compat_Doubled"
    DATASET_PATH = "sums"
"""


@pytest.fixture
def sums(tmp_path):
    (tmp_path / "sums.py").write_text(BASE, encoding="utf-8")
    (tmp_path / "doubled.py").write_text(DERIVED, encoding="utf-8")
    return tmp_path


def test_a_benchmark_with_its_own_rows_context_and_metric_runs_as_it_is_written(sums):
    results = multiform.evaluate(model="dummy", tasks=[str(sums / "sums.py")], num_fewshot=2)
    assert results["compat_Sums"]["Distance,none"] == 1.2  # 3 is 2, 1, 0, 1 and 2 away
    assert results["compat_Sums"].get("Distance_stderr,none") is not None
    request: Any = results.forms[0].samples[0].instances[0].request
    assert request.context.count("Question:") == 3
    assert request.context.endswith("Answer:")
    assert request.gen_kwargs["until"] == ["Question:"]
    assert request.gen_kwargs["max_gen_toks"] == 8


RAW = """
from eval_framework.metrics.base import BaseMetric, MetricResult
from eval_framework.shared.types import Completion
from eval_framework.tasks.benchmarks.sums import Sums


class Kept(BaseMetric[Completion]):
    NAME = "Kept"

    def calculate(self, response):
        kept = response.raw_completion != response.completion == "3" and response.messages[-1].content.endswith(
            response.raw_completion
        )
        return [MetricResult(metric_name=self.NAME, value=float(kept), higher_is_better=True)]


class Raw(Sums):
    NAME = "compat_Raw"
    DATASET_PATH = "sums"
    METRICS = [Kept]
"""


def test_a_metric_gets_the_completion_before_and_after_it_was_post_processed(sums):
    (sums / "raw.py").write_text(RAW, encoding="utf-8")
    results = multiform.evaluate(model="dummy", tasks=[str(sums / "raw.py")])
    assert results["compat_Raw"]["Kept,none"] == 1.0
    assert [type(text) for text in results.forms[0].samples[0].filtered] == [str]


def test_a_benchmark_may_derive_from_a_file_beside_it_by_the_name_of_the_package(sums):
    results = multiform.evaluate(model="dummy", tasks=[str(sums / "doubled.py")])
    assert set(results) == {"compat_Doubled"}


def test_samples_are_made_in_the_order_of_eval_framework(sums):
    assert compat.install("eval_framework")
    sys.path.insert(0, str(sums))
    try:
        module = importlib.import_module("sums")

        task = module.Sums.with_overwrite(1, custom_subjects=None, custom_hf_revision=None)
        samples = list(task.iterate_samples(3))
    finally:
        sys.path.remove(str(sums))
        del sys.modules["sums"]
    rows = list(range(5))
    random.Random(42).shuffle(rows)
    assert [sample.context.right - 1 for sample in samples] == rows[:3]
    assert [message.content for message in samples[0].messages[-2:]] == [f"Question: {rows[0]} + 1?\n", "Answer:"]
    assert module.register_task(module.Sums) == "Sums"


def test_our_modules_answer_for_a_task_file_also_where_the_real_package_is_installed(sums, monkeypatch):
    real = sums / "real" / "eval_framework"
    real.mkdir(parents=True)
    (real / "__init__.py").write_text("real = True", encoding="utf-8")
    monkeypatch.syspath_prepend(sums / "real")
    results = multiform.evaluate(model="dummy", tasks=[str(sums / "sums.py")])
    assert set(results) == {"compat_Sums"}
    assert importlib.import_module("eval_framework").real


CODE_METRIC = """
from eval_framework.metrics.completion.code_assertion import CodeCompletionAssertion
from eval_framework.tasks.benchmarks.sums import Sums


class Coded(Sums):
    NAME = "compat_Coded"
    DATASET_PATH = "sums"
    METRICS = [CodeCompletionAssertion]
"""


def test_a_metric_that_runs_code_is_refused_before_a_model_is_asked(sums):
    (sums / "coded.py").write_text(CODE_METRIC, encoding="utf-8")
    with pytest.raises(ConfigError, match="metric CodeCompletionAssertion cannot be computed: it runs the model's"):
        multiform.evaluate(model="dummy", tasks=[str(sums / "coded.py")])
    results = multiform.evaluate(model="dummy", tasks=[str(sums / "coded.py")], predict_only=True)
    assert len(results.forms[0].samples) == 5


def test_a_task_folder_that_is_gone_is_no_place_to_import_from(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = Path("clone/eval_framework")
    folder.mkdir(parents=True)
    with eval_framework_finder.during(folder / "task.py"):
        pass
    compat.install("eval_framework", instead=True)
    module = importlib.import_module("eval_framework.metrics.loglikelihood.accuracy_loglikelihood")
    (folder / "extra.py").write_text("GIVEN = 7\n")
    monkeypatch.chdir("/")  # the folder was named from another one
    assert importlib.import_module("eval_framework.extra").GIVEN == 7
    shutil.rmtree(tmp_path / "clone")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = module.nothing

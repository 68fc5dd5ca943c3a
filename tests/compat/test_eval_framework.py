"""Code that imports eval-framework runs on our names."""

from __future__ import annotations

import sys

import pytest

import multiform
from multiform import UsageError, compat

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
    from eval_framework.metrics.loglikelihood.dcs import DistributionalCorrectnessScore
    from eval_framework.tasks.task_style import MCStyle, TaskStyler, format_mc_prompt

    assert MCStyle is multiform.MCStyle
    assert issubclass(MCStyle, TaskStyler)
    assert format_mc_prompt is multiform.format_mc_prompt
    assert DistributionalCorrectnessScore.specs == ({"metric": "dcs"},)
    assert compat.install("eval_framework")  # a second time changes nothing


def test_the_real_package_is_left_alone(tmp_path, monkeypatch):
    (tmp_path / "eval_framework").mkdir()
    (tmp_path / "eval_framework" / "__init__.py").write_text("real = True", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert not compat.install("eval_framework")
    import eval_framework

    assert eval_framework.real
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

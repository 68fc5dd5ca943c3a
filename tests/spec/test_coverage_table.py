"""The table of the specification is whole and up to date."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from multiform import FewshotConfig, FilterPipeline, FilterStep, GroupConfig, MetricConfig, ScorerConfig, TaskConfig
from multiform.tasks import Task

SCRIPT = Path(__file__).parents[2] / "scripts" / "spec_coverage.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("spec_coverage", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_name_has_a_test_and_the_page_is_up_to_date():
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_name_without_a_test_and_a_mark_without_a_name_are_found(script):
    tests = script.covering_tests()
    tests["TaskConfig.invented"] = tests.pop("TaskConfig.task_alias")
    missing, unknown = script.problems(tests)
    assert missing == "no test covers TaskConfig.task_alias"
    assert "covers TaskConfig.invented, which is not known" in unknown


@pytest.mark.parametrize("kind", [TaskConfig, FewshotConfig, GroupConfig])
def test_the_table_has_every_field_of_a_configuration(script, kind):
    own = {field.name for field in fields(kind) if field.init} - {"_source", "_task_class", "template"}
    assert own <= set(script.NAMES[kind.__name__])


@pytest.mark.parametrize("kind", [MetricConfig, FilterPipeline, FilterStep, ScorerConfig])
def test_the_table_has_every_key_of_a_mapping(script, kind):
    assert set(kind.__annotations__) == set(script.NAMES[kind.__name__])


def test_every_method_in_the_table_is_there(script):
    made_on_use = {"sampler", "instances", "OUTPUT_TYPE"}
    assert all(hasattr(Task, name) for name in script.NAMES["Task"] if name not in made_on_use)

"""The table of the specification is whole and up to date."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from multiform import FewshotConfig, FilterPipeline, FilterStep, GroupConfig, MetricConfig, ScorerConfig, TaskConfig
from multiform.forms import MultipleChoiceTask, Task


@pytest.mark.process
def test_every_name_has_a_test_and_the_page_is_up_to_date(coverage):
    command = [sys.executable, coverage.__file__, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.process
def test_every_row_has_a_mutation_which_can_be_made(coverage):
    code = (
        "from spec_mutations import MUTATIONS; print(*MUTATIONS); assert all(MUTATIONS.values())\n"
        "for mutations in MUTATIONS.values():\n    for mutation in mutations: mutation()"
    )
    command = [sys.executable, "-c", code]
    folder = Path(coverage.__file__).parent
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.stderr == ""
    assert sorted(done.stdout.split()) == sorted(coverage.known_names())


@pytest.mark.slow
def test_the_tests_of_every_row_fail_once_it_is_broken(coverage):
    command = [sys.executable, str(Path(coverage.__file__).with_name("spec_mutations.py"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_name_without_a_test_and_a_mark_without_a_name_are_found(coverage):
    tests = coverage.covering_tests()
    tests["TaskConfig.invented"] = tests.pop("TaskConfig.task_alias")
    missing, unknown = coverage.problems(tests)
    assert missing == "no test covers TaskConfig.task_alias"
    assert "covers TaskConfig.invented, which is not known" in unknown


@pytest.mark.parametrize("kind", [TaskConfig, FewshotConfig, GroupConfig])
def test_every_name_of_a_configuration_is_a_field_or_method(coverage, kind):
    there = {field.name for field in fields(kind) if field.init} | set(vars(kind))
    assert set(coverage.NAMES[kind.__name__]) <= there


@pytest.mark.parametrize("kind", [MetricConfig, FilterPipeline, FilterStep, ScorerConfig])
def test_the_table_has_the_keys_of_a_mapping(coverage, kind):
    assert set(kind.__annotations__) == set(coverage.NAMES[kind.__name__])


def test_every_name_of_task_is_an_attribute_or_method(coverage):
    assert issubclass(MultipleChoiceTask, Task)
    assert [name for name in coverage.NAMES["Task"] if not hasattr(MultipleChoiceTask, name)] == []

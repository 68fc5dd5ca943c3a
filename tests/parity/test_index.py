"""Every name of lm-eval's task files is found, and is of the kind that lm-eval says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from multiform.tasks import yaml as reader
from multiform.tasks.index import Index, build_index

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def theirs(lm_eval_tasks: Path):
    """lm-eval's own index, which takes it a dozen seconds."""
    from lm_eval.tasks import TaskManager

    return TaskManager()


@pytest.fixture(scope="module", params=["new", "kept"])
def ours(request: pytest.FixtureRequest, lm_eval_tasks: Path, tmp_path_factory: pytest.TempPathFactory) -> Index:
    """Our index: as it is made, and as it is kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MULTIFORM_CACHE", str(tmp_path_factory.mktemp("cache")))
        index = build_index([lm_eval_tasks])
        if request.param == "kept":
            patch.delattr(reader, "read_yaml")  # nothing is read any more
            index = build_index([lm_eval_tasks])
    return index


def test_all_names_are_found(ours, theirs):
    assert {*ours.entries, *ours.tags} == set(theirs.all_tasks)


def test_tasks_are_tasks(ours, theirs):
    assert ours.names("task") == theirs.all_subtasks


def test_groups_are_groups(ours, theirs):
    assert ours.names("group") == theirs.all_groups


def test_tags_are_tags(ours, theirs):
    assert list(ours.tags) == theirs.all_tags


def test_a_tag_has_the_tasks_that_it_has_there(ours, theirs):
    tasks = set(ours.names("task"))  # groups that carry a tag are selected by it here, and not there
    found = {tag: {name for name in names if name in tasks} for tag, names in ours.tags.items()}
    assert found == {tag: theirs.task_index[tag].tags for tag in theirs.all_tags}


def test_each_name_is_defined_by_the_file_that_defines_it_there(ours, theirs):
    entries = {name: entry.yaml_path for name, entry in theirs.task_index.items() if entry.yaml_path is not None}
    assert {name: os.fspath(ours.entries[name].path) for name in entries} == {
        name: os.fspath(path) for name, path in entries.items()
    }


def test_no_file_is_broken(ours):
    assert not ours.broken

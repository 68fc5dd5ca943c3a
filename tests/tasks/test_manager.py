"""What a name stands for, among many files."""

from __future__ import annotations

from pathlib import Path

import pytest

from multiform.errors import UsageError
from multiform.tasks import yaml
from multiform.tasks.config import TaskConfig
from multiform.tasks.manager import TaskManager

TASK = "task: {name}\ndataset_path: rows.jsonl\ntest_split: test\ndoc_to_text: question\ndoc_to_target: answer\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of so many tasks that its index is kept, and is."""
    monkeypatch.setenv("MULTIFORM_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "tasks"
    folder.mkdir()
    for number in range(60):
        (folder / f"{number}.yaml").write_text(TASK.format(name=f"t{number}") + "include: common_yaml\n")
    (folder / "common_yaml").write_text("tag: all\n")
    (folder / "group.yaml").write_text("group: few\ntask: [t1, t2]\n")
    assert len(TaskManager(folder).index.entries) > 60
    return folder


def test_only_the_files_of_the_tasks_that_are_named_are_read(folder, monkeypatch):
    read = []

    def recorded(path, read_text=yaml.read_text):
        read.append(path.name)
        return read_text(path)

    manager = TaskManager(folder)
    manager.index  # noqa: B018
    monkeypatch.setattr(yaml, "read_text", recorded)
    assert [config.task for config in manager.load("few")] == ["t1", "t2"]
    assert set(read) == {"group.yaml", "1.yaml", "2.yaml", "common_yaml"}


def test_a_tag_that_is_inherited_selects_its_tasks(folder):
    assert len(TaskManager(folder).load("all")) == 60


def test_a_name_that_is_new_is_found_without_a_word_to_the_index(folder):
    (folder / "new.yaml").write_text(TASK.format(name="new"))
    assert TaskManager(folder).load("new")[0].task == "new"


def test_a_name_that_is_gone_is_an_error(folder):
    (folder / "1.yaml").unlink()
    with pytest.raises(UsageError, match="t1: no task, tag or file of that name"):
        TaskManager(folder).load("t1")


def test_a_file_with_a_class_is_a_task_though_it_names_a_group(folder):
    (folder / "code.py").write_text("from multiform import GenerateTask\n\nclass Mine(GenerateTask): ...\n")
    (folder / "mine.yaml").write_text(TASK.format(name="mine") + "group: old\nclass: !function code.Mine\n")
    (node,) = TaskManager(folder).tree("mine")
    assert isinstance(node, TaskConfig)
    with pytest.raises(UsageError, match="old: no task, tag or file of that name"):
        TaskManager(folder).load("old")


def test_a_task_of_lm_eval_is_known_though_it_was_not_asked_for(tmp_path, monkeypatch):
    (tmp_path / "their_task.yaml").write_text(TASK.format(name="their_task"))
    monkeypatch.setattr("multiform.tasks.index.lm_eval_folder", lambda: tmp_path)
    with pytest.raises(UsageError, match="their_task'; for lm-eval's own tasks add --include_path lm_eval"):
        TaskManager().load("their_task@mcqa")
    with pytest.raises(UsageError, match="did you mean 'their_task'"):
        TaskManager(tmp_path).load("their_tusk")

"""Groups under lm-eval's names: what is in them, their scores, and tasks that share a name."""

from __future__ import annotations

from typing import Any

import pytest

from multiform import GroupConfig, UsageError
from multiform.compat.lm_eval.evaluator import evaluate, simple_evaluate
from multiform.compat.lm_eval.manager import ConfigurableGroup, Group, TaskManager
from multiform.compat.lm_eval.models import DummyLM
from multiform.compat.lm_eval.task import ConfigurableTask


def override(folder, name, shots):
    text = f"group: {name}\ntask: [{{task: plain, num_fewshot: {shots}, fewshot_split: test}}]\n"
    (folder / f"{name}.yaml").write_text(text + "aggregate_metric_list: [{metric: acc}]\n")


@pytest.fixture
def manager(folder, tmp_path):
    override(tmp_path, "none", 0)
    override(tmp_path, "two", 2)
    return TaskManager(include_path=[folder, tmp_path], include_defaults=False)


def test_two_groups_that_override_a_task_differently_run_it_twice(manager):
    results = simple_evaluate("dummy", tasks=["none", "two"], task_manager=manager, log_samples=False)
    assert results["group_subtasks"] == {"none": ["none::plain"], "two": ["two::plain"]}
    assert (results["n-shot"]["none::plain"], results["n-shot"]["two::plain"]) == (0, 2)
    for name in ("none", "two"):
        assert results["groups"][name]["acc,none"] == results["results"][f"{name}::plain"]["acc,none"]


def test_their_tasks_are_two_objects(manager):
    loaded = manager.load(["none", "two", "plain"])
    assert list(loaded["tasks"]) == ["none::plain", "two::plain", "plain"]
    assert loaded["tasks"]["two::plain"].config["num_fewshot"] == 2
    assert loaded["groups"]["two"].get("two::plain") is loaded["tasks"]["two::plain"]


def test_a_group_does_not_replace_one_task_by_another(config):
    first, second = ConfigurableTask(config=config), ConfigurableTask(config={**config, "num_fewshot": 1})
    group = Group({"group": "g"})
    group.add(first)
    with pytest.raises(ValueError, match="there is another 'own' in the group"):
        group.add(second)
    one, other = Group({"group": "one"}), Group({"group": "other"})
    one.add(first)
    other.add(second)
    with pytest.raises(UsageError, match="two different tasks are called 'own'"):
        evaluate(DummyLM(), {"tasks": {"own": first}, "groups": {"one": one, "other": other}})


def test_a_group_that_a_script_builds_is_scored(config):
    group = Group({"group": "own_group", "aggregate_metric_list": [{"metric": "acc"}]})
    task = ConfigurableTask(config=config)
    group.add(task)
    results = evaluate(DummyLM(), {"tasks": {"own": task}, "groups": {"own_group": group}})
    assert results["groups"]["own_group"]["acc,none"] == results["results"]["own"]["acc,none"]


def test_a_group_is_its_configuration():
    config = GroupConfig(group="g", group_alias="All", task="a", metadata={"version": 2})
    group = ConfigurableGroup(config)
    assert (group.name, group.group_alias, group.version, group.has_aggregation) == ("g", "All", "2", False)
    assert group.config == {"group": "g", "group_alias": "All", "task": "a", "metadata": {"version": 2}}


def test_the_managers_metadata_reach_tasks_and_groups(folder):
    loaded = TaskManager(include_path=folder, include_defaults=False, metadata={"run": 7}).load("choices")
    assert loaded["groups"]["choices"].metadata == {"version": 1.0, "run": 7}
    assert all(task.config.metadata["run"] == 7 for task in loaded["tasks"].values())


def test_without_defaults_only_the_named_folders_are_listed(folder):
    manager = TaskManager(include_path=folder, include_defaults=False)
    assert manager.all_tasks == ["animals", "bare", "both", "choices", "nature", "plain", "spelled"]
    with pytest.raises(KeyError, match="quiz: no task, tag or file of that name"):
        manager.load("quiz")


def test_a_class_gets_the_class_key(folder, tmp_path):
    (tmp_path / "own.py").write_text(
        "from lm_eval.api.task import ConfigurableTask\n\n\n"
        "class Own(ConfigurableTask):\n"
        "    def __init__(self, data_dir=None, cache_dir=None, download_mode=None, config=None):\n"
        "        assert config.pop('class') is Own\n"
        "        super().__init__(data_dir, cache_dir, download_mode, config)\n"
    )
    (tmp_path / "own.yaml").write_text(f"include: {folder / 'plain.yaml'}\ntask: own\nclass: !function own.Own\n")
    task: Any = TaskManager(include_path=tmp_path, include_defaults=False).load("own")["tasks"]["own"]
    assert type(task).__name__ == "Own"
    assert task.config["target_delimiter"] == ": "

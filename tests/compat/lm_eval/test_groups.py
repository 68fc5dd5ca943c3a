"""Groups under lm-eval's names: what is in them, their scores, and tasks that share a name."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from multiform import UsageError
from multiform.compat.lm_eval.config import AggMetricConfig, GroupConfig
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
    group = Group("g")
    group.add(first)
    with pytest.raises(ValueError, match="there is another 'own' in the group"):
        group.add(second)
    one, other = Group("one"), Group("other")
    one.add(first)
    other.add(second)
    with pytest.raises(UsageError, match="two different tasks are called 'own'"):
        evaluate(DummyLM(), {"tasks": {"own": first}, "groups": {"one": one, "other": other}})


def test_a_group_that_a_script_builds_is_scored(config):
    group = Group("own_group", aggregate_metric_list=[AggMetricConfig("acc")])
    task = ConfigurableTask(config=config)
    group.add(task)
    results = evaluate(DummyLM(), {"tasks": {"own": task}, "groups": {"own_group": group}})
    assert results["groups"]["own_group"]["acc,none"] == results["results"]["own"]["acc,none"]


def test_scores_are_aggregated_by_metric_and_filter(config, caplog):
    group = Group("g", "All", [AggMetricConfig("acc"), AggMetricConfig("f1", weight_by_size=False)])
    for name in ("a", "b"):
        group.add(ConfigurableTask(config={**config, "task": name}))
    metrics: dict[str, dict[str, Any]] = {
        "a": {"sample_len": 100, "acc,none": 0.5, "acc_stderr,none": 0.1, "f1,none": 1.0, "f1_stderr,none": "N/A"},
        "b": {"sample_len": 300, "acc,none": 0.9, "acc_stderr,none": 0.1, "acc,strict": 0.2, "f1,none": 0.0},
    }
    with caplog.at_level(logging.WARNING):
        scores = group.aggregate(metrics)
    assert (scores["alias"], scores["name"], scores["sample_len"]) == ("All", "g", 400)
    assert scores["acc,none"] == pytest.approx(0.8)
    assert 0 < scores["acc_stderr,none"] < 0.1
    assert (scores["f1,none"], scores["f1_stderr,none"]) == (0.5, "N/A")
    assert (scores["acc,strict"], scores["acc_stderr,strict"]) == (0.2, "N/A")
    assert scores["sample_count"] == {"acc,none": 400, "acc,strict": 300, "f1,none": 400}
    assert "metric 'acc,strict' is missing in 1/2 tasks: a" in caplog.text


def test_a_group_is_its_configuration():
    config = GroupConfig("g", "All", "a", {"metric": "acc", "filter_list": "none"}, {"version": 2})
    group = Group.from_config(config)
    assert group.aggregate_metric_list is not None
    assert (group.version, group.aggregate_metric_list[0].filter_list, group.to_dict()["task"]) == (
        "2",
        ["none"],
        ["a"],
    )
    assert ConfigurableGroup(config) == ConfigurableGroup.from_group(group)
    with pytest.raises(ValueError, match="'mean' is the only pre-defined aggregation"):
        AggMetricConfig("acc", aggregation="median")


def test_the_managers_metadata_reach_tasks_and_groups(folder):
    loaded = TaskManager(include_path=folder, include_defaults=False, metadata={"run": 7}).load("choices")
    assert loaded["groups"]["choices"].metadata == {"version": 1.0, "run": 7}
    assert all(task.config.metadata["run"] == 7 for task in loaded["tasks"].values())


def test_without_defaults_only_the_named_folders_are_listed(folder):
    manager = TaskManager(include_path=folder, include_defaults=False)
    assert manager.all_tasks == ["animals", "bare", "both", "choices", "nature", "plain", "spelled"]
    assert manager.task_index["nature"].tags == {"animals", "spelled"}
    assert manager.task_index["choices"].kind.name == "GROUP"
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

"""Task objects and managers that a script works with as it would with lm-eval's."""

from __future__ import annotations

from typing import Any

import pytest

from multiform import ConfigError, evaluate
from multiform.compat.lm_eval.evaluator import simple_evaluate
from multiform.compat.lm_eval.manager import ConfigurableGroup, TaskManager, get_task_dict
from multiform.compat.lm_eval.registry import TASK_REGISTRY, get_filter, register_task
from multiform.compat.lm_eval.task import ConfigurableTask, MultipleChoiceTask, PerplexityTask, Task
from multiform.forms import Task as OurTask
from multiform.models.foreign import LMEvalInstance as Instance


@pytest.fixture
def manager(folder):
    return TaskManager(include_path=folder, include_defaults=False)


def test_a_configured_task_is_one_of_ours(config):
    task: Any = ConfigurableTask(config=config)
    assert issubclass(type(task), OurTask)
    assert type(task).__name__ == "ConfigurableTask"
    doc = task.eval_docs[0]
    assert task.doc_to_text(doc) == "What do bees make?"
    assert task.fewshot_context(doc, num_fewshot=0) == "What do bees make?"
    assert task.config["output_type"] == task.config.get("output_type") == "multiple_choice"
    assert task.config.get("colour", 3) == 3
    assert (task.task_name, task.VERSION, task.should_decontaminate()) == ("own", None, False)
    assert task.has_test_docs()
    assert not task.has_training_docs()
    assert len(task.dataset["test"].filter(lambda row: row["answer"] == 0)) == 2


def test_its_requests_are_instances(config):
    task: Any = ConfigurableTask(config=config)
    made = task.construct_requests(task.eval_docs[0], "Q", metadata=("own", 0, 1))
    assert [one.args for one in made] == [("Q", " honey"), ("Q", " milk"), ("Q", " paper")]
    task.build_all_requests(limit=2)
    assert len(task.instances) == 6
    assert isinstance(task.instances[4], Instance)
    assert task.instances[4].args == ("Which of these is a colour?", " green")
    assert (task.instances[4].doc_id, task.instances[4].idx, task.instances[4].task_name) == (1, 1, "own")
    assert task.process_results(task.eval_docs[0], [(-1.0, True), (-2.0, False), (-3.0, False)])["acc"] == 1.0


def test_repeats_of_a_generation_are_one_instance(config):
    written = {**config, "output_type": "generate_until", "repeats": 3, "doc_to_choice": None}
    task = ConfigurableTask(config=written)
    task.build_all_requests(limit=1)
    assert [one.repeats for one in task.instances] == [3]


def test_a_wrong_key_of_a_configuration_is_refused(config):
    with pytest.raises(ConfigError, match=r"unknown key 'doc_to_txt' in a task.*doc_to_text"):
        ConfigurableTask(config={**config, "doc_to_txt": "x"})


def test_a_class_brings_its_configuration_along(config):
    class Own(ConfigurableTask):
        CONFIG = config
        VERSION = 7

        def doc_to_text(self, doc):  # type: ignore[override]
            return doc["question"].upper()

    results = evaluate(model="dummy", tasks=[Own(config={"num_fewshot": 1})], limit=1)
    prompt = results.forms[0].samples[0].sample.prompt
    assert prompt.isupper() is False
    assert prompt.endswith("\n\nWHAT DO BEES MAKE?")
    assert results.forms[0].num_fewshot == 1
    assert results.forms[0].version == 7


def test_own_documents_are_evaluated_and_examples_drawn_from_them(config):
    class Own(ConfigurableTask):
        def has_training_docs(self):
            return True

        def training_docs(self):
            return [{"question": "Sky?", "choices": ["blue", "wet"], "answer": 0}]

        def test_docs(self):
            return [{**doc, "question": f"({doc['question']})"} for doc in self.dataset["test"]]

    task = Own(config={**config, "num_fewshot": 1})
    request: Any = task.build_all_requests(limit=1)[0].request
    prompt = request.context
    assert prompt == "Sky? blue\n\n(What do bees make?)"


def test_tasks_of_the_old_kinds_run():
    class Choices(MultipleChoiceTask):
        def has_training_docs(self):
            return False

        def has_test_docs(self):
            return False

        def has_validation_docs(self):
            return True

        def validation_docs(self):
            return [{"query": "Sky?", "choices": ["wet", "blue"], "gold": 1}]

        def doc_to_text(self, doc):  # type: ignore[override]
            return doc["query"]

    class Texts(PerplexityTask):
        def has_test_docs(self):
            return True

        def test_docs(self):
            return [{"page": "some text"}]

        def has_validation_docs(self):
            return False

        def doc_to_target(self, doc):  # type: ignore[override]
            return doc["page"]

    assert Choices().form.renderer.gold({"query": "Sky?", "choices": ["wet", "blue"], "gold": 1}) == (1,)
    results = evaluate(model="dummy", tasks=[Choices(), Texts()])
    assert set(results["Choices"]) >= {"acc,none", "acc_norm,none"}
    assert set(results["Texts"]) >= {"word_perplexity,none", "byte_perplexity,none", "bits_per_byte,none"}


def test_registered_classes_are_found_by_name(config, monkeypatch, manager):
    for name in list(TASK_REGISTRY):
        monkeypatch.delitem(TASK_REGISTRY, name)

    @register_task("first")
    class First(ConfigurableTask):
        def __init__(self, config=None):
            super().__init__(config=given | (config or {}))

    given = {key: value for key, value in config.items() if key != "task"}
    try:
        made = simple_evaluate(model="dummy", tasks=["first", "animals"], task_manager=manager, limit=1)
        assert set(made["results"]) == {"first", "animals"}
        changed = simple_evaluate(
            model="dummy", tasks=[{"task": "first", "num_fewshot": 1}], task_manager=manager, limit=1
        )
        assert changed["n-shot"] == {"first": 1}
        assert "first" in manager.all_tasks
    finally:
        TASK_REGISTRY.clear()


def test_a_manager_lists_and_loads_what_the_folder_has(manager):
    assert {"animals", "spelled", "plain", "choices", "nature"} <= set(manager.all_tasks)
    assert "nature" in manager.all_tags
    assert {"both", "choices"} <= set(manager.all_groups)
    assert "animals" in manager.all_subtasks
    assert manager.match_tasks(["an*", "x"]) == ["animals"]
    assert "animals" in manager.list_all_tasks()
    loaded = manager.load(["choices", "nature"])
    assert sorted(loaded["tasks"]) == ["animals", "bare", "plain", "spelled"]
    assert loaded["group_map"] == {"choices": ["plain", "bare"]}
    group = loaded["groups"]["choices"]
    assert [task.name for task in group.get_all_tasks()] == ["plain", "bare"]
    assert isinstance(group.get("plain"), ConfigurableTask)
    assert (len(group), "plain" in group, group.has_aggregation, group.version) == (2, True, True, "1.0")


def test_a_task_dict_holds_groups_as_keys(manager):
    made = get_task_dict(["choices", "animals"], manager)
    (group,) = [key for key in made if isinstance(key, ConfigurableGroup)]
    assert (group.group_name, group.group_alias, list(made[group])) == ("choices", "all choices", ["plain", "bare"])


def test_a_known_task_is_changed_by_a_dict(manager):
    made = manager.load([{"task": "animals", "num_fewshot": 3, "description": "Hm. "}])
    assert made["tasks"]["animals"].config.description == "Hm. "
    assert made["tasks"]["animals"].num_fewshot == 3
    group = manager.load([{"group": "own_group", "task": ["animals", {"task": "plain", "num_fewshot": 2}]}])
    assert group["group_map"] == {"own_group": ["animals", "plain"]}
    assert group["tasks"]["plain"].num_fewshot == 2


def test_filters_are_found_by_name():
    assert get_filter("take_first")().apply([["a", "b"]], [{}]) == ["a"]
    assert get_filter(len) is len
    with pytest.raises(ConfigError, match="unknown filter 'take_frist'"):
        get_filter("take_frist")


def test_a_task_is_what_is_imported_as_task():
    assert issubclass(ConfigurableTask, Task)

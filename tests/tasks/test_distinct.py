"""Tasks that share a name and differ: each runs under a name of its own, or is refused."""

import json

import pytest

import multiform
from multiform import ConfigError, TaskManager

TASK = """
task: facts
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
fewshot_split: test
output_type: multiple_choice
doc_to_text: "Q: {{q}}\\nA:"
doc_to_choice: "{{c}}"
doc_to_target: "{{a}}"
num_fewshot: 0
"""


@pytest.fixture
def folder(tmp_path):
    rows = [{"q": f"Is {i} even?", "c": ["yes", "no"], "a": i % 2} for i in range(6)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "facts.yaml").write_text(TASK)
    for group, shots in (("zero", 0), ("two", 2)):
        members = f"task: [{{task: facts, num_fewshot: {shots}}}]\naggregate_metric_list: [{{metric: acc}}]\n"
        (tmp_path / f"{group}.yaml").write_text(f"group: {group}\n{members}")
    return tmp_path


def group(folder, name, members):
    (folder / f"{name}.yaml").write_text(f"group: {name}\ntask: {json.dumps(members)}\n")


def names(folder, *specs):
    return [config.form_name for config in TaskManager(folder).load(list(specs))]


def test_two_groups_that_override_a_task_differently_run_it_twice(folder):
    results = multiform.evaluate(model="dummy", tasks=["zero", "two"], include_path=folder, use_cache=False)
    written = multiform.results.export.to_json(results)
    assert written["group_subtasks"] == {"zero": ["zero::facts"], "two": ["two::facts"]}
    assert (written["n-shot"]["zero::facts"], written["n-shot"]["two::facts"]) == (0, 2)
    for name in ("zero", "two"):
        assert results[name]["acc,none"] == results[f"{name}::facts"]["acc,none"]


def test_a_task_that_is_named_by_itself_keeps_its_name(folder):
    assert names(folder, "facts", "two") == ["facts", "two::facts"]


def test_a_format_comes_after_the_distinct_name(folder):
    assert names(folder, "zero@mcqa", "two@mcqa") == ["zero::facts@mcqa", "two::facts@mcqa"]


def test_equal_tasks_of_two_groups_are_one(folder):
    group(folder, "also_zero", [{"task": "facts", "num_fewshot": 0}])
    assert names(folder, "zero", "also_zero", "facts") == ["facts"]


def test_a_group_that_is_overridden_inside_another_is_a_group_of_its_own(folder):
    group(folder, "plain", ["facts"])
    group(folder, "outer", [{"group": "plain", "num_fewshot": 3}])
    results = multiform.evaluate(model="dummy", tasks="plain,outer", include_path=folder, use_cache=False)
    assert [found.name for found in results.groups] == ["plain", "outer", "outer::plain"]
    assert [form.name for form in results.forms] == ["plain::facts", "outer::plain::facts"]
    assert [form.num_fewshot for form in results.forms] == [0, 3]


def test_a_group_that_lists_a_task_twice_with_different_settings_is_refused(folder):
    group(folder, "twice", [{"task": "facts", "num_fewshot": 0}, {"task": "facts", "num_fewshot": 1}])
    with pytest.raises(ConfigError, match=r"twice.yaml:2: task: the group lists 'facts' more than once"):
        names(folder, "twice")


def test_a_group_that_lists_a_task_twice_in_the_same_way_has_it_once(folder):
    group(folder, "twice", ["facts", {"task": "facts", "num_fewshot": 0}])
    assert names(folder, "twice") == ["facts"]


def test_a_task_that_is_written_in_a_group_is_called_after_it(folder):
    for name, answer in (("one", "{{a}}"), ("other", "{{1 - a}}")):
        members = [{"task": "inline", "doc_to_target": answer}]
        keys = TASK.replace("task: facts\n", "").replace('doc_to_target: "{{a}}"\n', "")
        (folder / f"{name}.yaml").write_text(f"group: {name}\ntask: {json.dumps(members)}\n{keys}")
    assert names(folder, "one", "other") == ["one::inline", "other::inline"]


def test_two_given_configurations_of_one_name_are_refused(folder):
    first, second = (TaskManager(folder).load("facts")[0] for _ in range(2))
    second = second.replace(num_fewshot=1)
    with pytest.raises(multiform.MultiformError, match=r"two different tasks .*are called 'facts'"):
        multiform.evaluate(model="dummy", tasks=[first, second], use_cache=False)


def test_a_template_does_not_make_two_of_one_task(folder):
    (folder / "facts.yaml").write_text(TASK.replace("Q: {{q}}\\nA:", "{{q}}") + "template: mcq\n")
    group(folder, "plain", ["facts"])
    assert names(folder, "facts", "plain") == ["facts"]

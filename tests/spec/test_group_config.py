"""Every key of a group file, by the forms that run and the scores of the group."""

from __future__ import annotations

import math
import re

import pytest

from multiform import ConfigError, TaskManager, evaluate
from multiform.results.export import to_json

SIZES = {"small": 2, "large": 6}


@pytest.fixture
def folder(write):
    """Two tasks of 2 and 6 documents, whose right answers are all "no" and all "yes"."""
    files = {}
    for name, size in SIZES.items():
        row = '{"q": "%s %d?", "choices": ["no", "yes"], "answer": %d}'
        answer = int(name == "large")
        files[f"{name}.jsonl"] = "".join(row % (name, i, answer) + "\n" for i in range(size))
        files[f"{name}.yaml"] = (
            f"task: {name}\ndataset_path: {name}.jsonl\ntest_split: test\noutput_type: multiple_choice\n"
            "doc_to_text: q\ndoc_to_choice: choices\ndoc_to_target: answer\ntag: sizes\n"
        )

    def make(group: str, **more: str):
        return write({**files, "group.yaml": group, **{f"{name}.yaml": text for name, text in more.items()}})

    return make


@pytest.fixture
def run(liking):
    """Evaluates with a model that likes "yes": `large` is all right and `small` all wrong."""
    return lambda folder, tasks="both", **options: evaluate(
        tasks=tasks, model=options.pop("model", liking("yes", " B")), include_path=folder, **options
    )


@pytest.mark.covers("GroupConfig.group", "GroupConfig.task")
def test_a_group_runs_its_members(folder, run):
    results = run(folder("group: both\ntask: [small, large]\n"))
    assert list(results) == ["both", "small", "large"]
    assert to_json(results)["group_subtasks"]["both"] == ["small", "large"]


@pytest.mark.covers("GroupConfig.task")
def test_one_member_needs_no_list(folder, run):
    assert list(run(folder("group: both\ntask: small\n"))) == ["both", "small"]


@pytest.mark.covers("GroupConfig.group_alias")
def test_the_alias_stands_in_the_table(folder, run):
    results = run(
        folder("group: both\ngroup_alias: Small and large\ntask: [small]\naggregate_metric_list: {metric: acc}\n")
    )
    assert results["both"]["alias"] == "Small and large"
    assert "\n Small and large " in results.table("long")


@pytest.mark.covers("GroupConfig.aggregate_metric_list")
@pytest.mark.parametrize(
    ("weighted", "value"), [("", 0.75), (", weight_by_size: true", 0.75), (", weight_by_size: false", 0.5)]
)
def test_the_groups_score_is_a_mean_over_documents_or_over_tasks(folder, run, weighted, value):
    scores = run(folder(f"group: both\ntask: [small, large]\naggregate_metric_list: [{{metric: acc{weighted}}}]\n"))
    assert scores["both"]["acc,none"] == value
    assert scores["both"]["sample_len"] == 8


@pytest.mark.covers("GroupConfig.aggregate_metric_list")
@pytest.mark.parametrize(("weighted", "value"), [("weight_by_size: false", 0.5), ("weight_by_member: true", 0.375)])
def test_a_group_among_the_members_may_count_as_one_member(folder, run, weighted, value):
    inner = "group: both\ntask: [small, large]\naggregate_metric_list: [{metric: acc}]\n"
    outer = f"group: outer\ntask: [both, small]\naggregate_metric_list: [{{metric: acc, {weighted}}}]\n"
    scores = run(folder(outer, both=inner), "outer")
    assert scores["both"]["acc,none"] == 0.75
    assert scores["outer"]["acc,none"] == value


@pytest.mark.covers("GroupConfig.aggregate_metric_list")
@pytest.mark.parametrize("weighted", ["true", "false"])
def test_the_standard_error_is_that_of_the_mean(folder, run, weighted):
    group = f"group: both\ntask: [small, large]\naggregate_metric_list: [{{metric: acc, weight_by_size: {weighted}}}]\n"
    scores = run(folder(group), model="dummy")
    errors = {name: scores[name]["acc_stderr,none"] for name in SIZES}
    if weighted == "true":
        squares = sum((n - 1) * n * errors[name] ** 2 for name, n in SIZES.items())
        expected = math.sqrt(squares / (8 - 2) / 8)
    else:
        expected = math.sqrt(sum(error**2 for error in errors.values())) / 2
    assert scores["both"]["acc_stderr,none"] == pytest.approx(expected)


@pytest.mark.covers("GroupConfig.aggregate_metric_list")
def test_only_the_metrics_and_filters_that_are_listed_are_aggregated(folder, run):
    listed = (
        "aggregate_metric_list:\n  - {metric: acc_norm, filter_list: none}\n  - {metric: acc, filter_list: [other]}\n"
    )
    scores = run(folder(f"group: both\ntask: [small, large]\n{listed}"))["both"]
    assert [key for key in scores if "," in key] == ["acc_norm,none", "acc_norm_stderr,none"]


@pytest.mark.covers("GroupConfig.aggregate_metric_list")
def test_a_group_without_the_list_has_no_score_of_its_own(folder, run):
    assert not any("," in key for key in run(folder("group: both\ntask: [small, large]\n"))["both"])


@pytest.mark.covers("GroupConfig.aggregate_metric_list")
def test_the_aggregation_may_be_a_function(folder, run):
    group = (
        "group: both\ntask: [small, large]\naggregate_metric_list: [{metric: acc, aggregation: !function own.worst}]\n"
    )
    path = folder(group)
    (path / "own.py").write_text("def worst(values, sizes, weight_by_size):\n    return min(values)\n")
    assert run(path)["both"]["acc,none"] == 0.0


@pytest.mark.covers("GroupConfig.metadata")
def test_the_version_of_the_group_is_reported(folder, run):
    results = run(folder("group: both\ntask: [small]\nmetadata: {version: 3}\n"))
    assert to_json(results)["versions"]["both"] == "3"


@pytest.mark.covers("GroupConfig.tag", "GroupConfig.task")
def test_a_tag_may_be_a_member(folder, run):
    assert list(run(folder("group: both\ntask: sizes\n"))) == ["both", "large", "small"]


@pytest.mark.covers("GroupConfig.tag")
def test_a_tag_selects_a_group_as_well(folder, run):
    assert "both" in run(folder("group: both\ntask: [small]\ntag: mixtures\n"), tasks="mixtures")


@pytest.mark.covers("GroupConfig.task")
def test_a_member_may_be_a_group_that_has_its_own_file(folder, run):
    inner = "group: inner\ntask: [large]\naggregate_metric_list: [{metric: acc}]\n"
    outer = "group: both\ntask: [small, inner]\naggregate_metric_list: [{metric: acc}]\n"
    results = run(folder(outer, inner=inner))
    assert list(results) == ["both", "inner", "small", "large"]
    assert (results["both"]["acc,none"], results["inner"]["acc,none"]) == (0.75, 1.0)
    assert re.search(r"\n both .*\n   inner ", results.table("long"))


@pytest.mark.covers("GroupConfig.task")
def test_a_member_may_be_a_group_that_is_written_there(folder, run):
    outer = """\
group: both
task:
  - small
  - group: inner
    group_alias: Inside
    task: [large]
    aggregate_metric_list: [{metric: acc}]
"""
    results = run(folder(outer))
    assert results["both::inner"]["acc,none"] == 1.0  # as in lm-eval, where it has no file of its own
    assert results["both::inner"]["alias"] == "Inside"


@pytest.mark.covers("GroupConfig.task")
def test_a_member_may_be_a_task_that_is_written_there(folder, run):
    group = """\
group: both
task:
  - task: third
    dataset_path: small.jsonl
    test_split: test
    output_type: multiple_choice
    doc_to_text: q
    doc_to_choice: choices
    doc_to_target: 1
"""
    assert run(folder(group))["both::third"]["acc,none"] == 1.0  # as in lm-eval, where it has no file of its own


@pytest.mark.covers("GroupConfig.task")
def test_a_member_may_change_fields_of_its_task(folder, run):
    group = "group: both\ntask:\n  - task: small\n    doc_to_target: 1\n    task_alias: Tiny\n  - large\n"
    results = run(folder(group))
    assert results["small"]["acc,none"] == 1.0
    assert results["small"]["alias"] == "Tiny"


@pytest.mark.covers("GroupConfig.group")
def test_other_keys_of_the_group_go_to_its_members_unless_they_say_otherwise(folder, run):
    group = "group: both\ntask: [small, {task: large, description: 'Own. '}]\ndescription: 'Shared. '\n"
    results = run(folder(group))
    first = {form.form: form.samples[0].instances[0].request.context for form in results.forms}
    assert first == {"small": "Shared. small 0?", "large": "Own. large 0?"}


@pytest.mark.covers("GroupConfig.group")
def test_the_keys_of_an_outer_group_reach_the_tasks_of_an_inner_one(folder, run):
    outer = "group: both\ndescription: 'Outer. '\ntask: [inner]\n"
    results = run(folder(outer, inner="group: inner\ntask: [small]\n"))
    assert results.forms[0].samples[0].instances[0].request.context == "Outer. small 0?"


@pytest.mark.covers("GroupConfig.task")
def test_a_member_may_have_a_format_in_both_spellings(folder, run):
    group = "group: both\ntask:\n  - small@mcqa\n  - task: large\n    formats: cloze\n  - task: large@mcqa\n"
    results = run(folder(group))
    assert list(results) == ["both", "small@mcqa", "large", "large@mcqa"]
    contexts = {form.form: form.samples[0].instances[0].request.context for form in results.forms}
    assert contexts["small@mcqa"] == "Question: small 0?\nA. no\nB. yes\nAnswer:"
    assert contexts["large"] == "Question: large 0?\nAnswer:"


@pytest.mark.covers("GroupConfig.group", "GroupConfig.task")
def test_a_group_runs_under_a_format_from_the_command_line(folder, run):
    group = "group: both\ntask: [small@cloze, large]\naggregate_metric_list: [{metric: acc}]\n"
    results = run(folder(group), tasks="both@mcqa")
    assert list(results) == ["both@mcqa", "small@mcqa", "large@mcqa"]
    assert results["both@mcqa"]["acc,none"] == 0.75


@pytest.mark.covers("GroupConfig.group")
def test_a_group_runs_under_several_formats_at_once(folder, run):
    results = run(folder("group: both\ntask: [small, large]\n"), tasks="both@mcqa+cloze")
    assert [group.name for group in results.groups] == ["both@mcqa", "both@cloze"]
    assert [form.form for form in results.forms] == ["small@mcqa", "large@mcqa", "small@cloze", "large@cloze"]


@pytest.mark.covers("GroupConfig.group")
def test_a_glob_selects_groups_too(folder):
    manager = TaskManager(folder("group: both\ntask: [small]\n"))
    assert [config.form_name for config in manager.load("bot?")] == ["small"]


@pytest.mark.covers("GroupConfig.group")
def test_the_shots_of_the_members_are_shown_if_they_agree(folder, run):
    results = run(folder("group: both\nnum_fewshot: 1\ntask: [small, large]\n"))
    assert to_json(results)["n-shot"]["both"] == 1
    mixed = run(folder("group: both\ntask: [small, {task: large, num_fewshot: 1}]\n"))
    assert to_json(mixed)["n-shot"]["both"] == "mixed"


@pytest.mark.covers(
    "GroupConfig.group",
    "GroupConfig.task",
    "GroupConfig.aggregate_metric_list",
    "GroupConfig.group_alias",
    "GroupConfig.metadata",
)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("group: both\n", "task: the group has no members"),
        ("group: both\ntask: [smal]\n", r"task\.0: .*did you mean 'small'"),
        ("group: both\ntask: [both]\n", "the group contains itself: both -> both"),
        ("group: both\ntask: 5\n", "task: expected a string or a list, got 5"),
        ("group: both\ntask: [{formats: mcqa}]\n", "a member needs a 'task' or a 'group'"),
        ("group: both\ntask: [small]\naggregate_metric_list: [{weight_by_size: true}]\n", "missing key 'metric'"),
        ("group: both\ntask: [small]\naggregate_metric_list: [{metric: acc, agg: mean}]\n", "unknown key 'agg'"),
        ("group: both\ntask: [small]\ngroup_alias: [a]\n", "group_alias: expected a string or null"),
        ("group: both\ntask: [small]\nmetadata: 3\n", "metadata: expected a mapping or null, got 3"),
    ],
)
def test_a_wrong_group_is_one_clear_error(folder, run, text, message):
    path = folder(text)
    with pytest.raises(ConfigError, match=message) as caught:
        run(path, tasks=str(path / "group.yaml"))
    assert "group.yaml:" in str(caught.value)

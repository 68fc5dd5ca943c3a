"""Forms that a run adds: a form for each order of the choices, and for each draw of few-shot examples."""

from __future__ import annotations

import re

import pytest

from multiform import Task, TaskManager, UsageError, evaluate
from multiform.results.export import to_json
from multiform.run.options import RunOptions
from multiform.run.setup import load_forms


def forms(tasks, *, num_fewshot=None, limit=4, include_path=None, mirror=None, **design):
    given = {"num_fewshot": num_fewshot, "limit": limit, "include_path": include_path, "dataset_mirror": mirror}
    return load_forms(RunOptions(tasks=tasks, **given, **design))[0]


def names(tasks, **options):
    return [form.name for form in forms(tasks, **options)]


def prompts(form):
    return [form.sample(doc_id, doc).prompt for doc_id, doc in form.docs(limit=4)]


def test_cyclic_gives_a_form_for_each_rotation_and_every_choice_stands_everywhere():
    rotations = forms("quiz@mcqa", choice_order="cyclic")
    assert [form.name for form in rotations] == [
        "quiz@mcqa", "quiz@mcqa[order=rotate:1]", "quiz@mcqa[order=rotate:2]", "quiz@mcqa[order=rotate:3]"
    ]  # fmt: skip
    golds = [[form.sample(i, doc).gold[0] for i, doc in form.docs(limit=4)] for form in rotations]
    assert all(sorted(places) == [0, 1, 2, 3] for places in zip(*golds, strict=True))


def test_all_gives_a_form_for_each_permutation_and_a_shuffle_one_form():
    assert len(set(names("quiz@mcqa", choice_order="all"))) == 24
    assert names("quiz@mcqa", choice_order="shuffle:7") == ["quiz@mcqa[order=shuffle:7]"]
    assert names("quiz@mcqa", choice_order="original") == ["quiz@mcqa"]


def test_more_permutations_than_anybody_wants_are_refused(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"q": "?", "c": ["a", "b", "c", "d", "e"], "a": 0}\n', encoding="utf-8")
    file = tmp_path / "five.yaml"
    fields = "doc_to_text: q\ndoc_to_choice: c\ndoc_to_target: a\n"
    file.write_text(
        f"task: five\ndataset_path: rows.jsonl\ntest_split: train\n{fields}formats: mcqa\n", encoding="utf-8"
    )
    with pytest.raises(UsageError, match="5 choices of 'five@mcqa' have 120 orders"):
        names(f"{file}@mcqa", choice_order="all")
    assert len(names(f"{file}@mcqa", choice_order="cyclic")) == 5


def test_a_format_without_choices_runs_once_and_the_log_says_so(caplog):
    assert names("quiz@mcqa+cloze", choice_order="shuffle:1") == ["quiz@mcqa[order=shuffle:1]", "quiz@cloze"]
    assert "'quiz@cloze' does not show choices whose order can change, so that it runs only once" in caplog.text


@pytest.mark.parametrize(
    ("tasks", "design", "message"),
    [
        ("quiz@cloze", {"choice_order": "cyclic"}, "'quiz@cloze' does not show choices"),
        ("quiz@mcqa[order=reverse]", {"choice_order": "cyclic"}, "has an order of choices already"),
        ("quiz@mcqa[draw=1]", {"fewshot_draws": 2, "num_fewshot": 1}, "has a draw of examples already"),
        ("quiz@mcqa", {"fewshot_draws": 3}, "'quiz@mcqa' has no few-shot examples that are drawn at random"),
    ],
)
def test_an_option_without_effect_is_refused(tasks, design, message):
    with pytest.raises(UsageError) as caught:
        names(tasks, **design)
    assert message in str(caught.value)


@pytest.mark.parametrize("option", [{"choice_order": "cyclic"}, {"fewshot_draws": 2}, {"thinking_budget": [0, 16]}])
def test_the_forms_of_an_object_are_not_multiplied(option):
    task = Task.from_config(TaskManager().load("quiz@mcqa")[0])
    with pytest.raises(UsageError, match="which is given as an object, cannot be multiplied"):
        evaluate(model="dummy", tasks=task, **option)


@pytest.mark.parametrize("as_object", [False, True])
def test_a_protocol_is_refused_for_tasks_without_a_name_to_look_up(as_object):
    config = TaskManager().load("quiz@mcqa")[0]
    with pytest.raises(UsageError, match=r"protocol: a \w+ is given as an object"):
        evaluate(model="dummy", tasks=Task.from_config(config) if as_object else config, protocol="olmes")


def test_an_object_in_another_language_is_refused():
    task = Task.from_config(TaskManager().load("quiz@mcqa")[0])
    with pytest.raises(UsageError, match="--languages: 'quiz@mcqa'"):
        evaluate(model="dummy", tasks=task, languages=["de"])


def test_an_axis_of_examples_that_are_not_there_is_said_to_change_nothing(caplog):
    names("quiz@mcqa[instruction=answer,shots=after,draw=1]")
    assert "'shots' changes nothing without few-shot examples" in caplog.text
    assert "'draw' changes nothing without few-shot examples" in caplog.text


def test_an_order_that_nobody_knows_is_refused():
    with pytest.raises(UsageError, match="expected original, shuffle:SEED, cyclic or all, got 'sorted'"):
        evaluate(model="dummy", tasks="quiz@mcqa", choice_order="sorted")


def test_draws_of_examples_change_nothing_but_the_examples():
    draws = forms("quiz@mcqa", num_fewshot=2, fewshot_draws=3)
    assert [form.name for form in draws] == ["quiz@mcqa", "quiz@mcqa[draw=1]", "quiz@mcqa[draw=2]"]
    questions = [[prompt.rpartition("\n\n")[2] for prompt in prompts(form)] for form in draws]
    examples = [[prompt.rpartition("\n\n")[0] for prompt in prompts(form)] for form in draws]
    assert questions[0] == questions[1] == questions[2]
    assert examples[0] != examples[1] != examples[2] != examples[0]
    assert len({form.identity() for form in draws}) == 3


def test_the_second_draw_is_that_of_the_next_seed():
    [other] = forms("quiz@mcqa", num_fewshot=2, seeds=(0, 1234, 1234, 1235))
    assert prompts(forms("quiz@mcqa[draw=1]", num_fewshot=2)[0]) == prompts(other)


def test_a_task_without_a_format_has_draws_as_well(mirror):
    pytest.importorskip("lm_eval")
    draws = forms("arc_easy", num_fewshot=1, fewshot_draws=2, include_path="lm_eval", mirror=mirror)
    assert [form.name for form in draws] == ["arc_easy", "arc_easy@[draw=1]"]
    assert [form.config.format for form in draws] == [None, None]
    assert prompts(draws[0]) != prompts(draws[1])
    assert names("arc_easy@[draw=1]", num_fewshot=1, include_path="lm_eval", mirror=mirror) == ["arc_easy@[draw=1]"]


def test_orders_and_draws_multiply_and_groups_are_reported_for_each(tmp_path):
    (tmp_path / "pair.yaml").write_text(
        "group: pair\ntask: [quiz]\naggregate_metric_list: [{metric: acc}]\n", encoding="utf-8"
    )
    results = evaluate(
        model="dummy", tasks="pair@mcqa", include_path=tmp_path, limit=4, num_fewshot=1, choice_order="cyclic",
        fewshot_draws=2,
    )  # fmt: skip
    labels = [form.name.partition("@")[2] for form in results.forms]
    assert len(set(labels)) == 8
    assert [group.name for group in results.groups] == [f"pair@{label}" for label in labels]


def test_results_name_the_axes_of_a_variation_and_the_hash_of_its_name():
    results = evaluate(model="dummy", tasks="quiz@mcqa+mcqa[labels=roman,wrap=(x)]", limit=1)
    plain, varied = to_json(results)["forms"].values()
    assert "variation" not in plain
    assert varied["variation"] == {"hash": "3be35d4d", "axes": {"labels": "roman", "wrap": "(x)"}}


def test_variations_are_drawn_without_orders_where_the_run_decides_about_them():
    drawn = names("quiz@mcqa~6", choice_order="original")
    assert len(drawn) == 7  # with mcqa itself
    assert not any("order=" in name for name in drawn)
    assert any("order=" in name for name in names("quiz@mcqa~6"))


def test_forms_of_lm_eval_tasks_run_under_variations(mirror):
    pytest.importorskip("lm_eval")
    results = evaluate(
        model="dummy", tasks="arc_challenge@all+mcqa~4", include_path="lm_eval", dataset_mirror=mirror, limit=3,
        num_fewshot=1,
    )  # fmt: skip
    assert len(results.forms) == 10
    assert all(re.fullmatch(r"arc_challenge@\w+(\[.+\])?", form.name) for form in results.forms)

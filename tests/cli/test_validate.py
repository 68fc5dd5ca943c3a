"""`multiform validate`: everything that is wrong, before it fails."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def three(folder):
    """Three tasks: the first and the last are broken, in the file and in the data."""
    folder.task("task: one\ndoc_to_txt: question\n", name="tasks/one.yaml")
    folder.task("task: two\ndataset_path: ../rows.jsonl\ntag: all_three\n", name="tasks/two.yaml")
    folder.task("task: three\ndataset_path: ../rows.jsonl\ndoc_to_text: qestion\n", name="tasks/three.yaml")
    return folder


def test_a_right_task_is_ok(folder):
    folder.task()
    ran = folder.run("validate", "task.yaml")
    assert (ran.code, ran.out, ran.err) == (0, "ok: t: 4 documents rendered\n", "")
    assert folder.run("validate", "task.yaml", "--limit", "1").out == "ok: t: 1 document rendered\n"


def test_all_that_is_wrong_is_said(three):
    ran = three.run("validate", "tasks/one.yaml", "tasks/two.yaml,tasks/three.yaml", "nowhere")
    assert ran.code == 2
    assert ran.out.splitlines() == [
        "error: tasks/one.yaml:8: doc_to_txt: unknown key 'doc_to_txt' in a task; did you mean 'doc_to_text'?",
        "ok: two: 4 documents rendered",
        "error: tasks/three.yaml:7: doc_to_text: doc 0: no column 'qestion' in ../rows.jsonl; did you mean 'question'?",
        "error: nowhere: no task, tag or file of that name; 'multiform ls tasks' and 'multiform ls tags' list them",
    ]


def test_a_broken_task_of_a_glob_does_not_hide_the_others(three):
    ran = three.run("validate", "t[hw][ro]*", "one", "--include_path", "tasks")
    assert [line.split(":")[0] for line in ran.out.splitlines()] == ["error", "ok", "error"]


def test_a_broken_format_does_not_hide_the_others(folder):
    folder.task()
    ran = folder.run("validate", "task.yaml@mcqa+nope+cloze")
    assert [line.split(":")[:2] for line in ran.out.splitlines()] == [
        ["ok", " t@mcqa"],
        ["error", " t@nope"],
        ["ok", " t@cloze"],
    ]


def test_an_error_of_the_data_is_said_once_and_not_for_every_form(folder):
    folder.write({"rows.csv": "question,A,B,answer\nWho?,a,b\n"})
    folder.task('dataset_path: rows.csv\ndoc_to_choice: ["{{A}}", "{{B}}"]\n')
    ran = folder.run("validate", "task.yaml@mcqa+cloze")
    assert (
        ran.out == "error: rows.csv:2: 3 values for 4 columns; quote a value that holds the delimiter or a line break\n"
    )
    assert [row["docs"] for row in folder.run("validate", "task.yaml@mcqa+cloze", "--json").json()] == [0, 0]


def test_json_has_a_row_for_each_form(three):
    ran = three.run("validate", "tasks/two.yaml@mcqa", "tasks/one.yaml", "--json")
    assert ran.code == 2
    first, second = ran.json()
    assert first == {"form": "two@mcqa", "docs": 4, "error": None, "warnings": []}
    assert (second["form"], second["docs"]) == ("tasks/one.yaml", 0)
    assert second["error"].startswith("tasks/one.yaml:8: doc_to_txt: unknown key")


def test_documents_up_to_the_limit_are_rendered(folder):
    folder.rows(*({"question": "q", "choices": ["a", "b"], "answer": i} for i in range(4)))
    folder.task()
    assert folder.run("validate", "task.yaml@mcqa", "--limit", "2").code == 0
    assert "doc 2: the answer 2" in folder.run("validate", "task.yaml@mcqa").out


def test_what_is_odd_but_runs_is_a_warning(folder):
    folder.rows(*({"question": "q", "choices": ["a", "b"], "answer": i} for i in range(4)))
    folder.task("tag: a\ntag: b\n")
    ran = folder.run("validate", "task.yaml", "--json")
    assert ran.code == 0
    [row] = json.loads(ran.out)
    assert row["error"] is None
    assert [warning.partition("; ")[0] for warning in row["warnings"]] == [
        "task.yaml:9: the key 'tag' is given twice (first on line 8), and this one counts",
        "task.yaml:7: doc_to_target: doc 2: the answer 2 does not resolve among ['a', 'b']: "
        "the index is not between 0 and 1",
        "task.yaml:7: doc_to_target: doc 3: the answer 3 does not resolve among ['a', 'b']: "
        "the index is not between 0 and 1",
    ]


def test_shots_are_rendered_too(folder):
    folder.task()
    ran = folder.run("validate", "task.yaml", "--num_fewshot", "9")
    assert (ran.code, "9 few-shot examples requested" in ran.out) == (2, True)


def test_tasks_may_be_named_as_for_lm_eval(folder):
    folder.task()
    assert folder.run("validate", "--tasks", "task.yaml").out == "ok: t: 4 documents rendered\n"


def test_the_bundled_tasks_are_right_in_every_format(folder):
    ran = folder.run("validate", "bundled@all", "--num_fewshot", "2", "--limit", "5")
    assert (ran.code, "error" in ran.out) == (0, False)


def test_examples_are_right_in_every_format(folder, mirror, examples):
    files = [path for path in sorted(examples.glob("*.yaml")) if "class:" not in path.read_text()]  # prompts by code
    names = [f"{path}@all" for path in files]
    ran = folder.run("validate", *names, "--dataset_mirror", str(mirror), "--num_fewshot", "3", "--limit", "50")
    assert [line for line in ran.out.splitlines() if line.startswith("error")] == []


def test_choices_that_nothing_ranks_are_refused(folder):
    folder.task(without="output_type")
    for command in (["validate", "task.yaml"], ["run", "--tasks", "task.yaml", "--model", "dummy"]):
        ran = folder.run(*command)
        assert ran.code == 2
        assert "task.yaml:5: doc_to_choice: the task has choices but no format and no output_type" in ran.out + ran.err
        assert "add output_type: multiple_choice" in ran.out + ran.err
    assert folder.run("validate", "task.yaml@mcqa").code == 0


@pytest.mark.parametrize(("metric", "package"), [("chrf", "sacrebleu"), ("rougeL", "rouge_score")])
def test_a_metric_without_its_package_is_refused_before_the_model_runs(folder, monkeypatch, metric, package):
    monkeypatch.setattr("multiform.scoring.metrics.base.find_spec", lambda name: None if name == package else name)
    folder.task(f"metric_list: [{{metric: {metric}}}]\noutput_type: generate_until\n", without="output_type")
    run = ["run", "--tasks", "task.yaml", "--model", "dummy"]
    for command in (["validate", "task.yaml"], run):
        ran = folder.run(*command)
        assert ran.code == 2
        needs = f"metric_list: metric '{metric}' needs {package.replace('_', '-')}; pip install 'multiform[metrics]'"
        assert needs in ran.out + ran.err
        assert "loading model" not in ran.err
    assert folder.run("show", "task.yaml").code == folder.run(*run, "--predict_only", "--output_path", "out").code == 0


def test_a_metric_of_ranked_choices_says_that_the_output_type_is_missing(folder):
    folder.task("metric_list: [{metric: acc}]\n", without="output_type")
    ran = folder.run("validate", "task.yaml")
    assert (ran.code, "add output_type: multiple_choice" in ran.out) == (2, True)


@pytest.mark.parametrize(
    "said",
    [
        "output_type: generate_until",
        "generation_kwargs: {max_gen_toks: 8}",
        "metric_list: [{metric: exact_match}]",
        "filter_list: [{name: first, filter: [{function: take_first}]}]",
        "scorer: choice_match",
    ],
)
def test_choices_of_a_task_that_is_meant_to_write_are_right(folder, said):
    folder.task(f"{said}\n", without="output_type")
    ran = folder.run("validate", "task.yaml")
    assert (ran.code, ran.out) == (0, "ok: t: 4 documents rendered\n")

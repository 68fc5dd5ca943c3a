"""What `validate` and `run` say about tasks that run but are odd."""

from __future__ import annotations

import json

import pytest

from multiform.lint.findings import CODES

QUESTIONS = [{"question": f"Question {i}?", "choices": [f"x{i}", f"y{i}", f"z{i}"], "answer": i % 3} for i in range(4)]


def changed(index, **columns):
    """The usual rows, with columns of one of them changed."""
    return [{**row, **columns} if i == index else row for i, row in enumerate(QUESTIONS)]


CASES = {
    "mixed_answers": (
        changed(2, answer="1"),
        "task.yaml:7: doc_to_target: the answers in column 'answer' are of mixed kinds: numbers and text "
        "(answer: 0 in doc 0, '1' in doc 2)",
    ),
    "duplicate_choices": (
        changed(1, choices=["a", "b", "a"]),
        "task.yaml:6: doc_to_choice: documents with the same choice twice: 1 (doc 1: 'a' in ['a', 'b', 'a'])",
    ),
    "duplicate_rows": (
        [*QUESTIONS, QUESTIONS[1]],
        "task.yaml:1: documents that repeat another in every column that the task reads: 1 (docs 1 and 4)",
    ),
    "empty_question": (
        changed(3, question=" "),
        "task.yaml:5: doc_to_text: documents with an empty question: 1 (doc 3)",
    ),
}


@pytest.mark.parametrize("code", CASES)
@pytest.mark.parametrize("name", ["task.yaml", "task.yaml@mcqa+cloze"])
def test_odd_documents_are_a_warning_once(folder, code, name):
    rows, says = CASES[code]
    folder.rows(*rows)
    folder.task()
    for command in (["validate", name], ["run", "--model", "dummy", "--tasks", name]):
        ran = folder.run(*command)
        assert ran.code == 0
        [line] = [line for line in ran.err.splitlines() if line.startswith("WARNING: ")]
        assert line.startswith(f"WARNING: {says}; ")
        assert line.endswith(f" [{code}]")


def test_warnings_are_in_the_json_of_each_form(folder):
    folder.rows(*CASES["duplicate_rows"][0])
    folder.task()
    rows = json.loads(folder.run("validate", "task.yaml@mcqa+cloze", "--json").out)
    assert [[warning.rpartition(" ")[2] for warning in row["warnings"]] for row in rows] == [["[duplicate_rows]"]] * 2


def test_several_tasks_of_a_run_share_a_line(folder):
    folder.rows(*CASES["duplicate_rows"][0])
    for name in ("one", "two", "three"):
        folder.task(f"task: {name}\n", name=f"{name}.yaml")
    ran = folder.run("run", "--model", "dummy", "--tasks", "one.yaml", "two.yaml", "three.yaml")
    [line] = [line for line in ran.err.splitlines() if line.startswith("WARNING: ")]
    assert line.endswith("[duplicate_rows]; so for 2 more: two, three")


def test_a_healthy_task_has_no_warning(folder):
    folder.task()
    ran = folder.run("run", "--model", "dummy", "--tasks", "task.yaml@all")
    assert "WARNING" not in ran.err


def test_texts_and_numbers_are_the_same_answer_where_the_model_writes(folder):
    folder.rows({"question": "2 + 2?", "answer": 4}, {"question": "Capital of France?", "answer": "Paris"})
    folder.task("output_type: generate_until\n", without="doc_to_choice")
    assert folder.run("validate", "task.yaml").err == ""


@pytest.mark.parametrize("splits", ["fewshot_split: test", "training_split: train", ""])
def test_shots_from_the_evaluated_documents_are_a_warning(folder, splits):
    """One file serves every split, so that `train` has the same rows as `test`."""
    folder.task(f"{splits}\n")
    for command in (["validate", "task.yaml"], ["run", "--model", "dummy", "--tasks", "task.yaml"]):
        assert "WARNING" not in folder.run(*command).err
        ran = folder.run(*command, "--num_fewshot", "1")
        [line] = [line for line in ran.err.splitlines() if line.startswith("WARNING: ")]
        assert "few-shot examples are drawn from the documents that are evaluated" in line


def test_shots_from_another_split_are_right(folder):
    folder.write({"d/train.jsonl": "".join(json.dumps(row) + "\n" for row in QUESTIONS)})
    folder.rows({"question": "Why?", "choices": ["a", "b"], "answer": 0}, QUESTIONS[0], name="d/test.jsonl")
    folder.task("dataset_path: d\n")
    ran = folder.run("validate", "task.yaml", "--num_fewshot", "1")
    assert ran.err.count("[shots_from_evaluated_split]") == 1
    assert "set fewshot_split to another one: train" in ran.err
    folder.task("dataset_path: d\ntraining_split: train\n")
    replaced = "INFO: t: few-shot examples that equal the document are replaced; lm-eval keeps those of another split\n"
    assert folder.run("validate", "task.yaml", "--num_fewshot", "1").err == replaced


def test_decontamination_without_a_corpus_is_said(folder):
    folder.task("should_decontaminate: true\n")
    ran = folder.run("run", "--model", "dummy", "--tasks", "task.yaml")
    said = "INFO: task.yaml:8: should_decontaminate: nothing is decontaminated without a corpus"
    assert [line for line in ran.err.splitlines() if line.startswith(said)]
    folder.write({"corpus.txt": "nothing of it"})
    ran = folder.run("run", "--model", "dummy", "--tasks", "task.yaml", "--decontamination_corpus", "corpus.txt")
    assert "without a corpus" not in ran.err


# multiform lint


#: As many questions as positions, so that nothing is skewed.
HEALTHY = 'doc_to_text: "Question: {{question}}\\nAnswer:"\n'


def test_lint_finds_nothing_in_a_healthy_task(folder):
    folder.task(HEALTHY)
    ran = folder.run("lint", "task.yaml")
    assert (ran.code, ran.out, ran.err) == (0, "t: nothing found; 4 documents\n", "")


def test_lint_prints_place_example_fix_and_code(folder):
    folder.task('doc_to_text: "Question: {{question}}\\nAnswer: "\n')
    ran = folder.run("lint", "task.yaml")
    assert ran.code == 1
    assert ran.out.splitlines() == [
        "task.yaml:7: doc_to_text: two spaces in a row: 4 of 4 documents (doc 0: 'Question 0?\\nAnswer:  x0'); "
        "remove it, or change target_delimiter [doubled_space]",
        "t: 1 finding; 4 documents",
    ]


def test_lint_names_the_form_where_there_are_several(folder):
    folder.rows(*changed(1, choices=["a", "b", "a"]))
    folder.task(
        "formats: {mcqa: {type: mcqa, question_prefix: 'Question:'}, cloze: {type: cloze}}\n", without="output_type"
    )
    ran = folder.run("lint", "task.yaml@mcqa+cloze", "--json")
    assert ran.code == 1
    findings = ran.json()["findings"]
    assert [(finding["code"], finding["form"], finding["docs"]) for finding in findings] == [
        ("duplicate_choices", "", 1),
        ("missing_space", "t@mcqa", 4),
    ]
    assert ran.json()["forms"] == [{"form": "t@mcqa", "docs": 4}, {"form": "t@cloze", "docs": 4}]
    assert set(findings[0]) == {"code", "task", "form", "where", "what", "example", "hint", "level", "docs"}


def test_an_error_in_one_task_does_not_hide_the_findings_of_others(folder):
    folder.task("doc_to_text: qestion\n", name="broken.yaml")
    folder.task(HEALTHY)
    ran = folder.run("lint", "broken.yaml,nope", "task.yaml")
    assert ran.code == 2
    first, second, last = ran.out.splitlines()
    assert first.startswith("error: broken.yaml:7: doc_to_text: doc 0: no column 'qestion'")
    assert second.startswith("error: nope: no task, tag or file of that name")
    assert last == "t: nothing found; 4 documents"


def test_a_code_is_silenced_with_a_reason_everywhere(folder):
    folder.rows(*CASES["duplicate_rows"][0])
    folder.task(HEALTHY + "lint_ignore: {duplicate_rows: each is asked twice on purpose}\n")
    ran = folder.run("lint", "task.yaml")
    assert (ran.code, ran.out) == (0, "t: nothing found, 1 silenced; 5 documents\n")
    assert [finding["code"] for finding in folder.run("lint", "task.yaml", "--json").json()["silenced"]] == [
        "duplicate_rows"
    ]
    for command in (["validate", "task.yaml"], ["run", "--model", "dummy", "--tasks", "task.yaml"]):
        assert "WARNING" not in folder.run(*command).err


@pytest.mark.parametrize(
    ("ignored", "says"),
    [
        ("{duplicate_row: on purpose}", "no code 'duplicate_row'; did you mean 'duplicate_rows'?"),
        ("{duplicate_rows: ' '}", "a code is silenced without a reason"),
        ("[duplicate_rows]", "expected a mapping or null, got ['duplicate_rows']"),
    ],
)
def test_silencing_wants_a_known_code_and_a_reason(folder, ignored, says):
    folder.task(HEALTHY + f"lint_ignore: {ignored}\n")
    for command in (["lint", "task.yaml"], ["validate", "task.yaml"]):
        ran = folder.run(*command)
        assert ran.code == 2
        assert "task.yaml:8: lint_ignore" in ran.out
        assert says in ran.out


def test_silencing_changes_neither_prompts_nor_scores(folder):
    from multiform import Task, TaskManager

    path = folder.task(HEALTHY)
    [plain] = TaskManager().load(str(path))
    folder.task(HEALTHY + "lint_ignore: {skewed_gold: known}\n")
    [silenced] = TaskManager().load(str(path))
    assert Task.from_config(plain).form.identity() == Task.from_config(silenced).form.identity()


@pytest.mark.parametrize("flags", [["--apply_chat_template"], ["--max_length", "9"]], ids=lambda flags: flags[0])
def test_flags_of_tokens_need_a_tokenizer(folder, flags):
    folder.task(HEALTHY)
    ran = folder.run("lint", "task.yaml", *flags)
    assert ran.code == 2
    assert "--tokenizer PATH" in ran.errors[0]


def test_a_tokenizer_that_does_not_exist_is_an_error(folder):
    folder.task(HEALTHY)
    ran = folder.run("lint", "task.yaml", "--tokenizer", "nope")
    assert (ran.code, ran.errors[0].startswith("error: --tokenizer: ")) == (2, True)


def test_codes_are_explained(folder):
    ran = folder.run("lint", "--explain", "stop_in_answer")
    assert ran.code == 0
    assert ran.out.startswith("stop_in_answer: A stop string occurs in what the model is to write")
    assert "Fix: Choose a stop string" in ran.out
    assert set(folder.run("lint", "--explain", "all", "--json").json()) == set(CODES)
    assert "did you mean 'stop_in_answer'?" in folder.run("lint", "--explain", "stop_in_answers").err


@pytest.mark.parametrize("shots", ["0", "3"])
def test_lint_finds_nothing_in_the_bundled_tasks(folder, shots):
    ran = folder.run("lint", "bundled@all", "--num_fewshot", shots)
    assert (ran.code, "nothing found" in ran.out) == (0, True)


@pytest.mark.bundled
@pytest.mark.parametrize("chat", [[], ["--apply_chat_template"]], ids=["plain", "chat"])
def test_lint_finds_nothing_in_the_bundled_tasks_with_the_bundled_tokenizer(folder, bundled_path, chat):
    ran = folder.run("lint", "bundled@all", "--num_fewshot", "3", "--tokenizer", str(bundled_path), *chat)
    assert (ran.code, "nothing found" in ran.out) == (0, True)

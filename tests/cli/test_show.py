"""`multiform show`: exactly what a model gets."""

from __future__ import annotations

import json
from typing import Any

import pytest

KEYS = ["form", "task", "format", "doc_id", "doc", "requests", "target", "choices"]


def lines(ran: Any) -> list[dict[str, Any]]:
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.out.split("\n") if line]


# As text


def test_first_document_is_shown_as_the_model_gets_it(folder):
    folder.task()
    assert folder.run("show", "task.yaml@mcqa").out == (
        "=== t@mcqa · doc 0 · 3 continuations · target 0\n"
        "Question: Question 0?\nA. x0\nB. y0\nC. z0\nAnswer:\n"
        '--- " A"\n--- " B"\n--- " C"\n\n'
    )


def test_generation_is_shown_with_its_arguments(folder):
    folder.task(without="doc_to_choice")
    folder.rows({"question": "2 + 2?", "answer": "4"})
    ran = folder.run("show", "task.yaml@cot", "--gen_kwargs", "max_gen_toks=7")
    assert ran.out.startswith("=== t@cot · doc 0 · 1 generation · target '4'\n")
    assert '--- generate {"do_sample": false, "max_gen_toks": 7, "temperature": 0.0, "until": [' in ran.out


def test_every_form_is_shown(folder):
    folder.task()
    heads = [line for line in folder.run("show", "task.yaml@mcqa+cloze", "task.yaml").out.splitlines() if "===" in line]
    assert [head.split()[1] for head in heads] == ["t@mcqa", "t@cloze", "t"]


def test_templates_are_shown_instead_of_prompts(folder):
    folder.task()
    out = folder.run("show", "task.yaml@cloze", "--jinja").out
    assert "--- doc_to_text\nQuestion: {{question}}\nAnswer:\n" in out
    assert '--- target_delimiter: " "' in out


def test_templates_are_shown_as_json(folder):
    folder.task()
    [shown] = lines(folder.run("show", "task.yaml@cloze", "--jinja", "--json"))
    assert (shown["form"], shown["doc_to_text"]) == ("t@cloze", "Question: {{question}}\nAnswer:")


def test_function_in_a_template_is_shown_by_its_name(folder):
    folder.write({"utils.py": "def hello(doc):\n    return 'hello'\n"})
    folder.task("description: !function utils.hello\n")
    [shown] = lines(folder.run("show", "task.yaml", "--jinja", "--json"))
    assert shown["description"].endswith("hello")


# Which documents


@pytest.mark.parametrize(
    ("doc", "ids"),
    [("2", [2]), ("1:3", [1, 2]), (":2", [0, 1]), ("2:", [2, 3]), ("1:99", [1, 2, 3]), ("all", [0, 1, 2, 3])],
)
def test_documents_are_chosen(folder, doc, ids):
    folder.task()
    shown = lines(folder.run("show", "task.yaml@mcqa", f"--doc={doc}", "--json"))
    assert [line["doc_id"] for line in shown] == ids
    assert [line["doc"]["question"] for line in shown] == [f"Question {i}?" for i in ids]


# As JSON


def test_json_has_one_object_for_each_document_and_form(folder):
    folder.task()
    shown = lines(folder.run("show", "task.yaml@mcqa+cloze", "--doc", "0:2", "--json"))
    assert [(line["form"], line["doc_id"]) for line in shown] == [
        ("t@mcqa", 0),
        ("t@mcqa", 1),
        ("t@cloze", 0),
        ("t@cloze", 1),
    ]


def test_json_has_the_keys_of_the_design(folder):
    folder.task()
    [shown] = lines(folder.run("show", "task.yaml@mcqa", "--doc", "1", "--json"))
    assert list(shown) == KEYS
    assert shown["requests"][0] == {
        "type": "loglikelihood",
        "context": "Question: Question 1?\nA. x1\nB. y1\nC. z1\nAnswer:",
        "continuation": " A",
    }
    assert [shown[key] for key in ("form", "task", "format", "target", "choices")] == [
        "t@mcqa",
        "t",
        "mcqa",
        1,
        ["x1", "y1", "z1"],
    ]


@pytest.mark.parametrize(
    ("output_type", "keys"),
    [
        ("multiple_choice", ["type", "context", "continuation"]),
        ("loglikelihood", ["type", "context", "continuation"]),
        ("loglikelihood_rolling", ["type", "context", "continuation"]),
        ("generate_until", ["type", "context", "gen_kwargs"]),
    ],
)
def test_json_request_has_what_its_type_needs(folder, output_type, keys):
    folder.task(f"output_type: {output_type}\n")
    [shown] = lines(folder.run("show", "task.yaml", "--json"))
    assert list(shown["requests"][0]) == keys
    assert shown["format"] is None


def test_json_of_a_task_without_choices_has_null(folder):
    folder.task("output_type: generate_until\n", without="doc_to_choice")
    [shown] = lines(folder.run("show", "task.yaml", "--json"))
    assert shown["choices"] is None


# The same as a run


def asked(folder: Any, *argv: str) -> dict[str, list[list[str]]]:
    """The prompts of a run, by form and document."""
    ran = folder.run("run", "--model", "dummy", "--output_path", "out", "--log_samples", "--tasks", *argv)
    assert ran.code == 0, ran.err
    return {
        form: [[part["arg_0"] for part in line["arguments"].values()] for line in samples]
        for form, samples in folder.samples().items()
    }


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--seed", "7"],
        ["--apply_chat_template"],
        ["--apply_chat_template", "--fewshot_as_multiturn", "false"],
        ["--system_instruction", "Be brief."],
    ],
    ids=["plain", "seed", "chat", "chat_in_one_turn", "system"],
)
@pytest.mark.parametrize("doc", [0, 7])
def test_a_document_has_the_shots_that_a_run_gives_it(folder, more, doc):
    argv = ["quiz@mcqa+cot", "--num_fewshot", "3", *more]
    run = asked(folder, *argv, "--limit", "10")
    shown = lines(folder.run("show", *argv, "--model", "dummy", "--doc", str(doc), "--json"))
    assert {line["form"]: [request["context"] for request in line["requests"]] for line in shown} == {
        form: prompts[doc] for form, prompts in run.items()
    }


def test_shots_are_those_of_a_run_on_real_rows(folder, mirror, examples):
    argv = [f"{examples / 'arc_easy.yaml'}@mcqa", "--num_fewshot", "5", "--dataset_mirror", str(mirror)]
    run = asked(folder, *argv, "--limit", "4")
    [shown] = lines(folder.run("show", *argv, "--doc", "3", "--json"))
    assert [request["context"] for request in shown["requests"]] == run["arc_easy@mcqa"][3]


def test_a_shot_is_never_the_document_itself(folder):
    folder.task("num_fewshot: 3\n")
    for shown in lines(folder.run("show", "task.yaml@mcqa", "--doc", "all", "--json")):
        assert shown["requests"][0]["context"].count(shown["doc"]["question"]) == 1


# Odd values

ODD = [
    "👩‍🚀",
    "ما هي؟",
    "a\0b",
    "a\ud800b",
    "a\udcffb",
    "one\u2028two\x85three",
    "{{ x }}",
    "[b]",
    "",
    "long " * 1_000_000,
]


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_odd_text_survives(folder, text):
    folder.rows({"question": text, "choices": ["a", "b"], "answer": 0})
    folder.task()
    ran = folder.run("show", "task.yaml@cloze", "--json")
    [shown] = lines(ran)
    assert shown["doc"]["question"] == text
    assert shown["requests"][0]["context"] == f"Question: {text}\nAnswer:"


@pytest.mark.process
def test_odd_text_survives_in_a_process_of_its_own(folder):
    folder.rows(*({"question": text, "choices": ["a", "b"], "answer": 0} for text in ODD))
    folder.task()
    ran = folder.process("show", "task.yaml@cloze", "--doc", "all", "--json")
    assert [line["doc"]["question"] for line in lines(ran)] == ODD
    assert len(ran.out.splitlines()) == len(ODD)


@pytest.mark.process
def test_odd_text_is_shown_without_json(folder):
    folder.rows(*({"question": text, "choices": ["a", "b"], "answer": 0} for text in ODD))
    folder.task()
    ran = folder.process("show", "task.yaml@cloze", "--doc", "all")
    assert (ran.code, ran.err, ran.out.count("===")) == (0, "", len(ODD))


@pytest.mark.process
@pytest.mark.parametrize("encoding", ["ascii", "utf-16"])
def test_json_is_utf8_whatever_the_terminal_is(folder, encoding, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    folder.rows({"question": "é 👩‍🚀", "choices": ["a", "b"], "answer": 0})
    folder.task()
    [shown] = lines(folder.process("show", "task.yaml@cloze", "--json"))
    assert shown["doc"]["question"] == "é 👩‍🚀"


@pytest.mark.parametrize("alias", ["max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"])
def test_a_limit_of_tokens_has_one_name(folder, alias):
    folder.task()
    asked = folder.run("show", "task.yaml@cot", "--gen_kwargs", f"{alias}=7,stop=END", "--json").json()["requests"][0]
    assert asked["gen_kwargs"] == {"do_sample": False, "max_gen_toks": 7, "temperature": 0.0, "until": ["END"]}


@pytest.mark.parametrize("where", ["", "formats: {type: cot}\n"])
def test_a_task_that_says_it_by_another_name_is_shown_by_that_one(folder, where):
    folder.task(f"output_type: generate_until\ngeneration_kwargs: {{max_new_tokens: 9}}\n{where}")
    kwargs = folder.run("show", "task.yaml", "--json").json()["requests"][0]["gen_kwargs"]
    assert (kwargs["max_gen_toks"], "max_new_tokens" in kwargs) == (9, False)

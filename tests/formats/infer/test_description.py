"""Descriptions of multiple choice under formats that show no choices."""

from __future__ import annotations

import logging

import pytest

from multiform import ConfigError, Task, TaskConfig, evaluate
from multiform.cli.main import main
from multiform.formats.infer.words import without_choices

DOC = {"question": "Q1?", "choices": ["x", "y"], "answer": 1, "subject": "maths"}
MMLU = "The following are multiple choice questions (with answers) about {{subject}}.\n\n"
CHANGED = "description 'The following are multiple choice questions (with answers)… for "
CHANGED += "'The following are questions (with answers) about {{subject…"


def config(name, **fields):
    given = {"doc_to_text": "question", "doc_to_choice": "choices", "doc_to_target": "answer", "description": MMLU}
    return TaskConfig(
        task=name, custom_dataset=lambda **kwargs: {"test": [DOC]}, test_split="test", **{**given, **fields}
    )


def prompt_of(made):
    task = Task.from_config(made)
    return task.sample(0, task.eval_docs[0]).prompt


@pytest.mark.parametrize("name", ["cloze", "bpb", "cot", "ClozeStyle", "cloze::pure"])
def test_a_format_without_choices_does_not_announce_multiple_choice(name):
    assert prompt_of(config(f"t@{name}")).startswith("The following are questions (with answers) about maths.\n\n")


@pytest.mark.parametrize("name", ["mcqa", "hybrid", "generate", "MCStyle"])
def test_a_format_that_shows_choices_keeps_the_description(name):
    prompt = prompt_of(config(f"t@{name}"))
    assert prompt.startswith("The following are multiple choice questions (with answers) about maths.\n\n")


def test_a_task_without_a_format_keeps_the_description():
    made = config("t", output_type="multiple_choice")
    assert prompt_of(made) == "The following are multiple choice questions (with answers) about maths.\n\nQ1?"
    assert made.description == MMLU


def test_the_description_can_be_kept_by_the_task():
    made = config("t@cloze", keep_description=True)
    assert prompt_of(made).startswith("The following are multiple choice questions")
    assert made.overridden == ()


def test_the_description_can_be_kept_by_the_run():
    changed = evaluate(model="dummy", tasks=[config("t@cloze")])
    kept = evaluate(model="dummy", tasks=[config("t@cloze")], keep_description=True)
    assert [form.overridden for form in (*changed.forms, *kept.forms)] == [(CHANGED,), ()]
    assert changed.forms[0].identity != kept.forms[0].identity


def test_the_configuration_keeps_what_the_task_says():
    made = config("t@cloze")
    assert made.to_dict()["description"] == MMLU
    assert made.templates()["description"] == "The following are questions (with answers) about {{subject}}.\n\n"


def test_code_that_writes_a_description_is_read_in_each_document():
    made = config("t@cloze", description=lambda doc: f"Multiple choice questions about {doc['subject']}.\n")
    assert prompt_of(made).startswith("Questions about maths.\nQuestion: Q1?")
    (form,) = evaluate(model="dummy", tasks=[made]).forms
    assert form.overridden == ("what the description says of choices",)


def test_a_switch_is_true_or_false():
    with pytest.raises(ConfigError, match="keep_description: expected true or false"):
        config("t@cloze", keep_description="yes")


def test_the_log_says_it_once_for_all_forms(caplog):
    with caplog.at_level(logging.INFO, logger="multiform"):
        evaluate(model="dummy", tasks=[config("t@cloze"), config("t@bpb"), config("t@mcqa")])
    (line,) = [record.message for record in caplog.records if "description" in record.message]
    assert line.startswith("t@cloze and 1 more: the description speaks of choices that the format does not show; ")
    assert line.endswith("becomes 'The following are questions (with answers) about {{subject}}.' "
                         "(--keep_description keeps it)")  # fmt: skip


def test_mmlu_without_choices_has_the_description_of_its_continuation_variant(mirror, capsys):
    pytest.importorskip("lm_eval")
    flags = ["--include_path", "lm_eval", "--dataset_mirror", str(mirror)]
    first = {}
    for task in ("mmlu_anatomy@cloze", "mmlu_anatomy_continuation"):
        assert main(["show", task, *flags]) == 0
        first[task] = capsys.readouterr().out.split("\n")[1]
    assert set(first.values()) == {"The following are questions (with answers) about anatomy."}
    assert main(["show", "mmlu_anatomy@cloze", "--keep_description", *flags]) == 0
    assert "multiple choice questions (with answers) about anatomy." in capsys.readouterr().out


DESCRIPTIONS = {
    "nothing": ("", ""),
    "no choices": ("Answer the question. Be brief (x).\n", "Answer the question. Be brief (x).\n"),
    "an adjective": ("Multiple-choice questions.", "Questions."),
    "German": ("Im Folgenden sind Multiple-Choice-Fragen zu Recht.\n", "Im Folgenden sind Fragen zu Recht.\n"),
    "a letter asked for": (
        'These are multiple choice questions about law. Think, then finish with "the answer is (X)" where X is the '
        "correct letter choice.\n",
        "These are questions about law.\n",
    ),
    "letters alone": ("Answer A,B,C,D according to the question.\n", ""),
    "Spanish": ("Las siguientes son preguntas de opción múltiple (con respuestas) sobre leyes.\n", ""),
    "Chinese": ("以下是关于法理学的单项选择题，请直接给出正确答案的选项。\n\n", ""),
    "a sentence across branches": ("{% if a %}Multiple choice.{% endif %} Begin.", ""),
    "solved examples": ("Soru: 2 + 2?\nA) 3\nB) 4\nCevap: B\n", ""),
    "a value that would be lost": ("Choose the correct letter for {{topic}}. Be brief.", ""),
}


@pytest.mark.parametrize(("description", "rest"), DESCRIPTIONS.values(), ids=DESCRIPTIONS)
def test_what_is_left_of_a_description(description, rest):
    assert without_choices(description) == rest


def test_the_stop_sequences_of_a_task_are_reported_where_a_format_has_others(caplog):
    made = config("t@cot", description="", generation_kwargs={"until": ["\n"], "max_gen_toks": 8})
    with caplog.at_level(logging.INFO, logger="multiform"):
        (form,) = evaluate(model="dummy", tasks=[made]).forms
    assert form.overridden == (r"until ['\n']",)
    (line,) = [record.message for record in caplog.records if "until" in record.message]
    assert (
        r"replaces the task's ['\n']; to keep it, write it into the format's generation_kwargs or --gen_kwargs" in line
    )


def test_stop_sequences_in_the_format_are_used_and_nothing_is_reported():
    stops = {"until": ["\n"]}
    made = config("t", description="", generation_kwargs=stops, formats={"type": "cot", "generation_kwargs": stops})
    assert made.generation_kwargs["until"] == ["\n"]
    assert made.overridden == ()
    ranked = config("t@mcqa", generation_kwargs=stops)
    assert ranked.overridden == ()

"""How prompts are put together, plain and as a chat: byte for byte as in lm-eval 0.4.13."""

from __future__ import annotations

import json
import warnings
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform import Task, TaskConfig
from multiform.prompts.prompt import (
    Delimiters,
    Turn,
    chat_messages,
    join_delimited,
    needs_delimiter,
    plain_text,
    query_turns,
    shot_turns,
    system_turns,
)

BETWEEN = Delimiters(" ", "\n\n")


def said(messages):
    return [(message.role, message.content, message.after) for message in messages]


# The parts

JOINED = {
    "they would touch": ("It is", "so", "It is so"),
    "space before": ("It is ", "so", "It is so"),
    "space after": ("It is", " so", "It is so"),
    "newline before": ("It is\n", "so", "It is\nso"),
    "nothing before": ("", "so", "so"),
    "nothing after": ("It is", "", "It is"),
    "nothing": ("", "", ""),
}


@pytest.mark.parametrize(("before", "after", "joined"), JOINED.values(), ids=JOINED.keys())
def test_a_delimiter_stands_only_where_two_texts_would_touch(before, after, joined):
    assert join_delimited(before, after, " ") == joined


@pytest.mark.parametrize(
    ("before", "after", "needed"),
    [("a", "b", True), ("a ", "b", False), ("a", " b", False), ("", "b", False), ("a", "", True), ("a\n", "b", False)],
)
def test_two_texts_need_a_delimiter_where_neither_has_white_space(before, after, needed):
    assert needs_delimiter(before, after) is needed


def test_a_question_is_a_user_message_and_nothing_follows_it():
    assert said(query_turns("Q?", "", BETWEEN)) == [("user", "Q?", "")]


def test_the_beginning_of_an_answer_is_an_assistant_message():
    assert said(query_turns("Q?", "It is", BETWEEN)) == [("user", "Q?", " "), ("assistant", "It is", "")]


def test_the_beginning_of_an_answer_needs_no_delimiter_after_white_space():
    assert plain_text(query_turns("Q?\n", "It is", BETWEEN)) == "Q?\nIt is"
    assert plain_text(query_turns("Q?", " It is", BETWEEN)) == "Q? It is"


def test_an_example_is_a_question_and_its_answer():
    assert said(shot_turns("Q?", "yes", "", BETWEEN)) == [("user", "Q?", " "), ("assistant", "yes", "\n\n")]


def test_an_example_always_has_the_delimiter_before_its_answer():
    assert plain_text(shot_turns("Q?\n", "yes", "", BETWEEN)) == "Q?\n yes\n\n"


def test_the_answer_of_an_example_begins_as_the_question_wants():
    assert said(shot_turns("Q?", "so", "It is", BETWEEN)) == [("user", "Q?", " "), ("assistant", "It is so", "\n\n")]
    assert plain_text(shot_turns("Q?", "so", "It is ", BETWEEN)) == "Q? It is so\n\n"


def test_an_example_without_an_answer_is_a_question():
    assert said(shot_turns("Q?", "", "", BETWEEN)) == said(query_turns("Q?", "", BETWEEN))


def test_instruction_and_description_are_one_system_message():
    assert said(system_turns("SYS", "DESC", BETWEEN)) == [("system", "SYS\n\nDESC", "")]
    assert said(system_turns("SYS\n", "DESC", BETWEEN)) == [("system", "SYS\nDESC", "")]
    assert said(system_turns(None, "DESC", BETWEEN)) == [("system", "DESC", "")]
    assert said(system_turns("SYS", "", BETWEEN)) == [("system", "SYS", "")]
    assert system_turns(None, "", BETWEEN) == []


TURNS = [
    *system_turns("SYS", "", BETWEEN),
    *shot_turns("Q1?", "yes", "", BETWEEN),
    *query_turns("Q2?", "", BETWEEN),
]


def test_as_turns_every_message_stands_alone():
    assert chat_messages(TURNS, multiturn=True) == [
        {"role": "system", "content": "SYS"},
        {"role": "user", "content": "Q1?"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "Q2?"},
    ]


def test_as_one_message_the_examples_are_part_of_the_question():
    assert chat_messages(TURNS, multiturn=False) == [
        {"role": "system", "content": "SYS"},
        {"role": "user", "content": "Q1? yes\n\nQ2?"},
    ]


def test_as_one_message_the_beginning_of_the_answer_stays_with_the_assistant():
    turns = [*shot_turns("Q1?", "yes", "It is", BETWEEN), *query_turns("Q2?", "It is", BETWEEN)]
    assert chat_messages(turns, multiturn=False) == [
        {"role": "user", "content": "Q1? It is yes\n\nQ2?"},
        {"role": "assistant", "content": "It is"},
    ]


@given(st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1)), max_size=4), st.text(min_size=1), st.text())
def test_plain_and_single_message_hold_the_same_text(examples, question, prefix):
    turns = [message for q, a in examples for message in shot_turns(q, a, prefix, BETWEEN)] + query_turns(
        question, prefix, BETWEEN
    )
    chat = chat_messages(turns, multiturn=False)
    between = turns[-2].after if prefix else ""
    assert between.join(message["content"] for message in chat) == plain_text(turns)


# Prompts as lm-eval assembles them


def chat_as_json(messages, add_generation_prompt=True):
    """A chat template that shows what it was given."""
    return json.dumps([list(messages), add_generation_prompt])


DOC = {"q": "Q0?", "choices": ["x", "y"], "a": 0}
SHOT = {"q": "Q3?", "choices": ["x", "y"], "a": 1}


def section_2_5(*, shots=(SHOT,), **fields):
    return Task.from_config(
        TaskConfig(
            task="t",
            output_type="multiple_choice",
            custom_dataset=lambda **kwargs: {"test": [DOC], "train": list(shots)},
            test_split="test",
            fewshot_split="train",
            num_fewshot=1,
            description="DESC\n\n",
            doc_to_text="Q: {{q}}\nA:",
            doc_to_choice="choices",
            doc_to_target="a",
            **fields,
        )
    )


def test_several_turns_without_the_beginning_of_an_answer():
    requests = section_2_5().build_all_requests(
        system_instruction="SYS", apply_chat_template=True, fewshot_as_multiturn=True, chat_template=chat_as_json
    )
    messages, add_generation_prompt = json.loads(requests[0].request.context)
    assert messages == [
        {"role": "system", "content": "SYS\n\nDESC\n\n"},
        {"role": "user", "content": "Q: Q3?\nA:"},
        {"role": "assistant", "content": "y"},
        {"role": "user", "content": "Q: Q0?\nA:"},
    ]
    assert add_generation_prompt is True
    assert [instance.request.continuation for instance in requests] == ["x", "y"]


def test_several_turns_with_the_beginning_of_an_answer():
    requests = section_2_5(gen_prefix="The answer is").build_all_requests(
        system_instruction="SYS", apply_chat_template=True, fewshot_as_multiturn=True, chat_template=chat_as_json
    )
    messages, add_generation_prompt = json.loads(requests[0].request.context)
    assert messages[-1] == {"role": "assistant", "content": "The answer is"}
    assert add_generation_prompt is False
    assert [instance.request.continuation for instance in requests] == [" x", " y"]


def test_plain_with_the_beginning_of_an_answer():
    shots = [{"q": "Q2?", "choices": ["x", "y"], "a": 0}]
    requests = section_2_5(shots=shots, gen_prefix="The answer is").build_all_requests(system_instruction="SYS")
    assert requests[0].request.context == ("SYS\n\nDESC\n\nQ: Q2?\nA: The answer is x\n\nQ: Q0?\nA: The answer is")
    assert [instance.request.continuation for instance in requests] == [" x", " y"]


def test_a_chat_has_no_delimiter_where_the_beginning_of_the_answer_ends_in_white_space():
    requests = section_2_5(gen_prefix="The answer is ").build_all_requests(
        apply_chat_template=True, fewshot_as_multiturn=True, chat_template=chat_as_json
    )
    assert [instance.request.continuation for instance in requests] == ["x", "y"]


def test_the_description_and_the_beginning_of_an_answer_may_be_templates():
    task = section_2_5(gen_prefix="About {{ q }}:")
    (context,) = {instance.request.context for instance in task.build_all_requests()}
    assert context == "DESC\n\nQ: Q3?\nA: About Q3?: y\n\nQ: Q0?\nA: About Q0?:"


# Side by side with the installed lm-eval

ROWS = [{"q": f"Q{n}?", "choices": ["x", "y", "z"], "a": n % 3, "t": f"answer {n}"} for n in range(7)]
KINDS = {
    "multiple choice": {"output_type": "multiple_choice", "doc_to_choice": "choices", "doc_to_target": "a"},
    "generation": {"output_type": "generate_until", "doc_to_target": "t"},
    "loglikelihood": {"output_type": "loglikelihood", "doc_to_target": "{{ ' ' + t }}"},
}
BETWEENS = {
    "plain": {},
    "description": {"description": "Answer these.\n\n"},
    "description without white space": {"description": "Answer these."},
    "description of a column": {"description": "About {{ t }}.\n"},
    "prefix": {"gen_prefix": "The answer is"},
    "prefix with a space": {"gen_prefix": "The answer is "},
    "prefix with a newline": {"gen_prefix": "\nSo"},
    "prefix of a column": {"gen_prefix": "On {{ q }}"},
    "delimiters": {"target_delimiter": "\n", "fewshot_delimiter": "\n---\n"},
    "no delimiters": {"target_delimiter": "", "fewshot_delimiter": ""},
    "prefix and delimiters": {"gen_prefix": "So:", "target_delimiter": "\n", "description": "D"},
}
RUNS = {
    "plain": {},
    "system": {"system_instruction": "Be brief."},
    "chat": {"apply_chat_template": True, "fewshot_as_multiturn": False},
    "chat with a system": {"apply_chat_template": True, "system_instruction": "Be brief."},
    "turns": {"apply_chat_template": True, "fewshot_as_multiturn": True},
    "turns with a system": {
        "apply_chat_template": True,
        "fewshot_as_multiturn": True,
        "system_instruction": "Be brief.",
    },
}


@cache
def lm_eval_task_class():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("lm_eval.api.task").ConfigurableTask


def lm_eval_task(config):
    import datasets

    made = {"test": datasets.Dataset.from_list(ROWS[:2]), "train": datasets.Dataset.from_list(ROWS[2:])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lm_eval_task_class()(config={**config, "custom_dataset": lambda **kwargs: made})


def arguments_of_lm_eval(task, shots, run):
    task.set_config(key="num_fewshot", value=shots)
    task.set_fewshot_seed(1234)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        task.build_all_requests(**run, chat_template=chat_as_json)
    return [(instance.args[0], instance.args[1]) for instance in task.instances]


def arguments_of_ours(config, shots, run):
    made = TaskConfig(
        **config, num_fewshot=shots, custom_dataset=lambda **kwargs: {"test": ROWS[:2], "train": ROWS[2:]}
    )
    task = Task.from_config(made)
    requests: list[Any] = [instance.request for instance in task.build_all_requests(**run, chat_template=chat_as_json)]
    if task.OUTPUT_TYPE == "generate_until":
        return [(request.context, request.gen_kwargs) for request in requests]
    return [(request.context, request.continuation) for request in requests]


@pytest.mark.parity
@pytest.mark.parametrize("layout", BETWEENS)
@pytest.mark.parametrize("kind", KINDS)
def test_requests_are_those_of_lm_eval(kind, layout):
    splits = {"test_split": "test", "fewshot_split": "train"}
    config = {"task": "t", "doc_to_text": "Q: {{q}}\nA:", **splits, **KINDS[kind], **BETWEENS[layout]}
    theirs = lm_eval_task(config)
    for run in RUNS.values():
        for shots in (0, 2):
            assert arguments_of_ours(config, shots, run) == arguments_of_lm_eval(theirs, shots, run)


def test_a_message_is_a_value():
    assert Turn("user", "Q?") == Turn("user", "Q?", "")

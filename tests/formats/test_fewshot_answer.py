"""The answers of few-shot examples: each shows exactly what its format asks a model to write."""

from __future__ import annotations

import pytest

from multiform import ConfigError, DataError, FormatConfig, Task, TaskConfig
from multiform.formats.base import asked_statement, written_answer
from multiform.forms import RunSettings

DOC = {"question": "2 + 2?", "choices": ["3", "4"], "answer": 1}
SHOT = {"question": "1 + 2?", "choices": ["3", "4"], "answer": 0, "why": "One and two make three."}


def task_of(format, *, shot=SHOT, **fields):
    config = TaskConfig(
        task="t",
        formats=format,
        custom_dataset=lambda **kwargs: {"test": [DOC], "train": [shot]},
        test_split="test",
        fewshot_split="train",
        num_fewshot=1,
        **{"doc_to_text": "question", "doc_to_choice": "choices", "doc_to_target": "answer", **fields},
    )
    return Task.from_config(config)


def shot_of(format, **fields):
    """The answer of the example in a plain prompt: what follows its last line."""
    (first, *_) = [instance.request for instance in task_of(format, **fields).build_all_requests()]
    return first.context.partition("\n\n")[0]


def chat_of(format, multiturn, **fields):
    """The messages that a chat model gets."""
    seen = []

    def template(messages, add_generation_prompt=True):
        seen.append(messages)
        return str(messages)

    settings = RunSettings(apply_chat_template=True, fewshot_as_multiturn=multiturn)
    task_of(format, **fields).under(settings).sample(0, DOC, template)
    return seen[0]


ENDS = {
    "mcqa": "\nAnswer: A",
    "cloze": "\nAnswer: 3",
    "hybrid": "\nAnswer: 3",
    "bpb": "\nAnswer: 3",
    "generate": "where the [answer_letter] is one of A or B.\nThe best answer is A",
    "cot": "where [answer] is the response to the problem.\nThe final answer is 3",
    "mcq::mmlu": "\nAnswer: A",
    "cloze::pure": "1 + 2? ______ 3",
    "MCStyle": "\nAnswer: A",
    "ClozeStyle": "\nAnswer: 3",
    "BPBStyle": "\nAnswer: 3",
    "MCCompletionStyle": "\nAnswer: 3",
}


@pytest.mark.parametrize(("name", "end"), ENDS.items(), ids=ENDS)
def test_an_example_ends_as_its_format_asks(name, end):
    assert shot_of(name).endswith(end)


@pytest.mark.parametrize(("name", "answer"), [("cot", "The final answer is 3"), ("generate", "The best answer is A")])
def test_in_a_chat_the_assistant_answers_an_example_as_it_is_asked(name, answer):
    turns = chat_of(name, True)
    assert turns[1] == {"role": "assistant", "content": answer}
    (user, *_) = chat_of(name, False)
    assert f".\n{answer}\n\n" in user["content"]


@pytest.mark.parametrize(("name", "answer"), [("mcqa", "A"), ("cloze", "3"), ("hybrid", "3"), ("bpb", "3")])
def test_in_a_chat_an_example_shows_what_is_scored(name, answer):
    assert chat_of(name, True)[1] == {"role": "assistant", "content": answer}


def test_without_a_gen_prefix_an_example_of_generate_still_names_the_best_answer():
    shot = shot_of({"type": "generate", "gen_prefix": None})
    assert shot.endswith("is one of A or B.\nThe best answer is A")


def test_a_prompt_in_other_words_has_examples_in_those_words():
    form = {"type": "cot", "answer_prompt": 'Finish with "ANSWER: [number]".'}
    assert shot_of(form).endswith('Finish with "ANSWER: [number]".\nANSWER: 3')
    assert shot_of({"type": "cot", "answer_prompt": "Give the number alone."}).endswith("alone.\n3")


def test_an_example_shows_its_rationale_before_the_final_answer():
    shot = shot_of("cot", doc_to_rationale="why")
    assert shot.endswith("response to the problem.\nOne and two make three.\nThe final answer is 3")


def test_a_template_or_a_function_can_give_the_rationale():
    ending = "\nOne and two make three. Really.\nThe final answer is 3"
    assert shot_of("cot", doc_to_rationale="{{ why }} Really.").endswith(ending)
    assert shot_of("cot", doc_to_rationale=lambda doc: doc["why"] + " Really.").endswith(ending)


def test_few_shot_examples_may_keep_their_rationale_elsewhere():
    shot = shot_of("cot", doc_to_rationale="missing", fewshot_config={"doc_to_rationale": "why"})
    assert shot.endswith("\nOne and two make three.\nThe final answer is 3")


def test_an_example_without_a_rationale_shows_the_final_answer_alone():
    shot = shot_of("cot", shot={**SHOT, "why": None}, doc_to_rationale="why")
    assert shot.endswith("response to the problem.\nThe final answer is 3")


@pytest.mark.parametrize("name", ["mcqa", "cloze", "hybrid", "generate", "bpb"])
def test_formats_that_ask_for_the_answer_alone_leave_the_rationale_out(name):
    assert shot_of(name, doc_to_rationale="why") == shot_of(name)


def test_a_rationale_in_a_column_that_is_not_there_is_an_error():
    with pytest.raises(DataError, match=r"doc_to_rationale.*no column 'whi'; did you mean 'why'"):
        shot_of("cot", doc_to_rationale="whi")


SOLUTIONS = {
    "a mark": "One and two make three.\n#### 3",
    "a sentence": "One and two make three. So the answer is 3.",
    "as asked": "One and two make three.\nThe final answer is 3",
}


@pytest.mark.parametrize("solution", SOLUTIONS.values(), ids=SOLUTIONS)
def test_a_worked_solution_ends_as_the_format_asks(solution):
    shot = shot_of("cot", shot={**SHOT, "answer": solution}, doc_to_choice=None)
    assert shot.endswith("response to the problem.\nOne and two make three.\nThe final answer is 3")


def test_the_words_around_an_examples_answer_can_be_given():
    form = {"type": "cot", "fewshot_answer": "Because: {rationale} => {answer}"}
    assert shot_of(form, doc_to_rationale="why").endswith("\nBecause: One and two make three. => 3")


def test_what_is_scored_has_no_words_around_it():
    with pytest.raises(ConfigError, match="an example then shows what is scored and nothing else"):
        FormatConfig.by_name("mcqa", {"fewshot_answer": "It is {answer}"})
    with pytest.raises(ConfigError, match=r"expected text with \{answer\} in it, or null"):
        FormatConfig.by_name("cot", {"fewshot_answer": "It is so"})


def test_a_task_without_a_format_shows_its_answers_as_they_are():
    task = task_of(None, doc_to_choice=None, shot={**SHOT, "answer": "It is so.\n#### 3"}, doc_to_rationale="why")
    (instance,) = task.build_all_requests()
    assert instance.request.context == "1 + 2? It is so.\n#### 3\n\n2 + 2?"


def test_a_statement_is_what_a_prompt_quotes_with_a_name_in_brackets():
    assert asked_statement('Say "yes" or "no" where [x] is "here".') == "{answer}"
    assert asked_statement("Schreibe am Ende „Die Antwort ist [Zahl]“.") == "Die Antwort ist {answer}"
    assert asked_statement(r'End with "The answer is \boxed{[answer]}".') == r"The answer is \boxed{{answer}}"
    assert written_answer(r"The answer is \boxed{{answer}}", "4") == r"The answer is \boxed{4}"


def test_an_answer_that_looks_like_a_placeholder_stays_as_it_is():
    assert (
        written_answer("{rationale}\nIt is {answer}", "{rationale}", "see {answer}")
        == "see {answer}\nIt is {rationale}"
    )

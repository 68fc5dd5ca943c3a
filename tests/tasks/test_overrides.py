"""Entries of `formats:` that set keys of the task, and finished prompts among them."""

from __future__ import annotations

from typing import Any

import pytest

from multiform import ConfigError, TaskConfig
from multiform.formats.select import supported_formats

KEYS: dict[str, Any] = {
    "task": "t",
    "doc_to_text": "q",
    "doc_to_choice": "options",
    "doc_to_target": "key",
    "formats": {
        "mcqa": {"num_fewshot": 5, "question_prefix": "Q: "},
        "theirs": {
            "type": "prompt",
            "output_type": "multiple_choice",
            "doc_to_text": "Q: {{q}}\nA:",
            "target_delimiter": "",
        },
    },
}


def config(selection: str | None = None, **keys: Any) -> TaskConfig:
    return TaskConfig(**{**KEYS, **keys}, _formats_selection=selection)


def test_a_format_sets_keys_of_the_task_beside_its_own():
    format = config().format
    assert format is not None
    assert (config().num_fewshot, format.question_prefix) == (5, "Q: ")
    assert config("cloze").num_fewshot is None


def test_a_finished_prompt_is_used_as_it_is():
    prompt = config("theirs")
    assert (prompt.format, prompt.form_name, prompt.output_type) == (None, "t@theirs", "multiple_choice")
    assert (prompt.doc_to_text, prompt.target_delimiter) == ("Q: {{q}}\nA:", "")


def test_all_leaves_finished_prompts_out():
    assert "theirs" not in supported_formats(KEYS["formats"], config().mapping)


def test_a_later_change_wins_over_the_entry():
    assert config().replace(num_fewshot=2).num_fewshot == 2
    assert config("theirs").replace(doc_to_text="other").doc_to_text == "other"


def test_another_draw_of_examples_of_a_finished_prompt():
    assert config("theirs[draw=2]").fewshot_draw == 2
    with pytest.raises(ConfigError, match="no format that could be varied"):
        config("theirs[labels=roman]")


def test_unknown_keys_and_wrong_types_of_a_finished_prompt_are_errors():
    entry = KEYS["formats"]["theirs"]
    with pytest.raises(ConfigError, match="unknown key 'doc_to_txt' of a finished prompt"):
        config("theirs", formats={"theirs": {**entry, "doc_to_txt": "q"}})
    with pytest.raises(ConfigError, match=r"num_fewshot.*expected"):
        config("theirs", formats={"theirs": {**entry, "num_fewshot": "many"}})


def test_a_context_stands_before_the_question_and_is_left_out_where_it_is_empty():
    from multiform.fields import process_field

    text = config("cloze", doc_to_context="passage").doc_to_text
    assert process_field({"passage": "A story.", "q": "Why?"}, text) == "A story.\nQuestion: Why?\nAnswer:"
    assert process_field({"passage": "", "q": "Why?"}, text) == "Question: Why?\nAnswer:"


def test_a_context_without_a_format_is_an_error():
    with pytest.raises(ConfigError, match="only a format writes a context"):
        TaskConfig(task="t", doc_to_text="q", doc_to_target="a", doc_to_context="passage")


@pytest.mark.parametrize(
    ("task", "format", "place"),
    [(0, 5, "t@mine: generation_kwargs.max_gen_toks"), (5, 0, "t@mine: formats.mine.generation_kwargs")],
)
def test_a_wrong_generation_argument_is_placed_where_it_is_stated(task: int, format: int, place: str):
    formats = {"mine": {"type": "cot", "generation_kwargs": {"max_gen_toks": format}}}
    with pytest.raises(ConfigError, match="max_gen_toks is 0") as raised:
        config("mine", formats=formats, generation_kwargs={"max_gen_toks": task})
    assert raised.value.where == place

"""Which format a task runs under: `formats:` in all its spellings, ``@``, and formats of one's own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from multiform import ConfigError, FormatConfig, MCQAFormat, TaskConfig, TaskManager, register_format
from multiform.formats.base import formats
from multiform.formats.compile import FieldMapping
from multiform.formats.select import format_table, select_format, supported_formats
from multiform.formats.variation import Selected
from multiform.labels import LabelSpec

FULL = FieldMapping("question", "choices", "answer")
NO_CHOICES = FieldMapping("question", None, "answer")
BUILT_IN = ["mcqa", "cloze", "hybrid", "generate", "cot", "bpb"]
TABLE = {
    "mcqa": {"instruction": "Pick the right answer."},
    "generate": None,
    "short": {"type": "mcqa", "question_prefix": "Q) "},
    "blank": "cloze",
}

YAML = """\
task: my_task
dataset_path: data.jsonl
test_split: train
doc_to_text: question
doc_to_choice: choices
doc_to_target: answer
"""


@pytest.fixture
def registry(monkeypatch):
    """The registry of formats, put back as it was after the test."""
    monkeypatch.setattr(formats, "_entries", dict(formats._entries))
    return formats


@pytest.fixture
def load(tmp_path):
    """Loads ``my_task`` or ``my_task@format`` from a file whose `formats:` is given."""

    def load_task(formats_text, spec="my_task"):
        (tmp_path / "my_task.yaml").write_text(YAML + formats_text, encoding="utf-8")
        return TaskManager(tmp_path).load(spec)

    return load_task


def selected_format(*args: Any) -> Selected:
    """The format that is selected, where there is one."""
    selected = select_format(*args)
    assert selected is not None
    return selected


def config(formats=None, task="t", **fields):
    mapping = {"doc_to_text": "question", "doc_to_choice": "choices", "doc_to_target": "answer"}
    return TaskConfig(task=task, formats=formats, **{**mapping, **fields})


# What `formats:` may be


def test_no_formats_and_no_selection_is_no_format():
    assert select_format(None) is None
    assert config().format is None


def test_a_name_is_the_registered_format():
    selected = selected_format("mcqa")
    assert selected.label == "mcqa"
    assert selected.format == MCQAFormat()


def test_a_mapping_with_a_type_is_that_format_with_fields_changed():
    selected = selected_format({"type": "mcqa", "question_prefix": "Q: "})
    assert selected.label == "mcqa"
    assert selected.format == MCQAFormat(question_prefix="Q: ")


def test_a_format_object_is_taken_as_it_is():
    form = MCQAFormat(choice_labels="numbers")
    selected = selected_format(form)
    assert selected.label == "mcqa"
    assert selected.format is form


def test_the_first_of_a_table_is_the_default():
    selected = selected_format(TABLE)
    assert selected.label == "mcqa"
    assert selected.format.instruction == "Pick the right answer."


IN_THE_TABLE = {
    "mcqa": MCQAFormat(instruction="Pick the right answer."),
    "generate": FormatConfig.by_name("generate"),
    "short": MCQAFormat(question_prefix="Q) "),
    "blank": FormatConfig.by_name("cloze"),
}


@pytest.mark.parametrize(("label", "form"), IN_THE_TABLE.items(), ids=IN_THE_TABLE)
def test_a_selection_is_looked_up_in_the_tasks_own_table(label, form):
    selected = selected_format(TABLE, label)
    assert selected.label == label
    assert selected.format == form


def test_a_selection_that_is_not_in_the_table_is_a_registered_format():
    selected = selected_format(TABLE, "cloze")
    assert selected.label == "cloze"
    assert selected.format == FormatConfig.by_name("cloze")


SPECS = {
    "nothing": None,
    "a name": "mcqa",
    "a type": {"type": "mcqa", "question_prefix": "Q: "},
    "an object": MCQAFormat(),
    "a table": TABLE,
}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
@pytest.mark.parametrize("name", ["cloze", "generate", "cot", "bpb", "hybrid"])
def test_a_selection_wins_over_what_the_task_says(spec, name):
    selected = selected_format(spec, name)
    assert selected.label == name
    assert selected.format == FormatConfig.by_name(name)


def test_selecting_the_tasks_own_format_keeps_its_changes():
    spec = {"type": "mcqa", "question_prefix": "Q: "}
    assert selected_format(spec, "mcqa").format.question_prefix == "Q: "


def test_keys_of_a_table_are_texts_even_where_yaml_reads_numbers():
    table: Any = {1: {"type": "mcqa"}}
    assert list(format_table(table)) == ["1"]
    assert selected_format(table, "1").label == "1"


# What `formats:` may not be

WRONG = {
    "unknown name": ("mqca", None, "unknown format 'mqca'; did you mean 'mcqa'?"),
    "unknown selection": ("mcqa", "clozee", "unknown format 'clozee'; did you mean 'cloze'?"),
    "nearly the name of a variant": (TABLE, "shrot", "unknown format 'shrot'; did you mean 'short'?"),
    "unknown type": ({"type": "mqca"}, None, "unknown format type 'mqca'; did you mean 'mcqa'?"),
    "variant without a type": ({"my_own": {"instruction": "x"}}, None, "my_own: unknown format type 'my_own'"),
    "type that is no name": ({"type": ["mcqa"]}, None, "type: expected a format's name, got ['mcqa']"),
    "unknown field": ({"type": "mcqa", "prefix": "Q"}, None, "unknown key 'prefix' in format 'mcqa'"),
    "unknown field of a variant": ({"s": {"type": "mcqa", "prefx": "Q"}}, None, "unknown key 'prefx' in format 'mcqa'"),
    "empty table": ({}, None, "the table of formats is empty; name at least one"),
    "variant that is a number": ({"mcqa": 3}, None, "mcqa: expected a mapping of format fields, got 3"),
    "list": (["mcqa"], None, "expected a format's name or a mapping, got ['mcqa']"),
}


@pytest.mark.parametrize(("spec", "selection", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_specification_that_cannot_be_is_an_error_with_a_remedy(spec, selection, message):
    with pytest.raises(ConfigError) as caught:
        select_format(spec, selection)
    assert message in str(caught.value)


def test_an_unknown_format_unlike_any_lists_them_all():
    with pytest.raises(ConfigError) as caught:
        select_format("mcqa", "zzz")
    assert all(name in str(caught.value.hint) for name in BUILT_IN)


# ``@`` on tasks


def test_a_format_after_the_name_of_a_task_selects_it():
    made = config(task="t@cloze")
    assert made.format == FormatConfig.by_name("cloze")
    assert (made.form_name, made.base_name) == ("t@cloze", "t")


def test_without_an_at_sign_the_form_has_the_bare_name():
    assert config("mcqa").form_name == "t"
    assert config(TABLE).form_name == "t"


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_an_at_sign_wins_over_the_formats_of_the_task(spec):
    made = config(spec, task="t@cloze")
    assert (made.form_name, made.format) == ("t@cloze", FormatConfig.by_name("cloze"))


def test_an_unknown_format_after_an_at_sign_names_the_form():
    with pytest.raises(ConfigError, match=r"^t@clozee: unknown format 'clozee'; did you mean 'cloze'\?$"):
        config("mcqa", task="t@clozee")


TYPE_IN_A_FILE = "formats: {type: mcqa, question_prefix: 'Q: '}\n"
TABLE_IN_A_FILE = "formats:\n  mcqa: null\n  generate:\n    instruction: Go.\n"


@pytest.mark.parametrize(
    "text", ["", "formats: mcqa\n", TYPE_IN_A_FILE, TABLE_IN_A_FILE], ids=["no formats", "a name", "a type", "a table"]
)
def test_an_at_sign_on_the_command_line_wins_over_the_file(load, text):
    (made,) = load(text, "my_task@cloze")
    assert (made.form_name, made.format) == ("my_task@cloze", FormatConfig.by_name("cloze"))


def test_an_at_sign_keeps_the_files_changes_to_that_format(load):
    (made,) = load(TABLE_IN_A_FILE, "my_task@generate")
    assert made.format == FormatConfig.by_name("generate", {"instruction": "Go."})
    (made,) = load(TYPE_IN_A_FILE, "my_task@mcqa")
    assert made.format.question_prefix == "Q: "


def test_several_formats_are_several_forms(load):
    forms = load("", "my_task@mcqa+cloze")
    assert [(made.form_name, made.format_label) for made in forms] == [
        ("my_task@mcqa", "mcqa"),
        ("my_task@cloze", "cloze"),
    ]


def test_all_is_every_format_that_the_task_supports(load):
    forms = load("formats:\n  short: {type: mcqa, question_prefix: 'Q) '}\n", "my_task@all")
    names = [made.form_name for made in forms]
    assert [name for name in names if "doctest" not in name] == [f"my_task@{n}" for n in [*BUILT_IN, "short"]]


def test_an_unknown_format_in_a_file_is_an_error_at_its_line(load):
    with pytest.raises(ConfigError) as caught:
        load("formats: mqca\n")
    assert "my_task.yaml:7" in str(caught.value)
    assert "unknown format 'mqca'; did you mean 'mcqa'?" in str(caught.value)


def test_an_unknown_field_in_a_file_is_an_error_at_its_line(load):
    with pytest.raises(ConfigError) as caught:
        load("formats:\n  mcqa: null\n  short:\n    type: mcqa\n    prefix: Q\n", "my_task@short")
    assert "my_task.yaml:11" in str(caught.value)
    assert "unknown key 'prefix' in format 'mcqa'" in str(caught.value)


# Formats of one's own


def test_a_subclass_with_a_name_is_registered(registry):
    @dataclass(frozen=True, kw_only=True)
    class Brackets(FormatConfig):
        """Choices in brackets."""

        format_name = "brackets"
        choice_labels: LabelSpec | None = "letters"
        choice_format: str = "({label}) {choice}"

    assert "brackets" in registry
    assert config("brackets").format == Brackets()
    assert config(task="t@brackets").form_name == "t@brackets"
    assert config({"type": "brackets", "choice_labels": "numbers"}).format == Brackets(choice_labels="numbers")


def test_a_subclass_without_a_name_is_not_registered(registry):
    before = list(registry)

    @dataclass(frozen=True, kw_only=True)
    class Unnamed(MCQAFormat):
        """Only for Python."""

        question_prefix: str = "Q: "

    assert list(registry) == before
    assert config(Unnamed()).format.question_prefix == "Q: "


def test_a_decorator_registers_a_class_under_a_name(registry):
    @register_format("shouting")
    @dataclass(frozen=True, kw_only=True)
    class Shouting(MCQAFormat):
        """Louder."""

        question_prefix: str = "QUESTION: "

    assert registry.get("shouting") is Shouting
    assert config(task="t@shouting").format == Shouting()
    assert "shouting" in supported_formats(None, FULL)


def test_the_registry_is_clean_again():
    assert {"brackets", "shouting"}.isdisjoint(formats)


def test_a_registered_format_may_be_replaced(registry):
    register_format("mcqa")(FormatConfig.by_name("cloze").__class__)
    assert selected_format("mcqa").format == FormatConfig.by_name("cloze")


# Which formats a task supports


def supported(spec, mapping):
    return [name for name in supported_formats(spec, mapping) if not name.startswith("doctest")]


def test_a_full_mapping_supports_every_format():
    assert supported(None, FULL) == BUILT_IN


def test_a_mapping_without_choices_supports_the_formats_that_need_none():
    assert supported(None, NO_CHOICES) == ["cot", "bpb"]


def test_a_mapping_that_asks_nothing_supports_no_format():
    assert supported({"text": {"type": "prompt"}}, FieldMapping("", None, "text")) == []


def test_the_tasks_own_formats_come_last():
    assert supported(TABLE, FULL) == [*BUILT_IN, "short", "blank"]


def test_the_tasks_own_formats_are_judged_by_what_they_need():
    spec = {"plain": {"type": "generate", "choice_labels": None}, "short": {"type": "mcqa"}}
    assert supported(spec, NO_CHOICES) == ["cot", "bpb", "plain"]


def test_a_change_to_a_built_in_format_counts():
    spec = {"cot": {"show_choices": True}}
    assert supported(spec, NO_CHOICES) == ["bpb"]


def test_a_supported_format_is_one_that_the_task_can_be_built_with():
    for mapping in (FULL, NO_CHOICES):
        labels = supported(TABLE, mapping)
        for label in labels:
            made = config(TABLE, task=f"t@{label}", doc_to_choice=mapping.choices)
            assert made.format_label == label
        for label in {*BUILT_IN, *TABLE} - set(labels):
            with pytest.raises(ConfigError, match="needs choices"):
                config(TABLE, task=f"t@{label}", doc_to_choice=mapping.choices)


def test_formats_are_values():
    assert MCQAFormat() == MCQAFormat()
    assert hash(MCQAFormat(choice_labels=["I", "II"])) == hash(MCQAFormat(choice_labels=("I", "II")))  # type: ignore[arg-type]
    assert replace(MCQAFormat(), question_prefix="Q: ") == MCQAFormat(question_prefix="Q: ")


def test_a_format_round_trips_through_plain_values():
    form = MCQAFormat(choice_labels=("I", "II"), metric_list=["acc"])  # type: ignore[arg-type]
    assert FormatConfig.by_name("mcqa", form.to_dict()) == form

"""`template:`: every example of its documentation, what is different on purpose, and its errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from multiform import (
    ClozeTemplateConfig,
    ConfigError,
    DataError,
    MCQTemplateConfig,
    TaskConfig,
    TemplateConfig,
    TemplateFactory,
    evaluate,
    process_field,
)

FRANCE = {
    "question": "What is the capital of France?",
    "choices": {"text": ["London", "Paris", "Berlin", "Madrid"], "label": ["A", "B", "C", "D"]},
    "answerKey": "B",
}
TEST = {"question": "Test?", "choices": ["A", "B", "C"]}


def task(**more):
    return TaskConfig(**{"task": "t", "doc_to_text": "{{question}}", "doc_to_choice": "{{choices}}", **more})


def test_process_field_keeps_types_of_single_expressions_only():
    doc = {"question": "Q?", "choices": {"text": ["a", "b"]}, "a": 1, "b": 2}
    assert process_field(doc, "question") == "Q?"
    assert process_field(doc, "{{question}}") == "Q?"
    assert process_field(doc, "{{a}}: {{b}}") == "1: 2"
    assert process_field(doc, "{{choices.text}}") == ["a", "b"]
    assert process_field(doc, lambda doc: doc["a"]) == 1
    assert process_field(doc, None, "default") == "default"
    assert process_field(doc, "missing", "default") == "default"


def test_example_1_basic_mmlu():
    config: Any = TaskConfig(
        task="arc_easy",
        doc_to_text="{{question}}",
        doc_to_choice="{{choices.text}}",
        doc_to_target="{{choices.label.index(answerKey)}}",
        template={"template_type": "mcq::mmlu"},
        output_type="multiple_choice",
    )
    prompt = "What is the capital of France?\nA. London\nB. Paris\nC. Berlin\nD. Madrid\nAnswer:"
    assert config.doc_to_text(FRANCE) == prompt
    assert config.doc_to_choice(FRANCE) == ["A", "B", "C", "D"]
    assert process_field(FRANCE, config.doc_to_target) == 1
    assert config.output_type == "multiple_choice"


def test_example_2_custom_template():
    config = task(
        task="custom_mcq",
        doc_to_choice="{{options}}",
        template={
            "template_type": "mcq",
            "choice_labels": ["(a)", "(b)", "(c)", "(d)"],
            "choice_format": "{label} {choice}",
            "suffix": "Select one:",
            "choice_delimiter": " | ",
        },
    )
    doc = {"question": "Question text", "options": ["choice1", "choice2", "choice3", "choice4"]}
    assert config.doc_to_text(doc) == (
        "Question text\n(a) choice1 | (b) choice2 | (c) choice3 | (d) choice4\nSelect one:"
    )
    assert config.doc_to_choice(doc) == ["(a)", "(b)", "(c)", "(d)"]


def test_example_3_conversion():
    mcq_template: Any = TemplateFactory.from_dict({"template_type": "mcq::mmlu"})
    cloze_template = mcq_template.to_cloze()
    config: Any = TaskConfig(doc_to_text="{{question}}", doc_to_choice="{{choices}}", template=cloze_template.to_dict())
    assert isinstance(config.template_config, ClozeTemplateConfig)
    assert config.doc_to_text(TEST) == "Test? ______\n\nOptions: A. A\nB. B\nC. C"
    assert cloze_template.to_mcq() == mcq_template
    assert TemplateFactory.convert_template(mcq_template, "cloze") == cloze_template
    assert TemplateFactory.convert_template(cloze_template, "mcq") == mcq_template


def test_example_4_callables():
    def extract_question(doc):
        return f"Q: {doc['question'].upper()}"

    def extract_choices(doc):
        return [c.strip() for c in doc["choices"]]

    config: Any = TaskConfig(
        task="custom_task",
        doc_to_text=extract_question,
        doc_to_choice=extract_choices,
        template={"template_type": "mcq::mmlu"},
    )
    assert config.doc_to_text({"question": "why?", "choices": [" a", "b "]}) == "Q: WHY?\nA. a\nB. b\nAnswer:"


def test_migration_new_way_gives_the_prompt_of_the_old_way():
    old = TaskConfig(
        task="my_task",
        doc_to_text="{{question.strip()}}\nA. {{choices[0]}}\nB. {{choices[1]}}\nC. {{choices[2]}}\nD. {{choices[3]}}\n"
        "Answer:",
        doc_to_choice=["A", "B", "C", "D"],
        doc_to_target="answer",
        output_type="multiple_choice",
    )
    new = task(doc_to_target="answer", template={"template_type": "mcq::mmlu"})
    doc = {"question": "Q?", "choices": ["w", "x", "y", "z"], "answer": 2}
    assert new.doc_to_text(doc) == process_field(doc, old.doc_to_text)
    assert new.doc_to_choice(doc) == old.doc_to_choice
    assert process_field(doc, new.doc_to_target) == 2


def test_manual_testing_of_a_template():
    template: Any = TemplateFactory.from_dict({"template_type": "mcq::mmlu"})
    assert template.choice_labels == ["A", "B", "C", "D"]
    wrapped = template.wrap_doc_to_text("{{question}}", "{{choices}}")
    assert wrapped(TEST) == "Test?\nA. A\nB. B\nC. C\nAnswer:"
    assert template.wrap_doc_to_choice("{{choices}}")(TEST) == ["A", "B", "C"]


def test_manual_testing_of_a_task_config():
    config: Any = TaskConfig(
        task="test",
        doc_to_text="{{question}}",
        doc_to_choice="{{choices}}",
        template={"template_type": "mcq::mmlu"},
    )
    assert config.doc_to_text(TEST) == "Test?\nA. A\nB. B\nC. C\nAnswer:"
    assert config.doc_to_choice(TEST) == ["A", "B", "C"]


def test_complex_templates_are_wrapped():
    config = task(doc_to_text="{{subject}}: {{question}}", template="mcq")
    assert config.doc_to_text({"subject": "Maths", **TEST}).startswith("Maths: Test?\nA. A\n")


@pytest.mark.parametrize(
    ("name", "prompt", "scored"),
    [
        ("mcq", "Q?\nA. x\nB. y\nAnswer:", ["A", "B"]),
        ("mcq::mmlu", "Q?\nA. x\nB. y\nAnswer:", ["A", "B"]),
        ("mcq::numbered", "Q?\n1. x\n2. y\nAnswer:", ["1", "2"]),
        (
            "mcq::gpqa",
            "What is the correct answer to this question:\nQ?\nChoices:\n(A) x\n(B) y\nAnswer:",
            ["(A)", "(B)"],
        ),
        ("cloze", "Q? ______\n\nOptions: A. x B. y", ["A", "B"]),
        ("cloze::with_options", "Q? ______\n\nOptions: A. x B. y", ["A", "B"]),
        ("cloze::pure", "Q? ______", ["x", "y"]),
    ],
)
def test_named_templates(name, prompt, scored):
    doc = {"question": "Q?", "choices": ["x", "y"]}
    for template in (name, {"template_type": name}) if "::" in name else (name,):
        config = task(template=template)
        assert config.doc_to_text(doc) == prompt
        assert config.doc_to_choice(doc) == scored
        assert config.template_config.format_prompt("Q?", ["x", "y"]) == prompt


def test_a_cloze_template_has_all_its_fields():
    template = ClozeTemplateConfig(
        prefix="Fill in:",
        blank_marker="[MASK]",
        blank_position="start",
        choices_prefix="One of: ",
        choice_delimiter=", ",
        suffix="It is",
    )
    assert template.format_prompt("is wet", ["fire", "water"]) == (
        "Fill in:\n[MASK] is wet\nOne of: fire, water\nIt is"
    )
    assert template.wrap_doc_to_choice("{{choices}}")({"choices": ["fire", "water"]}) == ["fire", "water"]
    inline = ClozeTemplateConfig(blank_position="none", show_choices=False)
    assert inline.format_prompt("The ___ is wet", ["fire", "water"]) == "The ___ is wet"


def test_choices_are_shown_only_where_they_are_wanted():
    assert MCQTemplateConfig(show_choices_in_prompt=False).format_prompt("Q?", ["x", "y"]) == "Q?\nAnswer:"
    assert MCQTemplateConfig().format_prompt("Q?", None) == "Q?\nAnswer:"
    assert MCQTemplateConfig(suffix="").format_prompt("Q?", ["x"]) == "Q?\nA. x\n"


def test_a_document_with_more_choices_than_labels_goes_on_or_is_refused():
    five = ["v", "w", "x", "y", "z"]
    assert MCQTemplateConfig().format_prompt("Q?", five).endswith("E. z\nAnswer:")
    assert TemplateFactory.create_numbered_style().wrap_doc_to_choice("c")({"c": five}) == ["1", "2", "3", "4", "5"]
    assert TemplateFactory.create_gpqa_style().format_prompt("Q?", five).endswith("(E) z\nAnswer:")
    with pytest.raises(DataError, match=r"5 choices but only 4 labels \(a, b, c, d\)"):
        MCQTemplateConfig(choice_labels=["a", "b", "c", "d"]).format_prompt("Q?", five)


def test_a_style_takes_changes():
    template = TemplateFactory.from_dict({"template_type": "mcq::gpqa", "suffix": "So:"})
    assert template.format_prompt("Q?", ["x"]).endswith("(A) x\nSo:")
    numbered: Any = TemplateFactory.from_dict({"template_type": "mcq::numbered", "num_choices": 5})
    assert numbered.choice_labels[-1] == "5"


def test_to_dict_gives_the_template_back():
    for make in ("create_mmlu_style", "create_gpqa_style", "create_numbered_style", "create_cloze_with_options",
                 "create_pure_cloze"):  # fmt: skip
        template = getattr(TemplateFactory, make)()
        assert TemplateFactory.from_dict(template.to_dict()) == template
        assert TemplateFactory.from_dict({"template_type": template.template_type, **template.arguments()}) == template


def test_tasks_without_a_template_are_untouched():
    config = task()
    assert config.template_config is None
    assert (config.doc_to_text, config.doc_to_choice) == ("{{question}}", "{{choices}}")


def test_the_configuration_can_be_built_from_its_own_dict():
    config = task(template={"template_type": "mcq::mmlu", "suffix": "A:"}, doc_to_target="answer")
    again: Any = TaskConfig.from_dict(config.to_dict())
    assert again.doc_to_text(TEST) == config.doc_to_text(TEST)


def test_at_a_format_goes_before_the_template():
    config = task(task="t@mcqa", template="mcq")
    assert config.template_config is None
    assert str(process_field(TEST, config.doc_to_text)).startswith("Question: Test?")


@dataclass
class Shout(TemplateConfig):
    template_type: ClassVar[str] = "test_shout"
    mark: str = "!"

    def format_prompt(self, question, choices=None):
        return f"{question.upper()}{self.mark} {'/'.join(choices or [])}"

    def to_dict(self):
        return {"template_type": self.template_type, "mark": self.mark}


def test_users_make_templates_of_their_own():
    config = task(template={"template_type": "test_shout", "mark": "?!"}, doc_to_target="answer")
    assert config.doc_to_text({"question": "why", "choices": ["x", "y"]}) == "WHY?! x/y"
    assert config.doc_to_choice({"choices": ["x", "y"]}) == ["x", "y"]
    assert config.doc_to_target({"choices": ["x", "y"], "answer": "B"}) == 1
    assert config.output_type == "multiple_choice"


@dataclass
class Louder(MCQTemplateConfig):
    def format_prompt(self, question, choices=None):
        return super().format_prompt(question, choices).upper()


def test_a_subclass_that_writes_its_own_prompts_is_asked_for_them():
    config = task(template=Louder())
    assert config.doc_to_text({"question": "why", "choices": ["x", "y"]}) == "WHY\nA. X\nB. Y\nANSWER:"
    assert config.format is None


def test_a_task_with_a_template_runs(tmp_path):
    rows = [f'{{"question": "Q{i}?", "choices": ["x", "y"], "answer": "B"}}\n' for i in range(3)]
    (tmp_path / "rows.jsonl").write_text("".join(rows), encoding="utf-8")
    for template in ("mcq", Louder()):
        config = task(
            template=template,
            doc_to_target="answer",
            dataset_path=str(tmp_path / "rows.jsonl"),
            test_split="test",
            fewshot_split="test",
        )
        results = evaluate(model="dummy", tasks=[config], num_fewshot=1)
        assert 0 <= results["t"]["acc,none"] <= 1


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("mqc", "unknown template 'mqc'; did you mean 'mcq'?"),
        ({"template_type": "mcq::mlu"}, "unknown template 'mcq::mlu'; did you mean 'mcq::mmlu'?"),
        ({"template_type": 3}, "unknown template"),
        ({"template_type": "mcq", "sufix": "A"}, "unknown key 'sufix' in template 'mcq'; did you mean 'suffix'?"),
        ({"template_type": "mcq", "suffix": 3}, "suffix: expected a string, got 3"),
        ({"template_type": "mcq", "choice_labels": "AB"}, "choice_labels: expected a list, got 'AB'"),
        ({"template_type": "mcq", "choice_labels": ["A", "A"]}, "choice_labels: expected distinct labels"),
        ({"template_type": "mcq", "choice_format": "{label}"}, "choice_format: expected text with {choice} in it"),
        ({"template_type": "cloze", "blank_position": "middle"}, "blank_position: expected one of end, start, none"),
        ({"template_type": "mcq", "format": {"colour": 1}}, "unknown key 'colour' in the format of 'mcq'"),
        ({"template_type": "mcq", "format": {"scored": "all"}}, "template.format.scored: expected one of labels"),
    ],
)
def test_bad_templates_are_one_clear_error(template, message):
    with pytest.raises(ConfigError) as error:
        task(template=template)
    assert str(error.value).startswith("t: template")
    assert message in str(error.value)


def test_formats_and_a_template_together_are_an_error():
    with pytest.raises(ConfigError, match="t: template: a task has formats or a template"):
        task(template="mcq", formats="mcqa")


def test_a_template_that_needs_choices_says_so():
    with pytest.raises(ConfigError, match="template 'mcq' needs choices but the task has no doc_to_choice"):
        TaskConfig(task="t", doc_to_text="{{question}}", template="mcq")


@dataclass
class Hidden(TemplateConfig):
    """A template of a user's own that says when choices are shown."""

    shown: bool = False

    def format_prompt(self, question, choices=None):
        return f"{question} {choices}"

    def to_dict(self):
        return {"template_type": "hidden"}

    def _should_show_choices(self):
        return self.shown


def test_a_template_decides_whether_its_prompt_gets_the_choices():
    assert Hidden().wrap_doc_to_text("question", "choices")(TEST) == "Test? None"
    assert Hidden(shown=True).wrap_doc_to_text("question", "choices")(TEST) == "Test? ['A', 'B', 'C']"


@dataclass
class HiddenMCQ(MCQTemplateConfig):
    """A multiple-choice template whose prompts leave the choices out."""

    template_type: ClassVar[str] = "hidden_mcq"

    def _should_show_choices(self):
        return False


def test_a_multiple_choice_template_may_leave_its_choices_out():
    assert HiddenMCQ().wrap_doc_to_text("question", "choices")(TEST) == "Test?\nAnswer:"
    config = task(template={"template_type": "hidden_mcq"})
    assert process_field(TEST, config.doc_to_text) == "Test?\nAnswer:"
    format = HiddenMCQ().to_format()
    assert format is not None
    assert format.shows_choices is False


def test_the_wrappers_take_the_names_of_their_documentation():
    doc = {"question": "2 + 2?", "choices": ["3", "4"]}
    template = MCQTemplateConfig()
    text = template.wrap_doc_to_text(original_doc_to_text="{{question}}", original_doc_to_choice="{{choices}}")
    assert text(doc) == "2 + 2?\nA. 3\nB. 4\nAnswer:"
    assert template.wrap_doc_to_choice(original_doc_to_choice="choices")(doc) == ["A", "B"]


@pytest.mark.parametrize("choices", ["three and four", 4, None])
def test_choices_that_are_no_list_have_all_labels(choices):
    doc = {"question": "2 + 2?", "choices": choices, "answer": 0}
    assert MCQTemplateConfig().wrap_doc_to_choice("{{choices}}")(doc) == ["A", "B", "C", "D"]
    config: Any = TaskConfig(task="t", doc_to_text="question", doc_to_choice="choices", template="mcq")
    assert config.doc_to_choice(doc) == ["A", "B", "C", "D"]


def test_a_template_may_be_given_as_template_config():
    template = MCQTemplateConfig(suffix="Reply:")
    fields: dict[str, Any] = {"task": "t", "doc_to_text": "question", "doc_to_choice": "choices"}
    config: Any = TaskConfig(**fields, template_config=template)
    assert config.doc_to_text({"question": "Why?", "choices": ["x", "y"]}) == "Why?\nA. x\nB. y\nReply:"
    assert config.template_config == template
    assert config.to_dict() == TaskConfig(**fields, template=template).to_dict()
    assert config.replace(num_fewshot=1).template_config == template
    with pytest.raises(ConfigError, match="template and template_config are two different templates"):
        TaskConfig(**fields, template="mcq", template_config=template)

"""Formats into every dialect and back: the same format, and the same bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multiform import BaseTask, FormatConfig, TaskConfig
from multiform.fields import Field
from multiform.formats.base import dialect_names, formats
from multiform.formats.dialects import write_format
from multiform.formats.dialects.styler import style_from
from multiform.formats.dialects.template_factory import template_from, template_of

DOC = {"question": "What is the capital of France?", "choices": ["Berlin", "Paris", "London"], "answer": 1}
#: Texts of every kind but Jinja, whose braces a format would read.
TEXTS = st.text(st.sampled_from(" \n\tabcÄ?:.!_-—问题{}'\"\\"), max_size=8).filter(
    lambda text: not any(mark in text for mark in ("{{", "{%", "{#", "}}", "{ }"))
)
LABELS = st.one_of(
    st.sampled_from(["letters", "numbers"]),
    st.lists(st.text(st.sampled_from("abcIV()1"), min_size=1, max_size=3), min_size=3, max_size=5, unique=True),
)


@st.composite
def generated(draw):
    """A format: a registered one, or one without a name, with any of its fields changed."""
    # `blind` refuses words around a question that it does not show.
    kinds = [one for one in formats if not one.startswith("doctest") and one != "blind"]
    kind = draw(st.sampled_from([None, *kinds]))
    ranked = ["labels", "texts"]
    scored = draw(st.sampled_from(ranked if kind == "think" else [*ranked, "gold", "generation"]))
    # The texts of `generate`, `mcq_cot` and `think` name the labels.
    named = scored == "labels" or kind in ("generate", "mcq_cot", "think")
    labels = draw(LABELS if named else st.one_of(st.none(), LABELS))
    written_as = draw(st.sampled_from(["{label}. {choice}", " {label}. {choice}", "({label}) {choice}", "{choice}"]))
    values = {
        "scored": scored,
        "choice_labels": labels,
        "choice_format": written_as if labels is not None else "{choice}",
        "show_choices": draw(st.sampled_from([None, True, False])),
        "answer_as": draw(st.sampled_from([None, "text"])) if scored == "generation" else None,
    }
    optional = st.one_of(st.none(), TEXTS, TEXTS.map(lambda text: text + " {{ _num_choices }}"))
    for name in ("instruction", "answer_instruction", "answer_prompt"):
        values[name] = draw(optional)
    for name in ("question_prefix", "question_suffix", "choices_prefix", "choice_delimiter", "section_separator",
                 "target_delimiter"):  # fmt: skip
        values[name] = draw(TEXTS)
    values["fewshot_delimiter"] = draw(TEXTS.filter(bool))
    values["metric_list"] = draw(st.sampled_from([None, None, [{"metric": "bypass"}]]))
    some = draw(st.sets(st.sampled_from(sorted(values))))
    needed = {"scored", "choice_labels", "choice_format", "answer_as"}
    values = {key: value for key, value in values.items() if key in some | needed}
    return FormatConfig(**values) if kind is None else FormatConfig.by_name(kind, values)


def rendered(config: TaskConfig) -> dict[str, Any]:
    """All that a prompt and its answers are made of."""
    read = {name: Field.of(getattr(config, name)).value(DOC) for name in ("doc_to_text", "doc_to_target")}
    scored = Field.of(config.doc_to_choice).value(DOC)
    layout = {name: getattr(config, name) for name in ("target_delimiter", "fewshot_delimiter", "gen_prefix",
                                                       "output_type", "generation_kwargs", "scorer")}  # fmt: skip
    assert config.format is not None
    return {**read, "scored": scored, **layout, "metrics": config.format.metric_list}


def configured(**form: Any) -> TaskConfig:
    return TaskConfig(task="t", doc_to_text="question", doc_to_choice="choices", doc_to_target="answer", **form)


def styled(styler: Any) -> TaskConfig:
    class Styled(BaseTask[str]):
        DATASET_PATH = "rows.jsonl"
        SAMPLE_SPLIT = "test"
        TASK_STYLER = styler

        def _get_raw_question(self, item):
            return item["question"]

        def _get_choices(self, item):
            return item["choices"]

        def _get_correct_index(self, item):
            return item["answer"]

    Styled.NAME = "t"
    config = Styled().to_node()
    assert isinstance(config, TaskConfig)
    return config


@settings(max_examples=250, suppress_health_check=list(HealthCheck))
@given(generated())
@pytest.mark.long
def test_a_format_comes_back_from_every_dialect_and_renders_the_same(form):
    template, lost = template_from(form)
    assert lost == []
    assert template.to_format() == form
    assert template_of(template.to_dict()).to_format() == form
    assert template_of({"template_type": template.template_type, **template.arguments()}).to_format() == form
    styler, lost = style_from(form)
    assert lost == []
    assert styler.to_format() == form
    named = write_format(form, "style").value
    assert FormatConfig.by_name(named["type"], {k: v for k, v in named.items() if k != "type"}) == form
    as_format = write_format(form, "formats")
    assert as_format.differences == ()

    expected = rendered(configured(formats=form))
    assert rendered(configured(formats=as_format.value)) == expected
    assert rendered(configured(template=template.to_dict())) == expected
    assert rendered(configured(formats=named)) == expected
    assert rendered(styled(styler)) == expected

    question: Any = DOC["question"]
    choices: Any = DOC["choices"]
    assert template.format_prompt(question, choices) == expected["doc_to_text"]
    if not (form.answer_prompt and "{{" in form.answer_prompt):
        assert styler.get_instruction_text(question, choices) + styler.get_cue_text() == expected["doc_to_text"]


@pytest.mark.parametrize("name", [*formats, *dialect_names])
def test_every_name_comes_back(name):
    form = FormatConfig.by_name(name)
    assert template_from(form)[0].to_format() == form
    assert style_from(form)[0].to_format() == form
    assert write_format(form, "formats").differences == ()


@dataclass(frozen=True, kw_only=True)
class Unregistered(FormatConfig):
    mood: str = "calm"

    def until(self):
        return ["END"]


def test_what_is_lost_is_named():
    for way in ("formats", "template", "style"):
        told = " ".join(write_format(Unregistered(), way).differences)
        assert "Unregistered is not registered" in told
        assert "mood is a field of Unregistered alone" in told

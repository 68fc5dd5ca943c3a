"""Documents made up from what templates and functions read."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import pytest

from multiform import TaskConfig
from tools.parity import standins
from tools.parity.made.code import read_function
from tools.parity.made.documents import attempt, made_documents
from tools.parity.made.shapes import Rows, Shape, Taste
from tools.parity.made.templates import read_template

TEXT = Taste().leaf


def of_template(source: str) -> dict[str, Any]:
    doc = Shape()
    read_template(source, doc)
    return {name: shape.value(Taste(length=2)) for name, shape in doc.keys.items()}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{question}}\nAnswer:", {"question": TEXT}),
        ("{{question.strip()|upper}}", {"question": TEXT}),
        ("{{choices.text[1]}}", {"choices": {"text": [f"{TEXT} 0", f"{TEXT} 1"]}}),
        ("{% for c in choices %}{{c.label}}{% endfor %}", {"choices": [{"label": f"{TEXT} {n}"} for n in (0, 1)]}),
        ("{{ ['no', 'yes'][label] }}", {"label": 1}),
        ("{{ answer - 1 }}", {"answer": 1}),
        ("{{ {'a': 0, 'b': 1}[key] }}", {"key": "a"}),
        ("{{ ['A', 'B'].index(key) }}", {"key": "A"}),
        ("{{ options.index(answer) }}", {"options": [f"{TEXT} 0", f"{TEXT} 1"], "answer": f"{TEXT} 0"}),
        ("{% if kind == 'x' %}{{a}}{% endif %}", {"kind": "x", "a": TEXT}),
        ("{% set q = question %}{{q}}{{loop}}", {"question": TEXT}),
        ("{{ xs|join(', ') }}", {"xs": [f"{TEXT} 0", f"{TEXT} 1"]}),
    ],
)
def test_a_template_tells_what_its_columns_are(source, expected):
    assert of_template(source) == expected


def written(doc: dict[str, Any]) -> str:
    text: str = doc["question"].strip()
    for letter, option in zip("AB", doc["options"]["text"], strict=False):
        text += f"\n{letter}. {option}"
    return text + str(int(doc["year"]))


LABELS = {"good": 0, "bad": 1}


def looked_up(doc: dict[str, Any]) -> int:
    return LABELS[doc["label"]]


def kept(dataset: Any, subject: str) -> Any:
    def matches(row: dict[str, Any], wanted: str = "") -> bool:
        return bool(row["subject"] == subject)

    return dataset.filter(matches)


def of_function(function: Any, argument: Any) -> dict[str, Any]:
    read_function(function, argument)
    doc = argument.row if isinstance(argument, Rows) else argument
    return {name: shape.value(Taste(length=2)) for name, shape in doc.keys.items()}


def test_a_function_tells_what_its_columns_are():
    expected = {"question": TEXT, "options": {"text": [f"{TEXT} 0", f"{TEXT} 1"]}, "year": "1"}
    assert of_function(written, Shape()) == expected
    assert of_function(looked_up, Shape()) == {"label": "good"}


def test_rows_that_process_docs_keeps_are_made():
    assert of_function(functools.partial(kept, subject="law"), Rows(Shape())) == {"subject": "law"}


def test_a_task_gets_a_prompt_for_a_made_document():
    config = TaskConfig(
        task="t",
        output_type="multiple_choice",
        test_split="test",
        process_docs=functools.partial(kept, subject="law"),
        doc_to_text="{{question}} ({{subject}})",
        doc_to_choice="{{options.text}}",
        doc_to_target="answer",
    )
    made = attempt(config)
    assert made.prompt == f"{TEXT} (law)"
    assert next(made_documents(config)) == made.doc
    assert set(made.doc) == {"question", "subject", "options", "answer"}


def test_columns_that_code_asks_for_while_it_runs_are_added():
    def options(doc: dict[str, Any]) -> str:
        return "".join(doc[f"o{n}"] for n in range(3))

    config = TaskConfig(task="t", test_split="test", doc_to_text=options, doc_to_target="answer")
    assert attempt(config).prompt == TEXT * 3


def test_making_a_prompt_up_leaves_the_configuration_as_it_is():
    config = TaskConfig(task="t", test_split="test", doc_to_text="q", doc_to_target="a", num_fewshot=5)
    assert attempt(config).prompt == TEXT
    assert config.num_fewshot == 5


def test_a_task_that_no_made_document_fits_says_why():
    def picky(doc: dict[str, Any]) -> str:
        raise ValueError(f"not {doc['x']}")

    made = attempt(TaskConfig(task="t", test_split="test", doc_to_text=picky, doc_to_target="y"))
    assert made.prompt is None
    assert f"ValueError: not {TEXT}" in str(made.error)


def test_a_row_that_is_written_by_hand_is_the_only_one_tried():
    def boxed(doc: dict[str, Any]) -> str:
        return str(doc["solution"]).split("boxed{")[1]

    config = TaskConfig(task="t", test_split="test", doc_to_text=boxed, doc_to_target="solution")
    assert attempt(config, {"solution": "boxed{2}"}).prompt == "2}"
    assert "IndexError" in str(attempt(config, {"solution": "2"}).error)


def test_a_package_that_is_not_installed_is_stood_in_for():
    with standins.installed():
        evaluate: Any = importlib.import_module("tinyBenchmarks.deep").evaluate
        Visitor: Any = importlib.import_module("tinyBenchmarks.deeper").Visitor  # noqa: N806

        class Mine(Visitor):
            pass

        assert isinstance(Mine(1, two=3), Visitor)
        with pytest.raises(RuntimeError, match=r"tinyBenchmarks\.deep\.evaluate only stands in"):
            float(evaluate([1.0], "arc"))
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("tinyBenchmarks")

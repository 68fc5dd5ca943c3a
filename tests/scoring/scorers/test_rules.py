"""instructions: the rules that a document names decide, strictly and loosely."""

from __future__ import annotations

import json
from typing import Any

import pytest

from multiform.errors import DataError
from multiform.scoring.filters import Pipeline
from multiform.scoring.metrics import build_metric
from multiform.scoring.outcome import TextOutcome
from multiform.scoring.scorers import scorers
from multiform.scoring.scorers.rules import Instructions, follows, rules
from tests.conftest import ROOT

ROWS = [
    ROOT.parent / f"shared/{name}/default/train.jsonl" for name in ("data/google/IFEval", "rows/allenai/IFBench_test")
]

#: A rule with its arguments, a response that follows it, and one that does not.
CASES: list[tuple[str, dict[str, Any], str, str]] = [
    ("keywords:frequency", {"keyword": "war", "frequency": 2, "relation": "at least"}, "War! war", "one war"),
    ("keywords:forbidden_words", {"forbidden_words": ["rock"]}, "rocket", "a rock"),
    ("keywords:letter_frequency", {"letter": "t", "let_frequency": 2, "let_relation": "less than"}, "at", "Tot"),
    ("language:response_language", {"language": "de"}, "Das ist ein deutscher Satz über Katzen.", "This is English."),
    ("length_constraints:number_sentences", {"num_sentences": 2, "relation": "at least"}, "It is. He was.", "Dr. Who."),
    ("length_constraints:number_words", {"num_words": 3, "relation": "less than"}, "two words", "these are three"),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "one\n***\ntwo", "one\n\ntwo"),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "so"},
        "one\n\n'So, two",
        "so\n\ntwo",
    ),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "Bye\nP. S. more", "Bye"),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n- b", "* a\n** b **"),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*a* and **b**", "*a*"),
    ("detectable_format:json_format", {}, '```json\n{"a": 1}\n```', "{a: 1}"),
    ("combination:two_responses", {}, "a ****** b", "a ****** a"),
    ("startend:end_checker", {"end_phrase": "The end."}, '"It was the end."', "The end. Not."),
    ("change_case:english_lowercase", {}, "this is all in lower case.", "This is not."),
]


@pytest.mark.parametrize(("name", "arguments", "right", "wrong"), CASES)
def test_a_rule_tells_right_from_wrong(name: str, arguments: dict[str, Any], right: str, wrong: str) -> None:
    assert follows(name, right, arguments)
    assert not follows(name, wrong, arguments)


@pytest.mark.parametrize("path", ROWS, ids=lambda path: path.parent.parent.name)
def test_every_rule_of_the_benchmark_is_known_with_its_arguments(path: Any) -> None:
    if not path.is_file():
        pytest.skip(f"no benchmark rows at {path}")
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        for name, arguments in zip(row["instruction_id_list"], row["kwargs"], strict=True):
            assert follows(name, "One. Two.", arguments, row["prompt"]) in (True, False)
    assert len(rules) == 25 + 58


def scorer() -> Instructions:
    metrics = [build_metric({"metric": name}) for name in Instructions.default_metric_cfg]
    built = scorers.get("instructions")(pipeline=Pipeline("none", ()), metrics=metrics)
    assert isinstance(built, Instructions)
    return built


def test_prompts_and_instructions_are_counted_strictly_and_loosely() -> None:
    doc = {
        "prompt": "",
        "instruction_id_list": ["punctuation:no_comma", "startend:quotation"],
        "kwargs": [{"keyword": None}, {}],
    }
    outcome = TextOutcome(prediction='Sure!\n"Yes"', references=("",))
    [values] = scorer().score_documents([[outcome]], [doc])
    assert values == {
        "prompt_level_strict_acc": 0.0,
        "inst_level_strict_acc": (1, 2),
        "prompt_level_loose_acc": 1.0,
        "inst_level_loose_acc": (2, 2),
        "truncated": 0.0,
    }


@pytest.mark.parametrize(
    ("doc", "message"),
    [
        ({"instruction_id_list": ["keywords:existense"], "kwargs": [{}]}, "did you mean 'keywords:existence'"),
        ({"instruction_id_list": ["keywords:existence"], "kwargs": [{}]}, "missing a required argument: 'keywords'"),
        ({"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{"n": 1}]}, "unexpected keyword argument 'n'"),
        ({"instruction_id_list": ["punctuation:no_comma"], "kwargs": []}, "as many arguments as rules"),
        ({"instruction_id_list": "[nothing", "kwargs": []}, "expected JSON"),
    ],
)
def test_bad_rows_are_named(doc: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        scorer().score_documents([[TextOutcome(prediction="a", references=("",))]], [{"prompt": "", **doc}])

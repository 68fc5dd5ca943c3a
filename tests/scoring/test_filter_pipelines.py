"""Filters that a task brings along: functions, factories and classes over lists of documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from multiform import ConfigError, DataError, evaluate, register_filter
from multiform.scoring.filters import build_pipeline, filters

DOC = {"prefix": ">"}


def filtered(outputs: list[Any], *steps: dict[str, Any]) -> list[Any]:
    return build_pipeline("test", steps)(outputs, DOC)


def prefixed(resps: Any, docs: Any, mark: str = "") -> list[list[str]]:
    return [[doc["prefix"] + text + mark for text in texts] for texts, doc in zip(resps, docs, strict=True)]


class Suffix:
    def __init__(self, suffix: str = "!") -> None:
        self.suffix = suffix

    def apply(self, resps: Any, docs: Any) -> Any:
        return ([text + self.suffix for text in texts] for texts in resps)


def make_suffix(suffix: str) -> Suffix:
    return Suffix(suffix)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"function": prefixed}, [">a", ">b"]),
        ({"function": prefixed, "mark": "?"}, [">a?", ">b?"]),
        ({"function": prefixed, "kwargs": {"mark": "?"}}, [">a?", ">b?"]),
        ({"function": "custom", "filter_fn": prefixed}, [">a", ">b"]),
        ({"function": "custom", "kwargs": {"filter_fn": prefixed, "mark": "?"}}, [">a?", ">b?"]),
        ({"function": Suffix}, ["a!", "b!"]),
        ({"function": Suffix, "suffix": "."}, ["a.", "b."]),
        ({"function": make_suffix, "suffix": "."}, ["a.", "b."]),
    ],
)
def test_every_style(step: dict[str, Any], expected: list[str]) -> None:
    assert filtered(["a", "b"], step) == expected


def test_a_registered_class_with_apply() -> None:
    register_filter("test_suffix")(Suffix)
    try:
        assert filtered(["a"], {"function": "test_suffix", "suffix": "~"}) == ["a~"]
    finally:
        del filters._entries["test_suffix"]


def test_one_value_for_a_document_is_one_output() -> None:
    assert filtered(["a", "b"], {"function": lambda resps, docs: [texts[-1] for texts in resps]}) == ["b"]


def test_after_take_first_a_function_gets_the_text_itself() -> None:
    assert filtered(["a", "b"], {"function": "take_first"}, {"function": "custom", "filter_fn": lambda r, d: r}) == [
        "a"
    ]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"function": lambda resps: resps}, "takes 1 more argument, not 2; write it as function"),
        ({"function": Suffix, "sufix": "."}, "filter 'Suffix': .*unexpected keyword argument 'sufix'"),
        ({"function": lambda: 3}, "is of type int; give a class with apply"),
        ({"function": "custom"}, "missing 1 required positional argument: 'filter_fn'"),
        ({"function": "take_first_k"}, "missing 1 required positional argument: 'k'"),
        ({"function": "take_first_k", "k": 0}, "k is 0; give a whole number"),
        ({"function": "map", "mapping_dict": ["a"]}, "expected mapping_dict to be a mapping"),
        ({"function": "multi_choice_regex", "regex_pattern": "("}, "bad regular expression"),
        ({"function": "decontaminate", "path": "x"}, "'decontaminate' is not supported"),
    ],
)
def test_mistakes_show_when_the_task_is_read(step: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_pipeline("test", [step])


def fails(resps: Any, docs: Any) -> Any:
    raise KeyError("column")


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([{"function": fails}], "filter 'fails' failed: KeyError: 'column'; call it"),
        ([{"function": lambda resps, docs: []}], "returned 0 results for 1 document"),
        ([{"function": lambda resps, docs: [["a"], ["b"]]}], "returned 2 results for 1 document"),
        ([{"function": "lowercase"}], "filter 'lowercase' failed: AttributeError"),
        ([{"function": "multi_choice_regex"}], "needs a column 'choices'.*there is none; add the column"),
    ],
)
def test_failures_name_the_filter(steps: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        build_pipeline("test", steps)([None], DOC)


def test_too_few_repeats() -> None:
    with pytest.raises(ConfigError, match="take_first_k wants 3 outputs and there are 1; set repeats: 3"):
        filtered(["a"], {"function": "take_first_k", "k": 3})


def test_a_class_beside_the_task_file(tmp_path: Path) -> None:
    (tmp_path / "utils.py").write_text(
        "class Last:\n"
        "    def __init__(self, fallback):\n"
        "        self.fallback = fallback\n"
        "    def apply(self, resps, docs):\n"
        "        return [[(text.split() or [self.fallback])[-1] for text in texts] for texts in resps]\n"
    )
    (tmp_path / "rows.jsonl").write_text('{"q": "2 + 2?", "a": "four"}\n{"q": "1 + 1?", "a": "two"}\n')
    (tmp_path / "sums.yaml").write_text(
        "task: sums\ndataset_path: json\ndataset_kwargs:\n  data_files: {test: " + str(tmp_path / "rows.jsonl") + "}\n"
        "test_split: test\ndoc_to_text: q\ndoc_to_target: a\noutput_type: generate_until\n"
        "filter_list:\n  - name: last\n    filter:\n      - function: !function utils.Last\n        fallback: none\n"
        "      - function: take_first\n"
    )
    results = evaluate(model="dummy", model_args={"text": "I say four"}, tasks=[str(tmp_path / "sums.yaml")])
    assert results["sums"]["exact_match,last"] == 0.5

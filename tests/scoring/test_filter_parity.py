"""Every filter gives what lm-eval's filter of that name gives, on outputs as models write them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from multiform.scoring.filters import build_pipeline

pytest.importorskip("lm_eval")
pytestmark = pytest.mark.parity

ANSWERS = [
    "She sells 16 - 3 - 4 = 9 eggs.\nShe makes 9 * 2 = $18.\n#### 18",
    "#### -1,234.50\nNo wait.\n#### 7",
    " The answer is (B) because Paris is the capital.",
    "The answer is: C",
    "the capital is paris, of course.",
    "(A) or (B)? I would say (B).",
    "Let's think step by step. A: 3 apples, B: 4 apples.\n\nThe final answer is 7.",
    "I don't know",
    "",
    "   \n",
    "\tYES \n",
    "**D**",
    "A",
    "[invalid]",
    "回答：B。巴黎是首都",
    "naïve café – “Paris”",
    "#### ",
    "Guilty of Romance",
]
TAGGED = [
    "[('The', 'DET'), ('dog', 'NOUN'), ('barks', 'VERB')]",
    "Here you go: [('Ìwé', 'NOUN'), ('náà', 'DET')]. Anything else?",
    "[('The','DET')]",
    "DET NOUN VERB",
    "",
]
SPANS = [
    "PER: Ada Lovelace $$ LOC: London",
    "Person: Wole Soyinka\nLocation: Nigeria, Ghana\nDate: none",
    "location : kenya, uganda $$ organization: UN $$ time: 2019 $$",
    "people: a, b$$places: none$$company:x",
    "There are no entities.",
    "persons: the person in charge: Ada",
    "",
    "per: ada $ loc: paris $$$",
]
CHOICES: dict[str, Any] = {"choices": ["Berlin", "Paris", "Rome", "Guilty", "Guilty of Romance"]}


def theirs(steps: list[dict[str, Any]], outputs: list[list[Any]], docs: list[dict[str, Any]]) -> list[Any]:
    from lm_eval.api.instance import Instance
    from lm_eval.filters import build_filter_ensemble

    given = zip(outputs, docs, strict=True)
    instances = [Instance("generate_until", doc, ("", {}), 0, resps=list(resps)) for resps, doc in given]
    components = [(step["function"], {k: v for k, v in step.items() if k != "function"}) for step in steps]
    build_filter_ensemble("f", components).apply(instances)
    return [instance.filtered_resps["f"] for instance in instances]


def ours(steps: list[dict[str, Any]], outputs: list[list[Any]], docs: list[dict[str, Any]]) -> list[Any]:
    pipeline = build_pipeline("f", steps)
    made = [pipeline(resps, doc) for resps, doc in zip(outputs, docs, strict=True)]
    alone = steps[-1]["function"] == "take_first"
    return [one[0] if alone else one for one in made]


def assert_equal(steps: list[dict[str, Any]], outputs: list[list[Any]], doc: dict[str, Any] | None = None) -> None:
    docs = [doc or {}] * len(outputs)
    assert ours(steps, outputs, docs) == theirs(steps, outputs, docs)


def alone(outputs: list[Any]) -> list[list[Any]]:
    return [[output] for output in outputs]


PATTERNS = [
    {},
    {"group_select": -1},
    {"regex_pattern": r"(-?[$0-9.,]{2,})|(-?[0-9]+)", "group_select": -1},
    {"regex_pattern": r"The answer is[:\s]*\(?([A-D])\)?"},
    {"regex_pattern": r"(?i)\b(yes|no)\b", "fallback": " none "},
    {"regex_pattern": r"\(([A-Z])\)|：(\w)", "fallback": ""},
    {"regex_pattern": r"(x)?(y)?", "fallback": " nothing "},
    {"regex_pattern": r"[A-Z]\b", "fallback": None},
]


@pytest.mark.parametrize("arguments", PATTERNS)
def test_regex(arguments: dict[str, Any]) -> None:
    assert_equal([{"function": "regex", **arguments}], [*alone(ANSWERS), ANSWERS, [None, 3]])


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"regex_pattern": r"(\([A-Z]\))"},
        {"regex_pattern": r"(\([A-Z]\))", "group_select": -1},
        {"regex_pattern": r"(\([A-Z]\))", "ignore_case": True, "ignore_punctuation": True},
        {"regex_pattern": r"(\([A-Z]\))", "ignore_case": True, "regexes_to_ignore": [r"^the ", r"\bcapital\b"]},
        {"regex_pattern": r"answer is: ([A-Z])|final answer is (\d)()", "fallback": "?"},
        {"regex_pattern": r"(z)?", "ignore_punctuation": True},
    ],
)
@pytest.mark.parametrize(
    "doc",
    [CHOICES, {"choices": [" Paris ", "naïve café"]}, {"choices": ["", "B", "(C)"]}, {"choices": []}],
    ids=["cities", "spaces", "empty choice", "none"],
)
def test_multi_choice_regex(arguments: dict[str, Any], doc: dict[str, Any]) -> None:
    assert_equal([{"function": "multi_choice_regex", **arguments}], [*alone(ANSWERS), ANSWERS], doc)


@pytest.mark.parametrize("arguments", [{}, {"fallback": ["X"]}, {"regex_pattern": "unused", "group_select": 3}])
def test_regex_pos(arguments: dict[str, Any]) -> None:
    assert_equal([{"function": "regex_pos", **arguments}], [*alone(TAGGED), TAGGED, [[("a", "DET")]]])


def test_format_span() -> None:
    assert_equal([{"function": "format_span"}], [*alone(SPANS), SPANS, ANSWERS])


@pytest.mark.parametrize("name", ["remove_whitespace", "lowercase", "uppercase"])
def test_text_filters(name: str) -> None:
    assert_equal([{"function": name}], [*alone(ANSWERS), [*ANSWERS, "ſtraße İ"]])


@pytest.mark.parametrize(
    "arguments", [{}, {"mapping_dict": {"A": 0, "": 1}, "default_value": -1}, {"mapping_dict": {"A": None}}]
)
def test_map(arguments: dict[str, Any]) -> None:
    assert_equal([{"function": "map", **arguments}], [*alone(ANSWERS), ANSWERS])


@pytest.mark.parametrize("name", ["take_first", "majority_vote"])
def test_selection(name: str) -> None:
    assert_equal([{"function": name}], [["b", "a", "a", "b"], ["x"], ["2", "1", "1"], ["", " ", ""]])


@pytest.mark.parametrize("k", [1, 3])
def test_take_first_k(k: int) -> None:
    assert_equal([{"function": "take_first_k", "k": k}], [["a", "b", "c", "d"], ["x", "y", "z"]])


def test_self_consistency_pipeline_of_gsm8k() -> None:
    outputs = [
        ["The answer is 3.", "The answer is 4.", "The answer is 4.", "none"],
        ["no", "no", "The answer is 9", ""],
    ]
    steps: list[dict[str, Any]] = [
        {"function": "take_first_k", "k": 3},
        {"function": "regex", "regex_pattern": r"The answer is (\-?[0-9\.\,]*[0-9]+)"},
        {"function": "majority_vote"},
        {"function": "take_first"},
    ]
    assert_equal(steps, outputs)


def test_label_that_is_mapped_after_take_first_as_in_polemo2() -> None:
    steps: list[dict[str, Any]] = [
        {"function": "regex", "regex_pattern": r"(\b[ABCD]\b)"},
        {"function": "take_first"},
        {"function": "map", "mapping_dict": {"A": 0, "B": 1, "C": 2, "D": 3}, "default_value": -1},
        {"function": "take_first"},
    ]
    assert_equal(steps, alone(ANSWERS))


def with_prompt(resps: list[list[str]], docs: list[dict[str, Any]]) -> list[list[str]]:
    return [[doc["prompt"] + text for text in texts] for texts, doc in zip(resps, docs, strict=True)]


def test_custom_function_over_documents() -> None:
    steps: list[dict[str, Any]] = [{"function": "custom", "filter_fn": with_prompt}]
    assert_equal(steps, [["a", "b"], ["c"]], {"prompt": "def f():"})


def test_custom_function_after_take_first_gets_texts() -> None:
    def shout(resps: Any, docs: Any) -> list[str]:
        return [text.upper() + "!" for text in resps]

    steps: list[dict[str, Any]] = [{"function": "take_first"}, {"function": "custom", "filter_fn": shout}]
    pipeline = build_pipeline("f", steps)
    made = theirs(steps, [["a", "b"], ["c"]], [{}, {}])
    assert [pipeline(outputs, {})[0] for outputs in (["a", "b"], ["c"])] == made


class LastNumber:
    """A filter class as task folders have them."""

    def __init__(self, regex_pattern: str = r"\d+", fallback: str = "[invalid]") -> None:
        self.pattern = re.compile(regex_pattern)
        self.fallback = fallback

    def apply(self, resps: Any, docs: Any) -> Any:
        return [[(self.pattern.findall(text) or [self.fallback])[-1] for text in texts] for texts in resps]


@pytest.mark.parametrize("arguments", [{}, {"regex_pattern": "-?[0-9]+", "fallback": "?"}])
def test_function_that_is_a_class(arguments: dict[str, Any]) -> None:
    steps: list[dict[str, Any]] = [{"function": LastNumber, **arguments}, {"function": "take_first"}]
    assert_equal(steps, alone(ANSWERS))


def test_every_filter_of_lm_eval_is_there() -> None:
    import lm_eval.filters  # noqa: F401
    from lm_eval.api.registry import filter_registry

    from multiform.scoring.filters import filters

    assert {name for name in filter_registry if name in filters} == set(filter_registry)

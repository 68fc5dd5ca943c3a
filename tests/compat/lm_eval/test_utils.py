"""The helpers of `lm_eval.utils` and `lm_eval.api.metrics` give what lm-eval's give."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiform import evaluate
from multiform.compat.lm_eval import metrics, utils
from multiform.compat.lm_eval.filters import MapFilter, MultiChoiceRegexFilter, RegexFilter, TakeFirstFilter
from multiform.results import to_json

from .conftest import needs_lm_eval

parity = [needs_lm_eval, pytest.mark.parity, pytest.mark.filterwarnings("ignore")]


def marked(test):
    for mark in parity:
        test = mark(test)
    return test


@marked
@given(pairs=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abcd")), min_size=1))
@settings(max_examples=30)
def test_weighted_f1_is_that_of_lm_eval(pairs):
    from lm_eval.utils import weighted_f1_score

    assert utils.weighted_f1_score(pairs) == pytest.approx(weighted_f1_score(pairs))


@marked
@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 8), st.integers(1, 8))
@settings(max_examples=100)
def test_rolling_windows_are_those_of_lm_eval(tokens, length, context):
    from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

    context = min(context, length)
    theirs = list(get_rolling_token_windows(tokens, 0, length, context))
    ours = list(utils.get_rolling_token_windows(tokens, 0, length, context))
    assert ours == theirs
    assert [utils.make_disjoint_window(one) for one in ours] == [make_disjoint_window(one) for one in theirs]


@marked
@given(st.text(alphabet="a n't()\"'.,", max_size=30))
@settings(max_examples=100)
def test_detokenised_text_is_that_of_lm_eval(text):
    from lm_eval.utils import general_detokenize

    assert utils.general_detokenize(text) == general_detokenize(text)


@marked
@pytest.mark.parametrize("stderr", [None, "N/A"])
@pytest.mark.parametrize("values", [[0.5, 0.25], [1.0, 0.0], [0.123456, 100.0], [12.5, 3], [float("nan"), 0.3]])
@pytest.mark.parametrize("versions", [[1.0, 2], [1.5, 2], ["Yaml", 1.0], ["a", "b"]])
def test_the_table_is_that_of_lm_eval(values, versions, stderr):
    from lm_eval.utils import make_table

    names = ["one", "two"]
    results = {
        "results": {
            name: {"name": name, "alias": name, "sample_len": 3, "acc,none": value, "f1,x": 0.5,
                   "acc_stderr,none": stderr or value}
            for name, value in zip(names, values, strict=True)
        },
        "versions": dict(zip(names, versions, strict=True)),
        "n-shot": dict.fromkeys(names, 5),
        "higher_is_better": {"one": {"acc": True, "f1": False}, "two": {}},
        "group_subtasks": {"two": ["one"]},
    }  # fmt: skip
    assert utils.make_table(results) == make_table(results)


@marked
def test_the_markdown_table_of_a_run_is_that_of_lm_eval():
    from lm_eval.utils import make_table

    results = evaluate(model="dummy", tasks="quiz@mcqa+cloze", limit=8, progress=False)
    assert make_table(to_json(results)) in results.table("markdown")


@marked
def test_aggregations_are_those_of_lm_eval():
    from lm_eval.api import metrics as theirs

    values = [0.0, 1.0, 1.0, 0.5]
    pairs = [(-2.0, 4), (-1.0, 3)]
    classes = [(0, 0), (1, 1), (1, 0), (1, 1)]
    for name, items in {
        **dict.fromkeys(("mean", "median", "perplexity", "nanmean", "bypass_agg"), values),
        **dict.fromkeys(("weighted_perplexity", "bits_per_byte"), pairs),
        **dict.fromkeys(("f1_score", "matthews_corrcoef"), classes),
        "brier_score": [(0, [0.5, 0.5]), (1, [0.25, 0.75])],
    }.items():
        assert getattr(metrics, name)(items) == pytest.approx(getattr(theirs, name)(items)), name


def test_filters_are_classes_that_take_lists_of_answers():
    assert RegexFilter(r"(\d+)").apply([["a 1", "b"], ["22"]], [{}, {}]) == [["1", "[invalid]"], ["22"]]
    assert MapFilter({"a": 1}, 0).apply([["a"], ["b"]], [{}, {}]) == [[1], [0]]
    assert TakeFirstFilter().apply([["a", "b"], ["c"]], [{}, {}]) == ["a", "c"]
    chosen = MultiChoiceRegexFilter(regex_pattern=r"(\([A-Z]\))", ignore_case=True)
    assert chosen.apply([["it is GREEN"]], [{"choices": ["red", "green"]}]) == [["(B)"]]


def test_values_that_json_does_not_know_are_said_in_words():
    import numpy as np

    values = {"a": np.float64(0.5), "b": np.bool_(True), "c": {1}, "d": ValueError("x")}
    assert json.loads(json.dumps(values, default=utils.handle_non_serializable)) == {
        "a": 0.5,
        "b": True,
        "c": [1],
        "d": "x",
    }


def test_the_best_value_over_several_right_answers():
    assert metrics.metric_max_over_ground_truths(lambda a, b: a == b, 1, [0, 1])

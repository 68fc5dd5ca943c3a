"""Filters: what is read out of a model's outputs, one document at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform import ConfigError, DataError, Task, TaskConfig, evaluate, register_filter
from multiform.scoring.filters import Pipeline, build_pipeline, filters

DOC = {"question": "What is the capital of France?", "choices": ["Berlin", "Paris"]}


def filtered(outputs, *steps, doc=DOC):
    return build_pipeline("test", steps)(outputs, doc)


ONE_STEP = {
    "noop": ({"function": "noop"}, ["a", "b"], ["a", "b"]),
    "take_first": ({"function": "take_first"}, ["a", "b"], ["a"]),
    "take_first_k": ({"function": "take_first_k", "k": 2}, ["a", "b", "c"], ["a", "b"]),
    "majority_vote": ({"function": "majority_vote"}, ["a", "b", "b"], ["b"]),
    "majority_vote of equals takes the first": ({"function": "majority_vote"}, ["b", "a"], ["b"]),
    "lowercase": ({"function": "lowercase"}, ["Paris", "ROME"], ["paris", "rome"]),
    "uppercase": ({"function": "uppercase"}, ["Paris"], ["PARIS"]),
    "map": ({"function": "map", "mapping_dict": {"yes": 1, "no": 0}}, ["yes", "no", "?"], [1, 0, None]),
    "map with a default": ({"function": "map", "mapping_dict": {"a": 1}, "default_value": -1}, ["b"], [-1]),
    "map without a table": ({"function": "map"}, ["a"], [None]),
}


@pytest.mark.parametrize(("step", "outputs", "expected"), ONE_STEP.values(), ids=ONE_STEP.keys())
def test_a_filter(step, outputs, expected):
    assert filtered(outputs, step) == expected


REGEX = {
    "default reads the answers of GSM8K": ({}, "so\n#### 1,234", "1,234"),
    "first match": ({"regex_pattern": "[0-9]+"}, "3 and 4 are 7", "3"),
    "last match": ({"regex_pattern": "[0-9]+", "group_select": -1}, "3 and 4 are 7", "7"),
    "second match": ({"regex_pattern": "[0-9]+", "group_select": 1}, "3 and 4 are 7", "4"),
    "one group": ({"regex_pattern": "answer is (.*)"}, "the answer is  yes ", "yes"),
    "first group that is not empty": ({"regex_pattern": "(yes)|(no)"}, "no", "no"),
    "no match": ({"regex_pattern": "[0-9]+"}, "none", "[invalid]"),
    "no match with a fallback of its own": ({"regex_pattern": "[0-9]+", "fallback": "0"}, "none", "0"),
    "too few matches": ({"regex_pattern": "[0-9]+", "group_select": 5}, "3 and 4", "[invalid]"),
    "something that is no text": ({"regex_pattern": "[0-9]+"}, None, "[invalid]"),
}


@pytest.mark.parametrize(("arguments", "text", "found"), REGEX.values(), ids=REGEX.keys())
def test_regex_keeps_what_it_finds(arguments, text, found):
    assert filtered([text], {"function": "regex", **arguments}) == [found]


def test_arguments_may_stand_beside_the_name_or_under_kwargs():
    beside = {"function": "regex", "regex_pattern": "[0-9]+", "group_select": -1}
    under = {"function": "regex", "kwargs": {"regex_pattern": "[0-9]+", "group_select": -1}}
    assert filtered(["3 and 4"], beside) == filtered(["3 and 4"], under) == ["4"]


def test_filters_of_a_pipeline_work_one_after_the_other():
    steps = (
        {"function": "regex", "regex_pattern": "answer is (\\w+)"},
        {"function": "lowercase"},
        {"function": "majority_vote"},
    )
    assert filtered(["The answer is YES", "My answer is Yes", "the answer is no"], *steps) == ["yes"]


def test_a_pipeline_without_steps_leaves_the_outputs_as_they_are():
    assert Pipeline("none", ())(["a", "b"], DOC) == ["a", "b"]


def test_the_outputs_that_are_given_are_not_changed():
    outputs = ["A", "B"]
    filtered(outputs, {"function": "lowercase"}, {"function": "take_first"})
    assert outputs == ["A", "B"]


def test_a_function_of_ones_own_gets_outputs_and_documents_of_many():
    def named(resps, docs):
        return [[f"{doc['choices'][0]}: {resp}" for resp in inner] for inner, doc in zip(resps, docs, strict=True)]

    assert filtered(["a", "b"], {"function": named}) == ["Berlin: a", "Berlin: b"]
    assert filtered(["a"], {"function": "custom", "filter_fn": named}) == ["Berlin: a"]


def test_a_filter_of_ones_own_can_be_registered(monkeypatch):
    monkeypatch.setattr(filters, "_entries", dict(filters._entries))

    @register_filter("exclaim")
    def exclaim(mark="!"):
        return lambda outputs, doc: [output + mark for output in outputs]

    assert filtered(["a"], {"function": "exclaim"}) == ["a!"]
    assert filtered(["a"], {"function": "exclaim", "mark": "?"}) == ["a?"]


def test_the_registry_of_filters_is_clean_again():
    assert "exclaim" not in filters


WRONG = {
    "unknown name": ({"function": "take_frist"}, "unknown filter 'take_frist'; did you mean 'take_first'?"),
    "unknown argument": ({"function": "lowercase", "mark": "!"}, "filter 'lowercase': "),
    "missing argument": ({"function": "take_first_k"}, "filter 'take_first_k': "),
    "bad pattern": ({"function": "regex", "regex_pattern": "("}, "filter 'regex': bad regular expression: "),
}


@pytest.mark.parametrize(("step", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_filter_that_cannot_be_built_is_an_error_that_names_it(step, message):
    with pytest.raises(ConfigError) as caught:
        build_pipeline("test", [step])
    assert message in str(caught.value)
    assert caught.value.hint


def test_a_filter_that_fails_on_a_document_is_an_error_that_names_it():
    def broken(resps, docs):
        return [docs[0]["nope"]]

    with pytest.raises(DataError, match=r"broken.*KeyError"):
        filtered(["a"], {"function": broken})


def task_config(**fields):
    return TaskConfig(
        task="t",
        custom_dataset=lambda **kwargs: {"test": [{"question": "6 * 7?", "answer": "42"}]},
        test_split="test",
        doc_to_text="question",
        doc_to_target="answer",
        **fields,
    )


def test_each_pipeline_of_a_task_gives_scores_under_its_name():
    config = task_config(
        filter_list=[
            {"name": "strict", "filter": [{"function": "regex", "regex_pattern": "#### ([0-9]+)"}]},
            {"name": "flexible", "filter": [{"function": "regex", "regex_pattern": "[0-9]+", "group_select": -1}]},
        ]
    )
    scores = evaluate(model="dummy", model_args={"text": "6 * 7 is 42"}, tasks=[config])["t"]
    assert (scores["exact_match,strict"], scores["exact_match,flexible"]) == (0.0, 1.0)


def test_a_pipeline_may_have_metrics_of_its_own():
    loose = [{"metric": "exact_match", "ignore_punctuation": True}]
    config = task_config(
        filter_list=[
            {"name": "exact", "filter": [{"function": "take_first"}]},
            {"name": "loose", "filter": [{"function": "take_first"}], "metric_list": loose},
        ]
    )
    scores = evaluate(model="dummy", model_args={"text": "42."}, tasks=[config])["t"]
    assert (scores["exact_match,exact"], scores["exact_match,loose"]) == (0.0, 1.0)


def test_a_wrong_filter_of_a_task_is_an_error_at_its_place_before_anything_is_asked():
    config = task_config(filter_list=[{"name": "strict", "filter": [{"function": "regx"}]}])
    with pytest.raises(ConfigError, match=r"filter_list.*unknown filter 'regx'; did you mean 'regex'"):
        Task.from_config(config)


@given(st.lists(st.text(), min_size=1))
def test_filters_of_texts_keep_the_number_of_outputs(outputs):
    for name in ("noop", "lowercase", "uppercase", "remove_whitespace", "map", "regex"):
        assert len(filtered(outputs, {"function": name})) == len(outputs)


@given(st.lists(st.sampled_from("abc"), min_size=1))
def test_the_majority_is_never_outnumbered(outputs):
    (vote,) = filtered(outputs, {"function": "majority_vote"})
    assert all(outputs.count(vote) >= outputs.count(other) for other in outputs)

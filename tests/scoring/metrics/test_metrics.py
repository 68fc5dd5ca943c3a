"""Metrics: the value of one document, and how many become one number."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform import ConfigError, register_metric
from multiform.scoring.aggregations import aggregations
from multiform.scoring.metrics import build_metric, metrics
from multiform.scoring.outcome import ChoiceOutcome, LikelihoodOutcome, TextOutcome
from multiform.statistics.estimates import mean_estimate, ratio_estimate


def value(name, outcome, **arguments):
    return build_metric({"metric": name, **arguments})(outcome)


def choices(*loglikelihoods, gold=(0,), texts=None, greedy=None):
    number = len(loglikelihoods)
    return ChoiceOutcome(
        loglikelihoods=loglikelihoods,
        greedy=tuple(greedy or (False,) * number),
        choices=tuple(texts or ("x",) * number),
        gold=tuple(gold),
    )


def text(prediction, *references, **fields):
    return TextOutcome(prediction=prediction, references=references, **fields)


# Written texts


@pytest.mark.parametrize(
    ("prediction", "references", "expected"),
    [
        ("the cat sat", ["the cat sat"], 0.0),
        ("the cat sat", ["the dog  sat"], 1 / 3),
        ("the cat sat down", ["the cat sat"], 1 / 3),
        ("cat", ["the cat sat"], 2 / 3),
        (None, ["the cat"], 1.0),
        ("the cat", ["a b c", "the cat sat here"], 0.5),
        ("", [""], 0.0),
    ],
)
def test_wer_is_the_edits_for_each_word_of_the_nearest_reference(prediction, references, expected):
    assert value("wer", text(prediction, *references)) == expected
    assert metrics.get("wer").higher_is_better is False


# Ranked choices


@pytest.mark.parametrize("name", ["acc", "acc_norm", "acc_bytes", "exact_match", "likelihood"])
def test_a_document_whose_answer_is_no_choice_counts_as_wrong(name):
    assert value(name, choices(-3.0, -1.0, gold=())) == 0.0


@pytest.mark.parametrize("name", ["f1", "mcc"])
def test_an_answer_that_is_no_choice_is_a_class_of_its_own(name):
    assert value(name, choices(-3.0, -1.0, gold=())) == (-100, 1)


def test_acc_is_whether_the_most_likely_choice_is_right():
    assert value("acc", choices(-3.0, -1.0, -2.0, gold=(1,))) == 1.0
    assert value("acc", choices(-3.0, -1.0, -2.0, gold=(0,))) == 0.0


def test_of_equally_likely_choices_the_first_counts():
    assert value("acc", choices(-1.0, -1.0, gold=(0,))) == 1.0
    assert value("acc", choices(-1.0, -1.0, gold=(1,))) == 0.0


def test_any_of_several_right_choices_counts():
    assert value("acc", choices(-3.0, -1.0, -2.0, gold=(0, 1))) == 1.0
    assert value("acc", choices(-3.0, -1.0, -2.0, gold=(0, 2))) == 0.0


def test_acc_norm_is_per_character_of_the_bare_choice():
    outcome = choices(-2.0, -5.0, gold=(1,), texts=("x", "yyyy"))
    assert value("acc", outcome) == 0.0
    assert value("acc_norm", outcome) == 1.0


def test_acc_norm_counts_characters_and_acc_bytes_bytes():
    outcome = choices(-4.0, -5.0, gold=(0,), texts=("éé", "aaa"))
    assert value("acc_norm", outcome) == 0.0
    assert value("acc_bytes", outcome) == 1.0


def test_a_single_choice_is_always_the_most_likely():
    assert value("acc", choices(-9.0)) == value("acc_norm", choices(-9.0)) == 1.0


def test_an_empty_choice_does_not_divide_by_zero():
    assert value("acc_norm", choices(-2.0, -3.0, gold=(1,), texts=("", "y"))) == 1.0


def test_exact_match_of_choices_is_whether_greedy_decoding_gives_a_right_one():
    assert value("exact_match", choices(-1.0, -2.0, gold=(0,), greedy=(True, False))) == 1.0
    assert value("exact_match", choices(-1.0, -2.0, gold=(1,), greedy=(True, False))) == 0.0


# What a model writes

EXACT = {
    "equal": (text("Paris", "Paris"), {}, 1.0),
    "unequal": (text("London", "Paris"), {}, 0.0),
    "one of several": (text("NYC", "New York", "NYC"), {}, 1.0),
    "other case": (text("paris", "Paris"), {}, 0.0),
    "other case ignored": (text("paris", "Paris"), {"ignore_case": True}, 1.0),
    "punctuation": (text("Paris.", "Paris"), {}, 0.0),
    "punctuation ignored": (text("Paris.", "(Paris)"), {"ignore_punctuation": True}, 1.0),
    "numbers ignored": (text("Paris 2", "Paris 1"), {"ignore_numbers": True}, 1.0),
    "a pattern ignored": (text("$42", "42"), {"regexes_to_ignore": [r"\$"]}, 1.0),
    "several patterns ignored": (text("$1,042", "1042"), {"regexes_to_ignore": [",", r"\$"]}, 1.0),
    "arguments under kwargs": (text("paris", "Paris"), {"kwargs": {"ignore_case": True}}, 1.0),
    "white space": (text(" Paris", "Paris"), {}, 0.0),
    "nothing to read": (text(None, "Paris"), {}, 0.0),
    "nothing to read and nothing expected": (text(None, ""), {}, 0.0),
}


@pytest.mark.parametrize(("outcome", "arguments", "expected"), EXACT.values(), ids=EXACT.keys())
def test_exact_match(outcome, arguments, expected):
    assert value("exact_match", outcome, **arguments) == expected


def test_invalid_counts_texts_that_no_answer_could_be_read_from():
    assert value("invalid", text(None, "Paris")) == 1.0
    assert value("invalid", text("London", "Paris")) == 0.0


def test_truncated_counts_texts_that_ran_into_the_limit():
    assert value("truncated", text("London", "Paris", truncated=True)) == 1.0
    assert value("truncated", text("London", "Paris")) == 0.0


# The likelihood of a text


def test_bits_per_byte_counts_bytes_not_words():
    outcome = LikelihoodOutcome(loglikelihood=-3.0, is_greedy=False, text=" é", words=2, bytes=3)
    assert value("bits_per_byte", outcome) == (-3.0, 3)
    assert value("word_perplexity", outcome) == (-3.0, 2)


def test_bits_per_byte_is_over_all_documents_together():
    estimate = build_metric({"metric": "bits_per_byte"}).aggregation([(-3.0, 3), (-1.0, 5)], 0)
    assert estimate.value == pytest.approx(4.0 / 8 / math.log(2))
    plain = ratio_estimate([(-3.0, 3), (-1.0, 5)], scale=-1 / math.log(2))
    assert plain.low is not None
    assert plain.low < 0  # from two documents
    assert estimate == replace(plain, low=0.0)


def test_a_model_of_uniform_bytes_needs_eight_bits_per_byte():
    documents = [(-n * math.log(256), n) for n in (1, 10, 100)]
    assert build_metric({"metric": "bits_per_byte"}).aggregation(documents, 0).value == pytest.approx(8.0)


# What a `metric_list` says


def test_a_metric_has_the_mean_of_its_documents_unless_it_says_otherwise():
    metric = build_metric({"metric": "acc"})
    assert metric.aggregation([1.0, 0.0, 1.0], 0) == mean_estimate([1.0, 0.0, 1.0])
    assert metric.higher_is_better is True


@pytest.mark.parametrize(
    ("name", "better"),
    [("acc", True), ("exact_match", True), ("bits_per_byte", False), ("invalid", False), ("truncated", False)],
)
def test_a_metric_knows_which_way_is_better(name, better):
    assert build_metric({"metric": name}).higher_is_better is better
    assert build_metric({"metric": name, "higher_is_better": not better}).higher_is_better is not better
    assert build_metric({"metric": name, "higher_is_better": None}).higher_is_better is better


def test_an_aggregation_may_be_a_function():
    metric = build_metric({"metric": "acc", "aggregation": max})
    estimate = metric.aggregation([0.0, 1.0, 0.0], 0)
    assert (estimate.value, estimate.n, estimate.stderr) == (1.0, 3, None)


def test_an_unknown_metric_is_an_error_with_the_nearest_one():
    with pytest.raises(ConfigError, match=r"unknown metric 'exact_mach'; did you mean 'exact_match'\?"):
        build_metric({"metric": "exact_mach"})


def test_arguments_that_a_metric_does_not_take_are_errors_or_noted():
    with pytest.raises(ConfigError, match="metric 'acc' has no argument 'ignore_case'"):
        build_metric({"metric": "acc", "ignore_case": True})
    notes: list[ConfigError] = []
    assert build_metric({"metric": "acc", "ignore_case": True}, notes=notes).kwargs == {}
    assert [note.what for note in notes] == ["metric 'acc' has no argument 'ignore_case'"]


def test_an_unknown_aggregation_is_an_error_with_the_nearest_one():
    with pytest.raises(ConfigError, match=r"unknown aggregation 'maen'; did you mean 'mean'\?"):
        build_metric({"metric": "acc", "aggregation": "maen"})


def test_a_metric_of_ones_own_can_be_registered(monkeypatch):
    monkeypatch.setattr(metrics, "_entries", dict(metrics._entries))

    @register_metric("margin", output_type="multiple_choice", higher_is_better=True)
    def margin(outcome, *, over=0):
        return outcome.loglikelihoods[outcome.gold[0]] - outcome.loglikelihoods[over]

    assert value("margin", choices(-3.0, -1.0, gold=(1,))) == 2.0
    assert value("margin", choices(-3.0, -1.0, gold=(1,)), over=1) == 0.0
    assert build_metric({"metric": "margin"}).output_types == {"multiple_choice"}


def test_the_registry_of_metrics_is_clean_again():
    assert "margin" not in metrics


# lm-eval's numbers

PAIRS = [(1, 1), (0, 1), (1, 0), (1, 1), (0, 0), (1, 1), (0, 0), (1, 0)]
LOGS = [-1.5, -0.25, -3.0, -2.0, -0.5]
WEIGHTED = [(-12.0, 4), (-30.5, 11), (-7.25, 3)]
AGGREGATED = {
    "mean": ("mean", LOGS),
    "median": ("median", LOGS),
    "median of an even number": ("median", LOGS[:4]),
    "perplexity": ("perplexity", LOGS),
    "weighted_perplexity": ("weighted_perplexity", WEIGHTED),
    "bits_per_byte": ("bits_per_byte", WEIGHTED),
    "nanmean": ("nanmean", [1.0, math.nan, 0.0]),
    "f1": ("f1", PAIRS),
    "matthews_corrcoef": ("matthews_corrcoef", PAIRS),
}


@pytest.mark.parity
@pytest.mark.parametrize(("name", "items"), AGGREGATED.values(), ids=AGGREGATED.keys())
def test_an_aggregation_gives_the_value_of_lm_eval(name, items):
    registry = pytest.importorskip("lm_eval.api.registry")
    pytest.importorskip("lm_eval.api.metrics")
    assert aggregations.get(name)(items, 0).value == pytest.approx(float(registry.get_aggregation(name)(items)))


CLASSES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=40)


@given(CLASSES)
def test_macro_f1_and_balanced_accuracy_are_those_of_scikit_learn(items):
    scores = pytest.importorskip("sklearn.metrics")
    golds, predictions = zip(*items, strict=True)
    assert aggregations.get("macro_f1")(items, 0).value == pytest.approx(
        scores.f1_score(golds, predictions, average="macro", zero_division=0)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # predictions that are in no gold answer
        expected = scores.balanced_accuracy_score(golds, predictions)
    assert aggregations.get("balanced_accuracy")(items, 0).value == pytest.approx(expected)


@pytest.mark.parametrize("name", ["macro_f1", "balanced_accuracy"])
def test_a_score_over_classes_has_a_bootstrapped_interval_within_its_range(name):
    estimate = aggregations.get(name)(PAIRS * 5, 100_000)
    low, high = estimate.interval
    assert 0 < low < estimate.value < high < 1


def test_an_interval_of_a_score_over_classes_is_no_point_if_all_documents_are_right():
    estimate = aggregations.get("macro_f1")([(0, 0), (1, 1)] * 5, 100_000)
    assert estimate.value == 1
    assert 0.6 < estimate.interval[0] < 0.9


def test_the_places_of_the_right_choice_give_recall_and_the_reciprocal_rank():
    outcome = choices(-3.0, -1.0, -2.0, -4.0, gold=(2,))
    assert (value("acc", outcome), value("r@2", outcome), value("mrr", outcome)) == (0.0, 1.0, 0.5)
    wrong = choices(-3.0, -1.0, gold=())
    assert (value("r@2", wrong), value("mrr", wrong)) == (0.0, 0.0)


@pytest.mark.parity
def test_the_standard_error_of_a_mean_is_that_of_lm_eval():
    theirs = pytest.importorskip("lm_eval.api.metrics")
    for items in ([1.0, 0.0, 1.0, 1.0], LOGS, [0.5] * 7):
        assert mean_estimate(items).stderr == pytest.approx(theirs.mean_stderr(items))


# Whatever a model answers

outcomes = st.lists(st.floats(min_value=-1e4, max_value=0.0), min_size=1, max_size=8).flatmap(
    lambda lls: st.builds(
        choices,
        *map(st.just, lls),
        gold=st.sets(st.integers(min_value=0, max_value=len(lls) - 1), min_size=1).map(sorted),
        texts=st.lists(st.text(min_size=1, max_size=9), min_size=len(lls), max_size=len(lls)),
    )
)


@given(outcomes)
def test_accuracies_are_zero_or_one(outcome):
    for name in ("acc", "acc_norm", "acc_bytes"):
        assert value(name, outcome) in (0.0, 1.0)


@given(outcomes)
def test_exactly_one_choice_is_taken(outcome):
    taken = [
        value("acc", choices(*outcome.loglikelihoods, gold=(index,))) for index in range(len(outcome.loglikelihoods))
    ]
    assert sum(taken) == 1.0


@given(outcomes, st.floats(min_value=-100, max_value=100))
def test_a_constant_added_to_every_choice_changes_nothing(outcome, shift):
    gaps = sorted(outcome.loglikelihoods)
    if any(0 < b - a < 1e-6 for a, b in pairwise(gaps)):
        return  # rounding could make them equal
    moved = choices(*(ll + shift for ll in outcome.loglikelihoods), gold=outcome.gold)
    assert value("acc", moved) == value("acc", outcome)


@given(st.text(), st.text())
def test_exact_match_is_equality(prediction, reference):
    assert value("exact_match", text(prediction, reference)) == float(prediction == reference)


@pytest.mark.parametrize(
    ("metric", "prediction", "references", "expected"),
    [
        ({"metric": "token_em"}, "The  Eiffel Tower!", ("eiffel tower",), 1.0),
        ({"metric": "token_em"}, "a tower", ("eiffel tower",), 0.0),
        ({"metric": "token_f1"}, "the tall tower", ("eiffel tower", "tall tree"), 0.5),
        ({"metric": "token_f1"}, "", ("tower",), 0.0),
        ({"metric": "token_f1", "separator": "; "}, "Ann; Bob", ("Bob; Ann",), 1.0),
        ({"metric": "token_f1", "separator": "; "}, "Ann", ("Bob; Ann",), 0.5),
        ({"metric": "token_f1", "separator": "; "}, "10 yards", ("12 yards",), 0.0),
        ({"metric": "token_f1", "separator": "; "}, "12.0", ("12",), 1.0),
        ({"metric": "token_f1", "separator": "; "}, "$12", ("12",), 1.0),
        ({"metric": "token_f1", "separator": "; "}, "a1; " * 15 + "b", ("a1; " * 15 + "c",), 15 / 16),
        ({"metric": "contained"}, "One and THREE", ("one", "two", "three", "four"), 0.5),
        ({"metric": "contained", "any_of": True}, "It is two.", ("one", "two"), 1.0),
        ({"metric": "relaxed_match"}, "1,040", ("1000",), 1.0),
        ({"metric": "relaxed_match"}, "1060", ("1000",), 0.0),
        ({"metric": "relaxed_match"}, "yes.", ("Yes",), 1.0),
        ({"metric": "similarity"}, "abcd", ("abcx",), 0.75),
        ({"metric": "similarity", "same_start": 2}, "XYabcd", ("XYabcx",), 0.75),
        ({"metric": "similarity", "same_start": 2}, "XZabcd", ("XYabcd",), 0.0),
    ],
)
def test_texts_that_are_nearly_equal(metric, prediction, references, expected):
    outcome = TextOutcome(prediction=prediction, references=references)
    assert build_metric(metric)(outcome) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["bleu", "chrf", "chrf++"])
def test_the_interval_of_a_corpus_score_stays_between_0_and_100(name):
    pairs = [(["the cat sat on the mat today"], "the cat sat on the mat today"), (["yes"], "nothing of this is right")]
    estimate = aggregations.get(name)(pairs, 100)
    low, high = estimate.interval
    assert 0 <= low <= estimate.value <= high <= 100

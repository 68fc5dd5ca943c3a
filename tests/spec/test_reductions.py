"""Reductions and the answers that filters leave for them: a score that is asked for appears, or is refused."""

from __future__ import annotations

import logging

import pytest

from multiform import ConfigError, evaluate

FIRST = {"name": "first", "filter": [{"function": "take_first"}]}
ALL = {"name": "all", "filter": [{"function": "noop"}]}


def scores(task, model, **options):
    found = evaluate(tasks=[task], model=model, bootstrap_iters=0, limit=1, **options)["facts"]
    return {key: value for key, value in found.items() if "," in key and "_stderr" not in key}


def passing(k=2):
    return [{"metric": "exact_match", "reduction": f"pass@{k}"}]


@pytest.mark.parametrize(
    "steps",
    [
        [{"function": "take_first"}],
        [{"function": "majority_vote"}],
        [{"function": "take_first_k", "k": 2}, {"function": "take_first"}],
    ],
)
def test_pass_at_k_of_the_one_answer_that_filters_leave_is_refused_before_anything_is_asked(writing, saying, steps):
    task = writing(repeats=4, filter_list=[{"name": "strict", "filter": steps}], metric_list=passing())
    model = saying("no")
    message = r"filter_list: pass@2 of metric 'exact_match' needs 2 responses, and the filters of 'strict' leave 1"
    with pytest.raises(ConfigError, match=message):
        scores(task, model)
    with pytest.raises(ConfigError, match=message):
        task.build_all_requests()
    assert model.asked == []


def test_too_few_answers_of_take_first_k_are_refused(writing, saying):
    steps = [{"function": "take_first_k", "kwargs": {"k": 2}}]
    task = writing(repeats=4, filter_list=[{"name": "two", "filter": steps}], metric_list=passing(3))
    with pytest.raises(ConfigError, match="the filters of 'two' leave 2"):
        scores(task, saying("no"))


def test_a_pipeline_that_leaves_enough_has_the_score_and_the_other_is_told_to_have_none(writing, saying, caplog):
    task = writing(repeats=2, filter_list=[FIRST, ALL], metric_list=passing())
    with caplog.at_level(logging.WARNING, logger="multiform"):
        found = scores(task, saying("what?", "no"))
    assert found == {"exact_match,first": 0.0, "pass@2(exact_match),all": 1.0}
    assert "pass@2 of metric 'exact_match' needs 2 responses, and the filters of 'first' leave 1" in caplog.text


def test_a_reduction_of_the_one_answer_that_is_left_is_told_to_have_no_effect(writing, saying, caplog):
    task = writing(repeats=2, filter_list=[FIRST], metric_list=[{"metric": "exact_match", "reduction": "mean"}])
    with caplog.at_level(logging.WARNING, logger="multiform"):
        assert scores(task, saying("what?", "no")) == {"exact_match,first": 0.0}
    assert "reduction mean of metric 'exact_match' gets one response of 2" in caplog.text


def test_pass_at_k_without_repeats_is_refused(writing, saying):
    with pytest.raises(ConfigError, match="pass@2 needs 2 repeats, there are 1"):
        scores(writing(metric_list=passing()), saying("no"))


def test_pass_at_1_of_one_answer_keeps_its_name(writing, saying):
    assert scores(writing(metric_list=passing(1)), saying("no")) == {"pass@1(exact_match),none": 1.0}


def test_pass_at_k_of_choices_is_refused_as_they_are_ranked_once(choosing, liking):
    task = choosing(metric_list=[{"metric": "acc", "reduction": "pass@2"}])
    with pytest.raises(ConfigError, match="pass@2 needs 2 responses, and a task of multiple_choice has one"):
        scores(task, liking("yes"))


def test_process_results_that_gives_one_value_for_pass_at_2_is_an_error(writing, saying):
    task = writing(
        repeats=2,
        process_results=lambda doc, results: {"right": 1.0},
        metric_list=[{"metric": "right", "reduction": "pass@2"}],
    )
    with pytest.raises(ConfigError, match="pass@2 needs 2 repeats, there are 1"):
        scores(task, saying("no"))


def test_several_numbers_of_a_metric_are_reduced_each_by_itself(writing, saying):
    def lengths(references, predictions):
        return {"wanted": len(references[0]), "written": len(predictions[0])}

    def longest(values):
        return max(values)

    filters = [{"name": "none", "filter": [{"function": "custom", "filter_fn": lambda resps, docs: resps}]}]
    task = writing(repeats=2, filter_list=filters, metric_list=[{"metric": "exact_match", "reduction": longest}])
    assert scores(task, saying("what?", "no")) == {"exact_match,none": 1.0}
    task = writing(repeats=2, metric_list=[{"metric": lengths, "reduction": longest}])
    assert scores(task, saying("a", "four")) == {"wanted,none": 2.0, "written,none": 4.0}


def test_maj_at_k_of_values_without_answers_is_an_error_and_not_0(writing, saying):
    task = writing(
        repeats=2,
        process_results=lambda doc, results: {"right": [1.0, 1.0]},
        metric_list=[{"metric": "right", "reduction": "maj@2"}],
    )
    with pytest.raises(ConfigError, match="maj@2 counts the answers of repeats, and these values have none"):
        scores(task, saying("no", "no"))

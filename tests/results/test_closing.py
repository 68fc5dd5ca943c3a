"""What a run says below its table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from multiform import evaluate, read_results
from multiform.report.page import payload
from multiform.results.notes import clearest_difference, closing_lines
from multiform.results.provenance import usage_words
from multiform.statistics.differences import paired_differences
from multiform.statistics.means import document_scores
from tests.run.scripted import ScriptedModel, documents, write_task


def test_a_difference_that_is_not_significant_is_not_a_finding() -> None:
    results = evaluate(model="dummy", tasks="quiz@mcqa+cloze+hybrid+generate", limit=20, progress=False)
    difference, not_extracted, took, following = closing_lines(results, output_path="my results")
    assert difference.startswith("differences: none of 3 pairs of forms differ significantly (smallest p = ")
    assert not_extracted.startswith("not extracted: ")
    assert not_extracted.endswith("of the completions of quiz@generate name no answer that could be read")
    assert took.endswith("requests, 0 of them cached")
    assert following == "next: multiform report 'my results'"


def test_the_clearest_difference_has_the_interval_that_belongs_to_its_p_value(tmp_path: Path) -> None:
    rates = {"A. ": 0.9, "(A) ": 0.2}
    model = ScriptedModel(lambda question, first: next(rate for wrap, rate in rates.items() if first.startswith(wrap)))
    write_task(tmp_path, "quiz", documents(40, 1))
    results = evaluate(model=model, tasks=f"{tmp_path / 'quiz.yaml'}@mcqa+mcqa[wrap=(x)]", progress=False)
    (line, *_) = closing_lines(results)
    (pair,) = results.comparisons[0].differences
    low, high = pair.estimate.interval
    assert line.startswith(f"clearest difference: quiz@mcqa − quiz@mcqa[wrap=(x)] in acc: {pair.estimate.value:.4f}")
    assert f"({low:.4f} to {high:.4f}), p " in line


@pytest.mark.long
@pytest.mark.parametrize("tasks", [10, 57])
def test_equal_forms_are_called_different_in_one_of_twenty_runs_at_most(tasks: int) -> None:
    rng, runs, found = np.random.default_rng(0), 1000 // tasks + 20, 0
    (template,) = evaluate(model="dummy", tasks="quiz@mcqa+cloze", limit=4, progress=False).comparisons
    for _ in range(runs):
        comparisons = []
        for task in range(tasks):
            scores = document_scores(rng.random((100, 4)) < 0.5 + 0.2 * rng.normal(size=(100, 1)))
            names = tuple(f"t{task}@{form}" for form in "abcd")
            comparisons.append(
                replace(template, name=f"t{task}", forms=names, differences=tuple(paired_differences(scores)))
            )
        pairs = [(comparison, pair) for comparison in comparisons for pair in comparison.differences]
        clearest = min(pairs, key=lambda entry: entry[1].p)
        found += clearest_difference(*clearest, pairs=len(pairs), tasks=tasks).startswith("clearest")
    assert found / runs <= 0.05 + 0.04


def test_one_form_has_no_difference_and_results_that_are_not_kept_say_how() -> None:
    results = evaluate(model="dummy", tasks="quiz@mcqa", limit=2, progress=False)
    took, following = closing_lines(results)
    assert took.startswith("took 0:0")
    assert "--output_path results --log_samples" in following


def test_forms_that_score_alike_have_no_largest_difference() -> None:
    results = evaluate(
        model="dummy", tasks="quiz@mcqa", num_fewshot=2, fewshot_draws=3, limit=10, use_cache=False, progress=False
    )
    (comparison,) = results.comparisons
    assert {mean.value for mean in comparison.means} == {0.3}
    assert not any("clearest difference" in line for line in closing_lines(results))


def test_the_report_has_the_numbers_of_the_file_in_a_line(tmp_path: Path) -> None:
    results = evaluate(model="dummy", tasks="quiz@mcqa", limit=2, progress=False, output_path=tmp_path)
    assert results.provenance["usage"]["requests"] == 8
    (run,) = payload([read_results(tmp_path)], title="x").main["runs"]
    assert run["usage"] == "8 requests, 0 of them cached"
    assert usage_words(None) is None

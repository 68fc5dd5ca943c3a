"""What a run says below its table."""

from __future__ import annotations

from pathlib import Path

from multiform import evaluate, read_results
from multiform.report.payload import payload
from multiform.results.closing import closing_lines
from multiform.results.usage import usage_words


def test_the_largest_difference_and_what_was_not_extracted_stand_out() -> None:
    results = evaluate(model="dummy", tasks="quiz@mcqa+cloze+generate", limit=20, progress=False)
    difference, not_extracted, took, following = closing_lines(results, output_path="my results")
    (comparison,) = results.comparisons
    widest = max(comparison.differences, key=lambda pair: abs(pair.estimate.value))
    assert comparison.spread is not None
    low, high = comparison.spread.spread.interval  # not that of a pair that was named before looking
    assert f": {abs(widest.estimate.value):.4f} ({low:.4f} to {high:.4f}), p = " in difference
    assert difference.endswith(f"p = {widest.p_holm:.3g} after Holm, the largest of 3")
    values = dict(zip(comparison.forms, (mean.value for mean in comparison.means), strict=True))
    higher, _, lower = difference.removeprefix("largest difference: ").partition(" in accuracy")[0].partition(" − ")
    assert values[higher] - values[lower] == abs(widest.estimate.value)
    assert not_extracted.startswith("not extracted: ")
    assert not_extracted.endswith("of the completions of quiz@generate name no answer that could be read")
    assert took.endswith("180 requests, 0 of them cached")
    assert following == "next: multiform report 'my results'"


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
    assert not any("largest difference" in line for line in closing_lines(results))


def test_the_report_has_the_numbers_of_the_file_in_a_line(tmp_path: Path) -> None:
    results = evaluate(model="dummy", tasks="quiz@mcqa", limit=2, progress=False, output_path=tmp_path)
    assert results.provenance["usage"]["requests"] == 8
    (run,) = payload([read_results(tmp_path)], title="x").main["runs"]
    assert run["usage"] == "8 requests, 0 of them cached"
    assert usage_words(None) is None

"""The report as a browser shows it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from multiform import Results, evaluate, read_results, register_model
from multiform.cli.main import main
from multiform.errors import ModelError, MultiformError
from multiform.formats.variation import Variation
from multiform.forms import ScoredSample
from multiform.models.dummy import DummyModel
from multiform.report import write_report
from multiform.requests import Completion
from multiform.results.compare import compare_forms
from multiform.results.extraction import is_unread
from multiform.results.form_comparison import FormComparison
from multiform.results.notes import form_notes
from multiform.results.pivot import p_words
from multiform.results.run_comparison import compare_runs
from multiform.results.values import FailedDoc

pytestmark = pytest.mark.process

DEEP = "#sample=quiz%2F7&form=0%3Aquiz%40mcqa,0%3Aquiz%40generate"


@pytest.fixture(scope="module")
def url(results: Results, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_report([results], tmp_path_factory.mktemp("report") / "report.html").as_uri()


def expect_shown(page: Any, number: int) -> None:
    """Wait until the list says that it has so many documents."""
    _expect(page.locator(".status [aria-live]")).to_have_text(f"{number} of 60 documents")


def _expect(locator: Any) -> Any:
    from playwright.sync_api import expect

    return expect(locator)


def wrong(results: Results, *forms: str) -> set[int]:
    """The documents that any of the forms got wrong."""
    chosen = [form for form in results.forms if not forms or form.name in forms]
    return {
        sample.doc_id
        for form in chosen
        for sample in form.samples
        if sample.values.get("acc", sample.values.get("exact_match")) == 0
    }


def compared(results: Results, scoring: str) -> FormComparison:
    """The comparison of the quiz's forms of one kind of scoring by their accuracy."""
    [comparison] = [
        c for c in results.comparisons if c.scoring == scoring and c.chances and c.metric != "bits_per_byte"
    ]
    return comparison


def test_whether_a_spread_is_noise_comes_first(open_page: Callable[..., Any], variations: str) -> None:
    """A model that picks at random: the page says so before it shows any score."""
    page = open_page(variations)
    facts = page.locator("#first .facts").inner_text()
    assert "no finding" in page.locator("[data-fact=verdict]").inner_text()
    assert "if all forms were equally good" in facts
    assert "p = " in facts
    assert page.locator("#verdicts .verdict .tag").first.inner_text() == "no finding"
    assert "No form can be told from the best" in page.locator("#verdicts .verdict").first.inner_text()
    assert page.locator(".plot .dot-name .tied").count() == 0


def test_the_verdict_has_the_numbers_of_the_comparison(
    open_page: Callable[..., Any], url: str, results: Results
) -> None:
    spread = compared(results, "ranked").spread
    assert spread is not None
    page = open_page(url + "#tab=diagnostics")
    shown = page.locator("#verdicts .panel .verdict", has_text="ranked choices").inner_text()
    low, high = spread.spread.interval
    assert f"(acc): {spread.spread.value:.3f} ({low:.3f} to {high:.3f})" in shown
    assert f"would show {spread.by_chance:.3f} by chance" in shown


def test_forms_that_cannot_be_told_from_the_best_are_marked(open_page: Callable[..., Any], tmp_path: Path) -> None:
    results = evaluate(model="dummy", tasks="quiz@mcqa+cloze+hybrid", limit=60, progress=False)
    forms = [
        replace(form, samples=[replace(sample, values={"acc": value}) for sample in form.samples],
                estimates={"acc,none": replace(form.estimates["acc,none"], value=value)})
        for form, value in zip(results.forms, (1.0, 1.0, 0.0), strict=True)
    ]  # fmt: skip
    changed = replace(results, forms=forms, comparisons=compare_forms(forms))
    page = open_page(write_report([changed], tmp_path / "r.html").as_uri())
    assert page.locator(".plot .dot-row:has(.tied)").evaluate_all("rows => rows.map((row) => row.dataset.row)") == [
        "mcqa",
        "cloze",
    ]
    assert "* cannot be told from the best: mcqa, cloze." in page.locator("#verdicts .verdict").inner_text()
    assert page.locator("#verdicts .verdict .tag").inner_text() == "finding"


def test_forms_have_their_chance_level(open_page: Callable[..., Any], url: str, results: Results) -> None:
    page = open_page(url)
    chosen = [form for form in results.forms if form.format_label != "bpb"]
    line = page.locator("#scores table tbody tr").first.inner_text().split("\t")
    share = round(100 * (chosen[0].estimates["acc,none"].value - 0.25) / 0.75)
    assert line[5:7] == ["0.250", f"{share} %".replace("-", "−")]
    assert page.locator(".plot .chance-line").first.get_attribute("title") == "chance 0.250"


def test_kinds_of_scoring_are_compared_with_each_other_on_request(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url)
    page.get_by_role("tab", name="Diagnostics").click()
    across = page.locator("#verdicts details.across")
    assert not across.locator(".verdict").is_visible()
    across.locator("summary").click()
    assert "across both kinds (accuracy)" in across.locator(".verdict").inner_text()
    assert "(accuracy)" not in "".join(page.locator("#verdicts .panel .verdict").all_inner_texts())


def test_the_score_over_wordings_is_shown(open_page: Callable[..., Any], tmp_path: Path) -> None:
    results = evaluate(model="dummy", tasks="quiz@mcqa~6", limit=40, progress=False, use_cache=False)
    [comparison] = results.comparisons
    [entry] = comparison.populations
    page = open_page(write_report([results], tmp_path / "r.html").as_uri())
    text = page.locator("#wordings").inner_text()
    population, (low, high) = entry.population, entry.population.mean.interval
    below, above = population.predicted.interval
    assert f"{population.mean.value:.3f} ± {population.observed_deviation:.3f}" in text
    assert f"interval of the mean {low:.3f} to {high:.3f}" in text
    assert f"another wording would score {below:.3f} to {above:.3f}" in text
    assert page.locator("#wordings .dots").first.locator(".tick").count() == population.wordings
    assert "effects of the axes" in text


def test_runs_are_compared_as_the_command_compares_them(
    open_page: Callable[..., Any], results: Results, tmp_path: Path
) -> None:
    tasks = "quiz@mcqa+cloze+hybrid"
    first, second = (
        evaluate(model="dummy", model_args={"seed": seed}, tasks=tasks, limit=60, progress=False) for seed in (0, 1)
    )
    page = open_page(write_report([first, second], tmp_path / "r.html").as_uri())
    panel = page.locator("#differences .between")
    assert "run 2 − run 1" in panel.locator("h3").first.text_content()
    for change in compare_runs(first, second):
        row = panel.locator(f"[data-row='{change.name}']")
        low, high = change.simultaneous
        tip = row.locator(".point").get_attribute("title").replace("−", "-").replace("+", "")
        assert tip.endswith(f": {change.difference.value:.3f} ({low:.3f} to {high:.3f})".replace("+", ""))
        assert change.p_simultaneous is not None
        shown = row.locator(".dot-numbers .soft").text_content().strip()
        assert shown == f"p={change.p_simultaneous:.2f}" or change.p_simultaneous < 0.1


def test_every_word_that_is_not_plain_is_explained(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url)
    titles = set(page.locator("abbr.term").evaluate_all("nodes => nodes.map((node) => node.title)"))
    assert len(titles) > 8
    page.get_by_text("What the words and marks mean").click()
    listed = page.locator(".glossary dd").all_inner_texts()
    assert titles <= set(listed)
    assert all(words.endswith(".") and ". " not in words.rstrip(".") for words in listed)


def test_scores_are_those_of_the_run(open_page: Callable[..., Any], url: str, results: Results) -> None:
    page = open_page(url)
    table = page.locator("#scores table tbody tr").all_inner_texts()
    for form, line in zip(results.forms, table, strict=True):
        estimate = form.estimates[form.primary]
        assert line.split()[:2] == [form.name, form.primary.partition(",")[0]]
        assert f"{estimate.value:.4f}" in line
        assert f"{estimate.low:.4f} to {estimate.high:.4f}" in line


def test_filters_leave_the_documents_that_they_name(open_page: Callable[..., Any], url: str, results: Results) -> None:
    page = open_page(url + "#tab=samples")
    expect_shown(page, 60)
    page.get_by_role("button", name="any form wrong").click()
    expect_shown(page, len(wrong(results)))
    page.locator("select[aria-label=form]").select_option(label="quiz@mcqa")
    expect_shown(page, len(wrong(results, "quiz@mcqa")))
    page.get_by_role("button", name="any form wrong").click()
    page.locator("select[aria-label=form]").select_option(label="all forms")
    page.get_by_role("button", name="differs between forms").click()
    judged = [form for form in results.forms if form.format_label != "bpb"]
    right = [{sample.doc_id for sample in form.samples} - wrong(results, form.name) for form in judged]
    some = {doc for docs in right for doc in docs if not all(doc in others for others in right)}
    expect_shown(page, len(some))
    page.get_by_role("button", name="differs between forms").click()
    page.get_by_role("button", name="not extracted").click()
    unread = {
        sample.doc_id
        for form in results.forms
        for sample in form.samples
        if isinstance(sample.outputs[0], Completion) and is_unread(sample)
    }
    expect_shown(page, len(unread))


def test_search_finds_words_of_prompts_and_completions(
    open_page: Callable[..., Any], url: str, results: Results
) -> None:
    page = open_page(url + "#tab=samples")
    page.keyboard.press("/")
    page.keyboard.type("wide and bright")
    expected = sum("wide and bright" in sample.sample.prompt for sample in results.forms[0].samples)
    expect_shown(page, expected)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    assert "wide and bright" in page.locator(".detail pre.text").last.inner_text()
    assert page.locator(".list .item mark").first.inner_text() == "wide and bright"
    assert page.locator(".detail mark").all_inner_texts() == ["wide and bright"]


def test_marks_of_all_kinds_are_aligned(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url + "#tab=samples")
    widths = {sign: page.locator(".list .mark", has_text=sign).first.bounding_box()["width"] for sign in "✓✗?·"}
    assert len(set(widths.values())) == 1


def test_two_forms_are_shown_side_by_side_with_their_differences(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url + DEEP)
    assert page.locator(".columns.two > div").count() == 2
    assert page.locator(".columns.two h3").all_inner_texts()[0].startswith("quiz@mcqa")
    marked = page.locator(".columns.two > div").nth(1).locator("mark").all_inner_texts()
    assert any("best answer is" in text for text in marked)
    assert "rings" not in " ".join(marked)


def test_a_link_to_a_sample_survives_reloading(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url)
    page.keyboard.press("j")
    page.keyboard.press("j")
    _expect(page.locator(".detail .tools b")).to_have_text("quiz 1")
    link = page.url
    assert "sample=quiz%2F1" in link
    page.reload()
    _expect(page.locator(".detail .tools b")).to_have_text("quiz 1")
    page.keyboard.press("k")
    _expect(page.locator(".detail .tools b")).to_have_text("quiz 0")


@pytest.fixture
def document(open_page: Callable[..., Any], url: str, results: Results) -> tuple[Any, ScoredSample]:
    """The page on a document under the first form, and its sample."""
    sample = next(sample for sample in results.forms[0].samples if sample.doc_id == 7)
    return open_page(url + "#sample=quiz%2F7&form=0%3Aquiz%40mcqa"), sample


def test_choices_show_their_log_likelihoods_gold_and_picked(document: tuple[Any, ScoredSample]) -> None:
    page, sample = document
    page.wait_for_selector(".choice")
    values = page.locator(".choice .value").all_inner_texts()
    assert values == [f"{output.loglikelihood:.3f}".replace("-", "−") for output in sample.outputs]  # type: ignore[union-attr]
    picked = [choice.get_attribute("data-picked") is not None for choice in page.locator(".choice").all()]
    gold = [choice.get_attribute("data-gold") is not None for choice in page.locator(".choice").all()]
    assert (picked.index(True), gold.index(True)) == (sample.prediction, sample.gold)
    assert (sum(picked), sum(gold)) == (1, 1)


def test_few_shot_examples_are_folded_and_the_prompt_is_exact(document: tuple[Any, ScoredSample]) -> None:
    page, sample = document
    page.wait_for_selector("details.shots")
    assert page.locator(".detail pre.text").count() == 1
    page.locator("details.shots summary").click()
    _expect(page.locator(".detail pre.text")).to_have_count(2)
    texts = [node.evaluate("node => node.textContent") for node in page.locator(".detail pre.text").all()]
    assert "".join(texts) == sample.sample.prompt
    assert texts[1].startswith("Question: Which planet is famous")


def test_whitespace_is_shown_on_demand(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url + "#sample=quiz%2F7&form=0%3Aquiz%40mcqa")
    page.wait_for_selector(".detail pre.text")
    assert "↵" not in page.locator(".detail pre.text").last.inner_text()
    page.keyboard.press("w")
    page.wait_for_selector(".detail .white")
    assert "Question:·Which·planet" in page.locator(".detail pre.text").last.inner_text()


def test_the_help_opens_with_a_question_mark(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url)
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1440])
def test_the_page_fits_a_phone_and_a_wide_screen(
    open_page: Callable[..., Any], url: str, width: int, dark: bool
) -> None:
    page = open_page(url + DEEP, width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, background[4:-1].split(","))) < 60) == dark
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != background


def test_what_a_model_writes_is_shown_as_text(open_page: Callable[..., Any], hostile: Results, tmp_path: Path) -> None:
    page = open_page(
        write_report([hostile], tmp_path / "report.html").as_uri() + "#sample=odd%2F0&form=0%3Aodd%40generate"
    )
    page.wait_for_selector(".detail pre.text")
    assert page.evaluate("window.hacked") is None
    completion = page.locator(".detail p.completion + pre.text")
    assert "</script><script>window.hacked = 1</script>" in completion.inner_text()
    assert {"␛", "U+202E", "U+2028"} <= set(completion.locator(".control").all_inner_texts())
    assert page.locator("main img, main b:text('bold')").count() == 0
    assert len(completion.evaluate("node => node.textContent")) < 30_000
    completion.get_by_role("button").click()
    assert len(completion.evaluate("node => node.textContent")) > 1_000_000


def test_runs_of_two_models_are_compared(open_page: Callable[..., Any], results: Results, tmp_path: Path) -> None:
    other = evaluate(model="dummy", model_args={"seed": 1}, tasks="quiz@mcqa", num_fewshot=2, limit=60, progress=False)
    page = open_page(write_report([results, other], tmp_path / "report.html").as_uri())
    assert "Between runs" in page.locator("#differences").text_content()
    page.keyboard.press("j")
    page.wait_for_selector(".detail .tools select")
    options = page.locator(".detail .tools select").first.locator("option").all_inner_texts()
    assert sum(option.startswith("quiz@mcqa") for option in options) == 2


def report_with(results: Results, doc_ids: set[int], folder: Path, **changes: Any) -> str:
    """The report on the one form of results, with the outputs of some of its documents changed."""
    (form,) = results.forms
    samples = [
        replace(sample, outputs=tuple(replace(output, **changes) for output in sample.outputs))
        if sample.doc_id in doc_ids
        else sample
        for sample in form.samples
    ]
    changed = replace(results, forms=[replace(form, samples=samples)])
    return write_report([changed], folder / "r.html").as_uri() + "#tab=samples"


def show_first_truncated(page: Any, shown: str) -> None:
    """List the truncated documents alone, as many as `shown` says, and open the first of them."""
    page.get_by_role("button", name="truncated").click()
    _expect(page.locator(".status [aria-live]")).to_have_text(shown)
    page.keyboard.press("j")


def test_completions_that_were_cut_off_can_be_filtered(open_page: Callable[..., Any], tmp_path: Path) -> None:
    results = evaluate(model="dummy", tasks="quiz@generate", limit=6, progress=False)
    page = open_page(report_with(results, {2, 4}, tmp_path, truncated=True))
    show_first_truncated(page, "2 of 6 documents")
    _expect(page.locator(".detail .tag.none").last).to_have_text("cut off at the token limit")


@pytest.fixture(scope="module")
def variations(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report on ten variations of a format, whose names are long and hold commas."""
    results = evaluate(model="dummy", tasks="quiz@mcqa~10", limit=20, progress=False, use_cache=False)
    return write_report([results], tmp_path_factory.mktemp("variations") / "report.html").as_uri()


def test_charts_number_variations_and_a_legend_has_their_names(open_page: Callable[..., Any], variations: str) -> None:
    page = open_page(variations)
    numbered = [f"mcqa [{number}]" for number in range(1, 11)]
    names = page.locator(".plot .dot-row:not(.axis-row) .dot-name").all_text_contents()
    assert sorted(names) == sorted(["mcqa", *numbered])
    assert page.locator(".legend tbody th").all_inner_texts() == numbered
    assert all(name.startswith("mcqa[") for name in page.locator(".legend td.name").all_inner_texts())
    pairs = page.locator("#pairs .dot-row:not(.axis-row) .dot-name").all_text_contents()
    assert len(set(pairs)) == len(pairs)


def test_the_legend_says_what_each_variation_changes(open_page: Callable[..., Any], variations: str) -> None:
    page = open_page(variations)
    _, *axes, _ = (text.split("\n") for text in page.locator(".legend thead th").all_inner_texts())
    assert ["labels", "kind of labels"] in axes
    for row in page.locator(".legend tbody tr").all():
        *values, name = row.locator("td").all_inner_texts()
        assert len(values) == len(axes)
        chosen = {axis: value for (axis, _), value in zip(axes, values, strict=True) if value != "·"}
        assert chosen == dict(Variation.parse(name).choices)


def test_long_names_fit_a_phone(open_page: Callable[..., Any], variations: str) -> None:
    page = open_page(variations, width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_link_to_a_variation_survives_reloading(open_page: Callable[..., Any], variations: str) -> None:
    page = open_page(variations)
    page.keyboard.press("j")
    page.locator("select[aria-label='form on the left']").select_option(index=4)
    page.locator("select[aria-label='compare with']").select_option(index=8)
    _expect(page.locator(".columns.two h3")).to_have_count(2)
    shown = page.locator(".columns.two h3").all_inner_texts()
    page.reload()
    _expect(page.locator(".columns.two h3")).to_have_text(shown)


def test_every_variation_has_a_cell_in_the_matrix(open_page: Callable[..., Any], tmp_path: Path) -> None:
    results = evaluate(model="dummy", tasks="quiz@mcqa~18", limit=4, progress=False, use_cache=False)
    page = open_page(write_report([results], tmp_path / "report.html").as_uri())
    assert page.locator(".list .item:not(.heads)").first.locator(".mark").count() == 19


def test_the_variance_of_scores_is_split(open_page: Callable[..., Any], url: str, results: Results) -> None:
    comparison = compared(results, "ranked")
    assert comparison.variance is not None
    words = [f"{name} {100 * share:.1f} %" for name, share in comparison.variance.shares.items()]
    assert ", ".join(words) in open_page(url).locator(".variance").first.inner_text()


def test_where_a_budgeted_run_stopped_is_noted(open_page: Callable[..., Any], tmp_path: Path) -> None:
    results = evaluate(model="dummy", tasks="quiz@mcqa+hybrid", budget=30, progress=False, use_cache=False)
    notes = open_page(write_report([results], tmp_path / "report.html").as_uri()).locator(".notes").inner_text()
    assert "quiz@hybrid: 15 documents, the budget is spent" in notes
    assert "With probability 0.95 or more" in notes


def test_failed_documents_are_noted(open_page: Callable[..., Any], tmp_path: Path, results: Results) -> None:
    failed = FailedDoc(sample=results.forms[0].samples[3].sample, reason="the server is down")
    forms = [replace(results.forms[0], failed=[failed]), *results.forms[1:]]
    partial = replace(results, forms=forms, status="stopped")
    notes = open_page(write_report([partial], tmp_path / "report.html").as_uri()).locator(".notes").inner_text()
    assert "Partial: the run was stopped, 360 of 360 documents are scored" in notes
    assert "1 of 61 documents failed and are left out (doc 3: the server is down)" in notes


def test_a_partial_run_says_how_much_is_missing(open_page: Callable[..., Any], tmp_path: Path) -> None:
    """A model that fails in the second of three forms."""

    @register_model("failing_dummy")
    class FailingDummy(DummyModel):
        """Ranks choices, and cannot generate."""

        def generate(self, requests: Any) -> Any:
            raise ModelError("no memory is left")

    tasks = "quiz@mcqa+generate+cot"
    with pytest.raises(MultiformError):
        evaluate(model="failing_dummy", tasks=tasks, limit=8, progress=False, use_cache=False, output_path=tmp_path)
    page = open_page(write_report([read_results(tmp_path)], tmp_path / "r.html").as_uri())
    assert page.locator(".attention p").first.inner_text() == (
        "Partial: the run failed, 8 of 24 documents are scored; 2 of 3 forms are missing: quiz@generate, quiz@cot"
    )


def test_a_run_without_scores_has_a_page(open_page: Callable[..., Any], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    evaluate(model="dummy", tasks="quiz@mcqa", limit=4, predict_only=True, progress=False, output_path=folder)
    page = open_page(write_report([read_results(folder)], tmp_path / "report.html").as_uri())
    assert "No scores." in page.locator("#first").inner_text()


def test_scores_that_differ_by_rounding_alone_have_a_chart(
    open_page: Callable[..., Any], tmp_path: Path, results: Results
) -> None:
    form = results.forms[0]
    estimate = replace(form.estimates[form.primary], value=0.1, low=0.1, high=0.1 + 2e-17)
    odd = replace(results, forms=[replace(form, estimates={form.primary: estimate})], comparisons=[])
    page = open_page(write_report([odd], tmp_path / "report.html").as_uri())
    assert page.locator(".plot .score").all_text_contents() == ["0.100"]


def test_scores_between_wrong_and_right_are_shown_as_numbers(
    open_page: Callable[..., Any], tmp_path: Path, results: Results
) -> None:
    form = results.forms[0]
    samples = [replace(sample, values={**sample.values, "acc": 0.25}) for sample in form.samples]
    graded = replace(results, forms=[replace(form, samples=samples)], comparisons=[])
    page = open_page(write_report([graded], tmp_path / "report.html").as_uri())
    page.keyboard.press("j")
    assert page.locator(".detail .tag").first.inner_text() == "acc 0.250"


def shown(locator: Any) -> str:
    return str(locator.inner_text())


@pytest.fixture(scope="module")
def two_runs(results: Results, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Results]:
    """The report on two runs whose names differ by their dates and numbers alone, and the second of them."""
    settings: dict[str, Any] = {"num_fewshot": 2, "limit": 60, "progress": False, "use_cache": False}
    other = evaluate(model="dummy", model_args={"seed": 1}, tasks="quiz@mcqa+generate", **settings)
    path = tmp_path_factory.mktemp("two") / "report.html"
    return write_report([results, other], path).as_uri(), other


def test_runs_with_long_names_are_numbered_and_the_page_says_which_they_are(
    open_page: Callable[..., Any], two_runs: tuple[str, Results]
) -> None:
    page = open_page(two_runs[0])
    about = page.locator(".about li").all_inner_texts()
    assert [line.split(" · ")[0] for line in about] == ["run 1 dummy", "run 2 dummy seed=1"]
    assert page.locator(".plot h2").all_inner_texts() == ["Scores of run 1", "Scores of run 2"]
    assert not any("…" in text for text in page.locator("#differences .dot-name").all_text_contents())


def test_documents_that_changed_between_runs_can_be_filtered(
    open_page: Callable[..., Any], results: Results, two_runs: tuple[str, Results]
) -> None:
    url, other = two_runs
    changed = {doc for name in ("quiz@mcqa", "quiz@generate") for doc in wrong(results, name) ^ wrong(other, name)}
    page = open_page(url + "#tab=samples")
    page.get_by_role("button", name="differs between runs").click()
    expect_shown(page, len(changed))


def test_forms_of_two_runs_are_not_taken_for_different_forms(
    open_page: Callable[..., Any], results: Results, tmp_path: Path
) -> None:
    """A document that one run got right and the other wrong does not differ between the forms of either."""
    form = results.forms[0]
    flipped = [replace(s, values={**s.values, "acc": 1 - s.values["acc"]}) for s in form.samples]
    runs = [
        replace(results, forms=[form], comparisons=[]),
        replace(results, forms=[replace(form, samples=flipped)], comparisons=[]),
    ]
    page = open_page(write_report(runs, tmp_path / "report.html").as_uri() + "#tab=samples")
    assert page.get_by_role("button", name="differs between forms").count() == 0
    page.get_by_role("button", name="differs between runs").click()
    expect_shown(page, 60)


def test_a_score_of_which_less_is_better_is_neither_right_nor_wrong(
    open_page: Callable[..., Any], results: Results, tmp_path: Path
) -> None:
    """Such a form has no verdict that could differ from that of others."""
    first, second = results.forms[0], results.forms[1]
    wrong_everywhere = [replace(s, values={**s.values, "acc": 0.0}) for s in first.samples]
    errors = replace(second, higher_is_better={"acc": False})
    mixed = replace(results, forms=[replace(first, samples=wrong_everywhere), errors], comparisons=[])
    page = open_page(write_report([mixed], tmp_path / "report.html").as_uri() + "#tab=samples")
    page.get_by_role("button", name="differs between forms").click()
    expect_shown(page, 0)


def test_prompts_that_were_cut_off_are_said_to_be(open_page: Callable[..., Any], tmp_path: Path) -> None:
    results = evaluate(model="dummy", tasks="quiz@mcqa", limit=4, progress=False, use_cache=False)
    page = open_page(report_with(results, {2}, tmp_path, context_truncated=True))
    show_first_truncated(page, "1 of 4 documents")
    _expect(page.locator(".detail .tag.none").last).to_contain_text("the beginning of the prompt was cut off")


def test_the_list_shows_where_documents_differ(open_page: Callable[..., Any], variations: str, url: str) -> None:
    """And not the instruction that all prompts of the first form begin with."""
    page = open_page(variations)
    heads = page.locator(".list .head").all_inner_texts()
    assert len(set(heads)) == len(heads)
    assert "Choose the correct answer" not in heads[0]


def test_the_marks_of_the_list_are_explained(open_page: Callable[..., Any], url: str) -> None:
    key = shown(open_page(url + "#tab=samples").locator(".key"))
    assert "? not extracted" in key
    assert "failed" not in key


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_shows_the_scores_without_scrolling_sideways(
    open_page: Callable[..., Any], url: str, results: Results, dark: bool
) -> None:
    page = open_page(url, width=390, dark=dark)
    first = page.locator("#first .dot-row .score").first
    box = first.bounding_box()
    best = max(form.estimates[form.primary].value for form in results.forms if form.format_label != "bpb")
    assert f"{best:.3f}" in str(first.text_content())
    assert box["x"] + box["width"] <= 390
    assert page.locator("header.top").bounding_box()["height"] < 90


def test_differing_words_of_long_prompts_are_marked(open_page: Callable[..., Any], tmp_path: Path) -> None:
    """Also where all of their words are too many to be aligned."""
    rows = [{"question": f"Is {n} even?", "choices": ["yes", "no"], "answer": n % 2} for n in range(4)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    fields = "dataset_path: rows.jsonl\ntest_split: test\ndoc_to_text: question\ndoc_to_choice: choices\n"
    long = " ".join(f"word{n}" for n in range(4000))
    (tmp_path / "long.yaml").write_text(f"task: long\n{fields}doc_to_target: answer\ndescription: {long}\n")
    tasks = f"{tmp_path}/long.yaml@mcqa+generate"
    results = evaluate(model="dummy", tasks=tasks, num_fewshot=0, progress=False, use_cache=False)
    link = "#sample=long%2F1&form=0%3Along%40mcqa,0%3Along%40generate"
    page = open_page(write_report([results], tmp_path / "report.html").as_uri() + link)
    marked = page.locator(".columns.two > div").nth(1).locator("mark").all_inner_texts()
    assert any("best answer is" in text for text in marked)
    assert not any("even?" in text for text in marked)


def test_the_first_screen_answers(open_page: Callable[..., Any], url: str, results: Results) -> None:
    """What is the score, and is it noise: without a click."""
    page = open_page(url)
    values = [form.estimates[form.primary].value for form in results.forms if form.format_label != "bpb"]
    line = page.locator(".answer-line")
    assert f"scores {min(values):.2f} to {max(values):.2f} on quiz, depending on the form" in line.inner_text()
    assert page.locator("[data-fact=verdict] b").inner_text() in ("no", "may be")
    assert "finding: p " in page.locator("[data-fact=verdict]").inner_text()
    for selector in (".answer-line", ".facts", ".dots >> nth=0", ".cells"):
        box = page.locator(selector).bounding_box()
        assert box["y"] + box["height"] <= 900


def test_scores_are_sorted_and_coloured_by_what_is_scored(
    open_page: Callable[..., Any], url: str, results: Results
) -> None:
    page = open_page(url)
    rows = page.locator(".plot .dots").first.locator(".dot-row:not(.axis-row)")
    scores = [float(text) for text in rows.locator(".score").all_inner_texts()]
    assert scores == sorted(scores, reverse=True)
    colour = "points => points.map((point) => getComputedStyle(point).backgroundColor)"
    colours = dict(
        zip(rows.locator(".dot-name").all_inner_texts(), rows.locator(".point").evaluate_all(colour), strict=True)
    )
    assert colours["mcqa"] == colours["cloze"] != colours["generate"] == colours["cot"]
    box, tail = (rows.locator(part).first.bounding_box() for part in (".dot-track", ".tail"))
    [share] = [
        sum(is_unread(sample) for sample in form.samples) / len(form.samples)
        for form in results.forms
        if form.format_label == rows.filter(has=page.locator(".tail")).first.locator(".dot-name").inner_text()
    ]
    assert tail["width"] == pytest.approx(box["width"] * share, abs=2)


def test_a_single_form_has_its_score_with_interval_and_chance_level(
    open_page: Callable[..., Any], tmp_path: Path
) -> None:
    results = evaluate(model="dummy", tasks="quiz@mcqa", limit=20, progress=False, use_cache=False)
    score = results.forms[0].score
    page = open_page(write_report([results], tmp_path / "r.html").as_uri())
    line = page.locator(".answer-line").inner_text()
    assert line == f"dummy scores {score.value:.3f} ({score.low:.3f} to {score.high:.3f}) on quiz"
    assert page.locator(".facts b").all_inner_texts() == ["20", "1", "0.250"]
    assert page.locator("[data-fact='chance level'] dt").inner_text() == "chance level"


def test_what_a_form_picked_opens_the_question_under_that_form(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url + "#filter=wrong%20in%20all")
    assert page.locator(".questions li").count() == 5
    chip = page.locator(".questions li").nth(1).locator(".chip", has_text="hybrid")
    mark = chip.inner_text()[0]
    chip.click()
    page.wait_for_selector(".detail .columns")
    assert page.locator(".detail h3").inner_text().split()[0] == "quiz@hybrid"
    row = page.locator(".list .item[aria-selected=true]")  # the filter, which has no such document, is gone
    assert row.locator("[role=gridcell]").nth(3).inner_text()[0] == mark


def test_the_notes_of_the_terminal_on_extraction_are_on_the_first_screen(
    open_page: Callable[..., Any], tmp_path: Path
) -> None:
    results = evaluate(model="dummy", tasks="quiz@generate+cot", limit=30, progress=False, use_cache=False)
    notes = [note for note in form_notes(results) if "lenient" in note]
    assert notes
    page = open_page(write_report([results], tmp_path / "r.html").as_uri())
    shown = page.locator(".attention").evaluate("strip => strip.textContent")
    assert all(note in shown for note in notes)


def right_documents(results: Results, name: str) -> set[int]:
    form = next(form for form in results.forms if form.name == name)
    return {sample.doc_id for sample in form.samples} - wrong(results, name)


def test_a_cell_of_the_flip_matrix_opens_exactly_those_documents(
    open_page: Callable[..., Any], url: str, results: Results
) -> None:
    """Which questions does cloze get right and mcqa wrong: one click."""
    expected = right_documents(results, "quiz@cloze") & wrong(results, "quiz@mcqa")
    page = open_page(url)
    page.get_by_role("button", name="right in cloze and wrong in mcqa").click()
    expect_shown(page, len(expected))
    listed = page.locator(".list .doc").all_text_contents()
    assert listed == [f"quiz {doc}" for doc in sorted(expected)][: len(listed)]
    assert [form.split()[0] for form in page.locator(".detail h3").all_inner_texts()] == ["quiz@cloze", "quiz@mcqa"]
    page.keyboard.press("j")
    page.wait_for_function(f"document.querySelector('.detail b').textContent === 'quiz {sorted(expected)[1]}'")
    assert page.locator(".detail h3").count() == 2  # the next document is under both forms, too
    page.reload()  # the filter is in the address
    expect_shown(page, len(expected))


def test_the_page_says_of_the_forms_what_the_terminal_says(
    open_page: Callable[..., Any], url: str, results: Results
) -> None:
    """Ranked choices and generated answers have a bar each; each part opens the documents that it counts."""
    page = open_page(url)
    assert page.locator("[data-right]").count() == 2
    for scoring in ("ranked", "generated"):
        comparison = compared(results, scoring)
        shares = comparison.rightness
        assert shares is not None
        shown = page.locator(f"[data-right='quiz ({scoring})']")
        rate = shown.locator("[data-flip-rate]")
        assert float(rate.get_attribute("data-flip-rate")) == pytest.approx(shares.flip_rate.value)
        assert f"two forms differ on {float(rate.inner_text()[:-2]) / 100:.3f} of the documents" in results.table()
        for kind, share in (("all", shares.under_all), ("some", shares.under_some), ("no", shares.under_none)):
            page.locator("#tab-overview").click()
            assert shown.locator(f".part.{kind}").count() == bool(share.value)
            if share.value:
                shown.locator(f".part.{kind}").dispatch_event("click")
                expect_shown(page, round(60 * share.value))


def test_cells_and_bars_of_several_tasks_open_the_documents_that_they_count(
    open_page: Callable[..., Any], tmp_path: Path
) -> None:
    """One of the tasks has a form that the other has not."""
    for name in ("first", "second"):
        rows = [{"question": f"{name} {n}?", "choices": ["x", "y"], "answer": n % 2} for n in range(30)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (tmp_path / f"{name}.yaml").write_text(
            f"task: {name}\ndataset_path: {name}.jsonl\ntest_split: test\n"
            "doc_to_text: question\ndoc_to_choice: choices\ndoc_to_target: answer\n"
        )
    tasks = [f"{tmp_path}/first.yaml@mcqa+cloze", f"{tmp_path}/second.yaml@mcqa+cloze+hybrid"]
    results = evaluate(model="dummy", tasks=tasks, progress=False, use_cache=False)
    page = open_page(write_report([results], tmp_path / "report.html").as_uri())
    cell = page.get_by_role("button", name="right in mcqa and wrong in cloze")
    counts = {cell: int(cell.inner_text())}
    assert counts[cell] == sum(
        len(right_documents(results, f"{task}@mcqa") & wrong(results, f"{task}@cloze")) for task in ("first", "second")
    )
    for comparison in results.comparisons:
        if comparison.rightness is not None:
            part = page.locator(f"[data-right={comparison.name}] .part.some")
            counts[part] = round(30 * comparison.rightness.under_some.value)
    assert len(counts) == 3
    for button, number in counts.items():
        page.locator("#tab-overview").click()
        button.click()
        expect_shown(page, number)


def test_a_form_has_the_same_name_among_scores_and_samples(open_page: Callable[..., Any], tmp_path: Path) -> None:
    results = evaluate(model="dummy", tasks="quiz", limit=4, progress=False, use_cache=False)
    page = open_page(write_report([results], tmp_path / "report.html").as_uri())
    assert page.locator(".dot-name").first.inner_text() == "mcqa"
    page.locator(".point").click()
    assert page.get_by_label("filter", exact=True).input_value() == "wrong in mcqa"


def test_why_an_answer_was_not_extracted_takes_two_clicks(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url)
    page.locator(".dots .tail").first.click()
    page.locator(".list .doc").first.click()
    page.wait_for_selector(".detail .answer")
    assert "no answer could be extracted" in page.locator(".detail").inner_text()
    assert page.locator(".detail .step").count()


def test_where_a_checkpoint_got_worse_takes_one_click(
    open_page: Callable[..., Any], results: Results, two_runs: tuple[str, Results]
) -> None:
    url, other = two_runs
    lost = right_documents(results, "quiz@mcqa") & wrong(other, "quiz@mcqa")
    page = open_page(url)
    assert "run 2" in page.locator(".answer-line").inner_text()
    page.get_by_role("button", name=f"quiz@mcqa: {len(lost)} documents lost").click()
    expect_shown(page, len(lost))


def test_a_filter_that_cannot_be_read_says_why(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url + "#tab=samples")
    page.get_by_label("filter", exact=True).fill("wrong in nothing")
    _expect(page.locator("#filter-problem")).to_contain_text('there is no form "nothing"; there are mcqa, cloze')
    expect_shown(page, 60)


def test_a_search_without_hits_closes_the_open_document(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url + DEEP)
    page.wait_for_selector(".detail pre.text")
    page.get_by_label("search").fill("no question has these words")
    expect_shown(page, 0)
    assert not page.locator(".detail").is_visible()


def test_no_panel_of_many_tasks_is_left_out(open_page: Callable[..., Any], tmp_path: Path) -> None:
    base = evaluate(model="dummy", tasks="quiz@mcqa+cloze", limit=4, progress=False, use_cache=False)
    forms = [replace(form, name=f"t{n}@{form.format_label}", task=f"t{n}") for n in range(50) for form in base.forms]
    many = replace(base, forms=forms, comparisons=compare_forms(forms))
    page = open_page(write_report([many], tmp_path / "r.html").as_uri() + "#tab=differences")
    assert page.locator("#pairs .folded > details").count() == 12
    page.get_by_text("38 more", exact=True).click()
    others = page.locator("#pairs .across > details")
    assert others.count() == 38
    others.last.click()
    _expect(page.locator("#pairs .dots")).to_have_count(1)


def axis_ends(chart: Any) -> tuple[str, str]:
    numbers = chart.locator(".axis-row .dot-track span").all_text_contents()
    return numbers[0], numbers[-1]


def test_differences_of_one_metric_have_one_axis(open_page: Callable[..., Any], url: str) -> None:
    """And not one that is stretched to what each panel happens to hold."""
    page = open_page(url + "#tab=differences")
    ends = {axis_ends(chart) for chart in page.locator("#pairs > .grid .dots").all()}
    assert len(page.locator("#pairs > .grid .dots").all()) > 1
    assert len(ends) == 1
    [(low, high)] = ends
    assert low == high.replace("0", "−0", 1)


def test_intervals_of_differences_hold_at_once_as_their_p_values_do(
    open_page: Callable[..., Any], url: str, results: Results
) -> None:
    page = open_page(url + "#tab=differences")
    rows = page.locator("#pairs > .grid .panel", has_text="ranked choices").locator(".dot-row:not(.axis-row)")
    tips = rows.locator(".point").evaluate_all("points => points.map((point) => point.title)")
    notes = rows.locator(".dot-numbers .soft").all_inner_texts()
    pairs = compared(results, "ranked").differences
    assert len(tips) == len(pairs) == 3
    for pair in pairs:
        low, high = sorted(abs(bound) for bound in pair.simultaneous.interval)
        [at] = [at for at, tip in enumerate(tips) if f"{low:.3f}" in tip and f"{high:.3f}" in tip]
        assert notes[at].strip() == p_words(pair.p_simultaneous).replace(" ", "")


def test_scores_of_a_single_document_are_drawn_on_the_whole_range(
    open_page: Callable[..., Any], tmp_path: Path
) -> None:
    results = evaluate(model="dummy", tasks="quiz@mcqa", limit=1, progress=False, use_cache=False)
    page = open_page(write_report([results], tmp_path / "r.html").as_uri())
    assert axis_ends(page.locator(".plot .dots")) == ("0.0", "1.0")
    assert "1 documents" not in page.locator("body").inner_text()


def test_a_question_that_flips_opens_by_a_click(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url)
    question = page.locator(".questions .question").first
    words = question.inner_text()
    question.click()
    page.wait_for_selector(".detail .columns")
    assert page.locator(".list .item[aria-selected=true] .head").inner_text() == words


def test_every_chart_has_a_text_that_says_what_it_shows(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url)
    charts = page.locator(".dots, main svg")
    labels = [chart.get_attribute("aria-label") for chart in charts.all()]
    assert len(labels) > 5
    assert all(any(character.isdigit() for character in label or "") for label in labels)


def test_the_detectable_difference_is_the_one_that_the_terminal_says(
    open_page: Callable[..., Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "r.html"
    arguments = ["--model", "dummy", "--tasks", "quiz@all", "--limit", "40", "--report", str(report)]
    assert main(["run", *arguments]) == 0
    shown = open_page(report.as_uri()).locator("[data-fact=detectable] b").inner_text()
    assert f"that the run can detect: {shown} (n=40)" in capfd.readouterr().err


def test_a_phone_shows_the_answers_of_two_forms_beside_the_question(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url + "#tab=samples", width=390)
    marks = page.locator(".list .item:not(.heads)").first.locator(".mark")
    assert all(marks.nth(number).bounding_box()["x"] < 370 for number in (0, 1))


def test_a_flip_matrix_fits_a_phone(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url, width=390)
    assert page.locator(".cells").bounding_box()["width"] <= page.locator(".panel.cost").bounding_box()["width"]


def test_a_large_flip_matrix_is_readable_on_a_phone(open_page: Callable[..., Any], tmp_path: Path) -> None:
    """It scrolls by itself beside the names of its rows; the page does not."""
    many = evaluate(model="dummy", tasks="quiz@mcqa~16", limit=20, progress=False, use_cache=False)
    page = open_page(write_report([many], tmp_path / "r.html").as_uri(), width=390)
    cells = page.locator(".cells tbody tr").first.locator("td")
    assert min(cells.evaluate_all("cells => cells.map((cell) => cell.getBoundingClientRect().width)")) >= 24
    page.locator(".wide:has(.cells)").evaluate("node => node.scrollTo(500, 0)")
    name, cell = (page.locator(f".cells tbody tr >> nth=1 >> {part}").bounding_box() for part in ("th", "td >> nth=16"))
    assert 0 <= name["x"] < name["x"] + name["width"] <= cell["x"] + 1 < 390
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_chat_template_that_is_not_used_is_said_first(
    open_page: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DummyModel, "chat_template_text", lambda self: "{{ messages }}")
    evaluate(model="dummy", tasks="quiz@mcqa", limit=4, progress=False, use_cache=False, output_path=tmp_path / "run")
    page = open_page(write_report([read_results(tmp_path / "run")], tmp_path / "r.html").as_uri())
    assert (
        "it has a chat template, and the prompts are written without it"
        in page.locator(".attention p").first.inner_text()
    )


def test_two_runs_say_first_whether_they_differ_and_on_how_many_documents(
    open_page: Callable[..., Any], tmp_path: Path
) -> None:
    """Did the new checkpoint get worse, and is it noise: without a click."""
    first, second = (
        evaluate(model="dummy", model_args={"seed": seed}, tasks="quiz@mcqa", limit=60, progress=False)
        for seed in (0, 1)
    )
    [change] = compare_runs(first, second)
    page = open_page(write_report([first, second], tmp_path / "r.html").as_uri())
    assert "run 2 is not shown to differ from run 1 on quiz@mcqa" in page.locator(".answer-line").inner_text()
    facts = page.locator(".facts b").all_inner_texts()
    assert facts == ["60", str(len(change.lowered)), str(len(change.raised)), "may be"]


def test_forms_without_others_on_their_documents_have_no_row_among_the_flips(
    open_page: Callable[..., Any], tmp_path: Path
) -> None:
    base = evaluate(model="dummy", tasks="quiz@mcqa+cloze+generate", limit=20, progress=False, use_cache=False)
    alone = replace(base.forms[2], name="other@generate", task="other")
    mixed = replace(base, forms=[*base.forms[:2], alone], comparisons=compare_forms([*base.forms[:2], alone]))
    page = open_page(write_report([mixed], tmp_path / "r.html").as_uri())
    assert page.locator(".cells thead th").all_inner_texts() == ["mcqa", "cloze"]


def test_the_probability_of_a_text_is_no_ranked_choice(open_page: Callable[..., Any], tmp_path: Path) -> None:
    scored = evaluate(model="dummy", tasks="quiz@bpb", limit=4, progress=False, use_cache=False)
    page = open_page(write_report([scored], tmp_path / "r.html").as_uri())
    assert page.locator(".plot .legend-line").inner_text() == "log-likelihoods"
    page.get_by_role("tab", name="Samples").click()
    assert page.locator(".key").inner_text().split("\n") == ["· neither right nor wrong"]


def test_more_than_two_runs_say_which_are_compared_and_how_they_were_run(
    open_page: Callable[..., Any], tmp_path: Path
) -> None:
    about: dict[str, Any] = {"tasks": "quiz@mcqa+cloze", "limit": 20, "progress": False, "use_cache": False}
    runs = [evaluate(model="dummy", num_fewshot=shots, **about) for shots in (0, 1, 2)]
    page = open_page(write_report(runs, tmp_path / "r.html").as_uri())
    sentence = page.locator(".answer-line").inner_text()
    assert sentence.startswith("3 runs against each other: ")
    assert "of 6 comparisons show a loss" in sentence
    assert re.search(r"on quiz@\w+, run \d − run \d$", page.locator("[data-fact='worst change'] span").inner_text())
    shots = ["1-shot" in line or "2-shot" in line for line in page.locator(".about li").all_inner_texts()]
    assert shots == [False, True, True]


def test_tasks_of_one_form_each_have_no_matrix_of_forms(open_page: Callable[..., Any], tmp_path: Path) -> None:
    tasks = ["quiz@mcqa", "quiz_problems@cot"]
    results = evaluate(model="dummy", tasks=tasks, limit=8, progress=False, use_cache=False)
    page = open_page(write_report([results], tmp_path / "r.html").as_uri())
    _expect(page.locator(".panel").first).to_be_visible()
    assert page.locator(".cells").count() == 0


@pytest.mark.parametrize("template", ["question", "{{question|trim}}", "Read: {{question}}"])
def test_a_question_is_named_without_its_choices_and_examples(
    open_page: Callable[..., Any], tmp_path: Path, template: str
) -> None:
    rows = [{"question": f"What is {n}?\n\nSay it.", "choices": ["x", "y"], "answer": n % 2} for n in range(8)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "own.yaml").write_text(
        f"task: own\ndataset_path: rows.jsonl\ntest_split: test\ndoc_to_text: '{template}'\n"
        "doc_to_choice: choices\ndoc_to_target: answer\n"
    )
    results = evaluate(model="dummy", tasks=f"{tmp_path}/own.yaml@mcqa", num_fewshot=1, progress=False, use_cache=False)
    page = open_page(write_report([results], tmp_path / "r.html").as_uri() + "#tab=samples")
    heads = page.locator(".list .head").all_inner_texts()
    questions = [sample.doc["question"] for sample in results.forms[0].samples]
    assert heads == [" ".join(question.split()) for question in questions]


def test_the_forms_of_a_single_group_are_rows_and_its_tasks_open_below_them(
    open_page: Callable[..., Any], subjects: Results, tmp_path: Path
) -> None:
    page = open_page(write_report([subjects], tmp_path / "report.html").as_uri())
    names = page.locator(".plot .dot-row:not(.axis-row) .dot-name")
    assert sorted(names.all_inner_texts()[:2]) == ["cloze", "mcqa"]
    assert names.all_inner_texts()[2] == "▾ 16 tasks of exam"
    assert sorted(names.all_inner_texts()[3:]) == list("abcdefghijklmnop")  # without the name of the group
    assert page.locator(".dot-row[data-row=exam_a] .point").count() == 2
    box = page.locator(".questions").bounding_box()
    assert box["y"] < 900  # many rows scroll in their panel
    page.get_by_role("button", name="16 tasks of exam").click()
    assert names.all_inner_texts()[2:] == ["▸ 16 tasks of exam"]


def test_findings_among_many_tasks_are_corrected(
    open_page: Callable[..., Any], subjects: Results, tmp_path: Path
) -> None:
    page = open_page(write_report([subjects], tmp_path / "report.html").as_uri() + "#tab=diagnostics")
    lines = page.locator("#verdicts .verdict").all_text_contents()
    spreads = {c.name: c.spread for c in subjects.comparisons}
    smallest = min(spread.p for name, spread in spreads.items() if name != "exam" and spread is not None)
    assert "exam:" in lines[0]
    assert "after correction" not in lines[0]
    assert "after correction for 16 comparisons" in lines[1]
    assert lines[1].startswith("finding") == (16 * smallest < 0.05)
    # The group is open, and the tasks of which nothing can be told are shown on request.
    assert len(lines) == 17
    assert page.locator("#verdicts .verdict:visible").count() == 1
    assert page.locator("#verdicts summary").inner_text() == "16 more, without a finding"

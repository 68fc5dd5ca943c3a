"""The tab of samples: its state in the address, sorting, search, copies and exports."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from multiform import Results, evaluate
from multiform.report import write_report
from multiform.report.sample import pick
from multiform.requests import Completion
from multiform.results.compare import compare_forms
from multiform.results.extraction import is_unread
from multiform.statistics.estimates import mean_estimate

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def url(results: Results, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_report([results], tmp_path_factory.mktemp("samples") / "report.html").as_uri() + "#tab=samples"


def listed(page: Any) -> list[str]:
    return [str(text) for text in page.locator(".list .doc").all_text_contents()]


def verdicts(results: Results, name: str) -> dict[str, bool]:
    """Whether each document is right under a form."""
    form = next(form for form in results.forms if form.name == name)
    return {f"quiz {s.doc_id}": s.values.get("acc", s.values.get("exact_match")) == 1 for s in form.samples}


def test_filter_search_order_form_and_view_are_in_the_address(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url)
    page.get_by_label("filter", exact=True).fill("length > 10")
    page.get_by_label("search").fill("the")
    page.locator("[data-filter=wrong]").click()
    page.get_by_label("form", exact=True).select_option(label="quiz@mcqa")
    page.locator("[data-order=document] button").click()
    page.locator(".list .doc").first.click()
    page.keyboard.press("r")
    page.wait_for_selector(".detail .rendered")
    page.wait_for_function("location.hash.includes('view=rendered')")
    count, before, link = page.locator(".status [aria-live]").inner_text(), listed(page), page.url
    assert not count.startswith("60 ")
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector(".detail .rendered")
    page.get_by_text(count, exact=True).wait_for()
    assert listed(page) == before
    assert page.get_by_label("filter", exact=True).input_value() == "length > 10"
    assert page.get_by_label("search").input_value() == "the"
    assert page.locator("[data-filter=wrong]").get_attribute("aria-pressed") == "true"
    assert page.get_by_label("form", exact=True).locator("option:checked").inner_text() == "quiz@mcqa"
    assert page.locator("[data-order=document]").get_attribute("aria-sort") == "descending"


def test_heads_sort_the_documents_and_stay_in_sight(open_page: Callable[..., Any], url: str, results: Results) -> None:
    page = open_page(url)
    page.get_by_role("columnheader", name="cloze").get_by_role("button").click()
    is_right = verdicts(results, "quiz@cloze")
    shown = [is_right[name] for name in listed(page)]
    assert shown == sorted(shown)  # wrong first
    doc = int(listed(page)[0].split()[1])
    picks = [pick(next(s for s in form.samples if s.doc_id == doc)) for form in results.forms]
    assert page.locator(".list .item:not(.heads)").first.locator(".pick").all_inner_texts() == picks
    head = page.get_by_role("columnheader", name="cloze")
    before = head.bounding_box()
    page.locator(".list").evaluate("list => list.scrollTo(0, 900)")
    page.locator("#row-0").wait_for(state="detached")
    assert head.bounding_box() == before
    assert head.is_visible()


def test_wrong_in_one_form_is_not_wrong_in_any(open_page: Callable[..., Any], url: str, results: Results) -> None:
    page = open_page(url)
    wrong = [name for name, is_right in verdicts(results, "quiz@cloze").items() if not is_right]
    page.get_by_label("filter", exact=True).fill("wrong in cloze")
    page.get_by_text(f"{len(wrong)} of 60 documents").wait_for()
    assert listed(page) == wrong[: len(listed(page))]
    page.get_by_label("filter", exact=True).fill("wrong in all")
    everywhere = [
        name
        for name in wrong
        if not any(verdicts(results, form.name)[name] for form in results.forms if form.format_label != "bpb")
    ]
    # Bits per byte are neither right nor wrong, so that no document is wrong in all forms.
    page.get_by_text("0 of 60 documents").wait_for()
    forms = [form.format_label for form in results.forms if form.format_label != "bpb"]
    page.get_by_label("filter", exact=True).fill(" and ".join(f"wrong in {form}" for form in forms))
    page.get_by_text(f"{len(everywhere)} of 60 documents").wait_for()


def test_filters_have_words_for_what_can_be_said_of_a_sample(
    open_page: Callable[..., Any], url: str, results: Results
) -> None:
    page = open_page(url)
    [generated] = [form for form in results.forms if form.format_label == "generate"]
    unread = sum(is_unread(sample) for sample in generated.samples)
    right_and_wrong = sum(
        is_right and not verdicts(results, "quiz@mcqa")[name]
        for name, is_right in verdicts(results, "quiz@cloze").items()
    )
    lengths = {sample.doc_id: len(sample.sample.prompt) for sample in generated.samples}
    bound = sorted(lengths.values())[30]
    numbers = {
        "not extracted in generate": unread,
        "truncated": 0,
        "failed or doc 7": 1,
        "subject quiz": 60,
        "wrong in mcqa and right in cloze": right_and_wrong,
        f"length >= {bound} in generate": sum(length >= bound for length in lengths.values()),
        "score = 1 in cloze": sum(verdicts(results, "quiz@cloze").values()),
    }
    for text, number in numbers.items():
        page.get_by_label("filter", exact=True).fill(text)
        page.wait_for_function(
            "words => document.querySelector('.status [aria-live]').textContent === words",
            arg=f"{number} of 60 documents",
        )
        assert page.locator("#filter-problem").inner_text() == ""


def test_the_listed_documents_are_exported_with_the_answers_of_each_form(
    open_page: Callable[..., Any], url: str, results: Results
) -> None:
    page = open_page(url)
    page.get_by_label("filter", exact=True).fill("wrong in cloze")
    wrong = [name for name, is_right in verdicts(results, "quiz@cloze").items() if not is_right]
    page.get_by_text(f"{len(wrong)} of 60 documents").wait_for()
    files = {}
    for kind in ("CSV", "JSON"):
        with page.expect_download() as download:
            page.get_by_role("button", name=kind).click()
        files[kind] = Path(download.value.path()).read_text(encoding="utf-8")
    rows = json.loads(files["JSON"])
    assert [f"quiz {row['doc']}" for row in rows] == wrong
    assert {row["cloze score"] for row in rows} == {0}
    table = list(csv.DictReader(files["CSV"].splitlines()))
    assert [row["mcqa answer"] for row in table] == [row["mcqa answer"] for row in rows]


def test_prompts_and_links_are_copied(open_page: Callable[..., Any], url: str, results: Results) -> None:
    page = open_page(url.partition("#")[0] + "#sample=quiz%2F7&form=0%3Aquiz%40mcqa")
    page.wait_for_selector(".detail .copy")
    page.evaluate("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    page.get_by_role("button", name="copy the prompt").click()
    [sample] = [sample for sample in results.forms[0].samples if sample.doc_id == 7]
    assert page.evaluate("window.copied") == sample.sample.prompt
    page.get_by_role("button", name="copy link to this document").click()
    assert page.evaluate("window.copied") == page.url


def test_exact_text_keeps_joined_emoji_whole_and_names_hidden_characters(
    open_page: Callable[..., Any], tmp_path: Path
) -> None:
    results = evaluate(model="dummy", tasks="quiz@generate", limit=1, progress=False, use_cache=False)
    [form] = results.forms
    family = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
    outputs = (Completion(f"{family} a\u200db"),)
    changed = replace(form, samples=[replace(sample, outputs=outputs) for sample in form.samples])
    url = write_report([replace(results, forms=[changed])], tmp_path / "r.html").as_uri()
    page = open_page(url + "#sample=quiz%2F0")
    page.wait_for_selector(".detail p.completion")
    assert page.locator(".detail p.completion + pre.text").inner_text() == f"{family} aU+200Db"


def test_one_document_is_not_called_documents(open_page: Callable[..., Any], tmp_path: Path) -> None:
    results = evaluate(model="dummy", tasks="quiz@mcqa+generate", limit=1, progress=False, use_cache=False)
    page = open_page(write_report([results], tmp_path / "r.html").as_uri())
    assert page.locator("[data-fact=document] dt").inner_text() == "document"
    page.keyboard.press("j")
    page.wait_for_selector(".detail .columns")
    labels = "[...body.querySelectorAll('*')].map((node) => `${node.title} ${node.ariaLabel}`).join(' ')"
    texts = page.locator("main").evaluate(f"body => body.textContent + {labels}")
    assert "1 of 1 document" in texts
    assert "1 documents" not in texts


def test_a_tiny_p_value_is_not_zero(open_page: Callable[..., Any], tmp_path: Path) -> None:
    """A model that is always right under one form, and never under the other."""
    base = evaluate(model="dummy", tasks="quiz@mcqa+cloze", limit=60, progress=False, use_cache=False)
    forms = [
        replace(
            form,
            samples=[replace(sample, values={"acc": value}) for sample in form.samples],
            estimates={"acc,none": mean_estimate([value] * 60)},
        )
        for form, value in zip(base.forms, (1.0, 0.0), strict=True)
    ]
    changed = replace(base, forms=forms, comparisons=compare_forms(forms))
    page = open_page(write_report([changed], tmp_path / "r.html").as_uri())
    texts = page.locator("#report").evaluate("report => report.textContent")
    assert "p < 0.001" in texts
    assert "p<0.001" in texts
    for zero in ("p = 0.000", "p=0.000", "p = 0 ", "p=0 "):
        assert zero not in texts


def test_columns_are_as_wide_as_what_they_hold(open_page: Callable[..., Any], url: str) -> None:
    """So that questions get the room; heads stand above their columns."""
    page = open_page(url)
    row = page.locator(".list .item:not(.heads)").first
    left = "nodes => nodes.map((node) => Math.round(node.getBoundingClientRect().left))"
    width = "node => node.getBoundingClientRect().width"
    assert row.locator("> *").evaluate_all(left) == page.locator(".list .heads > *").evaluate_all(left)
    doc, question, letters, texts = (row.locator("> *").nth(index).evaluate(width) for index in range(4))
    assert doc < 140 < question
    assert letters < texts


def test_a_wide_screen_shows_more_forms(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url, width=1920)
    assert page.locator(".list").evaluate("node => node.clientWidth") > 1750
    assert page.evaluate("document.documentElement.scrollWidth") <= 1920


def test_on_a_phone_an_opened_document_comes_into_sight(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url, width=390)
    page.locator(".list .doc").first.click()
    page.wait_for_selector(".detail h3")
    assert page.locator(".detail h3").evaluate("node => node.getBoundingClientRect().top") < 400


@pytest.mark.parametrize("width", [390, 1440])
def test_the_number_of_a_document_stays_in_sight(open_page: Callable[..., Any], tmp_path: Path, width: int) -> None:
    """Beside a task with a long name."""
    base = evaluate(model="dummy", tasks="quiz@mcqa", limit=3, progress=False, use_cache=False)
    names = ("quiz_of_a_very_long_name_indeed", "another_quiz")
    forms = [replace(base.forms[0], name=f"{name}@mcqa", task=name) for name in names]
    page = open_page(write_report([replace(base, forms=forms)], tmp_path / "r.html").as_uri(), width=width)
    page.get_by_role("tab", name="Samples").click()
    cut = """cells => cells.filter((cell) => {
        const range = document.createRange();
        range.selectNode(cell.lastChild);
        return range.getBoundingClientRect().right > cell.getBoundingClientRect().right;
    }).length"""
    assert page.locator(".list .doc").evaluate_all(cut) == 0
    assert page.locator(".list .doc").first.text_content().endswith(" 0")


def test_the_list_is_no_higher_than_its_documents(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url)
    height = "node => node.getBoundingClientRect().height"
    full = page.locator(".list").evaluate(height)
    page.get_by_label("filter").fill("doc 3 or doc 4 or doc 5 or doc 6")
    page.get_by_text("4 of 60 documents").wait_for()
    assert 5 * 34 <= page.locator(".list").evaluate(height) <= 6 * 34 < full

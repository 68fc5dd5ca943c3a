"""The pages for readers without a mouse or good eyes: axe-core, keyboard, print, and all widths."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from multiform import Results, evaluate
from multiform.report import write_report

pytestmark = pytest.mark.process

AXE = Path(__file__).parents[2] / "tools" / "page" / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = (
    "",
    "#sample=quiz%2F7&form=0%3Aquiz%40mcqa,0%3Aquiz%40generate",
    "#sample=quiz%2F7&form=0%3Aquiz%40mcqa&view=rendered",
    "#tab=differences",
    "#tab=diagnostics",
    "#tab=provenance",
)


@pytest.fixture(scope="module")
def url(results: Results, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_report([results], tmp_path_factory.mktemp("report") / "report.html").as_uri()


def violations(page: Any) -> list[str]:
    if not AXE.is_file():
        pytest.skip("axe-core is missing: make page installs it")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    return [f"{entry['id']}: {entry['nodes'][0]['html'][:200]}" for entry in found]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing(open_page: Callable[..., Any], url: str, view: str, dark: bool) -> None:
    page = open_page(url + view, dark=dark)
    if "sample=" in view:
        page.wait_for_selector(".detail .columns")
    assert violations(page) == []


@pytest.mark.parametrize("width", [390, 768, 1024, 1440, 1920])
@pytest.mark.parametrize("view", ["", "#sample=quiz%2F7&form=0%3Aquiz%40mcqa&view=rendered"])
def test_no_width_needs_scrolling_sideways(open_page: Callable[..., Any], url: str, view: str, width: int) -> None:
    page = open_page(url + view, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def focus_on(page: Any, selector: str, most: int = 60) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(most):
        if page.evaluate("(selector) => document.activeElement?.matches(selector)", selector):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach {selector}")


def test_a_document_is_found_opened_and_closed_by_the_keyboard_alone(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url)
    focus_on(page, "#tab-overview")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-samples"
    focus_on(page, "[data-filter=differs]")
    page.keyboard.press("Enter")
    assert page.locator("[data-filter=differs]").get_attribute("aria-pressed") == "true"
    focus_on(page, ".list")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector(".detail .columns")
    active = page.locator(".list").get_attribute("aria-activedescendant")
    assert page.locator(f"#{active}").get_attribute("aria-selected") == "true"
    focus_on(page, ".detail [aria-pressed]")
    page.keyboard.press("Enter")
    page.wait_for_selector(".detail .rendered")
    assert page.evaluate("document.activeElement.textContent") == "rendered"  # the focus stays
    focus_on(page, ".detail .close")
    page.keyboard.press("Enter")
    assert not page.locator(".detail").is_visible()
    assert page.evaluate("document.activeElement.className") == "list"


def test_groups_open_into_subjects_by_the_keyboard(open_page: Callable[..., Any], tmp_path: Path) -> None:
    rows = [{"question": f"Is {n} even?", "choices": ["yes", "no"], "answer": n % 2} for n in range(8)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    fields = "dataset_path: rows.jsonl\ntest_split: test\ndoc_to_text: question\ndoc_to_choice: choices\n"
    for name in ("one", "two", "other"):
        (tmp_path / f"{name}.yaml").write_text(f"task: {name}\n{fields}doc_to_target: answer\n")
    (tmp_path / "pair.yaml").write_text(
        "group: pair\ntask: [one, two]\naggregate_metric_list:\n  - metric: acc\n    weight_by_size: true\n"
    )
    tasks = ["pair@mcqa+cloze", "other@mcqa+cloze"]
    results = evaluate(model="dummy", tasks=tasks, include_path=str(tmp_path), limit=8, progress=False)
    page = open_page(write_report([results], tmp_path / "r.html").as_uri())
    assert page.locator(".dot-row[data-row=one]").count() == 0
    focus_on(page, "[data-row=pair] [aria-expanded]")
    page.keyboard.press("Enter")
    assert page.locator(".dot-row[data-row=one] .point").count() == 2
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"


def test_print_has_all_tabs_but_the_samples(open_page: Callable[..., Any], url: str) -> None:
    page = open_page(url)
    page.emulate_media(media="print")
    shown = [name for name in ("overview", "samples", "differences", "diagnostics", "provenance")
             if page.locator(f"#{name}").is_visible()]  # fmt: skip
    assert shown == ["overview", "differences", "diagnostics", "provenance"]
    document = page.pdf(format="A4")
    assert document.startswith(b"%PDF")
    assert 1 < len(re.findall(rb"/Type\s*/Page\b", document)) < 12
    split = "rows => rows.filter((row) => getComputedStyle(row).breakInside !== 'avoid').length"
    assert page.locator(".panel, tr").evaluate_all(split) == 0

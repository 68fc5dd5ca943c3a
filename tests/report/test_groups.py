"""Runs of a group with many tasks: the group comes first, and nothing is left out in silence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from multiform import Results
from multiform.cli.main import main
from multiform.report import write_report
from multiform.results.compare import position_bias_of_form
from multiform.results.pivot import p_words
from tests.report.conftest import evaluate_group, serve
from tests.report.test_accessibility import violations

pytestmark = pytest.mark.process

LONG = "exam_high_school_government_and_politics"


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Results]]:
    """The folder of two runs of a group, and both."""
    folder = tmp_path_factory.mktemp("exam")
    arguments: list[dict[str, Any]] = [
        {"model_args": {"seed": seed}, "output_path": folder / f"run{seed}", "log_samples": True} for seed in (0, 1)
    ]
    return folder, [evaluate_group(folder, **settings) for settings in arguments]


@pytest.fixture
def page(open_page: Callable[..., Any], two_runs: tuple[Path, list[Results]], tmp_path: Path) -> Any:
    return open_page(write_report(two_runs[1], tmp_path / "report.html").as_uri())


def test_the_group_is_the_answer_and_the_first_row_of_two_runs(page: Any) -> None:
    assert "on exam@" in page.locator(".answer-line").inner_text()
    names = page.locator("[data-change]").evaluate_all("rows => rows.map((row) => row.dataset.change)")
    assert sorted(names[:2]) == ["exam@cloze", "exam@mcqa"]
    assert len(names) == 34
    page.get_by_role("tab", name="Differences").click()
    rows = page.locator(".between .dot-row:not(.axis-row)").evaluate_all("rows => rows.map((row) => row.dataset.row)")
    assert sorted(rows[:2]) == ["exam@cloze", "exam@mcqa"]


def test_a_range_of_forms_is_not_called_an_interval(
    open_page: Callable[..., Any], two_runs: tuple[Path, list[Results]], tmp_path: Path
) -> None:
    page = open_page(write_report(two_runs[1][:1], tmp_path / "report.html").as_uri())
    row = page.locator(".plot [data-row=exam_a]")
    assert row.locator(".point").count() == 2
    assert row.locator(".dot-numbers .soft").inner_text().strip() == "2 forms, n=20"


def test_the_picture_has_the_rows_that_the_page_shows(
    open_page: Callable[..., Any], two_runs: tuple[Path, list[Results]], tmp_path: Path
) -> None:
    page = open_page(write_report(two_runs[1][:1], tmp_path / "report.html").as_uri())

    def height() -> int:
        with page.expect_download() as download:
            page.get_by_role("button", name="PNG").click()
        return int.from_bytes(Path(download.value.path()).read_bytes()[20:24])

    opened = height()
    page.get_by_text("16 tasks of exam").click()
    assert opened - height() == 2 * 26 * 16  # pixels of the rows, at double resolution


def test_names_are_not_cut_beside_their_scores(
    open_page: Callable[..., Any], two_runs: tuple[Path, list[Results]], tmp_path: Path
) -> None:
    """Columns of charts are as wide as their names, and names in tables break between their words."""
    long = [
        replace(run, forms=[replace(f, name=f.name.replace("exam_a@", f"{LONG}@"), task=f.task.replace("exam_a", LONG))
                            if f.task == "exam_a" else f for f in run.forms])
        for run in two_runs[1]
    ]  # fmt: skip
    page = open_page(write_report(long, tmp_path / "report.html").as_uri())
    names = page.locator(".plot .dot-name").evaluate_all(
        "all => all.map((node) => node.scrollWidth - node.clientWidth)"
    )
    assert max(names) <= 0
    assert page.locator(f"[data-change='{LONG}@mcqa'] wbr").count() > 3


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("number", [1, 2])
def test_axe_finds_nothing_on_a_group(
    open_page: Callable[..., Any], two_runs: tuple[Path, list[Results]], tmp_path: Path, number: int, dark: bool
) -> None:
    page = open_page(write_report(two_runs[1][:number], tmp_path / "report.html").as_uri(), dark=dark)
    assert violations(page) == []


def test_a_group_fits_all_widths_and_prints_on_few_pages(page: Any) -> None:
    for width in (390, 768, 1440, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not page.get_by_text("What best minus worst would be on average").is_visible()
    assert 1 < len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))) < 10
    assert page.get_by_text("What best minus worst would be on average").is_visible()  # the page was opened for print
    assert page.locator("#scores table").is_visible()


def test_a_chart_that_shows_the_largest_differences_alone_says_so(page: Any) -> None:
    page.get_by_role("tab", name="Differences").click()
    assert page.locator(".between h3").nth(1).inner_text() == "accuracy: 28 of 34 differences, the largest"
    assert page.locator(".between .dot-row:not(.axis-row)").count() == 28


def test_the_page_and_the_command_have_the_same_p_values(
    page: Any, two_runs: tuple[Path, list[Results]], capfd: pytest.CaptureFixture[str]
) -> None:
    folder, _ = two_runs
    main(["compare", str(folder / "run0"), str(folder / "run1"), "--json"])
    compared = json.loads(capfd.readouterr().out)
    expected = {entry["name"]: entry["p_simultaneous"] for entry in [*compared["groups"], *compared["forms"]]}
    assert len(expected) == 34
    texts = "rows => rows.map((row) => [row.dataset.change, row.cells[5].innerText])"
    cells = page.locator("[data-change]").evaluate_all(texts)
    assert {name: p_words(p).removeprefix("p ").removeprefix("= ") for name, p in expected.items()} == dict(cells)


def test_every_form_has_its_position_bias(page: Any, two_runs: tuple[Path, list[Results]]) -> None:
    page.get_by_role("tab", name="Diagnostics").click()
    shown = [form for run in two_runs[1] for form in run.forms if position_bias_of_form(form) is not None]
    assert len(shown) == 64
    assert page.locator("#bias .folded > details").count() == 12
    assert page.locator("#bias .across > details").count() == 52
    page.get_by_text("52 more", exact=True).click()
    page.locator("#bias .across > details summary").last.click()
    page.locator("#bias svg").first.wait_for()


def test_notes_of_both_runs_are_said_once(open_page: Callable[..., Any], tmp_path: Path) -> None:
    runs = [evaluate_group(tmp_path, model_args={"seed": seed}, limit=4) for seed in (0, 1)]
    page = open_page(write_report(runs, tmp_path / "report.html").as_uri())
    [note] = page.locator(".attention p").all_inner_texts()
    assert note.startswith("limit: the first 4 of 20 documents")


def test_the_viewer_lists_the_scores_of_a_group_with_the_settings_of_the_run(
    open_page: Callable[..., Any], two_runs: tuple[Path, list[Results]], tmp_path: Path
) -> None:
    evaluate_group(tmp_path, output_path=tmp_path / "out", limit=4, num_fewshot=0)
    with serve(tmp_path / "out") as viewer:
        page = open_page(viewer.url)
        page.wait_for_selector("#runs table")
        heads = page.locator("#runs th.number").all_inner_texts()
        assert sorted(head.split()[0] for head in heads) == ["exam@cloze", "exam@mcqa"]
        assert page.locator("#runs .args").inner_text() == "limit 4"
        assert "32 forms" in page.locator("#runs tbody").inner_text()

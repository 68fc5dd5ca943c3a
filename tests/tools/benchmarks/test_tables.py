"""The tables of docs/engine.md and docs/scale.md: the pages have a place for each, and figures of a run fill it."""

from __future__ import annotations

from typing import Any

import pytest

from tools import ROOT
from tools.benchmarks.tables import ARCHITECTURES, PAGES, WORKLOADS, Figures, replace_tables


def row(measure: str, case: str, ours: float, theirs: float | None = None) -> dict[str, Any]:
    ratio = None if theirs is None else theirs / ours
    return {"measure": measure, "case": case, "ours": ours, "theirs": theirs, "ratio": ratio}


@pytest.fixture
def figures() -> Figures:
    rows = [row("whole run", "texts, 5-shot, 60 docs", 14.0, 199.0)]
    for name in WORKLOADS:
        case = f"{name}, 200 docs"
        rows += [row("tokens read / tree", case, 1.0049), row("tokens read", case, 100, 128)]
        rows += [
            row("tokens written", case, 10, 31),
            row("CPU time", case, 10.0, 81.2),
            row("peak memory", case, 1e3, 2e3),
        ]
    rows += [row("CPU time", f"{name}, 5-shot texts, 16 docs", 10.0, 136.0) for name in ARCHITECTURES]
    rows += [
        row("tokens read / tree", "12 scored forms, 12 docs", 1.02),
        row("tokens read", "12 scored forms, 12 docs", 2, 3),
    ]
    rows += [
        row("CPU time", "12 scored forms, 12 docs", 1.0, 2.1),
        row("tokens read / tree", "12 scored forms, 150 docs", 1.0),
    ]
    for name in ("first run with a model", "later run"):
        rows += [
            row("start-up", f"{name}, to its first forward pass", 3.34, 2.6),
            row("start-up", "  of it trial", 0.25),
        ]
    for case in ("dummy, 1,000 requests", "dummy, 1,000,000 requests", "tiny, 1,000 requests"):
        rows += [
            row("peak memory of a run", case, 1234.5),
            row("before the first response", case, 0.51),
            row("a run", case, 12.3),
        ]
    return Figures({"docs": [30, 200], "rows": rows})


def test_every_table_of_the_pages_is_replaced(figures: Figures) -> None:
    pages = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in PAGES}
    page = "".join(replace_tables(text, figures, PAGES[name]) for name, text in pages.items())
    for line in (
        "| labels scored, 0-shot | 1.005 | 1.28 | 8.1 | 1,000 against 2,000 |",
        "| generation, 5-shot, stop at a blank line | 1.005 | 1.28 in prefill, 3.1 in decode | 8.1 "
        "| 1,000 against 2,000 |",
        "| 12 scored forms, 12 docs | 1.020 | 1.50 | 2.1 |",
        "| 12 scored forms, 150 docs | 1.000 |  |  |",
        f"| CPU time: lm-eval / Multiform |{' 13.6 |' * 8}",
        "| in all | 2.60 | 3.34 (1.28 times) | 3.34 (1.28 times) |",
        "| trial |  | 0.25 | 0.25 |",
        "| 1,000 | 1,234 MB | 0.5 s | 12 s | 1,234 MB | 0.5 s | 12 s |",
        "| 1,000,000 | 1,234 MB | 0.5 s | 12 s | not run | not run | not run |",
    ):
        assert line in page.splitlines()
    assert "14 s of CPU against lm-eval's 199, 14 times less." in " ".join(page.split())
    assert replace_tables(page, figures, [name for names in PAGES.values() for name in names]) == page


def test_a_missing_figure_is_named(figures: Figures) -> None:
    figures.rows = [each for each in figures.rows if each["measure"] != "peak memory"]
    with pytest.raises(SystemExit, match="no row 'peak memory', 'labels, 0-shot, 200 docs'"):
        replace_tables((ROOT / "docs" / "engine.md").read_text(encoding="utf-8"), figures, ["scoring"])

"""Every benchmark of the library has a page, which `make benchmark-pages` writes."""

from __future__ import annotations

from multiform import TaskManager
from multiform.tasks.folders import LIBRARY
from tests.conftest import ROOT

PAGES = ROOT / "docs" / "benchmarks"


def test_every_benchmark_has_a_page_and_a_line_in_the_index():
    index = (PAGES / "README.md").read_text(encoding="utf-8")
    entries = TaskManager().index.entries.values()
    tasks = [entry for entry in entries if entry.folder == LIBRARY and entry.family is None and "title" in entry.about]
    names = [entry.name for entry in tasks if not {"bundled", "suite"} & set(entry.tags)]
    missing = [name for name in names if not (PAGES / f"{name}.md").is_file() or f"({name}.md)" not in index]
    assert missing == [], "run 'make benchmark-pages'"

"""Every benchmark of the library has a page, which `make benchmark-pages` writes."""

from __future__ import annotations

import csv

import pytest

from multiform import TaskManager
from multiform.tasks.folders import LIBRARY
from tests.conftest import ROOT

PAGES = ROOT / "docs" / "benchmarks"
COVERAGE = ROOT / "tools" / "scripts" / "coverage.tsv"
PEERS = ROOT.parent / "shared" / "peers" / "benchmarks.tsv"


def test_every_benchmark_has_a_page_and_a_line_in_the_index():
    index = (PAGES / "README.md").read_text(encoding="utf-8")
    entries = TaskManager().index.entries.values()
    tasks = [entry for entry in entries if entry.folder == LIBRARY and entry.family is None and "title" in entry.about]
    names = [entry.name for entry in tasks if not {"bundled", "suite"} & set(entry.tags)]
    missing = [name for name in names if not (PAGES / f"{name}.md").is_file() or f"({name}.md)" not in index]
    assert missing == [], "run 'make benchmark-pages'"


def rows_of_coverage() -> list[dict[str, str]]:
    with COVERAGE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_every_reported_benchmark_is_a_task_of_the_library_or_has_a_reason():
    manager = TaskManager()
    for row in rows_of_coverage():
        names = [name for name in row["tasks"].split(", ") if name]
        assert names or row["remark"], row["benchmark"]
        assert manager.load(names) if names else True


def test_every_reported_benchmark_is_in_the_index():
    index = (PAGES / "README.md").read_text(encoding="utf-8")
    missing = [
        row["benchmark"] for row in rows_of_coverage() if f"\n| {row['benchmark']} | {row['tier']} |" not in index
    ]
    assert missing == [], "run 'make benchmark-pages'"


def test_only_benchmarks_with_agents_are_missing_of_tier_a():
    missing = [row["remark"] for row in rows_of_coverage() if row["tier"] == "A" and not row["tasks"]]
    assert {*missing} == {"an agent, tools or a container for each problem"}


@pytest.mark.skipif(not PEERS.is_file(), reason="the list of benchmarks of other harnesses is not there")
def test_every_benchmark_of_the_peers_is_accounted_for():
    with PEERS.open(encoding="utf-8", newline="") as file:
        peers = [line.split("\t")[:2] for line in list(file)[2:]]
    assert [[row["benchmark"], row["tier"]] for row in rows_of_coverage()] == peers

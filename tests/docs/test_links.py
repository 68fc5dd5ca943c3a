"""Links between the pages lead to a file that exists, and to a heading that it has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [pytest.param(page, id=page.relative_to(ROOT).as_posix()) for page in PAGES])
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        name, _, anchor = target.partition("#")
        if name.startswith("http"):
            continue
        file = (page.parent / name) if name else page
        if not file.exists() or (anchor and anchor not in headings(file)):
            broken.append(target)
    assert broken == []


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("nav:")[2]
    pages = [page for page in PAGES if "docs" in page.parts and page.parent.name != "benchmarks"]
    assert [page.name for page in pages if page.name not in navigation] == []


#: Pages that tools write.
WRITTEN = {"architectures.md", "lint-lm-eval.md", "spec-coverage.md"}
PROSE = [page for page in PAGES if page.parent.name != "benchmarks" and page.name not in WRITTEN]


@pytest.mark.parametrize("page", [pytest.param(page, id=page.relative_to(ROOT).as_posix()) for page in PROSE])
def test_lines_of_prose_have_at_most_120_characters(page: Path) -> None:
    """Tables, code and pictures aside."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    lines = [line for line in prose.splitlines() if not line.startswith(("|", "    ", "![", "<"))]
    assert [line for line in lines if len(line) > 120] == []


def test_the_code_that_security_names_exists() -> None:
    named = re.findall(r"`((?:multiform|tests)/[\w/.]+)`", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert len(named) > 15
    assert [name for name in named if not any((ROOT / place / name).exists() for place in ("", "src"))] == []


def test_what_changed_in_the_newest_version_is_read_in_two_minutes() -> None:
    """At 250 words a minute; what only scripts notice is in docs/upgrading.md."""
    newest = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1]
    assert len(newest.split()) <= 500

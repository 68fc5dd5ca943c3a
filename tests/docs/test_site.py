"""The docs site builds without a warning, loads nothing from outside, and its search knows the words of its pages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")
pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": ""}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_every_page_of_docs_is_on_the_site(site: Path) -> None:
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    names = [page.with_name("index.html" if page.stem == "README" else f"{page.stem}.html") for page in pages]
    assert [str(name) for name in names if not (site / name).is_file()] == []


def test_no_page_loads_anything_from_outside(site: Path) -> None:
    loads = re.compile(r'<(?:script|img|iframe)[^>]*\ssrc="(https?:)?//|<link[^>]*rel="stylesheet"[^>]*href="https?:')
    assert [page.name for page in site.rglob("*.html") if loads.search(page.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "word", ["cloze", "interval", "Holm", "wording", "budget", "few-shot", "vLLM", "Ray", "clusters", "lint"]
)
def test_the_search_index_has_a_word(site: Path, word: str) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    assert any(word.lower() in entry["text"].lower() for entry in index["docs"])

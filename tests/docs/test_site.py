"""The docs site builds without a warning, loads nothing from outside, and its search knows the words of its pages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def test_the_gallery_has_a_report_of_the_present_page(site: Path) -> None:
    script = (ROOT / "src/multiform/report/assets/app.js").read_text(encoding="utf-8")
    assert script.strip()[-2000:] in (site / "gallery/quiz.html").read_text(encoding="utf-8")
    assert 'href="gallery/quiz.html"' in (site / "gallery.html").read_text(encoding="utf-8")
    assert not (site / "gallery/quiz").exists()


def test_search_finds_ten_words_in_a_page_opened_as_a_file(site: Path, chromium: Any) -> None:
    page = chromium.new_page()
    page.goto((site / "tour.html").as_uri())
    for word in ("cloze", "interval", "Holm", "wording", "budget", "few-shot", "vLLM", "Ray", "clusters", "lint"):
        page.fill(".md-search__input", "")
        page.click(".md-search__input")
        page.keyboard.type(word)
        results = "[...document.querySelectorAll('.md-search-result__item')].map(item => item.innerText.toLowerCase())"
        page.wait_for_function(f"{results}.some(text => text.includes('{word.lower()}'))", timeout=20_000)
    page.close()


@pytest.mark.parametrize(("width", "share"), [(390, 1), (1440, 8)])
def test_every_page_fits_a_phone_and_some_a_desk(width: int, share: int, site: Path, chromium: Any) -> None:
    """Nothing is wider than the window, and pictures are there. Pages of benchmarks are alike: a few are looked at."""
    pages = [*site.glob("*.html"), *site.glob("guides/*.html"), *site.glob("explain/*.html")]
    pages += [site / "benchmarks" / name for name in ("index.html", "arc.html", "ruler.html")]
    page = chromium.new_page(viewport={"width": width, "height": 900})
    problems = []
    for path in sorted(pages)[::share]:
        page.goto(path.as_uri())
        if page.evaluate("document.documentElement.scrollWidth") != width:
            problems.append(f"{path.name} is too wide")
        if not page.evaluate("[...document.images].every(image => image.naturalWidth > 0)"):
            problems.append(f"{path.name} lacks a picture")
    page.close()
    assert len(pages) > 40
    assert problems == []


def test_the_reference_of_commands_has_every_flag(site: Path) -> None:
    from multiform.run.options import OPTIONS

    text = (site / "commands.html").read_text(encoding="utf-8")
    flags = [option.flag or name for name, option in OPTIONS.items() if option.flag != ""]
    assert [flag for flag in flags if f"--{flag}<" not in text] == []
    assert "<code>N|auto</code>" in text
    assert "DIR/&lt;dataset_path&gt;/" in text


def test_the_reference_of_python_has_every_public_name(site: Path) -> None:
    import multiform

    text = (site / "api.html").read_text(encoding="utf-8")
    assert [name for name in multiform.__all__ if f'href="#multiform.{name}"' not in text] == []
    assert [name for name in multiform.__all__ if f'id="multiform.{name}"' not in text] == []
    assert re.search("<li><code>limit, samples</code>: how many documents", text), "the arguments of evaluate as a list"
    assert re.search("<code>Question: What is the capital of France\\?\nA. Berlin\nB. Paris\nAnswer:", text)


def test_commands_are_shown_as_code(site: Path) -> None:
    """Python-Markdown takes an indented line after a list for a paragraph of the list."""
    texts = {page.name: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    assert [name for name, text in texts.items() if re.search(r"<p>(\$ )?multiform run ", text)] == []

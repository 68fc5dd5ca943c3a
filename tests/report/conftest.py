"""A browser for pages, and the results that they show."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from multiform import Results, evaluate, register_model
from multiform.models.dummy import DummyModel

#: What a model may write: markup, scripts, terminal codes, text that changes direction, a huge line.
HOSTILE = (
    "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"
    "\x1b[31mred\x1b[0m \u202etxet desrever\u202c <b>bold</b> &amp; \u2028 $title " + "long " * 200_000
)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Debian's browser, driven by playwright."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("there is no chromium: make browser installs it")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page, which must write no error to the console and ask for nothing but itself."""
    problems: list[str] = []
    contexts = []

    def open_page(url: str, *, width: int = 1440, dark: bool = False) -> Any:
        scheme = "dark" if dark else "light"
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        host = url.partition("#")[0]
        page.on("request", lambda request: problems.append(request.url) if not _own(request.url, host) else None)
        page.goto(url)
        page.wait_for_selector("html[data-ready=yes]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


def _own(url: str, page: str) -> bool:
    """Whether a request stays within the page: its file, or the server that it came from."""
    if page.startswith("file:"):
        return url.partition("#")[0] == page
    return url.startswith("/".join(page.split("/")[:3]) + "/")


@pytest.fixture(scope="session")
def results() -> Results:
    return evaluate(model="dummy", tasks="quiz@all", num_fewshot=2, limit=60, progress=False, use_cache=False)


@pytest.fixture
def hostile(tmp_path: Path) -> Results:
    """The results of a model and a task that are full of markup and control characters."""

    class Hostile(DummyModel):
        """Writes what should never be taken for a part of the page."""

        def __init__(self) -> None:
            super().__init__(text=HOSTILE)

    register_model("hostile")(Hostile)
    rows = [{"question": f"{HOSTILE[:300]} {n}?", "choices": [HOSTILE[:200], "b"], "answer": 0} for n in range(3)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "odd.yaml").write_text(
        "task: odd\ndataset_path: rows.jsonl\ntest_split: test\n"
        "doc_to_text: question\ndoc_to_choice: choices\ndoc_to_target: answer\n"
    )
    return evaluate(model="hostile", tasks=f"{tmp_path}/odd.yaml@mcqa+generate", progress=False)

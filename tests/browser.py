"""A browser for the tests of pages; a conftest imports its fixtures."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest


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
    assert not problems, problems[:3]


def _own(url: str, page: str) -> bool:
    """Whether a request stays within the page: its file, the server that it came from, or a picture in it."""
    if url.startswith("data:"):
        return True
    if page.startswith("file:"):
        return url.partition("#")[0] == page
    return url.startswith("/".join(page.split("/")[:3]) + "/")

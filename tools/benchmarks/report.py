"""The report and the viewer: how large and how fast the page of a large run is, and what the viewer takes for it."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tools.benchmarks.sides import Setting
from tools.benchmarks.tables import Row, say

FORMS = ("mcqa", "cloze", "hybrid", "generate", "cot", "bpb")
#: What one question holds, and the few prompts that have it as an example.
SOUGHT = " 457?"
#: Milliseconds until the browser has painted anything, and from a click until what it changes is painted.
FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
CLICK_AND_PAINT = """(name) => new Promise((done) => {
  const started = performance.now();
  document.querySelector(name).click();
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - started)));
})"""
TASK = """\
task: large
dataset_path: rows.jsonl
test_split: test
doc_to_text: question
doc_to_choice: choices
doc_to_target: answer
"""


def measure(setting: Setting) -> Iterator[Row]:
    """Write a report of ten thousand documents in six forms, and use it in chromium where there is one."""
    docs = 1_000 if setting.short else 10_000
    case = f"{docs:,} documents in {len(FORMS)} forms"
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        page = _page(Path(folder), docs)
        writing = time.process_time() - started
        size = page.stat().st_size / 1e6
        say(f"{case}: {size:.1f} MB, written in {writing:.0f} s CPU, the run of the dummy model included")
        yield Row(measure="report", case=f"{case}: size", unit="MB", ours=size, needed=10.0)
        for name, seconds, needed in _used(page):
            yield Row(measure="report", case=f"{case}: {name}", unit="s", ours=seconds, needed=needed)
        for name, number, unit, limit in _viewed(Path(folder) / "runs"):
            yield Row(measure="report", case=f"{case}, viewer: {name}", unit=unit, ours=number, needed=limit)


def _viewed(folder: Path) -> Iterator[tuple[str, float, str, float]]:
    """What the viewer takes for the run of a folder, as a process of its own, and what it may take."""
    command = [sys.executable, "-m", "multiform", "view", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as viewer:
        try:
            assert viewer.stdout is not None
            found = re.search(r"127\.0\.0\.1:(\d+)/\?token=(\S+)", viewer.stdout.readline())
            assert found is not None
            port, token = int(found.group(1)), found.group(2)

            def ask(path: str) -> tuple[float, float, bytes]:
                """Seconds until the first byte and until the last, and the response."""
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
                started = time.perf_counter()
                connection.request("GET", f"{path}{'&' if '?' in path else '?'}token={token}")
                response = connection.getresponse()
                first = response.read(1)
                until = time.perf_counter() - started
                body = first + response.read()
                return until, time.perf_counter() - started, body

            [run] = json.loads(ask("/api/runs")[2])["complete"]
            first, last, _ = ask(f"/api/report?runs={run['key']}")
            yield "first byte", first, "s", 0.3
            yield "whole report", last, "s", 30.0
            yield "a block of samples", ask(f"/api/samples?runs={run['key']}&block=150")[1], "s", 0.3
            status = Path(f"/proc/{viewer.pid}/status")
            if status.exists():
                peak = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
                assert peak is not None
                yield "largest memory", int(peak.group(1)) / 1024, "MB", 200.0
        finally:
            viewer.terminate()


def _page(folder: Path, docs: int) -> Path:
    from multiform import evaluate
    from multiform.report import write_report

    words = ["planet", "river", "engine", "poem", "protein", "theorem", "harbour", "signal"]
    with (folder / "rows.jsonl").open("w") as file:
        for number in range(docs):
            text = " ".join(words[(number * 7 + at * (1 + number % 5)) % len(words)] for at in range(60))
            choices = [f"{words[(number + at) % len(words)]} {number}" for at in range(4)]
            file.write(json.dumps({"question": f"{text} {number}?", "choices": choices, "answer": number % 4}) + "\n")
    (folder / "large.yaml").write_text(TASK)
    tasks = f"{folder}/large.yaml@{'+'.join(FORMS)}"
    results = evaluate(model="dummy", tasks=tasks, num_fewshot=2, progress=False, use_cache=False)
    results.save(folder / "runs")
    return write_report([results], folder / "report.html")


def _used(page: Path) -> Iterator[tuple[str, float, float]]:
    """What a browser takes for each step, and what it may take; nothing where there is no browser."""
    browser_path = shutil.which("chromium")
    try:
        from playwright.sync_api import expect, sync_playwright
    except ImportError:
        browser_path = None
    if browser_path is None:
        say("no chromium or no playwright: what a browser takes is not measured (make browser)")
        return
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        tab = browser.new_page()
        started = time.perf_counter()
        tab.goto(page.as_uri(), wait_until="commit")
        tab.wait_for_selector("html[data-ready=yes]", timeout=120_000)
        ready = time.perf_counter() - started
        yield "first paint", tab.evaluate(FIRST_PAINT) / 1000, 0.2
        yield "all sections are there", ready, 5.0
        tab.get_by_role("tab", name="Samples").click()
        count = tab.locator(".status [aria-live]")
        before = count.inner_text()
        filtering = tab.evaluate(f"({CLICK_AND_PAINT})('[data-filter=differs]')") / 1000
        expect(count).not_to_have_text(before)  # else it filtered nothing
        yield "time to filter", filtering, 0.1
        tab.locator("[data-filter=differs]").click()
        expect(count).to_have_text(before)
        started = time.perf_counter()
        tab.get_by_label("search").fill(SOUGHT)
        expect(count).not_to_have_text(before, timeout=60_000)  # the search has begun
        expect(count).not_to_contain_text("…", timeout=120_000)
        yield "time to search all texts", time.perf_counter() - started, 20.0
        if count.inner_text() == before or count.inner_text().startswith("0 of "):
            raise AssertionError(f"the search did not find {SOUGHT!r}: {count.inner_text()}")
        browser.close()

"""The results that pages show, and a browser that shows them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from multiform import Results, evaluate, register_model
from multiform.models.dummy import DummyModel
from multiform.report.server import Viewer

#: What a model may write: markup, scripts, terminal codes, text that changes direction, a huge line.
HOSTILE = (
    "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"
    "\x1b[31mred\x1b[0m \u202etxet desrever\u202c <b>bold</b> &amp; \u2028 $title " + "long " * 200_000
)


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


@pytest.fixture
def subjects(tmp_path: Path) -> Results:
    """A group of sixteen tasks under two forms."""
    return evaluate_group(tmp_path)


def evaluate_group(folder: Path, **settings: Any) -> Results:
    """The results of a dummy on a group of sixteen tasks, whose files are written into the folder."""
    rows = [{"question": f"What is {n}?", "choices": ["x", "y"], "answer": n % 2} for n in range(20)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    names = [f"exam_{subject}" for subject in "abcdefghijklmnop"]
    for name in names:
        (folder / f"{name}.yaml").write_text(
            f"task: {name}\ndataset_path: rows.jsonl\ntest_split: test\ndescription: '{name} '\n"
            "doc_to_text: question\ndoc_to_choice: choices\ndoc_to_target: answer\nmetric_list: [{metric: acc}]\n"
        )
    (folder / "exam.yaml").write_text(
        f"group: exam\ntask: [{', '.join(names)}]\naggregate_metric_list: {{metric: acc}}\n"
    )
    about: dict[str, Any] = {"include_path": folder, "progress": False, "use_cache": False, **settings}
    return evaluate(model="dummy", **{"tasks": "exam@mcqa+cloze", **about})


@contextmanager
def serve(folder: Path) -> Iterator[Viewer]:
    """A viewer of a folder, for as long as the context lasts."""
    with Viewer(folder) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()

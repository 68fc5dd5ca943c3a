"""The command line as a user has it: a folder with files, a command, and what it printed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from multiform.cli.main import main

#: A task of four documents with three choices each; `rows.jsonl` holds them.
TASK = {
    "task": "t",
    "dataset_path": "rows.jsonl",
    "test_split": "test",
    "output_type": "multiple_choice",
    "doc_to_text": "question",
    "doc_to_choice": "choices",
    "doc_to_target": "answer",
}
ROWS = [{"question": f"Question {i}?", "choices": [f"x{i}", f"y{i}", f"z{i}"], "answer": i % 3} for i in range(4)]


@dataclass(frozen=True)
class Ran:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """The lines of standard error that begin with ``error:``."""
        return [line for line in self.err.splitlines() if line.startswith("error:")]

    def json(self) -> Any:
        return json.loads(self.out)


def interruptible() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Folder:
    """A folder of files, and commands that run in it."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str] | None = None) -> None:
        self.path = path
        self._capsys = capsys

    def write(self, files: Mapping[str, str | bytes]) -> None:
        for name, content in files.items():
            file = self.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())

    def task(self, text: str = "", *, without: str = "", name: str = "task.yaml") -> Path:
        """Write the usual task, with keys changed or added by `text`, and its rows."""
        given = {*re.findall(r"^(\w+):", text, re.MULTILINE), *without.split()}
        kept = "".join(f"{key}: {value}\n" for key, value in TASK.items() if key not in given)
        self.write({name: kept + text})
        if not (self.path / "rows.jsonl").exists():
            self.rows(*ROWS)
        return self.path / name

    def rows(self, *rows: Any, name: str = "rows.jsonl") -> None:
        self.write({name: "".join(json.dumps(row) + "\n" for row in rows)})

    def run(self, *argv: str) -> Ran:
        """Run a command in this process."""
        assert self._capsys is not None
        self._capsys.readouterr()
        code = main(list(argv))
        out, err = self._capsys.readouterr()
        return Ran(code, out, err)

    def process(self, *argv: str, **kwargs: Any) -> Ran:
        """Run a command in a process of its own."""
        done = subprocess.run(self.command(*argv), capture_output=True, timeout=60, check=False, **self._place(kwargs))
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *argv: str, **kwargs: Any) -> subprocess.Popen[bytes]:
        """Start a command in a process of its own; an interrupt stops it also where tests run in the background."""
        return subprocess.Popen(self.command(*argv), preexec_fn=interruptible, **self._place(kwargs))

    def command(self, *argv: str) -> list[str]:
        return [sys.executable, "-m", "multiform.cli.main", *argv]

    def _place(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        return {"cwd": self.path, "env": dict(os.environ), **kwargs}

    def results(self, output: str = "out") -> list[Path]:
        return sorted((self.path / output).rglob("results_*.json"))

    def samples(self, output: str = "out") -> dict[str, list[dict[str, Any]]]:
        """The samples of each form, read line by line as any JSON Lines reader does."""
        found = {}
        for path in sorted((self.path / output).rglob("samples_*.jsonl")):
            form = path.name.removeprefix("samples_").rpartition("_")[0]
            found[form] = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
        return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Folder:
    """An empty folder, in which commands run; nothing outside it is read but what a command names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MULTIFORM_DATASET_MIRROR", raising=False)
    monkeypatch.setenv("MULTIFORM_STORE", str(tmp_path / "answers.db"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    return Folder(tmp_path, capsys)


@pytest.fixture(scope="module")
def make_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Folder]:
    """Makes folders that the tests of a module share; commands run in processes of their own."""
    return lambda: Folder(tmp_path_factory.mktemp("folder"))

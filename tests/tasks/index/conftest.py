"""A folder of many task files, its index, and which files were read to make it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from multiform.tasks import yaml as reader
from multiform.tasks.index import Index, build_index
from multiform.tasks.keys import StatedKeys
from multiform.tasks.yaml import read_yaml

#: Enough files for their index to be kept.
FILES = 60
LONG_AGO = time.time_ns() - 10**12


class Tasks:
    """A folder of task files; what is written to it was written long ago, unless a time is given."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.read: list[str] = []

        def recorded(file: Path, known: dict[Path, StatedKeys]) -> StatedKeys:
            self.read.append(os.path.relpath(file, path))
            return read_yaml(file, known)

        monkeypatch.setattr(reader, "read_yaml", recorded)

    def write(self, name: str | bytes, text: str | bytes, time: int = LONG_AGO) -> Path:
        file = self.path / os.fsdecode(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        os.utime(file, ns=(time, time))
        return file

    def index(self, *others: Path) -> Index:
        """The index of the folder; `read` has what was read for it."""
        self.read.clear()
        return build_index([*others, self.path])


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which indexes are kept."""
    monkeypatch.setenv("MULTIFORM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tasks"


@pytest.fixture
def tasks(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Tasks:
    """Sixty tasks that include one file, indexed for the first time."""
    made = Tasks(tmp_path / "tasks", monkeypatch)
    made.write("common_yaml", "tag: first\ndataset_path: rows.jsonl\n")
    for number in range(FILES):
        made.write(f"suite/t{number:02}.yaml", f"include: ../common_yaml\ntask: t{number:02}\n")
    made.index()
    return made

"""The task files of lm-eval, and those that have their rows in the mirror, with lm-eval's requests kept on disk.

Making these requests takes lm-eval a quarter of an hour.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from multiform.tasks.keys import StatedKeys
from multiform.tasks.yaml import read_yaml
from tools.parity.compare import Built, Setting

#: Part of every key: raise it when what is kept means something else.
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A task file, read with what it includes."""

    name: str
    path: Path
    file: StatedKeys

    def rows(self, mirror: Path) -> Path | None:
        """The folder of the mirror that holds the task's dataset."""
        path, name = self.file.data.get("dataset_path"), self.file.data.get("dataset_name")
        if not isinstance(path, str) or "custom_dataset" in self.file.data:
            return None
        folder = mirror / path / str(name or "default")
        return folder if folder.is_dir() else None


def task_folder() -> Path:
    """The folder of the task files that come with lm-eval."""
    import lm_eval.tasks

    return Path(lm_eval.tasks.__file__).parent


def task_files(folder: Path) -> Iterator[TaskFile]:
    """The files that define a task by configuration alone: no groups, no classes, nothing to include."""
    for path in sorted(folder.rglob("*.yaml")):
        file = read_yaml(path)
        name = file.data.get("task")
        if isinstance(name, str) and "group" not in file.data and "class" not in file.data:
            yield TaskFile(name, path, file)


def mirrored(folder: Path, mirror: Path) -> list[TaskFile]:
    """The tasks whose dataset is in the mirror, of two of one name the first."""
    found: dict[str, TaskFile] = {}
    for one in task_files(folder):
        if one.rows(mirror) is not None:
            found.setdefault(one.name, one)
    return [found[name] for name in sorted(found)]


def cached(
    folder: Path, task: TaskFile, rows: Path, about: Any, make: Callable[[], Mapping[Setting, Built]]
) -> dict[Setting, Built]:
    """The requests of a task, out of the folder or made and put there; anything that they depend on is in the key."""
    key = _key(task, rows, about)
    path = folder / f"{task.name}.json.gz"
    found = _read(path, key)
    if found is None:
        found = dict(make())
        if not all(built.error for built in found.values()):  # a task that does not load may load tomorrow
            _write(path, key, found)
    return found


def _key(task: TaskFile, rows: Path, about: Any) -> str:
    code = sorted(task.path.parent.glob("*.py"))
    stamps = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in sorted(rows.iterdir())]
    content = [_FORMAT, version("lm-eval"), repr(task.file.data), [c.read_text("utf-8") for c in code], stamps, about]
    return hashlib.sha256(repr(content).encode()).hexdigest()


def _read(path: Path, key: str) -> dict[Setting, Built] | None:
    try:
        kept = json.loads(gzip.decompress(path.read_bytes()))
    except (OSError, ValueError):
        return None
    if kept["key"] != key:
        return None
    texts = kept["texts"]
    return {Setting(**one["setting"]): Built(**_with_texts(one["built"], texts)) for one in kept["settings"]}


def _write(path: Path, key: str, made: Mapping[Setting, Built]) -> None:
    """Every text once: the choices of a document share their context."""
    numbers: dict[str, int] = {}
    settings = []
    for setting, built in made.items():
        docs = [[_numbered(request, numbers) for request in requests] for requests in built.docs]
        settings.append({"setting": setting._asdict(), "built": {**asdict(built), "docs": docs}})
    content = json.dumps({"key": key, "texts": list(numbers), "settings": settings}, ensure_ascii=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_bytes(gzip.compress(content.encode("utf-8", "surrogatepass"), 1))
    partial.replace(path)


def _numbered(request: list[Any], numbers: dict[str, int]) -> list[Any]:
    return [[numbers.setdefault(part, len(numbers))] if isinstance(part, str) else part for part in request]


def _with_texts(built: dict[str, Any], texts: list[str]) -> dict[str, Any]:
    docs = [
        [[texts[part[0]] if isinstance(part, list) else part for part in request] for request in requests]
        for requests in built["docs"]
    ]
    return {**built, "docs": docs}

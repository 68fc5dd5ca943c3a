"""Which task files of lm-eval there are, and which of them have their rows in the mirror."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from multiform.tasks.source import StatedKeys
from multiform.tasks.yaml import read_yaml


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

"""Provides `lm_eval`, and `lm_eval.tasks.X` with the files of a task folder."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from multiform.imports.finder import Load, PackageFinder, import_provided, is_provided

_TASKS = "lm_eval.tasks"


class LmEvalFinder(PackageFinder):
    """Finds our modules under lm-eval's names, and `lm_eval.tasks.X` among the files of task folders."""

    packages = ("lm_eval",)

    def __init__(self) -> None:
        super().__init__()
        #: The files that are being loaded, the innermost last.
        self._loading: list[Path] = []
        #: Files that were loaded before, for what a function imports when it is called.
        self._loaded: list[Path] = []
        #: Folders of tasks that a user has named.
        self.folders: set[Path] = set()

    @property
    def is_loading(self) -> bool:
        return bool(self._loading)

    def task_file(self, fullname: str) -> Path | None:
        """The file or folder of ``lm_eval.tasks.X``, below one of the folders that a task's file is in."""
        if not fullname.startswith(f"{_TASKS}."):
            return None
        parts = fullname.removeprefix(f"{_TASKS}.").split(".")
        files = self._loading or self._loaded
        above = [folder for file in reversed(files) for folder in _above(file, self.folders)]
        real = self.real_folder()
        for folder in [*above, *sorted(self.folders), *([real / "tasks"] if real else [])]:
            place = folder.joinpath(*parts)
            for candidate in (place.with_name(f"{place.name}.py"), place):
                if candidate.exists():
                    return candidate
        return None

    @contextmanager
    def during(self, file: Path, load: Load) -> Iterator[None]:
        """Provide lm_eval while a task's file is loaded; what was imported under its name before is restored."""
        self.listen()
        before = self.forget()
        if self.installed or self._loading:  # our modules stay the same ones
            sys.modules.update({name: module for name, module in before.items() if is_provided(name)})
        self.load = load
        self._loading.append(file)
        try:
            yield
        finally:
            self._loaded.append(self._loading.pop())
            for name in self.forget():
                parent, _, child = name.rpartition(".")
                if parent == _TASKS and not is_provided(name):  # another task folder may have one of that name
                    vars(import_provided(_TASKS)).pop(child, None)
            sys.modules.update(before)


finder = LmEvalFinder()


def _above(file: Path, named: set[Path]) -> list[Path]:
    """The folders that a file is in: those of a named folder of tasks from the outside in, then those above it.

    Where none is named, all of them from the outside in: a folder of tasks may hold copies of some. A folder that
    everybody may write to is none of them, as nobody else's code is to be run.
    """
    above = [folder for folder in file.parents if folder in named or folder == file.parent or not _open_to_all(folder)]
    roots = [folder for folder in above if folder in named]
    inside = above.index(roots[-1]) + 1 if roots else len(above)
    return [*reversed(above[:inside]), *above[inside:]]


def _open_to_all(folder: Path) -> bool:
    return bool(folder.stat().st_mode & stat.S_IWOTH)

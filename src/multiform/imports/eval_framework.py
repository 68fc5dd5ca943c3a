"""Provides `eval_framework` and `template_formatting`, and the benchmarks of eval-framework from task folders."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from multiform.imports.finder import Load, PackageFinder

_BENCHMARKS = "eval_framework.tasks.benchmarks."


class EvalFrameworkFinder(PackageFinder):
    """Finds our modules under eval-framework's names, and its benchmarks among the files of task folders."""

    packages = ("eval_framework", "template_formatting")

    def __init__(self) -> None:
        super().__init__()
        self._loading = 0
        #: The folders of task files, which may import each other as eval-framework's benchmarks.
        self.folders: list[Path] = []

    @property
    def is_loading(self) -> bool:
        return self._loading > 0

    def task_file(self, fullname: str) -> Path | None:
        """The file of a benchmark: beside a task file, or in the real package where that is installed."""
        if not fullname.startswith(_BENCHMARKS):
            return None
        files = [folder / f"{fullname.removeprefix(_BENCHMARKS)}.py" for folder in self._benchmark_folders()]
        return next((file for file in files if file.is_file()), None)

    def benchmark_files(self) -> list[Path]:
        """The files that can be imported as benchmarks."""
        return [file for folder in self._benchmark_folders() for file in sorted(folder.glob("[!_]*.py"))]

    def _benchmark_folders(self) -> list[Path]:
        real = self.real_folder()
        return [*self.folders, *([real / "tasks" / "benchmarks"] if real is not None else [])]

    @contextmanager
    def during(self, file: Path, load: Load) -> Iterator[None]:
        """Provide the packages while a task's file is loaded; for good, where the real one is not installed."""
        if file.parent not in self.folders:
            self.folders.append(file.parent)
        if self.install(load=load):
            yield
            return
        self.listen()
        before = self.forget()
        self.load = load
        self._loading += 1
        try:
            yield
        finally:
            self._loading -= 1
            self.forget()
            sys.modules.update(before)


finder = EvalFrameworkFinder()

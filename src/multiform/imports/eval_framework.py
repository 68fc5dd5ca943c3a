"""Answers `import eval_framework` and `import template_formatting` with the modules of this package."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from multiform.imports.answers import import_answer, is_answered, place_of

#: The package that can be installed, and those that come with it.
PACKAGE = "eval_framework"
_NAMES = (PACKAGE, "template_formatting")
_BENCHMARKS = f"{PACKAGE}.tasks.benchmarks."
#: Makes a module of a file.
Load = Callable[[Path], ModuleType]


class Packages(MetaPathFinder, Loader):
    """Finds our modules under eval-framework's names, and its benchmarks among the files of a task folder."""

    def __init__(self) -> None:
        #: Whether it answers for good, and not only while a task's file is loaded.
        self.installed = False
        self._loading = 0
        #: How the file of a benchmark becomes a module.
        self.load: Load | None = None
        #: The folders of task files, which may import each other as eval-framework's benchmarks.
        self.folders: list[Path] = []

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not _is_answered(fullname) or not (self.installed or self._loading):
            return None
        place = place_of(fullname)
        if place is not None and is_answered(fullname):
            return ModuleSpec(fullname, self, is_package=place.is_dir())
        return ModuleSpec(fullname, self) if self._benchmark(fullname) is not None else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        file = self._benchmark(spec.name)
        if file is None:
            module = import_answer(spec.name)
        else:
            assert self.load is not None
            module = self.load(file)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is run: the module is there, and keeps the name by which we know it."""
        if module.__spec__ is not None and module.__spec__.loader_state is not None:
            module.__spec__ = module.__spec__.loader_state

    def _benchmark(self, fullname: str) -> Path | None:
        """The file of a benchmark: beside a task file, or in the real package where that is installed."""
        if not fullname.startswith(_BENCHMARKS):
            return None
        real = real_folder()
        folders = [*self.folders, *([real / "tasks" / "benchmarks"] if real is not None else [])]
        files = [folder / f"{fullname.removeprefix(_BENCHMARKS)}.py" for folder in folders]
        return next((file for file in files if file.is_file()), None)

    @contextmanager
    def during(self, file: Path, load: Load) -> Iterator[None]:
        """Answer while a task's file is loaded; for good, where the real package is not there."""
        if file.parent not in self.folders:
            self.folders.append(file.parent)
        if install(load=load):
            yield
            return
        before = _taken_out()
        self.load = load
        self._loading += 1
        try:
            yield
        finally:
            self._loading -= 1
            _taken_out()
            sys.modules.update(before)


packages = Packages()


def real_folder() -> Path | None:
    """Where the real eval-framework is installed, if it is; nothing of it is imported."""
    for finder in sys.meta_path:
        spec = finder.find_spec(PACKAGE, None) if finder is not packages else None
        if spec is not None and spec.submodule_search_locations:
            return Path(next(iter(spec.submodule_search_locations)))
    return None


def install(*, load: Load, instead: bool = False) -> bool:
    """Answer for good; False, and nothing is done, where the real package is installed and not to be replaced.

    `load` makes modules of the files of benchmarks.
    """
    if packages not in sys.meta_path:
        sys.meta_path.insert(0, packages)
    if not packages.installed:
        if not instead and real_folder() is not None:
            return False
        _taken_out()
        packages.installed = True
        packages.load = load
    return True


def uninstall() -> None:
    """Leave the names to whoever else answers them."""
    if packages.installed:
        _taken_out()
        packages.installed = False


def _taken_out() -> dict[str, ModuleType]:
    """The modules under the packages' names, removed from those that are imported."""
    return {name: sys.modules.pop(name) for name in [name for name in sys.modules if _is_answered(name)]}


def _is_answered(name: str) -> bool:
    return name.partition(".")[0] in _NAMES

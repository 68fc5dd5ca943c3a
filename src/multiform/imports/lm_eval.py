"""Answers `import lm_eval` with the modules of this package, and `lm_eval.tasks.X` with files of a task folder."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from multiform.imports.answers import import_answer, is_answered, place_of

PACKAGE = "lm_eval"
_TASKS = f"{PACKAGE}.tasks"

#: Makes a module of a file.
Load = Callable[[Path], ModuleType]


class Answers(MetaPathFinder, Loader):
    """Finds our modules under lm-eval's names; each is one module, whichever name it is imported by."""

    def __init__(self) -> None:
        #: Whether it answers for good, and not only while a task's file is loaded.
        self.installed = False
        #: The files that are being loaded, the innermost last.
        self._loading: list[Path] = []
        #: Files that were loaded before, for what a function imports when it is called.
        self._loaded: list[Path] = []
        #: How a task's file becomes a module.
        self.load: Load | None = None
        #: Folders of tasks that a user has named.
        self.folders: set[Path] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not _is_ours(fullname) or not (self.installed or self._loading):
            return None
        place = place_of(fullname) if is_answered(fullname) else self._task_file(fullname)
        return None if place is None else ModuleSpec(fullname, self, is_package=place.is_dir())

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module = self._module(spec.name)
        spec.loader_state = module.__spec__ if module is not None else None
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is run: the module is there, and keeps the name by which we know it."""
        known = module.__spec__.loader_state if module.__spec__ is not None else None
        if known is not None:
            module.__spec__ = known

    def _module(self, name: str) -> ModuleType | None:
        """Our module, that of a task's file, or None for a folder without any code."""
        if is_answered(name):
            return import_answer(name)
        file = self._task_file(name)
        assert file is not None
        file = file / "__init__.py" if file.is_dir() else file
        assert self.load is not None
        return self.load(file) if file.is_file() else None

    def _task_file(self, fullname: str) -> Path | None:
        """The file or folder of ``lm_eval.tasks.X``, below one of the folders that a task's file is in."""
        if not fullname.startswith(f"{_TASKS}."):
            return None
        parts = fullname.removeprefix(f"{_TASKS}.").split(".")
        files = self._loading or self._loaded
        above = [folder for file in reversed(files) for folder in _above(file, self.folders)]
        installed = real_folder()
        for folder in [*above, *sorted(self.folders), *([installed / "tasks"] if installed else [])]:
            place = folder.joinpath(*parts)
            for found in (place.with_name(f"{place.name}.py"), place):
                if found.exists():
                    return found
        return None

    @contextmanager
    def during(self, file: Path, load: Load) -> Iterator[None]:
        """Answer while a task's file is loaded; what was imported as lm_eval before is there again afterwards."""
        _listen()
        before = _taken_out()
        if self.installed or self._loading:  # the same answers go on
            sys.modules.update({name: module for name, module in before.items() if is_answered(name)})
        self.load = load
        self._loading.append(file)
        try:
            yield
        finally:
            self._loaded.append(self._loading.pop())
            for name in _taken_out():
                parent, _, child = name.rpartition(".")
                if parent == _TASKS and not is_answered(name):  # another task folder may have one of that name
                    vars(import_answer(_TASKS)).pop(child, None)
            sys.modules.update(before)


answers = Answers()


def real_folder() -> Path | None:
    """Where the real lm-eval is installed, if it is, as a package or from a clone; nothing of it is imported."""
    specs = (finder.find_spec(PACKAGE, None) for finder in sys.meta_path if finder is not answers)
    found = [folder for spec in specs if spec is not None for folder in spec.submodule_search_locations or ()]
    return Path(found[0]) if found else None


def install(*, load: Load, instead: bool = False) -> bool:
    """Answer for good; False, and nothing is done, where the real package is installed and not to be replaced.

    `load` makes modules of the files of task folders.
    """
    if not answers.installed and not instead and real_folder() is not None:
        return False
    if not answers.installed:
        _listen()
        _taken_out()
        answers.installed = True
        answers.load = load
    return True


def uninstall() -> None:
    """Leave the name to whoever else answers it."""
    if answers.installed:
        _taken_out()
        answers.installed = False


def _listen() -> None:
    """Have Python ask for modules here before it asks elsewhere."""
    if answers not in sys.meta_path:
        sys.meta_path.insert(0, answers)


def _taken_out() -> dict[str, ModuleType]:
    """The modules under the package's name, removed from those that are imported."""
    return {name: sys.modules.pop(name) for name in [name for name in sys.modules if _is_ours(name)]}


def _is_ours(name: str) -> bool:
    return name == PACKAGE or name.startswith(f"{PACKAGE}.")


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

"""PackageFinder: an import hook that provides the package of another harness with modules of this one.

The table in ``imports.yaml`` says which modules and names these are. An import path is one of our modules, or a module
of names that are defined elsewhere ("module:name"). A path above those of the table is a package without names of its
own.

Task files also get libraries as they expect them: modules that newer releases removed (transformers 5 no longer has
`transformers.data.metrics.squad_metrics`), and `evaluate` with a sandboxed metric.
"""

from __future__ import annotations

import importlib
import importlib.util
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from multiform.registry import import_attribute


@cache
def import_paths() -> dict[str, str | dict[str, str]]:
    """Our module for each import path, or the places of the names that it has ("module:name")."""
    import yaml  # which is needed for task files alone

    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    table = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    above = {".".join(path.split(".")[:depth]) for path in table for depth in range(1, path.count(".") + 1)}
    provided: dict[str, str | dict[str, str]] = {path: {} for path in sorted(above)}
    for path, place in table.items():
        if isinstance(place, dict):
            named = [(name.split("="), module) for module, names in place.items() for name in names.split()]
            place = {name[0]: f"{module}:{name[-1]}" for name, module in named}
        provided[path] = place
    return provided


def is_provided(name: str) -> bool:
    """Whether there is a module of ours for this name."""
    return name in import_paths()


def import_provided(name: str) -> ModuleType:
    """Import our module for this name."""
    place = import_paths()[name]
    if isinstance(place, str):
        return importlib.import_module(place)
    return _names_module(name)


class _NamesModule(ModuleType):
    """A module of names that are defined elsewhere, and imported when they are used."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "Names of Multiform under the import path of another harness.")
        self._names: dict[str, str] = dict(import_paths()[name])  # type: ignore[arg-type]
        self.__all__ = list(self._names)

    def __getattr__(self, name: str) -> object:
        if is_provided(f"{self.__name__}.{name}"):  # a module below it, which other code need not have imported
            return import_provided(f"{self.__name__}.{name}")
        if name in self._names:
            return import_attribute(self._names[name])
        if not name.startswith("__") and hasattr(real := eval_framework_finder.real_module(self.__name__), name):
            return getattr(real, name)
        raise AttributeError(f"module '{self.__name__}', provided by Multiform, has no attribute {name!r}")

    def __reduce__(self) -> tuple[object, ...]:
        return import_provided, (self.__name__,)


_names_module = cache(_NamesModule)


def original_name(name: str) -> str:
    """The import path under which a module of ours is provided; the names of other modules as they are."""
    return next((path for path, place in import_paths().items() if place == name), name)


class PackageFinder(MetaPathFinder, Loader):
    """Imports our modules by the names of another harness; each is one module, whichever name it is imported by.

    `packages` are those that are provided. `tasks` is the package whose modules are files of task folders:
    ``lm_eval.tasks.X`` is a file or folder `X` in one of the folders that a task's file is in. With `borrows`, modules
    that are not provided come from the files of the real package: of an install, or of a clone that a task is in.
    """

    #: Loads a file as a module; `tasks.functions` sets it.
    load: Callable[[Path], ModuleType]

    def __init__(self, packages: tuple[str, ...], tasks: str, *, borrows: bool = False) -> None:
        self.packages = packages
        self._tasks = tasks
        self._borrows = borrows
        #: Whether the packages are provided for good, and not only while a task's file is loaded.
        self.installed = False
        #: The files that are being loaded, the innermost last.
        self._loading: list[Path] = []
        #: Files that were loaded before, for what a function imports when it is called.
        self._loaded: list[Path] = []
        #: Folders of tasks that a user has named.
        self.folders: set[Path] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not self._has(fullname) or not (self.installed or self._loading):
            return None
        if is_provided(fullname):
            above = not isinstance(import_paths()[fullname], str) or any(
                path.startswith(f"{fullname}.") for path in import_paths()
            )
            return ModuleSpec(fullname, self, is_package=above)
        file = self.task_file(fullname)
        return None if file is None else ModuleSpec(fullname, self, is_package=file.is_dir())

    def task_file(self, fullname: str) -> Path | None:
        """The file or folder that is the module of this name: in a task folder, or in the real package."""
        is_task = fullname.startswith(f"{self._tasks}.")
        above = [folder for file in reversed(self._loading or self._loaded) for folder in _above(file, self.folders)]
        places: list[Path] = []
        if is_task:
            parts = fullname.removeprefix(f"{self._tasks}.").split(".")
            places = [folder.joinpath(*parts) for folder in [*above, *sorted(self.folders)]]
        if is_task or self._borrows:
            package, *rest = fullname.split(".")
            clones = [folder for folder in above if folder.name == package] if self._borrows else []
            roots = [*clones, self.real_folder() if package == self.packages[0] else None]
            places += [root.joinpath(*rest) for root in roots if root is not None]
        for place in places:
            for candidate in (place.with_name(f"{place.name}.py"), place):
                if candidate.exists():
                    return candidate
        return None

    def real_module(self, fullname: str) -> ModuleType | None:
        """The module of the real package that has what a provided one lacks; None if nothing is borrowed."""
        file = self.task_file(fullname) if self._borrows and self._has(fullname) else None
        return self.load(file) if file is not None and file.is_file() else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Our module, that of a task's file, or None for a folder without any code."""
        if is_provided(spec.name):
            module: ModuleType | None = import_provided(spec.name)
        else:
            file = self.task_file(spec.name)
            assert file is not None
            file = file / "__init__.py" if file.is_dir() else file
            module = self.load(file) if file.is_file() else None
        spec.loader_state = module.__spec__ if module is not None else None
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Run nothing: the module is imported already, and keeps the spec of the name that it was imported by."""
        imported = module.__spec__.loader_state if module.__spec__ is not None else None
        if imported is not None:
            module.__spec__ = imported

    def install(self, *, instead: bool = False) -> bool:
        """Provide the packages for good; False, and nothing is done, where the real one is installed.

        With `instead`, the real package is replaced.
        """
        if not self.installed:
            if not instead and self.real_folder() is not None:
                return False
            self._hook_into_imports()
            self._forget()
            self.installed = True
        return True

    def uninstall(self) -> None:
        """Provide the packages no longer, except while task files are loaded."""
        if self.installed:
            self._forget()
            self.installed = False

    @contextmanager
    def during(self, file: Path) -> Iterator[None]:
        """Provide the packages while a task's file is loaded; what was imported by their names before is restored."""
        self._hook_into_imports()
        before = self._forget()
        if self.installed or self._loading:  # our modules stay the same ones
            sys.modules.update({name: module for name, module in before.items() if is_provided(name)})
        self._loading.append(file.absolute())
        try:
            yield
        finally:
            self._loaded.append(self._loading.pop())
            for name in self._forget():
                parent, _, child = name.rpartition(".")
                if is_provided(parent) and not is_provided(name):  # another task folder may have one of that name
                    vars(import_provided(parent)).pop(child, None)
            sys.modules.update(before)

    def real_folder(self) -> Path | None:
        """The folder of the real package, from an install or a clone; None where there is none. Imports nothing."""
        specs = (finder.find_spec(self.packages[0], None) for finder in sys.meta_path if finder is not self)
        folders = [folder for spec in specs if spec is not None for folder in spec.submodule_search_locations or ()]
        return Path(folders[0]) if folders else None

    def _hook_into_imports(self) -> None:
        """Have Python ask this finder for modules before it asks others."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def _forget(self) -> dict[str, ModuleType]:
        """Remove the modules of the packages from those that are imported, and return them by name."""
        return {name: sys.modules.pop(name) for name in [name for name in sys.modules if self._has(name)]}

    def _has(self, name: str) -> bool:
        return name.partition(".")[0] in self.packages


def _above(file: Path, named: set[Path]) -> list[Path]:
    """The folders that a file is in: those of a named folder of tasks from the outside in, then those above it.

    Where none is named, all of them from the outside in: a folder of tasks may hold copies of some. A folder that
    everybody may write to is none of them, as nobody else's code is to be run.
    """
    parents = [folder for folder in file.parents if folder.is_dir()]  # a folder may have been deleted since
    open_to_all = {folder for folder in parents if folder.stat().st_mode & stat.S_IWOTH} - {file.parent, *named}
    above = [folder for folder in parents if folder not in open_to_all]
    roots = [folder for folder in above if folder in named]
    inside = above.index(roots[-1]) + 1 if roots else len(above)
    return [*reversed(above[:inside]), *above[inside:]]


lm_eval_finder = PackageFinder(("lm_eval",), "lm_eval.tasks")
eval_framework_finder = PackageFinder(
    ("eval_framework", "template_formatting"), "eval_framework.tasks.benchmarks", borrows=True
)


@contextmanager
def _with_modules(modules: Mapping[str, ModuleType]) -> Iterator[None]:
    """Have these modules imported by their names, in a block."""
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


def with_removed_modules() -> AbstractContextManager[None]:
    """Provide removed modules while the file of a task is loaded."""
    squad_metrics = importlib.import_module("multiform.compat.lm_eval.metrics")
    package = ModuleType("transformers.data.metrics")
    vars(package).update({"squad_metrics": squad_metrics, "__path__": []})
    return _with_modules({package.__name__: package, f"{package.__name__}.squad_metrics": squad_metrics})


class _Evaluate(ModuleType):
    """The library `evaluate`, where it is installed, but for the metric that runs programs."""

    def __init__(self) -> None:
        super().__init__("evaluate", "The library evaluate in a task's file: code_eval runs programs in a sandbox.")

    def load(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """Load a metric."""
        if path != "code_eval":
            return self.__getattr__("load")(path, *args, **kwargs)
        from multiform.sandbox import CodeEval  # it is rarely needed, and starts processes

        return CodeEval()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or importlib.util.find_spec("evaluate") is None:
            raise AttributeError(name)
        return getattr(_library(), name)


def _library() -> ModuleType:
    """The library itself, imported under its own name."""
    replacement = sys.modules.pop("evaluate", None)
    try:
        return importlib.import_module("evaluate")
    finally:
        if replacement is not None:
            sys.modules["evaluate"] = replacement


def with_sandboxed_code_eval() -> AbstractContextManager[None]:
    """Have `evaluate.load("code_eval")` run programs in our sandbox, while the file of a task is loaded."""
    return _with_modules({"evaluate": _Evaluate()})

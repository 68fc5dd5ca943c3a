"""Code of the user: `!function module.name` in a task file, and the files and modules of `--import`."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from multiform.errors import ConfigError, UsageError, excerpt, nearest, reason
from multiform.hashing import sha256
from multiform.imports import (
    PackageFinder,
    lm_eval_finder,
    original_name,
    with_removed_modules,
    with_sandboxed_code_eval,
)
from multiform.paths import read_file
from multiform.tasks.keys import FilePosition, Source

_IMPORTS_LM_EVAL = re.compile(rb"^[ \t]*(?:from|import)[ \t]+lm_eval\b", re.MULTILINE)


#: What the names of modules begin with that are files of tasks.
_TASK_MODULE = "_multiform_task_"

_refused: ContextVar[bool] = ContextVar("code_refused", default=False)
_scoring_kept: ContextVar[bool] = ContextVar("unusable_scoring_kept", default=False)
#: Keys of a task that only scores depend on.
_SCORING_KEYS = ("metric_list", "process_results")


@contextmanager
def _switch_on(switch: ContextVar[bool]) -> Iterator[None]:
    token = switch.set(True)
    try:
        yield
    finally:
        switch.reset(token)


def code_refused() -> AbstractContextManager[None]:
    """Refuse the code of tasks instead of running it, in a block."""
    return _switch_on(_refused)


def unusable_scoring_kept() -> AbstractContextManager[None]:
    """Keep metrics whose code cannot be imported, in a block: they fail when they are called."""
    return _switch_on(_scoring_kept)


def is_code_refused() -> bool:
    """Whether code that tasks bring along, or that `--import` names, is refused."""
    return _refused.get()


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """A function that is named but not yet imported."""

    name: str
    folder: Path
    position: FilePosition

    def resolve(self) -> Callable[..., Any]:
        """Import the function: from ``module.py`` beside the file, else from an importable module."""
        if is_code_refused():
            raise self._error("the task brings code, which --no_code refuses", "look at it, and leave the flag out")
        module_name, _, attribute = self.name.rpartition(".")
        file = self.folder.joinpath(*module_name.split(".")).with_suffix(".py")
        module = self._from_file(file) if file.is_file() else self._from_path(module_name)
        if not hasattr(module, attribute):
            known = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
            raise self._error(f"no '{attribute}' in {module_name}", nearest(attribute, known, listed="its functions"))
        function = getattr(module, attribute)
        if not callable(function):
            raise self._error(f"it is of type {type(function).__name__}, not a function", "name a function")
        return function  # type: ignore[no-any-return]

    def _from_file(self, file: Path) -> ModuleType:
        try:
            return load_module(file)
        except (Exception, SystemExit) as error:  # whatever the user's module raises while it loads
            message = f"{file.name} failed to load: {reason(error)}"
            raise self._error(message, _not_provided(error) or _advice(error, file)) from error

    def _from_path(self, module_name: str) -> ModuleType:
        try:
            if module_name in sys.modules:
                return sys.modules[module_name]
            with with_removed_modules():  # an installed module gets the same libraries as a file beside the task
                return _with_lm_eval(self.folder / "task.yaml", partial(importlib.import_module, module_name))
        except (Exception, SystemExit) as error:  # an installed module may fail in any way, too
            missing = isinstance(error, ModuleNotFoundError) and module_name.startswith(error.name or "?")
            message = f"no module '{module_name}' beside the file or installed"
            if not missing:
                message = f"module '{module_name}' failed to load: {reason(error)}"
            hint = f"put {module_name.replace('.', '/')}.py beside the YAML file, or install the module"
            raise self._error(message, hint) from error

    def _error(self, what: str, hint: str) -> ConfigError:
        return ConfigError(what, where=f"{self.position}: {self}", hint=hint)

    def __str__(self) -> str:
        return f"!function {self.name}"


def function_place(value: Any) -> tuple[Path, str] | None:
    """The file and the name of a function, or a class, of a task's folder; None for anything else."""
    module = sys.modules.get(str(getattr(value, "__module__", None)))
    if module is None or not module.__name__.startswith(_TASK_MODULE) or isinstance(value, ModuleType):
        return None
    name = getattr(value, "__qualname__", "")
    return (Path(str(module.__file__)), name) if vars(module).get(name) is value else None


def load_function(file: Path, name: str) -> Any:
    """The function that `function_place` has found, in another process."""
    if not file.is_file():
        hint = "put the files of tasks on every node, in the same folder"
        raise UsageError(f"there is no {file} on a worker", where="--executor ray", hint=hint)
    return getattr(load_module(file), name)


def load_module(file: Path) -> ModuleType:
    """Import a Python file as a module; a file that has changed since it was imported is imported again.

    `import lm_eval` in it gives Multiform's own modules of that name, so that a task is the same whether lm-eval is
    installed or not. If these lack a name, the file is imported again with the installed lm-eval.
    """
    source = read_file(file)
    stamp = sha256(str(file), b"\0", source)[:12]
    name = f"{_TASK_MODULE}{file.stem}_{stamp}"
    if name in sys.modules:
        return sys.modules[name]
    if not _IMPORTS_LM_EVAL.search(source):
        return _run(file, name)
    return _with_lm_eval(file, partial(_run, file, name))


PackageFinder.load = staticmethod(load_module)


def _with_lm_eval(file: Path, load: Callable[[], ModuleType]) -> ModuleType:
    """Load a module with Multiform's `lm_eval`; with the installed one if the module needs names that ours lacks."""
    try:
        with lm_eval_finder.during(file):
            return load()
    except ImportError as error:
        if not _not_provided(error) or lm_eval_finder.real_folder() is None:
            raise
        return load()


def _run(file: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file, loader=_SourceLoader(name, str(file)))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        runs_programs = b"code_eval" in read_file(file)
        with with_removed_modules(), with_sandboxed_code_eval() if runs_programs else nullcontext():
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


#: The packages whose names Multiform provides: their documentation, and what installs the rest.
_PROVIDED = {"lm_eval": ("lm-eval", "lm-eval"), "eval_framework": ("styles", "--no-deps eval-framework")}


def _not_provided(error: BaseException) -> str:
    """A hint if a module imports a name of another harness that Multiform does not provide; empty otherwise."""
    name = original_name(getattr(error, "name", None) or "")
    package = name.partition(".")[0]
    if not isinstance(error, ImportError) or package not in _PROVIDED:
        return ""
    page, install = _PROVIDED[package]
    return f"'multiform docs {page}' says what of {name} is provided; 'pip install {install}' adds the rest"


def _advice(error: BaseException, file: Path) -> str:
    """What to do about an error in the user's file, with the line that it came from."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        lines = [error.lineno]
    else:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    place = f"{file.name}:{lines[-1]}" if lines else file.name
    return f"install what {place} imports" if isinstance(error, ModuleNotFoundError) else f"fix {place}"


#: Modules of files that were imported. Workers do not find them by name.
imported_files: list[ModuleType] = []


def import_plugins(names: str | Path | Iterable[str | Path] | None) -> None:
    """Import Python files, or modules by name, which register models, formats, metrics and so on.

    >>> import_plugins("no_such_module")
    Traceback (most recent call last):
    multiform.errors.UsageError: --import: no file or module 'no_such_module'; ...
    """
    for name in [names] if isinstance(names, str | Path) else list(names or ()):
        _import_plugin(str(name))


def _import_plugin(name: str) -> None:
    if is_code_refused():
        raise UsageError(f"{excerpt(name)} is code, which --no_code refuses", where="--import", hint="leave one out")
    is_path = name.endswith(".py") or "/" in name
    path = Path(name).expanduser().absolute()
    if is_path and not path.is_file():
        raise UsageError(f"no file {excerpt(name)}", where="--import", hint="check the path")
    try:
        if not is_path:
            importlib.import_module(name)
        elif (module := load_module(path)) not in imported_files:
            imported_files.append(module)
    except (Exception, SystemExit) as error:  # whatever the user's module raises while it is imported
        if isinstance(error, ModuleNotFoundError) and error.name == name.partition(".")[0]:
            hint = "give the path of a .py file, or install the module"
            raise UsageError(f"no file or module '{name}'", where="--import", hint=hint) from error
        raise UsageError(f"{name} cannot be imported: {reason(error)}", where="--import", hint="fix it") from error


def resolve_task_functions(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a task with each function reference replaced by the imported function."""

    def resolve_scoring(value: Any) -> Any:
        try:
            return value.resolve() if isinstance(value, FunctionRef) else value
        except ConfigError as error:
            if not _scoring_kept.get() or is_code_refused():
                raise
            return _failing_function(error)

    return {
        key: _convert_values(value, resolve_scoring) if key in _SCORING_KEYS else resolve_functions(value)
        for key, value in keys.items()
    }


def _failing_function(error: ConfigError) -> Callable[..., Any]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    return fail


def resolve_functions(value: Any) -> Any:
    """The same data with each function reference replaced by the imported function."""
    return _convert_values(value, lambda item: item.resolve() if isinstance(item, FunctionRef) else item)


def resolve_filter_functions(filter_list: Any, source: Source | None, where: str | None) -> Any:
    """The filter pipelines, with arguments that are the text ``!function module.name`` replaced by that function."""

    def resolve_value(value: Any) -> Any:
        if not isinstance(value, str) or not value.startswith("!function "):
            return value
        file = Path("task.yaml") if source is None else source.file
        position = FilePosition(file, 1) if source is None else source.at("filter_list")
        try:
            return FunctionRef(value.removeprefix("!function ").strip(), file.parent, position).resolve()
        except ConfigError as error:
            raise error.relocate(f"{where}: {value}") from error

    return _convert_values(filter_list, resolve_value)


def _convert_values(value: Any, convert: Callable[[Any], Any]) -> Any:
    """The same data with each value that is not a dict or list converted."""
    if isinstance(value, dict):
        return {key: _convert_values(item, convert) for key, item in value.items()}
    if isinstance(value, list):
        return [_convert_values(item, convert) for item in value]
    return convert(value)


class _SourceLoader(SourceFileLoader):
    """Compiles the source each time: cached bytecode would miss a second change within one second."""

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code

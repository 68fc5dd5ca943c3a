"""`!function module.name`: code that a task file names, found beside it or in an importable module."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from multiform.config.source import Position
from multiform.errors import ConfigError, nearest


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """A function that is named but not yet imported."""

    name: str
    folder: Path
    position: Position

    def resolve(self) -> Callable[..., Any]:
        """Import the function: from ``module.py`` beside the file, else from an importable module."""
        module_name, _, attribute = self.name.rpartition(".")
        file = self.folder.joinpath(*module_name.split(".")).with_suffix(".py")
        module = self._from_file(file) if file.is_file() else self._from_path(module_name)
        if not hasattr(module, attribute):
            known = [name for name in vars(module) if not name.startswith("_")]
            raise self._error(f"no '{attribute}' in {module_name}", nearest(attribute, known, listed="it has"))
        function = getattr(module, attribute)
        if not callable(function):
            raise self._error(f"{self.name} is a {type(function).__name__}, not a function", "name a function")
        return function  # type: ignore[no-any-return]

    def _from_file(self, file: Path) -> ModuleType:
        """Load a file as a module of its own; a file that changed since is loaded anew."""
        stamp = f"{file}:{file.stat().st_mtime_ns}"
        name = f"_multiform_task_{file.stem}_{hashlib.sha256(stamp.encode()).hexdigest()[:12]}"
        if name in sys.modules:
            return sys.modules[name]
        spec = importlib.util.spec_from_file_location(name, file)
        if spec is None or spec.loader is None:
            raise self._error(f"{file.name} cannot be loaded as Python", "check the file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:  # whatever the user's module raises while it loads
            del sys.modules[name]
            raise self._error(f"{file.name} failed to load: {type(error).__name__}: {error}", "fix it") from error
        return module

    def _from_path(self, module_name: str) -> ModuleType:
        try:
            return importlib.import_module(module_name)
        except ImportError as error:
            hint = f"put {module_name}.py beside the YAML file, or install the module"
            raise self._error(f"no module '{module_name}' beside the file or installed ({error})", hint) from error

    def _error(self, what: str, hint: str) -> ConfigError:
        return ConfigError(f"!function {self.name}: {what}", where=str(self.position), hint=hint)

    def __str__(self) -> str:
        return f"!function {self.name}"


def resolve_functions(value: Any) -> Any:
    """The same data with every function reference replaced by its function."""
    if isinstance(value, FunctionRef):
        return value.resolve()
    if isinstance(value, dict):
        return {key: resolve_functions(item) for key, item in value.items()}
    if isinstance(value, list):
        return [resolve_functions(item) for item in value]
    return value

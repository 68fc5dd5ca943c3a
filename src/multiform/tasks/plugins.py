"""Code that the user names: `--import`, and folders of task files in installed packages."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from multiform.errors import UsageError, reason, shorten
from multiform.plugins import entry_points_of, package_of

logger = logging.getLogger("multiform")

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
    from multiform.tasks.functions import is_code_refused, load_module

    if is_code_refused():
        raise UsageError(f"{shorten(name)} is code, which --no_code refuses", where="--import", hint="leave one out")
    is_path = name.endswith(".py") or "/" in name
    path = Path(name).expanduser().absolute()
    if is_path and not path.is_file():
        raise UsageError(f"no file {shorten(name)}", where="--import", hint="check the path")
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


def plugin_folders() -> list[Path]:
    """The folders of task files that installed packages name in the group ``multiform.tasks``.

    The packages are found, and not imported.
    """
    folders = []
    for point in entry_points_of("multiform.tasks").values():
        top, *rest = point.module.split(".")
        spec = find_spec(top)
        roots = [] if spec is None else list(spec.submodule_search_locations or ())
        found = [folder for root in roots if (folder := Path(root, *rest)).is_dir()]
        folders += found[:1]
        if not found:
            package = package_of(point)
            logger.warning("plug-in '%s' (multiform.tasks) of %s: no package '%s'", point.name, package, point.value)
    return folders

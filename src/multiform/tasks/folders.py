"""The folders of task files: the bundled library, and those of `--include_path`."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from multiform.errors import UsageError, shorten

logger = logging.getLogger("multiform")

LIBRARY = Path(__file__).parent / "library"
#: The name in `--include_path` for the tasks of the installed lm-eval.
_LM_EVAL = "lm_eval"


def task_folders(include_path: str | Path | Iterable[str | Path] | None, *, library: bool = True) -> list[Path]:
    """The bundled library, unless `library` is false, and the folders of `include_path`; later ones take precedence."""
    names = [include_path] if isinstance(include_path, str | Path) else list(include_path or ())
    return [*([LIBRARY] if library else []), *map(_folder, names)]


def _folder(name: str | Path) -> Path:
    path = Path(name)
    try:
        if path.is_dir():
            if str(name) == _LM_EVAL:
                logger.warning("--include_path %s: the folder here is used, not the installed lm-eval", name)
            return path
        if path.is_file():
            what, hint = f"{shorten(str(path))} is a file", "give the folder that it is in, or name the file as a task"
            raise UsageError(what, where="--include_path", hint=hint)
    except (OSError, ValueError):  # a name that no folder can have
        pass
    if str(name) == _LM_EVAL:
        return _installed_tasks()
    raise UsageError(f"no folder {shorten(str(path))}", where="--include_path", hint="check the path")


def lm_eval_folder() -> Path | None:
    """The folder of task files of the installed lm-eval, which is not imported; None where it is not installed."""
    from multiform.imports.finder import lm_eval_finder as finder

    package = finder.real_folder()
    return package / "tasks" if package is not None and (package / "tasks").is_dir() else None


def _installed_tasks() -> Path:
    folder = lm_eval_folder()
    if folder is not None:
        return folder
    message = "lm-eval is not installed, and there is no folder 'lm_eval'"
    raise UsageError(message, where="--include_path lm_eval", hint="pip install lm-eval, or give the path of its tasks")

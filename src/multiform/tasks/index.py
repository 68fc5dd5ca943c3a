"""The index of task files: the tasks, groups and tags that folders define."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiform.errors import ConfigError, UsageError, shorten
from multiform.registry import entry_points_of, package_of
from multiform.tasks.index_cache import Kind, read_folder

if TYPE_CHECKING:
    from multiform.tasks.python_tasks import TaskClass

logger = logging.getLogger("multiform")

LIBRARY = Path(__file__).parent / "library"
#: The name in `--include_path` for the tasks of the installed lm-eval.
_LM_EVAL = "lm_eval"


def task_folders(include_path: str | Path | Iterable[str | Path] | None, *, library: bool = True) -> list[Path]:
    """The bundled library and those of plug-ins, unless `library` is false, and the folders of `include_path`.

    Later folders win.
    """
    names = [include_path] if isinstance(include_path, str | Path) else list(include_path or ())
    return [*([LIBRARY, *plugin_folders()] if library else []), *map(_folder, names)]


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
    """The folder of task files of the installed lm-eval, which is not imported; None if it is not installed."""
    from multiform.imports.finder import lm_eval_finder as finder

    package = finder.real_folder()
    return package / "tasks" if package is not None and (package / "tasks").is_dir() else None


def _installed_tasks() -> Path:
    folder = lm_eval_folder()
    if folder is not None:
        return folder
    message = "lm-eval is not installed, and there is no folder 'lm_eval'"
    raise UsageError(message, where="--include_path lm_eval", hint="pip install lm-eval, or give the path of its tasks")


@dataclass(frozen=True, slots=True)
class Entry:
    """A task or group by its name, with the file that defines it."""

    name: str
    kind: Kind
    tags: Sequence[str]
    #: Of a task that is a class in a Python file: the name of the class, and its line.
    attribute: str | None
    line: int
    #: The group with `subsets` that defines the task.
    family: str | None
    #: What the metadata says of the task, see `ABOUT`.
    about: Mapping[str, Any]
    folder: Path
    #: Relative to the folder.
    file: str

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self.folder / self.file

    @property
    def task_class(self) -> TaskClass | None:
        """The class of a Python task, not yet imported; None for a task in YAML."""
        from multiform.tasks.python_tasks import TaskClass

        return None if self.attribute is None else TaskClass(self.name, self.attribute, self.path, self.line)


@dataclass(frozen=True)
class Index:
    """All entries by name, and the files that could not be read."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    broken: Mapping[Path, ConfigError] = field(default_factory=dict)

    def names(self, kind: Kind) -> list[str]:
        """The names of all tasks, or of all groups, in order."""
        return sorted(entry.name for entry in self.entries.values() if entry.kind == kind)

    def tags(self) -> dict[str, list[str]]:
        """The tags, each with the tasks that carry it."""
        return self._tags

    @cached_property
    def _tags(self) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {}
        for entry in self.entries.values():
            for tag in entry.tags:
                names.setdefault(tag, []).append(entry.name)
        return {tag: sorted(names[tag]) for tag in sorted(names)}


_MESSAGES = 10


def build_index(folders: Iterable[Path]) -> Index:
    """Index the task files below the folders; a task of a later folder replaces one of the same name."""
    entries: dict[str, Entry] = {}
    broken: dict[Path, ConfigError] = {}
    for folder in folders:
        found_entries: dict[str, Entry] = {}
        twice = []
        records, errors = read_folder(folder)
        broken |= {folder / file: error for file, error in errors.items()}
        for file, record in records.items():
            for name in record.names:
                first = found_entries.setdefault(name.name, entry := Entry(*name, folder=folder, file=file))
                if first is not entry:
                    twice.append(f"task '{first.name}' is defined twice: {first.path} is used, {entry.path} is not")
        warn_of(twice)
        replaced = sorted(found_entries.keys() & entries.keys())
        warn_of([f"task '{name}' of {folder} replaces the one of {entries[name].path}" for name in replaced])
        entries |= found_entries
    return Index(entries, broken)


def warn_of(messages: Sequence[str]) -> None:
    """Log the messages as warnings; of more than ten, only the first five."""
    shown = messages if len(messages) <= _MESSAGES else messages[: _MESSAGES // 2]
    for message in shown:
        logger.warning("%s", message)
    for message in messages[len(shown) :]:
        logger.debug("%s", message)
    if len(messages) > len(shown):
        logger.warning("and %d more of this kind: --verbosity DEBUG shows them", len(messages) - len(shown))

"""The index of task files, and TaskLookup: from names, tags, globs, paths and datasets to what defines tasks."""

from __future__ import annotations

import fnmatch
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from multiform.arguments import split_outside
from multiform.errors import ConfigError, MultiformError, UsageError, excerpt, nearest
from multiform.paths import is_dir, is_file, read_file
from multiform.tasks.folders import Entry, Kind, lm_eval_folder, read_folder

if TYPE_CHECKING:
    from multiform.tasks.eval_yaml import DeclaredTask
    from multiform.tasks.python_tasks import PythonTask, TaskClass

logger = logging.getLogger("multiform")


@dataclass(frozen=True)
class Index:
    """All entries by name, and the files that could not be read."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    broken: Mapping[Path, ConfigError] = field(default_factory=dict)

    def names(self, kind: Kind) -> list[str]:
        """The names of all tasks, or of all groups, in order."""
        return sorted(entry.name for entry in self.entries.values() if entry.kind == kind)

    @cached_property
    def tags(self) -> dict[str, list[str]]:
        """The tags, each with the tasks that carry it."""
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
                first = found_entries.setdefault(name.name, entry := name._replace(folder=folder, file=file))
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


#: The most names that a message lists.
_LISTED = 20
_ENDINGS = (".yaml", ".yml", ".py")
#: What the names of datasets begin with whose own `eval.yaml` declares the task.
_DECLARED = "hf/"


class UnknownNameError(UsageError):
    """A name that stands for no task, group, tag or file."""


@dataclass(frozen=True, slots=True)
class Target:
    """A task file, or a class in a Python file, with the formats that were selected for it.

    `selection` has the labels after the ``@``, which may be ``all``. A class is imported when it is used.
    """

    path: Path
    selection: tuple[str, ...] = ()
    task_class: TaskClass | type[PythonTask] | None = None
    #: The name of one task of a class with several subjects, or of a group with subsets.
    member: str | None = None
    #: What a dataset's own `eval.yaml` says.
    declared: DeclaredTask | None = None


class TaskLookup:
    """Finds the files and classes that names stand for, in the index of some folders."""

    def __init__(self, folders: Sequence[Path], dataset_mirror: Path | None) -> None:
        self.folders = folders
        self.dataset_mirror = dataset_mirror

    @cached_property
    def index(self) -> Index:
        """The tasks, groups and tags of all folders, read when they are first needed."""
        return build_index(self.folders)

    def targets(self, spec: str) -> list[Target]:
        """The files of ``name``, ``name@format``, ``name@a+b``, ``name@all`` or ``name@format~16``."""
        if "@" not in spec or is_file(Path(spec)):
            return self._look_up(spec, spec)
        base, _, selection = spec.rpartition("@")
        if "@" in base and not is_file(Path(base)):
            name, _, first = base.partition("@")
            hint = f"join formats with '+': {name}@{first.replace('@', '+')}+{selection}"
            raise UsageError("more than one '@'", where=shorten_name(spec), hint=hint)
        labels = tuple(split_outside(selection, "+"))
        if not labels:
            from multiform.formats.base import formats

            hint = f"name one: {', '.join(formats)}, or all"
            raise UsageError("no format after the '@'", where=shorten_name(spec), hint=hint)
        return [replace(target, selection=labels) for target in self._look_up(base, spec)]

    def _look_up(self, base: str, spec: str) -> list[Target]:
        """The targets of a name, tag, glob, path or dataset with an `eval.yaml`."""
        if base.startswith(_DECLARED) and not base.endswith(_ENDINGS):
            from multiform.tasks.eval_yaml import declared_tasks

            return [Target(task.path, declared=task) for task in declared_tasks(base, self.dataset_mirror)]
        if base.endswith((".yaml", ".yml")):
            return [Target(Path(base))]
        entries = self.index.entries if not base.endswith(".py") else {}
        if base in entries:
            return [_target(entries[base])]
        from multiform.tasks.python_tasks import python_tasks_of, task_classes  # which listing tasks does not need

        if base.endswith(".py"):
            return [Target(Path(base), task_class=task_class) for task_class in python_tasks_of(Path(base))]
        if base in task_classes:
            return [Target(Path(base), task_class=task_classes.get(base))]
        tags = self.index.tags
        if base in tags:
            return [_target(entries[name]) for name in tags[base]]
        matches = [name for name in sorted(entries) if fnmatch.fnmatchcase(name, base)]
        if matches:
            return [_target(entries[name]) for name in matches]
        member = self._subject(base)
        if member is not None:
            return [member]
        raise self._unknown_name(base, spec)

    def _subject(self, base: str) -> Target | None:
        """The target of one subject of a Python task, by the name that results show."""
        from multiform.tasks.python_tasks import instantiate, task_classes

        entries = self.index.entries
        for name in sorted({*entries, *task_classes}, key=len, reverse=True):
            if not base.startswith(f"{name}_"):
                continue
            defined = entries.get(name)
            target = _target(defined) if defined else Target(Path(name), task_class=task_classes.get(name))
            if target.task_class is not None and base in instantiate(target.task_class).member_names():
                return replace(target, member=base)
        return None

    def _unknown_name(self, base: str, spec: str) -> UnknownNameError:
        """The error for a name that stands for nothing, with what may have been meant."""
        from multiform.tasks.python_tasks import task_classes

        message = "no task, tag or file of that name" if base == spec else f"no task, tag or file {excerpt(base)}"
        if not base:
            message, hint = "no task before the '@'", "write e.g. quiz@mcqa"
        elif is_dir(Path(base)):
            message, hint = "it is a folder", f"give it as --include_path {base} and name its tasks"
        elif is_file(Path(base)):
            message, hint = "it is not a task file", f"a task file ends in {' or '.join(_ENDINGS)}"
            if base.endswith((".csv", ".tsv", ".jsonl", ".json", ".parquet")):
                message, hint = "it is a data file", f"write a task for it: multiform new {base} --output my_task.yaml"
        elif files := [name for ending in _ENDINGS if is_file(Path(name := base + ending))]:
            hint = f"there is a file of that name: write {files[0]}{spec.removeprefix(base)}"
        elif broken := self._file_error(base):
            hint = f"its file cannot be read: {broken}"
        elif self._may_be_of_lm_eval(base):
            hint = "for lm-eval's own tasks add --include_path lm_eval"
        else:
            known = [*self.index.entries, *self.index.tags, *task_classes]
            hint = nearest(base, known, listed="tasks and tags")
            if len(known) > _LISTED and hint.startswith("tasks and tags"):
                hint = "'multiform ls tasks' and 'multiform ls tags' list them"
            if self.index.broken:
                first = next(iter(self.index.broken.values()))
                hint += f" (task files that cannot be read: {len(self.index.broken)}, the first: {first})"
        return UnknownNameError(message, where=shorten_name(spec), hint=hint)

    def _may_be_of_lm_eval(self, base: str) -> bool:
        """Whether the installed lm-eval has a file or folder of the name, and its tasks are not included.

        Its files are not read: that would take seconds.
        """
        folder = lm_eval_folder()
        if folder is None or folder in self.folders:
            return False
        names = {base, f"{base}.yaml"}
        return any(not names.isdisjoint((*folders, *files)) for _, folders, files in os.walk(folder))

    def _file_error(self, name: str) -> MultiformError | None:
        """The error of the file that seems to define the name, if it cannot be read."""
        defined = re.compile(rf"^task:\s*['\"]?{re.escape(name)}['\"]?\s*(#|$)", re.MULTILINE)
        for path, error in self.index.broken.items():
            with suppress(OSError):
                if path.stem == name or defined.search(read_file(path).decode("utf-8", "replace")):
                    return error
        return None


def _target(entry: Entry) -> Target:
    return Target(entry.path, task_class=entry.task_class, member=entry.name if entry.family else None)


def shorten_name(spec: str) -> str:
    """The name of tasks in a message, cut if it is very long."""
    return spec if len(spec) < 100 else spec[:99] + "…"

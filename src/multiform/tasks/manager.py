"""TaskManager: from what a user names to the configurations of the forms to run."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from multiform.config import TaskConfig, YamlFile, read_yaml
from multiform.config.source import display
from multiform.errors import ConfigError, UsageError, nearest
from multiform.formats import FieldMapping, supported_formats
from multiform.tasks.index import LIBRARY, Index, build_index


class TaskManager:
    """Finds tasks by name, tag, glob or path, each with the formats that follow an ``@``."""

    def __init__(self, include_path: str | Path | Iterable[str | Path] | None = None) -> None:
        given = [include_path] if isinstance(include_path, str | Path) else list(include_path or ())
        self.folders = [LIBRARY, *(Path(folder) for folder in given)]
        for folder in self.folders:
            if not folder.is_dir():
                raise UsageError(f"no folder {folder}", where="--include_path", hint="check the path")

    @cached_property
    def index(self) -> Index:
        return build_index(self.folders)

    def load(self, specs: str | Sequence[str], overrides: Mapping[str, Any] | None = None) -> list[TaskConfig]:
        """The configurations of all forms that the specifications name, each form once.

        >>> [config.form_name for config in TaskManager().load("quiz@mcqa+cloze")]
        ['quiz@mcqa', 'quiz@cloze']
        """
        names = [specs] if isinstance(specs, str) else list(specs)
        names = [name.strip() for spec in names for name in spec.split(",") if name.strip()]
        if not names:
            raise UsageError("no tasks named", where="--tasks", hint="name some, e.g. --tasks quiz@all")
        found: dict[str, TaskConfig] = {}
        for name in names:
            for config in self._forms(name, dict(overrides or {})):
                found.setdefault(config.form_name, config)
        return list(found.values())

    def _forms(self, spec: str, overrides: dict[str, Any]) -> list[TaskConfig]:
        """The forms of one specification: ``name``, ``name@format``, ``name@a+b`` or ``name@all``."""
        base, _, selection = spec.rpartition("@") if "@" in spec and not Path(spec).is_file() else (spec, "", "")
        files = [self._file(path) for path in self._paths(base, spec)]
        return [config for file in files for config in self._configs(file, selection, overrides)]

    def _configs(self, file: YamlFile, selection: str, overrides: dict[str, Any]) -> list[TaskConfig]:
        if "group" in file.data:
            raise ConfigError("groups are not supported yet", where=str(file.source.at("group")), hint="name its tasks")
        labels: list[str | None] = [label for label in selection.split("+") if label] or [None]
        if labels == ["all"]:
            labels = list(self._supported(file))
        made = []
        for label in labels:
            data = {**file.data, **overrides}
            if label is not None:
                data["_formats_selection"] = label
            made.append(TaskConfig.from_dict(data, source=file.source))
        return made

    def _supported(self, file: YamlFile) -> list[str]:
        data = file.data
        mapping = FieldMapping(data.get("doc_to_text"), data.get("doc_to_choice"), data.get("doc_to_target"))
        try:
            return supported_formats(data.get("formats"), mapping)
        except ConfigError as error:
            raise ConfigError(error.what, where=str(file.source.at("formats")), hint=error.hint) from error

    def _paths(self, base: str, spec: str) -> list[Path]:
        """The task files that a name, tag, glob or path stands for."""
        if base.endswith((".yaml", ".yml")):
            return [Path(base)]
        entries = self.index.entries
        if base in entries:
            return [entries[base].path]
        tags = self.index.tags()
        if base in tags:
            return [entries[name].path for name in tags[base]]
        matches = [name for name in sorted(entries) if fnmatch.fnmatchcase(name, base)]
        if matches:
            return [entries[name].path for name in matches]
        raise self._unknown(base, spec)

    def _unknown(self, base: str, spec: str) -> UsageError:
        hint = nearest(base, [*self.index.entries, *self.index.tags()], listed="tasks")
        broken = [error for error in self.index.broken if base in str(error)]
        if broken:
            hint = f"a file that could define it is broken: {broken[0]}"
        elif self.index.broken:
            hint += f" ({len(self.index.broken)} task files could not be read: multiform validate says why)"
        return UsageError(f"no task, tag or file '{base}'", where=spec if spec != base else None, hint=hint)

    def _file(self, path: Path) -> YamlFile:
        if path.is_dir():
            raise UsageError(f"{display(path)} is a folder", hint="give it as --include_path and name its tasks")
        return read_yaml(path)

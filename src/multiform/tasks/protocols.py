"""Protocols: named, versioned forms of several tasks, which a file adds to the `formats:` of the tasks.

A protocol is data. Its file has, for each task, entries as a task's own `formats:` has them: ``arc_easy@olmes-mc`` is
the entry `olmes-mc` of the protocol `olmes`. Each entry gets the key `protocol`, on which the identity of its forms
depends; nothing else tells it from an entry of the task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from multiform.errors import ConfigError, shorten
from multiform.formats.select import format_table
from multiform.tasks.check import check_keys
from multiform.tasks.source import Source, StatedKeys
from multiform.tasks.yaml import read_own

#: The folder of protocols in the library and in each folder of `--include_path`.
FOLDER = "protocols"
_KEYS = ("protocol", "version", "about", "source", "unchecked", "parts", "tasks")


@dataclass(frozen=True, slots=True)
class Protocol:
    """The entries of a protocol, by task or group and by label."""

    name: str
    version: str
    tasks: Mapping[str, Mapping[str, Mapping[str, Any]]]
    source: Source
    #: What the protocol is, in a sentence, where its prompts were published, and what could not be compared with that.
    about: str = ""
    published: str = ""
    unchecked: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Protocol:
        """Read the file of a protocol."""
        stated = read_own(path)
        data, place = stated.data, stated.where
        check_keys("a protocol", _KEYS, data, place)
        for key, kinds, example in (
            ("protocol", str, "protocol: mine"),
            ("version", str | int, "version: 1"),
            ("tasks", dict, "tasks: {arc_easy: {mine: {type: mcqa}}}"),
        ):
            if not isinstance(data.get(key), kinds):
                message = f"a protocol needs '{key}', got {shorten(data.get(key))}"
                raise ConfigError(message, where=place(key), hint=f"write e.g. {example}")
        name = data["protocol"]
        for task, entries in data["tasks"].items():
            if not isinstance(entries, dict):
                raise ConfigError("expected entries", where=place("tasks", task), hint=f"write {{{name}: {{...}}}}")
            for label, entry in entries.items():
                if label != name and not str(label).startswith(f"{name}-"):
                    hint = f"call it {name} or {name}-{label}"
                    raise ConfigError(f"the entry '{label}'", where=place("tasks", task, label), hint=hint)
                if not isinstance(entry, dict):
                    hint = "write e.g. {type: mcqa}"
                    raise ConfigError("expected a format", where=place("tasks", task, label), hint=hint)
        assert stated.source is not None
        about, published, unchecked = (data.get(key) or "" for key in ("about", "source", "unchecked"))
        return cls(name, str(data["version"]), data["tasks"], stated.source, about, published, tuple(unchecked))

    def labels(self, names: Iterable[str]) -> list[str]:
        """The labels that the protocol has for a task of these names: its own, and that of its group."""
        return list(dict.fromkeys(label for name in names for label in self.tasks.get(name, ())))

    def entry(self, name: str, label: str) -> dict[str, Any] | None:
        """The entry of a task or group, as its `formats:` would have it."""
        entry = self.tasks.get(name, {}).get(label)
        return None if entry is None else {**entry, "protocol": f"{self.name} {self.version}"}


def read_protocols(folders: Iterable[Path]) -> dict[str, Protocol]:
    """The protocols in these folders by name; those of later folders replace earlier ones of the same name."""
    files = [file for folder in folders for file in sorted((folder / FOLDER).glob("*.yaml"))]
    return {protocol.name: protocol for protocol in map(Protocol.read, files)}


def add_entry(stated: StatedKeys, label: str | None, protocols: Mapping[str, Protocol]) -> StatedKeys:
    """What a task or group states, with the entry of the protocol that the label names, unless it has its own."""
    base = (label or "").partition("[")[0]
    if not base:
        return stated
    name = stated.get("group") or stated.get("task")
    for protocol in protocols.values():
        entry = protocol.entry(str(name), base)
        if entry is None:
            continue
        table = format_table(stated.get("formats"))
        if base in table:
            return stated
        return replace(
            stated.with_keys(formats={**table, base: entry}),
            source=_with_positions(stated.source, protocol.source.under("tasks", str(name), base), base, entry),
        )
    return stated


def _with_positions(source: Source | None, entry: Source, label: str, keys: Iterable[str]) -> Source:
    """The positions of a task's keys, and those of the keys that the entry of a protocol sets, in its own file."""
    inner = {("formats", label, *path): position for path, position in entry.positions.items()}
    inner |= {(key,): entry.at(key) for key in keys}
    known = {} if source is None else {path: at for path, at in source.positions.items() if path[:1] not in inner}
    file, notes = (entry.file, ()) if source is None else (source.file, source.notes)
    return Source(file, {**known, **inner}, notes)

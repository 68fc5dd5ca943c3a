"""Protocols: named, versioned forms of several tasks, which a file adds to the `formats:` of the tasks.

A protocol is data. Its file has, for each task, entries as a task's own `formats:` has them: ``arc_easy@olmes-mc`` is
the entry `olmes-mc` of the protocol `olmes`. Each entry gets the key `protocol`, on which the identity of its forms
depends; nothing else tells it from an entry of the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from multiform.errors import ConfigError, excerpt, nearest
from multiform.formats.select import format_table
from multiform.schema import check_keys
from multiform.tasks.keys import Source, StatedKeys
from multiform.tasks.yaml import read_own

#: The folder of protocols in the library and in each folder of `--include_path`.
FOLDER = "protocols"
_KEYS = ("protocol", "version", "versions", "about", "source", "unchecked", "parts", "tasks")


@dataclass(frozen=True, slots=True)
class Protocol:
    """The entries of a protocol, by task or group and by label."""

    name: str
    version: str
    tasks: Mapping[str, Mapping[str, Mapping[str, Any]]]
    source: Source
    #: What the protocol is, in a sentence, and where its prompts were published.
    about: str = ""
    published: str = ""
    #: What is only an approximation, or could not be compared with what was published, by task.
    unchecked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: The versions of tasks that changed when others did not.
    versions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_file(cls, path: Path) -> Protocol:
        """The protocol that a file describes."""
        stated = read_own(path)
        data, place = stated.data, stated.where
        check_keys("a protocol", _KEYS, data, place)
        for key, kinds, example in (
            ("protocol", str, "protocol: mine"),
            ("version", str | int, "version: 1"),
            ("tasks", dict, "tasks: {arc_easy: {mine: {type: mcqa}}}"),
        ):
            if not isinstance(data.get(key), kinds):
                message = f"a protocol needs '{key}', got {excerpt(data.get(key))}"
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
        about, published = (data.get(key) or "" for key in ("about", "source"))
        unchecked = _read_unchecked(data.get("unchecked") or [], data["tasks"], place)
        versions = data.get("versions") or {}
        if not isinstance(versions, dict):
            hint = "write e.g. versions: {quiz: 2}"
            raise ConfigError("expected a version for each task", where=place("versions"), hint=hint)
        named = [*(("unchecked", task) for task in unchecked), *(("versions", task) for task in versions)]
        for key, task in named:
            if task not in data["tasks"]:
                hint = nearest(str(task), data["tasks"], listed="tasks of the protocol")
                raise ConfigError(f"the protocol has no task '{task}'", where=place(key, str(task)), hint=hint)
        return cls(
            name=name,
            version=str(data["version"]),
            tasks=data["tasks"],
            source=stated.source,
            about=about,
            published=published,
            unchecked=unchecked,
            versions={task: str(version) for task, version in versions.items()},
        )

    def labels(self, names: Iterable[str]) -> list[str]:
        """The labels that the protocol has for a task of these names: its own, and that of its group."""
        return list(dict.fromkeys(label for name in names for label in self.tasks.get(name, ())))

    def entry(self, name: str, label: str) -> dict[str, Any] | None:
        """The entry of a task or group, as its `formats:` would have it."""
        entry = self.tasks.get(name, {}).get(label)
        version = self.versions.get(name, self.version)
        return None if entry is None else {**entry, "protocol": f"{self.name} {version}"}

    def notes(self, task: str) -> tuple[ConfigError, ...]:
        """A note for each thing in which the forms of a task or group may differ from what was published."""
        place = str(self.source.at("unchecked", task))
        form = f"{task}@{self.name}"
        texts = self.unchecked.get(task, ())
        return tuple(ConfigError(f"{form} may differ from what was published in {text}", where=place) for text in texts)


def _read_unchecked(stated: Any, tasks: Iterable[str], place: Callable[..., str | None]) -> dict[str, tuple[str, ...]]:
    """What `unchecked` says of each task: a list is about all of them, a mapping has a list for each."""
    by_task = dict.fromkeys(tasks, stated) if isinstance(stated, list) else stated
    if not isinstance(by_task, dict):
        raise ConfigError("expected a list, or one for each task", where=place("unchecked"), hint="write a list")
    for texts in by_task.values():
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            hint = "write what was not compared, e.g. [the order of the options]"
            raise ConfigError(f"expected a list of texts, got {excerpt(texts)}", where=place("unchecked"), hint=hint)
    return {task: tuple(texts) for task, texts in by_task.items() if texts}


def read_protocols(folders: Iterable[Path]) -> dict[str, Protocol]:
    """The protocols in these folders by name; those of later folders replace earlier ones of the same name."""
    files = [file for folder in folders for file in sorted((folder / FOLDER).glob("*.yaml"))]
    return {protocol.name: protocol for protocol in map(Protocol.from_file, files)}


def add_entry(stated: StatedKeys, label: str, protocols: Mapping[str, Protocol]) -> StatedKeys:
    """What a task or group states, with the entry of the protocol that the label names, unless it has its own."""
    base = label.partition("[")[0]
    name = str(stated.get("group") or stated.get("task"))
    entries = [(protocol, entry) for protocol in protocols.values() if (entry := protocol.entry(name, base))]
    table = format_table(stated.get("formats")) if entries else {}
    if not entries or base in table:
        return stated
    protocol, entry = entries[0]
    # The keys that the entry sets are in the file of the protocol.
    inside = protocol.source.under("tasks", name, base)
    positions = {("formats", base, *path): position for path, position in inside.positions.items()}
    positions |= {(key,): inside.at(key) for key in entry}
    source = stated.source or Source(inside.file)
    known = {path: position for path, position in source.positions.items() if path[:1] not in positions}
    source = Source(source.file, {**known, **positions}, (*source.notes, *protocol.notes(name)))
    return replace(stated.with_keys(formats={**table, base: entry}), source=source)

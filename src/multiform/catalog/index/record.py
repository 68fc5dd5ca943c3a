"""What is known of one task file. Records are plain lists in the kept index."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from multiform.catalog.index.entry import Entry, Kind
from multiform.catalog.index.stamps import Stamp
from multiform.errors import ConfigError


class Name(NamedTuple):
    """A name that a file defines: a task or group of YAML, or a class at a line of a Python file."""

    name: str
    kind: Kind
    tags: Sequence[str] = ()
    attribute: str | None = None
    line: int = 0


class Fault(NamedTuple):
    """The parts of the error of a file that cannot be read, with its paths in full."""

    what: str
    where: str | None
    hint: str | None


class Record(NamedTuple):
    """What a file of a certain stamp defines, with what it includes, in whatever depth."""

    stamp: Stamp
    names: Sequence[Name] = ()
    included: Sequence[str] = ()
    fault: Fault | None = None


def entry_of(name: Name, folder: Path, file: str) -> Entry:
    """The entry of a name in a file of a folder."""
    return Entry(name.name, name.kind, folder, file, tuple(name.tags), name.attribute, name.line)


def error_of(fault: Fault) -> ConfigError:
    """The error of a file, its paths relative to here where that is shorter."""
    here = os.getcwd() + os.sep
    where, hint = (text and text.replace(here, "") for text in (fault.where, fault.hint))
    return ConfigError(fault.what, where=where, hint=hint)

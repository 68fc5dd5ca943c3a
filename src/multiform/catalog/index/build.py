"""Building the index of several folders, from what is kept and what has changed since."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from multiform.catalog.index.entry import Entry, Index
from multiform.catalog.index.kept import Kept, load, save
from multiform.catalog.index.record import Record, entry_of, error_of
from multiform.catalog.index.stamps import scan, settled, stamp_of
from multiform.catalog.index.workers import joined, read_files
from multiform.errors import ConfigError

logger = logging.getLogger("multiform")

#: A folder of fewer files is read as quickly as an index of it.
_WORTH_KEEPING = 50
_MESSAGES = 10


def build_index(folders: Iterable[Path]) -> Index:
    """What the task files below the folders define; a later folder's task replaces one of the same name."""
    entries: dict[str, Entry] = {}
    broken: dict[Path, ConfigError] = {}
    for folder in folders:
        here: dict[str, Entry] = {}
        twice = []
        for file, record in read_folder(folder).items():
            if record.fault is not None:
                broken[folder / file] = error_of(record.fault)
            for name in record.names:
                first = here.setdefault(name.name, entry := entry_of(name, folder, file))
                if first is not entry:
                    twice.append(f"task '{first.name}' is defined twice: {first.path} is used, {entry.path} is not")
        warn_of(twice)
        replaced = sorted(here.keys() & entries.keys())
        warn_of([f"task '{name}' of {folder} replaces the one of {entries[name].path}" for name in replaced])
        entries |= here
    return Index(entries, broken)


def read_folder(folder: Path) -> dict[str, Record]:
    """The records of a folder's task files in the order of their names; only files that changed are read."""
    root = os.path.realpath(folder)
    began = time.time_ns()
    files = scan(root)
    if len(files) < _WORTH_KEEPING:
        return read_files(root, files).files
    kept = load(root)
    changed = {file for file, stamp in kept.included.items() if stamp_of(os.path.join(root, file)) != stamp}
    valid = {
        file: record
        for file, record in kept.files.items()
        if files.get(file) == record.stamp and not (changed and changed.intersection(record.included))
    }
    if len(valid) == len(files) == len(kept.files):
        return valid
    new = read_files(root, {file: stamp for file, stamp in files.items() if file not in valid})
    unchanged = {file: stamp for file, stamp in kept.included.items() if file not in changed}
    whole = joined([Kept(valid, unchanged), new])
    records = {file: whole.files[file] for file in files}
    _keep(root, Kept(records, whole.included), began)
    return records


def warn_of(messages: Sequence[str]) -> None:
    """Log the messages as warnings; of very many only the first, as the rest would hide all else."""
    shown = messages if len(messages) <= _MESSAGES else messages[: _MESSAGES // 2]
    for message in shown:
        logger.warning("%s", message)
    for message in messages[len(shown) :]:
        logger.debug("%s", message)
    if len(messages) > len(shown):
        logger.warning("and %d more of this kind: --verbosity DEBUG shows them", len(messages) - len(shown))


def _keep(root: str, kept: Kept, began: int) -> None:
    ended = time.time_ns()
    files = {file: record._replace(stamp=settled(record.stamp, began, ended)) for file, record in kept.files.items()}
    used = {name for record in files.values() for name in record.included}
    included = {file: settled(stamp, began, ended) for file, stamp in kept.included.items() if file in used}
    try:
        save(root, Kept(files, included))
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
        _warn_once(f"the index of task files cannot be kept: {error}; set MULTIFORM_CACHE to a folder of yours")


@cache
def _warn_once(message: str) -> None:
    logger.warning("%s", message)

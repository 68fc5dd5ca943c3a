"""Build the index of task folders: unchanged files come from the cache, the others are read."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from multiform.errors import ConfigError
from multiform.tasks.index.cache import FolderIndex, load, save
from multiform.tasks.index.entry import Entry, Index, Record, entry_of, error_of
from multiform.tasks.index.stamps import scan, settled, stamp_of

logger = logging.getLogger("multiform")

#: Reading a folder of fewer files takes no longer than reading its cached index.
_WORTH_CACHING = 50
_MESSAGES = 10


def build_index(folders: Iterable[Path]) -> Index:
    """Index the task files below the folders; a task of a later folder replaces one of the same name."""
    entries: dict[str, Entry] = {}
    broken: dict[Path, ConfigError] = {}
    for folder in folders:
        found_entries: dict[str, Entry] = {}
        twice = []
        for file, record in read_folder(folder).items():
            if record.fault is not None:
                broken[folder / file] = error_of(record.fault)
            for name in record.names:
                first = found_entries.setdefault(name.name, entry := entry_of(name, folder, file))
                if first is not entry:
                    twice.append(f"task '{first.name}' is defined twice: {first.path} is used, {entry.path} is not")
        warn_of(twice)
        replaced = sorted(found_entries.keys() & entries.keys())
        warn_of([f"task '{name}' of {folder} replaces the one of {entries[name].path}" for name in replaced])
        entries |= found_entries
    return Index(entries, broken)


def read_folder(folder: Path) -> dict[str, Record]:
    """The records of a folder's task files, sorted by name; only files that changed since the last run are read."""
    root = os.path.realpath(folder)
    started = time.time_ns()
    files = scan(root)
    if len(files) < _WORTH_CACHING:
        from multiform.tasks.index.reader import read_files

        return read_files(root, files).files
    cached = load(root)
    changed = {file for file, stamp in cached.included.items() if stamp_of(os.path.join(root, file)) != stamp}
    valid = {
        file: record
        for file, record in cached.files.items()
        if files.get(file) == record.stamp and not (changed and changed.intersection(record.included))
    }
    if len(valid) == len(files) == len(cached.files):
        return valid
    from multiform.tasks.index.reader import joined, read_files  # only now, as the cached index is mostly up to date

    new = read_files(root, {file: stamp for file, stamp in files.items() if file not in valid})
    unchanged = {file: stamp for file, stamp in cached.included.items() if file not in changed}
    index = joined([FolderIndex(valid, unchanged), new])
    records = {file: index.files[file] for file in files}
    _save_index(root, FolderIndex(records, index.included), started)
    return records


def warn_of(messages: Sequence[str]) -> None:
    """Log the messages as warnings; of more than ten, only the first five."""
    shown = messages if len(messages) <= _MESSAGES else messages[: _MESSAGES // 2]
    for message in shown:
        logger.warning("%s", message)
    for message in messages[len(shown) :]:
        logger.debug("%s", message)
    if len(messages) > len(shown):
        logger.warning("and %d more of this kind: --verbosity DEBUG shows them", len(messages) - len(shown))


def _save_index(root: str, index: FolderIndex, started: int) -> None:
    ended = time.time_ns()
    files = {file: record._replace(stamp=settled(record.stamp, started, ended)) for file, record in index.files.items()}
    used = {name for record in files.values() for name in record.included}
    included = {file: settled(stamp, started, ended) for file, stamp in index.included.items() if file in used}
    try:
        save(root, FolderIndex(files, included))
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
        _warn_once(f"the index of task files cannot be cached: {error}; set MULTIFORM_CACHE to a folder of yours")


@cache
def _warn_once(message: str) -> None:
    logger.warning("%s", message)

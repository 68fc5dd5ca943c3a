"""Maintenance of a store: list its models, prune old responses, export and merge stores."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from multiform.errors import UsageError
from multiform.run.store import database
from multiform.run.store.database import check_local
from multiform.run.store.store import is_intact

logger = logging.getLogger("multiform")

#: Bytes of a row besides the output: the hash of the request, the model, the time, the checksum.
_OVERHEAD = 70
_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    """The responses of one model in a store; the times are None where the file does not record them."""

    identity: str
    responses: int
    #: The approximate size of its responses in bytes.
    size: int
    oldest: int | None
    newest: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """The responses that were removed, or would be."""

    responses: int
    size_before: int
    size_after: int


def usage(path: Path) -> list[ModelUsage]:
    """The responses of each model in a store, the newest first."""
    with _reading(path) as connection:
        query = f"""
            SELECT identity, count(*), sum(length(output) + {_OVERHEAD}),
                min(nullif(created, 0)), max(nullif(created, 0))
            FROM answers JOIN models ON model = id GROUP BY id ORDER BY max(created) DESC"""
        return [
            ModelUsage(identity=row[0], responses=row[1], size=row[2], oldest=row[3], newest=row[4])
            for row in connection.execute(database.adapt_query(connection, query))
        ]


def export_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Every response of a store: its model, the hash of its request, its output as it is stored, and its time."""
    with _reading(path) as connection:
        for identity in [row[0] for row in connection.execute("SELECT identity FROM models ORDER BY identity")]:
            for request, output, created, _ in _intact_rows(connection, identity, path):
                yield {"model": identity, "request": request.hex(), "output": output, "created": created or None}


def merge(into: Path, sources: Sequence[Path]) -> int:
    """Add the responses and facts of other stores to `into`, which is created if needed; returns how many are new.

    Of two responses to one request, the one in `into` stays.
    """
    for source in sources:
        if source.resolve() == into.resolve():
            raise UsageError(f"'{source}' would be merged into itself", where="store merge", hint="name other files")
        if not source.is_file():
            raise _no_store(source)
    check_local(into)
    added = 0
    with _writing(into) as connection:
        for source in sources:
            with _reading(source) as source_connection, connection:
                query = database.adapt_query(source_connection, "SELECT signature, facts, checksum FROM facts")
                connection.executemany(
                    "INSERT OR IGNORE INTO facts (signature, facts, checksum) VALUES (?, ?, ?)",
                    source_connection.execute(query),
                )
                for (identity,) in source_connection.execute("SELECT identity FROM models").fetchall():
                    connection.execute("INSERT OR IGNORE INTO models (identity) VALUES (?)", (identity,))
                    added += _insert(connection, identity, _intact_rows(source_connection, identity, source))
    return added


def prune(
    path: Path,
    *,
    max_age: float | None = None,
    max_size: int | None = None,
    model: str | None = None,
    dry: bool = False,
) -> Pruned:
    """Remove responses older than `max_age` seconds, then the oldest ones until the rest fits into `max_size` bytes.

    With `model`, only those of models whose identity contains that text. Responses of unknown age are the oldest.
    With `dry` nothing is removed.
    """
    if not path.is_file():
        raise _no_store(path)
    before = _size(path)
    with _writing(path) as connection:
        with connection:
            removed = _delete(connection, max_age, max_size, model)
            if dry:
                connection.rollback()
        if removed and not dry:
            connection.execute("DELETE FROM models WHERE id NOT IN (SELECT DISTINCT model FROM answers)")
            connection.commit()
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Pruned(responses=removed, size_before=before, size_after=_size(path))


def prune_files(folder: Path, pattern: str, *, max_age: float, dry: bool = False) -> int:
    """Remove the files of a cache that are older than `max_age` seconds; returns how many there were."""
    old = [file for file in folder.glob(pattern) if file.stat().st_mtime < time.time() - max_age]
    for file in old if not dry else ():
        file.unlink(missing_ok=True)
    return len(old)


def _delete(connection: sqlite3.Connection, max_age: float | None, max_size: int | None, model: str | None) -> int:
    chosen = "model IN (SELECT id FROM models WHERE instr(identity, ?))"
    name = model or ""
    removed = 0
    if max_age is not None:
        query = f"DELETE FROM answers WHERE {chosen} AND created < ?"
        removed += connection.execute(query, (name, int(time.time() - max_age))).rowcount
    if max_size is not None:
        query = f"""
            DELETE FROM answers WHERE (model, request) IN (
                SELECT model, request FROM (
                    SELECT model, request,
                        sum(length(output) + {_OVERHEAD}) OVER (ORDER BY created DESC, model, request) AS total
                    FROM answers WHERE {chosen})
                WHERE total > ?)"""
        removed += connection.execute(query, (name, max_size)).rowcount
    if max_age is None and max_size is None:
        removed += connection.execute(f"DELETE FROM answers WHERE {chosen}", (name,)).rowcount
    return removed


def _insert(connection: sqlite3.Connection, identity: str, rows: Iterable[Sequence[Any]]) -> int:
    (model,) = connection.execute("SELECT id FROM models WHERE identity = ?", (identity,)).fetchone()
    query = "INSERT OR IGNORE INTO answers (model, request, output, created, checksum) VALUES (?, ?, ?, ?, ?)"
    remaining = iter(rows)
    added = 0
    while batch := [(model, *row) for row in islice(remaining, _AT_ONCE)]:
        added += connection.executemany(query, batch).rowcount
    return added


def _intact_rows(connection: sqlite3.Connection, identity: str, path: Path) -> Iterator[Sequence[Any]]:
    """The request, output, time and checksum of each response of a model; damaged ones are left out, with a warning."""
    query = """
        SELECT request, output, created, checksum FROM answers JOIN models ON model = id WHERE identity = ?
        ORDER BY request"""
    for request, output, created, stored in connection.execute(database.adapt_query(connection, query), (identity,)):
        if is_intact(identity, request, str(output), stored):
            yield request, output, created, stored
        else:
            message = "%s: the response %s of %s is damaged, and left out"
            logger.warning(message, path, request.hex()[:16], identity)


def _size(path: Path) -> int:
    """The bytes of the file, with SQLite's write-ahead log."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def _no_store(path: Path) -> UsageError:
    hint = "name another with --cache_path; the first run that stores responses creates it"
    return UsageError("there is no store", where=str(path), hint=hint)


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    with _errors(path):
        connection = database.connect_to_read(path)
        if connection is None:
            raise _no_store(path)
        with closing(connection):
            yield connection


@contextmanager
def _writing(path: Path) -> Iterator[sqlite3.Connection]:
    with _errors(path), closing(database.connect(path)) as connection:
        yield connection


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        hint = "check that it is a store of Multiform that no other process is writing"
        raise UsageError(f"the store cannot be used: {error}", where=str(path), hint=hint) from error

"""The SQLite file of the store: its tables, how it is opened, and its maintenance.

Maintenance lists the models of a store, prunes old responses, and exports and merges stores.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multiform.errors import UsageError
from multiform.requests import sha256_of

logger = logging.getLogger("multiform")

#: Seconds to wait for another process that is writing.
PATIENCE = 10.0
#: Marks the file as ours, and says which tables it has.
APPLICATION = 0x4D666F72
LAYOUT = 3
TABLES = (
    "CREATE TABLE models (id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE)",
    # `checksum` is NULL in rows from before there was one.
    "CREATE TABLE facts (signature TEXT PRIMARY KEY, facts TEXT NOT NULL, checksum BLOB)",
    # `created` is in seconds since 1970; 0 where it is not known.
    "CREATE TABLE answers (model INTEGER NOT NULL, request BLOB NOT NULL, output TEXT NOT NULL,"
    " created INTEGER NOT NULL DEFAULT 0, checksum BLOB, PRIMARY KEY (model, request)) WITHOUT ROWID",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {LAYOUT}",
)
#: The migrations of older files: layout 1 does not record the times of responses, and layout 2 has no checksums.
_FROM_2 = (
    "ALTER TABLE answers ADD COLUMN checksum BLOB",
    "ALTER TABLE facts ADD COLUMN checksum BLOB",
    f"PRAGMA user_version = {LAYOUT}",
)
_FROM_1 = ("ALTER TABLE answers ADD COLUMN created INTEGER NOT NULL DEFAULT 0", *_FROM_2)


def connect(path: Path) -> sqlite3.Connection:
    """Open the database for reading and writing; the tables of a new one are created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # IMMEDIATE takes the lock before reading: two processes that both read first could never both go on to write.
    database = sqlite3.connect(path, timeout=PATIENCE, isolation_level="IMMEDIATE")
    try:
        if layout(database) != LAYOUT:
            _set_up(database)
        database.execute("PRAGMA synchronous = NORMAL")  # a power cut may take the last responses, never the file
        # Many responses in one transaction touch most pages of a file: these limits, 64 MB each, save half the time.
        database.execute("PRAGMA cache_size = -65536")
        database.execute("PRAGMA wal_autocheckpoint = 16384")
    except BaseException:
        database.close()
        raise
    return database


def connect_to_read(path: Path) -> sqlite3.Connection | None:
    """Open the database for reading, also where nothing can be written; None where it has no tables yet."""
    if not path.is_file():
        return None
    place = path.absolute().as_uri()
    try:
        return _connect_by_uri(f"{place}?mode=ro")
    except sqlite3.OperationalError as error:
        if not is_read_only(error):
            raise
        # SQLite writes beside a file even to read it, unless that cannot change.
        return _connect_by_uri(f"{place}?immutable=1")


def _connect_by_uri(uri: str) -> sqlite3.Connection | None:
    database = sqlite3.connect(uri, timeout=PATIENCE, uri=True)
    # Damaged text is that of one row: its checksum tells.
    database.text_factory = lambda data: data.decode("utf-8", "replace")
    try:
        if layout(database) != 0:
            return database
    except BaseException:
        database.close()
        raise
    database.close()
    return None


def layout(database: sqlite3.Connection) -> int:
    """The layout of the tables, 0 where there are none; an error where they are those of something else."""
    # One statement, as another process may create the tables between two.
    columns = "application_id, user_version, (SELECT count(*) FROM sqlite_master)"
    query = f"SELECT {columns} FROM pragma_application_id, pragma_user_version"
    program, number, tables = database.execute(query).fetchone()
    if program == APPLICATION and not 1 <= number <= LAYOUT:
        raise sqlite3.DatabaseError(f"the file has layout {number}, of another version of Multiform")
    if program == 0 and not tables:
        return 0
    if program != APPLICATION:
        raise sqlite3.DatabaseError("the file is the database of another program")
    return int(number)


def adapt_query(database: sqlite3.Connection, query: str) -> str:
    """The query for a file that is only read, with constants for columns that an older layout does not have."""
    number = layout(database)
    query = query if number >= 2 else query.replace("created", "0")
    return query if number >= 3 else query.replace("checksum", "NULL")


def is_passing(error: Exception) -> bool:
    """Whether an error is temporary: another process writes, or the disk is full."""
    names = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_PROTOCOL")
    return str(getattr(error, "sqlite_errorname", "")).startswith(names)


def is_read_only(error: Exception) -> bool:
    """Whether an error says that the file, or SQLite's files next to it, cannot be written."""
    names = ("SQLITE_READONLY", "SQLITE_CANTOPEN")
    return str(getattr(error, "sqlite_errorname", "")).startswith(names)


def _set_up(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA journal_mode = WAL")  # readers and a writer do not wait for each other
    with database:
        database.execute("BEGIN IMMEDIATE")
        # Or another process was faster.
        for statement in {0: TABLES, 1: _FROM_1, 2: _FROM_2}.get(layout(database), ()):
            database.execute(statement)


#: Types of file systems on which several machines see one file, as /proc/mounts calls them.
_NETWORK = frozenset(Path(__file__).with_name("network_filesystems.txt").read_text(encoding="utf-8").split())


def check_local(path: Path, *, mounts: Path = Path("/proc/mounts")) -> None:
    """Refuse a store on a network file system; nothing is known where the system does not list what is mounted."""
    kind = filesystem(path, mounts)
    if kind in _NETWORK:
        message = f"the store would be on a network file system ({kind}), where SQLite may lose or damage responses"
        hint = "name a file on a local disk with --cache_path or $MULTIFORM_STORE; multiform store merge joins several"
        raise UsageError(message, where=str(path), hint=hint)


def filesystem(path: Path, mounts: Path) -> str | None:
    """The type of the file system that a path is on; None where that is not known."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
        place = path.expanduser().resolve()
    except (OSError, ValueError):  # a name that no file can have is reported where it is used
        return None
    kinds: dict[Path, str] = {}
    for line in lines:
        _, mounted, kind, *_ = [*line.split(" "), "", "", ""]
        kinds[Path(mounted.replace(r"\040", " "))] = kind.removeprefix("fuse.")  # the last mount hides those before
    return next((kinds[folder] for folder in (place, *place.parents) if folder in kinds), None)


def checksum(*texts: str) -> bytes:
    """Eight bytes that tell a row of the store from a damaged one."""
    return sha256_of(*texts)[:8]


def response_checksum(identity: str, request: bytes, line: str) -> bytes:
    """The checksum of a response: of its model, the hash of its request, and its output as a line."""
    return checksum(identity, request.hex(), line)


def is_intact(identity: str, request: bytes, line: str, stored: bytes | None) -> bool:
    """Whether a row is as it was written; rows of older files have no checksum."""
    return stored is None or stored == response_checksum(identity, request, line)


#: Bytes of a row besides the output: the hash of the request, the model, the time, the checksum.
_OVERHEAD = 70


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
    with _open_store(path) as connection:
        query = f"""
            SELECT identity, count(*), sum(length(output) + {_OVERHEAD}),
                min(nullif(created, 0)), max(nullif(created, 0))
            FROM answers JOIN models ON model = id GROUP BY id ORDER BY max(created) DESC"""
        return [
            ModelUsage(identity=row[0], responses=row[1], size=row[2], oldest=row[3], newest=row[4])
            for row in connection.execute(adapt_query(connection, query))
        ]


def export_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Every response of a store: its model, the hash of its request, its output as it is stored, and its time."""
    with _open_store(path) as connection:
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
    with _open_store(into, to_write=True) as connection:
        for source in sources:
            with _open_store(source) as source_connection, connection:
                query = adapt_query(source_connection, "SELECT signature, facts, checksum FROM facts")
                connection.executemany(
                    "INSERT OR IGNORE INTO facts (signature, facts, checksum) VALUES (?, ?, ?)",
                    source_connection.execute(query),
                )
                for (identity,) in source_connection.execute("SELECT identity FROM models").fetchall():
                    added += insert(connection, identity, _intact_rows(source_connection, identity, source))
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
    with _open_store(path, to_write=True) as connection:
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
    if max_age is None and max_size is None:
        max_size = 0
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
    return removed


def model_id(connection: sqlite3.Connection, identity: str) -> int | None:
    """The number of a model in the file; None if it has none."""
    row = connection.execute("SELECT id FROM models WHERE identity = ?", (identity,)).fetchone()
    return None if row is None else int(row[0])


def insert(
    connection: sqlite3.Connection, identity: str, rows: Iterable[Sequence[Any]], *, replace: bool = False
) -> int:
    """Add responses of a model: request, output, time and checksum; returns how many were added or replaced."""
    connection.execute("INSERT OR IGNORE INTO models (identity) VALUES (?)", (identity,))
    model = model_id(connection, identity)
    insertion = f"INSERT OR {'REPLACE' if replace else 'IGNORE'} INTO answers"
    query = f"{insertion} (model, request, output, created, checksum) VALUES (?, ?, ?, ?, ?)"
    return connection.executemany(query, ((model, *row) for row in rows)).rowcount


def _intact_rows(connection: sqlite3.Connection, identity: str, path: Path) -> Iterator[Sequence[Any]]:
    """The request, output, time and checksum of each response of a model; damaged ones are left out, with a warning."""
    query = """
        SELECT request, output, created, checksum FROM answers JOIN models ON model = id WHERE identity = ?
        ORDER BY request"""
    for request, output, created, stored in connection.execute(adapt_query(connection, query), (identity,)):
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
    hint = "check the name; the first run that stores responses creates it"
    return UsageError("there is no store", where=str(path), hint=hint)


@contextmanager
def _open_store(path: Path, *, to_write: bool = False) -> Iterator[sqlite3.Connection]:
    """The database of a store, whose errors are reported to the user."""
    try:
        connection = connect(path) if to_write else connect_to_read(path)
        if connection is None:
            raise _no_store(path)
        with closing(connection):
            yield connection
    except (sqlite3.Error, OSError) as error:
        hint = "check that it is a store of Multiform that no other process is writing"
        raise UsageError(f"the store cannot be used: {error}", where=str(path), hint=hint) from error

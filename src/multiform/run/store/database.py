"""The SQLite file of the store: its tables, how it is opened, and which of its errors are temporary."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from multiform.errors import UsageError

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
        return _reading(f"{place}?mode=ro")
    except sqlite3.OperationalError as error:
        if not is_read_only(error):
            raise
        # SQLite writes beside a file even to read it, unless that cannot change.
        return _reading(f"{place}?immutable=1")


def _reading(uri: str) -> sqlite3.Connection | None:
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

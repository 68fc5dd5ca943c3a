"""The SQLite file of the store: its tables, and how it is opened."""

from __future__ import annotations

import sqlite3
from pathlib import Path

#: Seconds to wait for another process that is writing.
PATIENCE = 10.0
#: Marks the file as ours, and says which tables it has.
APPLICATION = 0x4D666F72
LAYOUT = 1
TABLES = (
    "CREATE TABLE models (id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE)",
    "CREATE TABLE facts (signature TEXT PRIMARY KEY, facts TEXT NOT NULL)",
    "CREATE TABLE answers (model INTEGER NOT NULL, request BLOB NOT NULL, output TEXT NOT NULL,"
    " PRIMARY KEY (model, request)) WITHOUT ROWID",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {LAYOUT}",
)


def connect(path: Path) -> sqlite3.Connection:
    """The database in the file, whose tables are made where it is new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # The writer's thread uses the connection that it is given. IMMEDIATE takes the lock before
    # reading: two processes that both read first could never both go on to write.
    database = sqlite3.connect(path, timeout=PATIENCE, isolation_level="IMMEDIATE", check_same_thread=False)
    try:
        if not _is_ready(database):
            _set_up(database)
        database.execute("PRAGMA synchronous = NORMAL")  # a power cut may take the last responses, never the file
    except BaseException:
        database.close()
        raise
    return database


def _is_ready(database: sqlite3.Connection) -> bool:
    """Whether the tables are there; an error where they are those of something else."""
    program = database.execute("PRAGMA application_id").fetchone()[0]
    layout = database.execute("PRAGMA user_version").fetchone()[0]
    if program == APPLICATION and layout != LAYOUT:
        raise sqlite3.DatabaseError(f"the file has layout {layout}, of another version of Multiform")
    if program == 0 and database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
        return False
    if program != APPLICATION:
        raise sqlite3.DatabaseError("the file is the database of another program")
    return True


def _set_up(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA journal_mode = WAL")  # readers and a writer do not wait for each other
    with database:
        database.execute("BEGIN IMMEDIATE")
        if not _is_ready(database):  # or another process was faster
            for statement in TABLES:
                database.execute(statement)

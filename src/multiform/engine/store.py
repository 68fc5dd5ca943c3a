"""The store: every answer of every model, in one SQLite file.

Answers are keyed by the identity of the model and the content of the request, so any run of any
task finds them. A store that cannot be read or written is no reason to stop a run: it is
reported once, and the run goes on without.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from multiform.engine.content import output_line, read_output, request_key
from multiform.engine.journal import Journal, Row
from multiform.paths import cache_root
from multiform.requests import Output, Request

logger = logging.getLogger("multiform")

#: Seconds to wait for another process that is writing.
PATIENCE = 10.0
#: Marks the file as ours, and says which tables it has.
APPLICATION = 0x4D666F72
VERSION = 1
TABLES = """
    CREATE TABLE IF NOT EXISTS answers (
        model INTEGER NOT NULL, request BLOB NOT NULL, output TEXT NOT NULL, PRIMARY KEY (model, request)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS models (id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE);
    CREATE TABLE IF NOT EXISTS facts (signature TEXT PRIMARY KEY, facts TEXT NOT NULL);
"""


def default_path() -> Path:
    """Where answers are stored: ``$MULTIFORM_STORE``, or a file in the user's cache."""
    own = os.environ.get("MULTIFORM_STORE")
    return Path(own).expanduser() if own else cache_root() / "answers.db"


class Store:
    """A file of answers; `working` is false once it has failed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.working = True

    def facts(self, signature: str) -> dict[str, Any] | None:
        """What is known of a model without loading it."""
        with self._connected() as database:
            found = database.execute("SELECT facts FROM facts WHERE signature = ?", (signature,)).fetchone()
            made = json.loads(found[0]) if found else None
            return made if isinstance(made, dict) else None
        return None

    def remember(self, signature: str, facts: Mapping[str, Any]) -> None:
        """Keep what there is to know of a model."""
        row = (signature, json.dumps(facts, default=str))
        with self._connected() as database, database:
            database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", row)

    def known(self, identity: str, requests: Iterable[Request]) -> dict[Request, Output]:
        """The requests that this model has answered before, with their outputs."""
        found: dict[Request, Output] = {}
        with self._connected() as database:
            model = _model_id(database, identity)
            keyed = ((request_key(request), request) for request in requests)
            # Some hundred at a time: SQLite allows only so many values in a statement.
            while some := dict(islice(keyed, 500)):
                marks = ",".join("?" * len(some))
                asked = f"SELECT request, output FROM answers WHERE model = ? AND request IN ({marks})"
                for key, line in database.execute(asked, (model, *some)):
                    output = read_output(line, some[key])
                    if output is not None:  # a damaged line is asked again, and replaced
                        found[some[key]] = output
        return found

    @contextmanager
    def writing(self, identity: str) -> Iterator[Recorder]:
        """Records answers of a model until the block ends."""
        database = model = None
        with self._guarded():
            database = self._connect()
            model = _model_id(database, identity)

        def write(rows: Sequence[Row]) -> None:
            if database is None or not self.working:
                return
            with self._guarded(), database:
                database.executemany(
                    "INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", [(model, *row) for row in rows]
                )

        journal = Journal(write)
        try:
            yield Recorder(journal)
        finally:
            journal.close()
            if database is not None:
                with self._guarded():
                    database.close()

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with self._guarded(), closing(self._connect()) as database:
            yield database

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Report the first failure, and swallow all."""
        try:
            yield
        except (sqlite3.Error, OSError, ValueError) as error:
            if self.working:
                hint = "name another file with --cache_path, or use --no_cache"
                logger.warning("%s: answers cannot be stored: %s; going on without; %s", self.path, error, hint)
            self.working = False

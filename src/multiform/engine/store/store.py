"""Store: responses by the identity of the model and the content of the request, so that any run of any task finds them.

A store that cannot be read or written does not stop a run: that is reported once, and the run goes on without it.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from multiform.engine.store.database import connect
from multiform.engine.store.records import output_line, read_output, request_key
from multiform.engine.store.writer import BackgroundWriter, Row
from multiform.paths import cache_root
from multiform.requests import Output, Request

logger = logging.getLogger("multiform")

T = TypeVar("T")
#: Stores one response.
Record: TypeAlias = Callable[[Request, Output], None]

#: How many requests are looked up at once; SQLite allows only so many values in a statement.
_AT_ONCE = 500


def default_path() -> Path:
    """Where responses are stored: ``$MULTIFORM_STORE``, or a file in the user's cache."""
    path = os.environ.get("MULTIFORM_STORE")
    return Path(path).expanduser() if path else cache_root() / "answers.db"


def chosen_store(use_cache: bool | str | Path | None) -> Store | None:
    """The store that a run uses: the user's, the named one, or none."""
    if use_cache is False:
        return None
    return Store(default_path() if use_cache is None or use_cache is True else Path(use_cache).expanduser())


class Store:
    """A file of responses; `working` is false once it has failed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.working = True

    def known(self, identity: str, requests: Iterable[Request]) -> dict[Request, Output]:
        """The requests whose responses by this model are cached, with their outputs."""

        def read() -> dict[Request, Output]:
            with closing(connect(self.path)) as database:
                return dict(_stored(database, identity, requests))

        return self._tried(read, {})

    @contextmanager
    def recording(self, identity: str) -> Iterator[Record]:
        """A context in which every response that is recorded is stored for this model."""
        database = self._tried(lambda: connect(self.path), None)

        def write(rows: Sequence[Row]) -> None:
            if database is not None and rows:
                self._tried(lambda: _insert(database, identity, rows), None)

        writer = BackgroundWriter(write)
        try:
            yield lambda request, output: writer.put((request_key(request), output_line(output)))
        finally:
            writer.close()
            if database is not None:
                database.close()

    def facts(self, signature: str) -> dict[str, Any] | None:
        """What is stored about a model that can be recognised without loading it."""

        def read() -> dict[str, Any] | None:
            with closing(connect(self.path)) as database:
                row = database.execute("SELECT facts FROM facts WHERE signature = ?", (signature,)).fetchone()
            return dict(json.loads(row[0])) if row else None

        return self._tried(read, None)

    def remember(self, signature: str, facts: Mapping[str, Any]) -> None:
        """Store the facts about a model."""

        def write() -> None:
            with closing(connect(self.path)) as database, database:
                row = (signature, json.dumps(facts, default=str))
                database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", row)

        self._tried(write, None)

    def _tried(self, use: Callable[[], T], otherwise: T) -> T:
        """What `use` returns, or `otherwise` from the first failure on."""
        if not self.working:
            return otherwise
        try:
            return use()
        except (sqlite3.Error, OSError, ValueError) as error:
            self.working = False
            hint = "name another file with --cache_path, or use --no_cache"
            logger.warning("%s: responses cannot be stored: %s; going on without; %s", self.path, error, hint)
            return otherwise


def _stored(
    database: sqlite3.Connection, identity: str, requests: Iterable[Request]
) -> Iterator[tuple[Request, Output]]:
    model = _model_id(database, identity)
    keyed = ((request_key(request), request) for request in requests)
    while model is not None and (batch := dict(islice(keyed, _AT_ONCE))):
        placeholders = ",".join("?" * len(batch))
        query = f"SELECT request, output FROM answers WHERE model = ? AND request IN ({placeholders})"
        for key, line in database.execute(query, (model, *batch)):
            output = read_output(line, batch[key])
            if output is not None:  # a damaged row is asked again and replaced
                yield batch[key], output


def _insert(database: sqlite3.Connection, identity: str, rows: Sequence[Row]) -> None:
    with database:
        database.execute("INSERT OR IGNORE INTO models (identity) VALUES (?)", (identity,))
        model = _model_id(database, identity)
        database.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", [(model, *row) for row in rows])


def _model_id(database: sqlite3.Connection, identity: str) -> int | None:
    row = database.execute("SELECT id FROM models WHERE identity = ?", (identity,)).fetchone()
    return None if row is None else int(row[0])

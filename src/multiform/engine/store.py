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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from multiform.engine.content import output_line, read_output, request_key
from multiform.engine.database import connect
from multiform.engine.journal import Journal, Row
from multiform.paths import cache_root
from multiform.requests import Output, Request

logger = logging.getLogger("multiform")

T = TypeVar("T")
#: Stores one answer.
Record: TypeAlias = Callable[[Request, Output], None]

#: How many requests are looked up at once; SQLite allows only so many values in a statement.
_AT_ONCE = 500


def default_path() -> Path:
    """Where answers are stored: ``$MULTIFORM_STORE``, or a file in the user's cache."""
    own = os.environ.get("MULTIFORM_STORE")
    return Path(own).expanduser() if own else cache_root() / "answers.db"


def chosen_store(use_cache: bool | str | Path | None) -> Store | None:
    """The store that a run uses: the user's, the named one, or none."""
    if use_cache is False:
        return None
    return Store(default_path() if use_cache is None or use_cache is True else Path(use_cache).expanduser())


class Store:
    """A file of answers; `working` is false once it has failed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.working = True

    def known(self, identity: str, requests: Iterable[Request]) -> dict[Request, Output]:
        """The requests that this model has answered before, with their outputs."""

        def read() -> dict[Request, Output]:
            with closing(connect(self.path)) as database:
                return dict(_stored(database, identity, requests))

        return self._tried(read, {})

    @contextmanager
    def recording(self, identity: str) -> Iterator[Record]:
        """Until the block ends, stores every answer of a model that it is given."""
        database = self._tried(lambda: connect(self.path), None)

        def write(rows: Sequence[Row]) -> None:
            if database is not None and rows:
                self._tried(lambda: _insert(database, identity, rows), None)

        journal = Journal(write)
        try:
            yield lambda request, output: journal.put((request_key(request), output_line(output)))
        finally:
            journal.close()
            if database is not None:
                database.close()

    def facts(self, signature: str) -> dict[str, Any] | None:
        """What is known of a model that need not be loaded to be recognised."""

        def read() -> dict[str, Any] | None:
            with closing(connect(self.path)) as database:
                found = database.execute("SELECT facts FROM facts WHERE signature = ?", (signature,)).fetchone()
            return dict(json.loads(found[0])) if found else None

        return self._tried(read, None)

    def remember(self, signature: str, facts: Mapping[str, Any]) -> None:
        """Keep what there is to know of a model."""

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
            logger.warning("%s: answers cannot be stored: %s; going on without; %s", self.path, error, hint)
            return otherwise


def _stored(
    database: sqlite3.Connection, identity: str, requests: Iterable[Request]
) -> Iterator[tuple[Request, Output]]:
    model = _model_id(database, identity)
    keyed = ((request_key(request), request) for request in requests)
    while model is not None and (some := dict(islice(keyed, _AT_ONCE))):
        marks = ",".join("?" * len(some))
        asked = f"SELECT request, output FROM answers WHERE model = ? AND request IN ({marks})"
        for key, line in database.execute(asked, (model, *some)):
            output = read_output(line, some[key])
            if output is not None:  # what is damaged is asked again, and replaced
                yield some[key], output


def _insert(database: sqlite3.Connection, identity: str, rows: Sequence[Row]) -> None:
    with database:
        database.execute("INSERT OR IGNORE INTO models (identity) VALUES (?)", (identity,))
        model = _model_id(database, identity)
        answers = [(model, *row) for row in rows]
        database.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", answers)


def _model_id(database: sqlite3.Connection, identity: str) -> int | None:
    found = database.execute("SELECT id FROM models WHERE identity = ?", (identity,)).fetchone()
    return None if found is None else int(found[0])

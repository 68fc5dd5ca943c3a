"""Store: responses by the identity of the model and the content of the request, so that any run of any task finds them.

A store that cannot be read or written does not stop a run: that is reported, and the run goes on without it. Responses
that cannot be written for now, as another process writes or the disk is full, are kept in memory and tried again.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from operator import itemgetter
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeAlias, TypeVar

from multiform.paths import cache_root
from multiform.requests import Completion, GenerationRequest, LLOutput, Output, Request, request_key
from multiform.run import database
from multiform.run.database import check_local, checksum, is_intact, response_checksum

#: The hash of a request, its output as a line, and the checksum of both.
Row: TypeAlias = tuple[bytes, str, bytes]


def response_row(identity: str, key: bytes, output: Output) -> Row:
    """The row of a response: the hash of its request, its output as a line, and the checksum of both."""
    line = output_line(output)
    return key, line, response_checksum(identity, key, line)


def output_line(output: Output) -> str:
    """An output as a line of JSON; numbers keep every bit. A truncated context and an unusual end add values to it.

    >>> output_line(LLOutput(-0.1, True, 3)), output_line(Completion(" yes", context_truncated=True))
    ('[-0.1, true, 3]', '[" yes", false, true]')
    >>> output_line(Completion("I", finish_reason="content_filter"))
    '["I", false, false, "content_filter"]'
    >>> output_line(Completion("4", thought="2 + 2"))
    '["4", false, false, null, "2 + 2"]'
    """
    cut = [True] if output.context_truncated else []
    if isinstance(output, LLOutput):
        return json.dumps([output.loglikelihood, output.is_greedy, output.tokens, *cut])
    if output.finish_reason is not None or output.thought is not None:
        thought = [] if output.thought is None else [output.thought]
        return json.dumps([output.text, output.truncated, output.context_truncated, output.finish_reason, *thought])
    return json.dumps([output.text, output.truncated, *cut])


def read_output(line: str, request: Request) -> Output | None:
    """The output that `output_line` wrote, or None for anything else: a log-likelihood that is no number, too."""
    try:
        values = json.loads(line)
    except (ValueError, TypeError, RecursionError):
        return None
    if isinstance(request, GenerationRequest):
        return Completion(*values) if _are(values, str, bool, more=(bool, str | None, str)) else None
    if not _are(values, float | int, bool, int | None, more=(bool,)) or not float(values[0]) < math.inf:
        return None
    return LLOutput(float(values[0]), *values[1:])


def _are(values: Any, *kinds: Any, more: tuple[Any, ...]) -> bool:
    """Whether `values` is a list with these types, perhaps with the first ones of `more` at its end."""
    if not isinstance(values, list) or not len(kinds) <= len(values) <= len(kinds) + len(more):
        return False
    return all(isinstance(value, kind) for value, kind in zip(values, [*kinds, *more], strict=False))


logger = logging.getLogger("multiform")

T = TypeVar("T")

#: Seconds in which responses are gathered for one commit: a killed process loses no more than these. After a commit of
#: so many responses they are more, as each commit of a large file takes long.
PAUSE = 0.1
_LONG_PAUSE = 1.0
_MANY = 2_000
#: The longest pause between two attempts to write rows that could not be written.
_LONGEST_PAUSE = 10.0
#: How many requests are looked up in one query; SQLite limits the values of a statement.
_AT_ONCE = 500
#: How often to try to read a file that another process has locked, each time for the timeout of a connection:
#: to compute everything again would take longer.
_READ_ATTEMPTS = 6


def default_path() -> Path:
    """Where responses are stored: ``$MULTIFORM_STORE``, or a file in the user's cache."""
    path = os.environ.get("MULTIFORM_STORE")
    return Path(path).expanduser() if path else cache_root() / "answers.db"


def chosen_store(use_cache: bool | str | Path | None) -> Store | None:
    """The store that a run uses: the user's, the named one, or none; an error where it is on a network file system."""
    if use_cache is False:
        return None
    path = default_path() if use_cache is None or use_cache is True else Path(use_cache).expanduser()
    check_local(path)
    return Store(path)


class CachedResponses(dict[Request, Output]):
    """The responses that a store has; `oldest` is when the first of them came, in seconds since 1970.

    `damaged` has the hashes of requests whose rows are not as they were written.
    """

    oldest: int | None = None
    damaged: Sequence[str] = ()


class Store:
    """A file of responses; `working` is false once responses cannot be stored for good."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.working = True
        self._readable = True
        #: Responses that are about to be written, by the identity of their model and the hash of their request.
        self.unwritten: dict[tuple[str, bytes], str] = {}

    def known(self, identity: str, requests: Iterable[Request]) -> CachedResponses:
        """The requests whose responses by this model are cached, with their outputs."""
        return self.read_responses(identity, {request_key(request): request for request in requests})

    def read_responses(self, identity: str, requests: Mapping[bytes, Request]) -> CachedResponses:
        """The same for requests by their keys."""
        cached = read_lines(self.lines(identity, list(requests)), requests)
        self._warn_of_damage(identity, cached.damaged)
        return cached

    def lines(self, identity: str, keys: Sequence[bytes]) -> dict[bytes, tuple[str, int]]:
        """The outputs of this model as lines, by the hashes of their requests, each with the time when it came."""
        lines = {}
        for key in keys if self.unwritten else ():
            if (line := self.unwritten.get((identity, key))) is not None:
                lines[key] = line, 0
        rest = [key for key in keys if key not in lines]
        stored = self._query(lambda connection: _look_up(connection, identity, rest)) if rest else None
        if stored is not None:
            lines |= stored[0]
            self._warn_of_damage(identity, stored[1])
        return lines

    def has_responses(self, identity: str) -> bool:
        """Whether any response of this model is cached."""
        query = "SELECT 1 FROM answers JOIN models ON model = id WHERE identity = ? LIMIT 1"
        return bool(self._query(lambda connection: connection.execute(query, (identity,)).fetchone()))

    def _warn_of_damage(self, identity: str, damaged: Sequence[str]) -> None:
        if damaged:
            named = f"{', '.join(damaged[:5])}{', …' if len(damaged) > 5 else ''}"
            message = "%s: %d responses of %s are damaged, and are requested again: %s"
            logger.warning(message, self.path, len(damaged), identity, named)

    def facts(self, signature: str) -> dict[str, Any] | None:
        """The stored facts about a model, by a signature that is known without loading it."""

        def read_facts(connection: sqlite3.Connection) -> dict[str, Any] | None:
            query = database.adapt_query(connection, "SELECT facts, checksum FROM facts WHERE signature = ?")
            row = connection.execute(query, (signature,)).fetchone()
            if row and row[1] not in (None, checksum(signature, str(row[0]))):
                message = "%s: the facts about a model (%s) are damaged, and it is loaded again"
                logger.warning(message, self.path, signature[:16])
                return None
            return dict(json.loads(row[0])) if row else None

        return self._query(read_facts)

    def remember(self, signature: str, facts: Mapping[str, Any]) -> None:
        """Store the facts about a model; where that fails, the model is loaded again in the next run."""
        if not self.working:
            return
        try:
            with closing(database.connect(self.path)) as connection, connection:
                line = json.dumps(facts, default=str)
                row = (signature, line, checksum(signature, line))
                connection.execute("INSERT OR REPLACE INTO facts (signature, facts, checksum) VALUES (?, ?, ?)", row)
        except (sqlite3.Error, OSError, ValueError) as error:
            if not database.is_passing(error):
                self.fail(error)

    def recording(self, identity: str) -> closing[Recording]:
        """A context manager that gives what stores responses of this model."""
        return closing(Recording(self, identity))

    def flush(self) -> bool:
        """Wait until all responses so far are written; false where that fails or takes too long."""
        deadline = time.monotonic() + database.PATIENCE
        while self.unwritten and self.working and time.monotonic() < deadline:
            time.sleep(PAUSE / 10)
        return self.working and not self.unwritten

    def _query(self, use: Callable[[sqlite3.Connection], T]) -> T | None:
        """The result of `use` on the open file; None where there is no file, or reading fails."""
        attempts = _READ_ATTEMPTS if self._readable else 0
        for attempt in range(attempts):
            try:
                connection = database.connect_to_read(self.path)
                if connection is None:
                    return None
                with closing(connection):
                    return use(connection)
            except (sqlite3.Error, OSError, ValueError) as error:
                if not database.is_passing(error):
                    self._readable = False
                    self.fail(error)
                    return None
                message = "waiting" if attempt + 1 < attempts else "going on without"
                logger.warning("%s: cached responses cannot be read: %s; %s", self.path, error, message)
        return None

    def fail(self, error: Exception) -> None:
        """Store nothing more, and warn once."""
        if not self.working:
            return
        self.working = False
        hint = "name another file with --cache_path, or use --no_cache"
        if database.is_read_only(error) and self._readable and self.path.is_file():
            message = "the file cannot be written: cached responses are used, and new ones are not stored"
            logger.warning("%s: %s (%s); %s", self.path, message, error, hint)
        else:
            logger.warning("%s: responses cannot be stored: %s; going on without; %s", self.path, error, hint)


class Recording:
    """Stores responses of one model, in a thread, so that the model never waits for a disk.

    It is called with each response, or gets many as rows. Rows that cannot be written for now are written together with
    later ones.
    """

    def __init__(self, store: Store, identity: str) -> None:
        self._store = store
        self._identity = identity
        self._rows: deque[Sequence[Row]] = deque()
        self._closing = Event()
        self._connection: sqlite3.Connection | None = None
        self._has_warned = False
        self._thread = Thread(target=self._work, name="multiform-store", daemon=True)
        self._thread.start()

    def __call__(self, request: Request, output: Output) -> None:
        self.add_rows([response_row(self._identity, request_key(request), output)])

    def add_rows(self, rows: Sequence[Row]) -> None:
        self._store.unwritten.update(((self._identity, key), line) for key, line, _ in rows)
        self._rows.append(rows)

    def close(self) -> None:
        """Write the remaining rows and end the thread."""
        self._closing.set()
        self._thread.join()

    def _work(self) -> None:
        rows: list[Row] = []
        pause = PAUSE
        while not self._closing.wait(pause):
            rows += self._take_new_rows()
            pause = min(2 * pause, _LONGEST_PAUSE)
            if self._write(rows, patience=0):
                pause = _LONG_PAUSE if len(rows) > _MANY else PAUSE
                rows = []
        rows += self._take_new_rows()
        if not self._write(rows, patience=database.PATIENCE):
            self._store.working = False
            logger.warning("%s: %d responses were not stored", self._store.path, len(rows))
            self._forget(rows)
        self._disconnect()

    def _take_new_rows(self) -> Iterator[Row]:
        """The rows that have come since the last look."""
        while self._rows:
            yield from self._rows.popleft()

    def _write(self, rows: Sequence[Row], *, patience: float) -> bool:
        """Whether there is nothing left to write of these rows, after so many seconds at most."""
        deadline = time.monotonic() + patience
        while rows and self._store.working:
            try:
                self._connection = self._connection or database.connect(self._store.path)
                now = int(time.time())
                # In the order of their keys, rows that are near in the file are written together.
                stamped = [(key, line, now, check) for key, line, check in sorted(rows, key=itemgetter(0))]
                with self._connection:
                    database.insert(self._connection, self._identity, stamped, replace=True)
                break
            except (sqlite3.Error, OSError, ValueError) as error:
                self._disconnect()
                if not database.is_passing(error):
                    self._store.fail(error)
                    break
                if not self._has_warned:
                    self._has_warned = True
                    message = "they are kept in memory and tried again"
                    logger.warning("%s: responses cannot be stored for now: %s; %s", self._store.path, error, message)
            if time.monotonic() >= deadline:
                return False
            time.sleep(PAUSE)
        self._forget(rows)
        return True

    def _forget(self, rows: Sequence[Row]) -> None:
        for key, _, _ in rows:
            self._store.unwritten.pop((self._identity, key), None)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def read_lines(lines: Mapping[bytes, tuple[str, int]], requests: Mapping[bytes, Request]) -> CachedResponses:
    """The outputs of requests, which come by their hashes, from the lines of a store."""
    cached = CachedResponses()
    damaged = []
    for key, (line, _) in lines.items():
        output = read_output(line, requests[key])
        if output is None:
            damaged.append(key.hex()[:16])
        else:
            cached[requests[key]] = output
    cached.oldest = min((seconds for _, seconds in lines.values() if seconds), default=None)
    cached.damaged = damaged
    return cached


def _look_up(
    connection: sqlite3.Connection, identity: str, keys: Sequence[bytes]
) -> tuple[dict[bytes, tuple[str, int]], list[str]]:
    """The intact lines of requests with their times, by hash; and the hashes of damaged ones."""
    lines: dict[bytes, tuple[str, int]] = {}
    damaged: list[str] = []
    model = database.model_id(connection, identity)
    query = database.adapt_query(
        connection, "SELECT request, output, created, checksum FROM answers WHERE model = ? AND request"
    )
    for first in range(0, len(keys) if model is not None else 0, _AT_ONCE):
        batch = keys[first : first + _AT_ONCE]
        placeholders = ",".join("?" * len(batch))
        for key, line, seconds, stored in connection.execute(f"{query} IN ({placeholders})", (model, *batch)):
            if is_intact(identity, key, str(line), stored):
                lines[key] = str(line), seconds
            else:
                damaged.append(key.hex()[:16])
    return lines, damaged

"""Ledger: the batches that were submitted and not yet collected, on disk, so that a restarted run finds them.

A batch is written down before it is submitted. If the process dies before it learns the batch's id, the next one looks
for the batch on the server, and submits its requests again only if there is none. It is struck once its
responses are stored.
"""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from uuid import uuid4

from multiform.errors import ModelError
from multiform.paths import cache_root
from multiform.stopping import is_running

#: Seconds after which a batch is forgotten: servers keep results for 29 days at most.
_LIFETIME = 29 * 24 * 3600.0
#: Seconds that a submission may take: the batch of a process that has ended, or takes longer, is looked for.
_SUBMISSION = 900.0
#: Seconds to wait for another process that writes to the file.
_BUSY = 60.0


@dataclass(frozen=True, slots=True)
class SubmittedBatch:
    """A batch of requests; `id` is the server's name for it, empty until it is known.

    `ids` are the custom ids of its requests, in their order, and `collected` those that have been collected.
    """

    token: str
    id: str
    ids: tuple[str, ...]
    collected: frozenset[str]
    created: float
    process: int
    host: str

    @property
    def is_being_submitted(self) -> bool:
        """Whether another process is submitting it right now, as far as can be told."""
        if self.id or time.time() - self.created > _SUBMISSION:
            return False
        is_own = (self.host, self.process) == (platform.node(), os.getpid())
        return not is_own and is_running(self.process, self.host)


class Ledger:
    """The batches of one endpoint and model."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.path = cache_root() / "batches.sqlite"

    def batches(self) -> list[SubmittedBatch]:
        """All batches of the endpoint."""
        with self._transaction() as connection:
            return self._select(connection)

    def claim(self, ids: Sequence[str]) -> tuple[SubmittedBatch | None, list[SubmittedBatch]]:
        """A new batch of those ids that are in no batch yet, or None; and the batches that have the others."""
        wanted = dict.fromkeys(ids)
        with self._transaction() as connection:
            holders = [batch for batch in self._select(connection) if wanted.keys() & set(batch.ids) - batch.collected]
            for batch in holders:
                for id in set(batch.ids) - batch.collected:
                    wanted.pop(id, None)
            if not wanted:
                return None, holders
            new = SubmittedBatch(
                uuid4().hex, "", tuple(wanted), frozenset(), time.time(), process=os.getpid(), host=platform.node()
            )
            row = (new.token, self.endpoint, "", json.dumps(new.ids), "[]", new.created, new.process, new.host)
            connection.execute("INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            return new, holders

    def set_id(self, token: str, id: str) -> None:
        """The batch has been submitted, and this is its id."""
        with self._transaction() as connection:
            connection.execute("UPDATE batches SET id = ? WHERE token = ?", (id, token))

    def collect(self, token: str, ids: Sequence[str]) -> None:
        """Some requests of a batch have been dealt with; without any left, the batch is forgotten."""
        with self._transaction() as connection:
            for batch in self._select(connection):
                if batch.token != token:
                    continue
                collected = batch.collected | set(ids)
                if collected >= set(batch.ids):
                    connection.execute("DELETE FROM batches WHERE token = ?", (token,))
                else:
                    row = (json.dumps(sorted(collected)), token)
                    connection.execute("UPDATE batches SET collected = ? WHERE token = ?", row)

    def _select(self, connection: sqlite3.Connection) -> list[SubmittedBatch]:
        query = "SELECT token, id, ids, collected, created, process, host FROM batches WHERE endpoint = ?"
        rows = connection.execute(query, (self.endpoint,))
        return [
            SubmittedBatch(token, id, tuple(json.loads(ids)), frozenset(json.loads(collected)), *others)
            for token, id, ids, collected, *others in rows
        ]

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """The file, locked against other processes until the block ends, and then written."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=_BUSY, isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS batches (token TEXT PRIMARY KEY, endpoint TEXT, id TEXT, ids TEXT, "
                    "collected TEXT, created REAL, process INTEGER, host TEXT)"
                )
                connection.execute("DELETE FROM batches WHERE created < ?", (time.time() - _LIFETIME,))
                yield connection
                connection.execute("COMMIT")
        except (sqlite3.Error, OSError, ValueError) as error:
            # Without it, a batch could be paid for and lost.
            message = f"the ledger of batches cannot be used: {error}"
            raise ModelError(message, where=str(self.path), hint="set MULTIFORM_CACHE to another folder") from error

"""BackgroundWriter: takes responses as they come and commits them in a thread, a few at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeAlias

#: The hash of a request, and its output as a line.
Row: TypeAlias = tuple[bytes, str]
#: Seconds in which responses are gathered for one commit: what a killed process loses at most.
PAUSE = 0.1
#: The longest pause between two attempts to write rows that could not be written.
LONGEST_PAUSE = 10.0


class BackgroundWriter:
    """Calls `write` with all rows of a moment, in a thread, so that the model never waits for a disk.

    A thread, because the responses of a batch are to be safe while the model computes the next one. Rows that `write`
    returns, as they could not be written for now, are kept and written with those that come later; with the last ones
    it is called with `last`.
    """

    def __init__(self, write: Callable[[list[Row], bool], list[Row]]) -> None:
        self._write = write
        self._rows: SimpleQueue[Row | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name="multiform-store", daemon=True)
        self._thread.start()

    def put(self, row: Row) -> None:
        self._rows.put(row)

    def close(self) -> None:
        """Write what is left and end."""
        self._rows.put(None)
        self._thread.join()

    def _work(self) -> None:
        rows: list[Row] = []
        pause, next_attempt = PAUSE, 0.0
        going = True
        while going:
            came = [self._rows.get()]
            if came[0] is not None:
                time.sleep(PAUSE)
            while True:
                try:
                    came.append(self._rows.get_nowait())
                except Empty:
                    break
            going = None not in came
            rows += [row for row in came if row is not None]
            if going and time.monotonic() < next_attempt:
                continue
            rows = self._write(rows, not going)
            pause = min(2 * pause, LONGEST_PAUSE) if rows else PAUSE
            next_attempt = time.monotonic() + pause if rows else 0.0

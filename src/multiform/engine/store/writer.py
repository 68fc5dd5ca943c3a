"""BackgroundWriter: commits responses to the store in a background thread, in small batches."""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeAlias

#: The hash of a request, and its output as a line.
Row: TypeAlias = tuple[bytes, str]
#: Seconds in which responses are gathered for one commit: a killed process loses no more than these.
PAUSE = 0.1
#: The longest pause between two attempts to write rows that could not be written.
LONGEST_PAUSE = 10.0


class BackgroundWriter:
    """Calls `write(rows, last)` in a thread with the rows gathered so far, so that the model never waits for a disk.

    Rows that `write` returns could not be written for now: they are kept and written together with later ones. `last`
    is true in the final call.
    """

    def __init__(self, write: Callable[[list[Row], bool], list[Row]]) -> None:
        self._write = write
        self._rows: SimpleQueue[Row | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name="multiform-store", daemon=True)
        self._thread.start()

    def put(self, row: Row) -> None:
        self._rows.put(row)

    def close(self) -> None:
        """Write the remaining rows and end the thread."""
        self._rows.put(None)
        self._thread.join()

    def _work(self) -> None:
        rows: list[Row] = []
        pause, next_attempt = PAUSE, 0.0
        going = True
        while going:
            received = [self._rows.get()]
            if received[0] is not None:
                time.sleep(PAUSE)
            while True:
                try:
                    received.append(self._rows.get_nowait())
                except Empty:
                    break
            going = None not in received
            rows += [row for row in received if row is not None]
            if going and time.monotonic() < next_attempt:
                continue
            rows = self._write(rows, not going)
            pause = min(2 * pause, LONGEST_PAUSE) if rows else PAUSE
            next_attempt = time.monotonic() + pause if rows else 0.0

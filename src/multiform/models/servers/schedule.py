"""Schedule: which request a worker thread sends next, and how many may be in flight."""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass, field
from threading import Condition

#: The factor for the number of concurrent requests when the server is overloaded, and what each response adds to it.
_FEWER = 0.7
_MORE = 0.25


@dataclass(order=True, slots=True)
class Job:
    """A request that waits to be sent, or is in flight; `index` is its position among all requests."""

    ready: float
    index: int
    #: How often it was sent, and when for the first and the last time.
    attempts: int = field(default=0, compare=False)
    first_sent: float = field(default=0.0, compare=False)
    sent: float = field(default=0.0, compare=False)


class Schedule:
    """Hands out requests to worker threads; those that failed are handed out again after a wait.

    At most `most` are in flight: fewer each time that the server is overloaded, and more again with each response, as
    TCP's congestion control does.
    """

    def __init__(self, count: int, most: int) -> None:
        self.limit = float(most)
        self.last_response = 0.0
        self._most = most
        self._waiting = [Job(0.0, index) for index in range(count)]  # equal times in order make a heap
        self._in_flight = 0
        self._paused_until = 0.0
        self._lowered = 0.0
        self._stopped = False
        self._changed = Condition()

    def take(self) -> Job | None:
        """The next request, as soon as it may be sent; None when there are no more."""
        with self._changed:
            while not self._stopped and (self._waiting or self._in_flight):
                now = time.monotonic()
                # While all others wait for their retries or are in flight, one of them may come back.
                begins = max(self._waiting[0].ready, self._paused_until) if self._waiting else None
                if begins is not None and begins <= now and self._in_flight < max(1, int(self.limit)):
                    job = heapq.heappop(self._waiting)
                    job.sent = now
                    job.first_sent = job.first_sent or now
                    job.attempts += 1
                    self._in_flight += 1
                    return job
                self._changed.wait(None if begins is None or begins <= now else begins - now)
            return None

    def complete(self, job: Job, *, slow: bool = False) -> None:
        """The request has its response; `slow` says that it took so long that fewer should be in flight."""
        with self._changed:
            self.last_response = time.monotonic()
            self._leave()
            if slow:
                self._send_fewer(job)
            else:
                self.limit = min(float(self._most), self.limit + _MORE)

    def retry(self, job: Job, wait: float, *, overloaded: bool, pause: bool) -> None:
        """Send the request again after a wait; with `pause` no other one is sent before that either."""
        with self._changed:
            self._leave()
            if overloaded:
                self._send_fewer(job)
            job.ready = time.monotonic() + wait
            if pause:
                self._paused_until = max(self._paused_until, job.ready)
            heapq.heappush(self._waiting, job)

    def drop(self) -> None:
        """The request has failed for good."""
        with self._changed:
            self._leave()

    def stop(self) -> None:
        """Hand out nothing more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _leave(self) -> None:
        self._in_flight -= 1
        self._changed.notify_all()

    def _send_fewer(self, job: Job) -> None:
        """Lower the number of concurrent requests, once for all that were sent before it was last lowered."""
        if job.sent >= self._lowered:
            self.limit = max(1.0, self.limit * _FEWER)
            self._lowered = time.monotonic()

"""BatchClient: sends requests through a batch interface, as `Client` sends them one by one.

Requests are named by their content. So a restarted run finds those that an earlier one submitted, whatever else has
changed, and collects them instead of paying for them again.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from multiform.errors import ModelError
from multiform.hashing import sha256
from multiform.models.servers.batch_interfaces import BatchInterface, BatchStatus, Outcome
from multiform.models.servers.batch_ledger import Ledger, SubmittedBatch
from multiform.models.servers.client import Client
from multiform.models.servers.exchange import FailedAttemptError, RefusedError
from multiform.requests import FailedRequest
from multiform.stopping import stop_requested, wait_for_stop

logger = logging.getLogger("multiform")

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Seconds between two looks at the batches, at first and at most.
FIRST_POLL = 5.0
LONGEST_POLL = 60.0
#: How often a submission is tried.
_SUBMISSIONS = 4
#: The requests of a batch, unless the user says otherwise: its results are read as a whole.
DEFAULT_REQUESTS = 10_000


@dataclass(slots=True)
class _Open:
    """A submitted batch that is watched, with the requests of this run that are in it."""

    batch: SubmittedBatch
    ids: frozenset[str]
    done: int = -1


@dataclass(slots=True)
class _State:
    """Where the requests of a run are, by their custom ids: waiting to be submitted, in open batches, or done."""

    items: Sequence[Any]
    payload: Callable[[Any], Mapping[str, Any]]
    read: Callable[[Any, Any], Any]
    #: The items of each request, by their indexes; items whose requests are equal share one.
    members: dict[str, list[int]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)
    opened: list[_Open] = field(default_factory=list)
    #: How often a request has failed in a way that may pass.
    attempts: Counter[str] = field(default_factory=Counter)
    stopping: bool = False

    def watch(self, batch: SubmittedBatch, ids: frozenset[str]) -> None:
        """Watch a batch that has these of the waiting requests."""
        self.opened.append(_Open(batch, ids))
        self.waiting = [id for id in self.waiting if id not in ids]

    def submit_again(self, ids: Iterable[str]) -> None:
        """Let requests wait for another batch, unless the run is to stop."""
        self.waiting += [] if self.stopping else sorted(ids)


class BatchClient:
    """Has the interface of `Client.ask`. At most `client.num_concurrent` batches are open at once.

    A request that fails in a way that may pass (expired, cancelled, overloaded) is submitted again, at most
    `client.max_retries` times. A requested stop cancels the batches and yields what they have finished; a second signal
    leaves them to the next run, as does whatever ends this process.
    """

    def __init__(self, client: Client, interface: BatchInterface, ledger: Ledger, requests: int | None = None) -> None:
        self._client, self._interface, self._ledger = client, interface, ledger
        self._most = min(requests or DEFAULT_REQUESTS, interface.most_requests)
        #: Says whether all results so far are stored; and since when batches count, in seconds since 1970.
        self._flush: Callable[[], bool] = lambda: True
        self._since = 0.0

    def begin_run(self, *, fresh: bool, flush: Callable[[], bool]) -> None:
        """Collect no batch of an earlier run if `fresh`; a batch is struck from the ledger once `flush()` is true."""
        self._flush, self._since = flush, time.time() if fresh else 0.0

    def ask(
        self,
        items: Sequence[Item],
        payload: Callable[[Item], Mapping[str, Any]],
        read: Callable[[Item, Any], Result],
    ) -> Iterator[tuple[int, Result | FailedRequest]]:
        """Yield the index of each item with the result of `read`, or how its request failed, as batches end."""
        state = _State(items, payload, read)
        for index, item in enumerate(items):
            text = json.dumps(payload(item), sort_keys=True)
            # Repeats of one question have names of their own.
            id = sha256(f"{getattr(item, 'sample', 0)} {text}")[:48]
            state.sizes[id] = len(text) + 200
            state.members.setdefault(id, []).append(index)
        state.waiting = list(state.members)
        self._adopt(self._ledger.batches(), state)
        pause = FIRST_POLL
        while state.waiting or state.opened:
            if stop_requested() and not state.stopping:
                state.stopping = True
                state.waiting.clear()
                self._cancel(state.opened)
            while state.waiting and len(state.opened) < self._client.num_concurrent:
                if not self._submit(state):
                    break
            ended = False
            for entry in list(state.opened):
                status = self._status(entry, state)
                if status is None or not status.ended:
                    continue
                ended = True
                state.opened.remove(entry)
                yield from self._collect(entry, status, state)
                # Only now, when all that it had is stored; what is submitted again is not looked for in it any more.
                settled = entry.ids if self._flush() else entry.ids & set(state.waiting)
                self._ledger.collect(entry.batch.token, sorted(settled))
            if ended:
                pause = FIRST_POLL
            elif state.waiting or state.opened:
                if state.stopping:
                    time.sleep(pause)
                else:
                    wait_for_stop(pause)
                pause = min(pause * 1.5, LONGEST_POLL)

    def _collect(self, entry: _Open, status: BatchStatus, state: _State) -> Iterator[tuple[int, Any]]:
        """The results of an ended batch; requests that are worth another attempt wait again."""
        if status.problem:
            for id, refusal in self._refusals(entry, status, state).items():
                yield from self._results(id, refusal, state)
            return
        missing = set(entry.ids)
        for id, outcome in self._interface.outcomes(entry.batch.id, entry.batch.ids):
            if id in missing:  # otherwise it belongs to another run, or comes twice
                missing.remove(id)
                yield from self._results(id, outcome, state)
        absent = FailedAttemptError(f"the batch has no response to it ({status.state})")
        for id in sorted(missing):
            yield from self._results(id, absent, state)

    def _results(self, id: str, outcome: Outcome, state: _State) -> Iterator[tuple[int, Any]]:
        """What became of the items of one request; nothing yet where it is worth another attempt."""
        members, retried = state.members[id], state.attempts[id]
        try:
            if isinstance(outcome, Exception):
                raise outcome
            results = [(index, state.read(state.items[index], outcome)) for index in members]
        except (RefusedError, FailedAttemptError, ModelError) as error:
            if not isinstance(error, RefusedError):  # it may pass, as a malformed response may
                state.attempts[id] += 1
                if retried < self._client.max_retries:
                    state.submit_again([id])
                    return
            reason = error.what if isinstance(error, ModelError) else str(error)
            failed = FailedRequest(reason=self._client.clean(reason), retried=retried)
            yield from ((index, failed) for index in members)
        else:
            self._client.notice(outcome)
            yield from results

    def _adopt(self, batches: Sequence[SubmittedBatch], state: _State) -> None:
        """Watch batches of an earlier or another run that have waiting requests."""
        for batch in batches:
            ids = frozenset(state.waiting) & (set(batch.ids) - batch.collected)
            if not ids or any(entry.batch.token == batch.token for entry in state.opened):
                continue
            if batch.created < self._since:
                self._ledger.collect(batch.token, sorted(ids))
                message = "%s: %d requests are in %s, from an earlier run: they are sent again, as the run is fresh"
                logger.warning(message, self._client.shown, len(ids), _name(batch))
                continue
            if not batch.id and not batch.is_being_submitted:
                # Its process ended while it was submitted: it may be there all the same.
                id = self._find(batch)
                if id is None:
                    self._ledger.collect(batch.token, batch.ids)
                    continue
                self._ledger.set_id(batch.token, id)
                batch = replace(batch, id=id)
            if not batch.id:  # another process is submitting it: its requests wait until it is known
                continue
            logger.info("%s: %d requests are in %s, from an earlier run", self._client.shown, len(ids), _name(batch))
            state.watch(batch, ids)

    def _chunk(self, state: _State) -> list[str]:
        """The first of the waiting requests, as many as one batch takes."""
        chunk: list[str] = []
        total = 0
        for id in state.waiting[: self._most]:
            total += state.sizes[id]
            if chunk and total > self._interface.most_bytes:
                break
            chunk.append(id)
        return chunk

    def _submit(self, state: _State) -> bool:
        """Submit the next requests and watch them; False where other runs have submitted them all, or are about to."""
        batch, holders = self._ledger.claim(self._chunk(state))
        self._adopt(holders, state)
        if batch is None:
            return False
        id = self._create(batch, [(id, state.payload(state.items[state.members[id][0]])) for id in batch.ids])
        self._ledger.set_id(batch.token, id)
        batch = replace(batch, id=id)
        logger.info("%s: submitted %d requests as %s", self._client.shown, len(batch.ids), _name(batch))
        state.watch(batch, frozenset(batch.ids))
        return True

    def _create(self, batch: SubmittedBatch, requests: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
        """The id of a batch that is submitted once, also if the response to the submission is lost."""
        for attempt in range(1, _SUBMISSIONS + 1):
            try:
                return self._interface.create(batch.token, requests)
            except RefusedError as error:
                self._ledger.collect(batch.token, batch.ids)
                raise self._client.error(error) from error
            except FailedAttemptError as failed:
                if id := self._find(batch):
                    return id
                if attempt == _SUBMISSIONS:
                    self._ledger.collect(batch.token, batch.ids)
                    raise self._client.error(failed, attempt) from failed
                time.sleep(self._client.pause(failed, attempt))
        raise AssertionError("unreachable")

    def _find(self, batch: SubmittedBatch) -> str | None:
        """The id of a batch whose submission may have worked, as the server knows it."""
        known = {other.id for other in self._ledger.batches() if other.id}
        return self._interface.find(batch.token, len(batch.ids), batch.created, known)

    def _status(self, entry: _Open, state: _State) -> BatchStatus | None:
        """How far a batch is; None for one that is gone, whose requests wait again."""
        try:
            status = self._interface.status(entry.batch.id)
        except RefusedError as error:
            if error.status != 404:
                raise self._client.error(error) from error
            message = "%s: the server does not have %s any more: its requests are submitted again"
            logger.warning(message, self._client.shown, _name(entry.batch))
            self._ledger.collect(entry.batch.token, entry.batch.ids)
            state.opened.remove(entry)
            state.submit_again(entry.ids)
            return None
        if status.done != entry.done and not status.ended:
            progress = f"{status.done} of {len(entry.batch.ids)} requests are done ({self._client.clean(status.state)})"
            logger.info("%s: %s: %s", self._client.shown, _name(entry.batch), progress)
            entry.done = status.done
        return status

    def _refusals(self, entry: _Open, status: BatchStatus, state: _State) -> dict[str, RefusedError]:
        """The requests for which the server refused a whole batch; the others are submitted again without them."""
        ids = entry.batch.ids
        at_fault = {ids[line]: RefusedError(why) for line, why in status.lines.items() if 0 <= line < len(ids)}
        if not at_fault:
            self._ledger.collect(entry.batch.token, ids)
            message = f"the server refuses the batch: {self._client.clean(status.problem)}"
            hint = "where it allows fewer at once, add num_concurrent=1,batch_requests=500; otherwise leave batch out"
            raise ModelError(message, where=self._client.shown, hint=hint)
        state.submit_again(entry.ids - at_fault.keys())
        return {id: refusal for id, refusal in at_fault.items() if id in entry.ids}

    def _cancel(self, opened: Sequence[_Open]) -> None:
        if opened:
            then = "stop once more to leave them running: the same command then collects them"
            logger.warning("cancelling %d batches, and waiting for what they have finished; %s", len(opened), then)
        for entry in opened:
            try:
                self._interface.cancel(entry.batch.id)
            except (RefusedError, FailedAttemptError, ModelError) as error:  # it has ended meanwhile
                logger.info("%s: %s", _name(entry.batch), self._client.clean(str(error)))


def _name(batch: SubmittedBatch) -> str:
    return f"batch {batch.id or batch.token}"

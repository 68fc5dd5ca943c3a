"""BatchClient: sends requests through a batch interface, as `Client` sends them one by one.

Requests are named by their content. So a restarted run finds those that an earlier one submitted, whatever else has
changed, and collects them instead of paying for them again.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from multiform.errors import ModelError
from multiform.hashing import sha256
from multiform.models.servers.batch.interfaces import BatchInterface
from multiform.models.servers.batch.ledger import Batch, Ledger
from multiform.models.servers.client import Client
from multiform.models.servers.exchange import FailedAttemptError, RefusedError
from multiform.requests import FailedRequest
from multiform.stopping import stop_requested

logger = logging.getLogger("multiform")

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Seconds between two looks at the batches, at first and at most.
FIRST_POLL = 5.0
LONGEST_POLL = 60.0
#: Seconds between two checks for a requested stop.
_STOP_CHECK_SECONDS = 0.2
#: How often a submission is tried.
_SUBMISSIONS = 4
#: The requests of a batch, unless the user says otherwise: its results are read as a whole.
DEFAULT_REQUESTS = 10_000


@dataclass(slots=True)
class _Open:
    """A batch that is watched, with the requests of this run that are in it."""

    batch: Batch
    ids: frozenset[str]
    done: int = -1


class BatchClient:
    """Has the interface of `Client.ask`. At most `client.num_concurrent` batches are open at once.

    A request that fails in a way that may pass (expired, cancelled, overloaded) is submitted again, at most
    `client.max_retries` times. A requested stop cancels the batches and yields what they have finished; a second signal
    leaves them to the next run, as does whatever ends this process.
    """

    def __init__(self, client: Client, interface: BatchInterface, ledger: Ledger, requests: int | None = None) -> None:
        self._client, self._interface, self._ledger = client, interface, ledger
        self._most = min(requests or DEFAULT_REQUESTS, interface.most_requests)

    def ask(
        self,
        items: Sequence[Item],
        payload: Callable[[Item], Mapping[str, Any]],
        read: Callable[[Item, Any], Result],
    ) -> Iterator[tuple[int, Result | FailedRequest]]:
        """Yield the index of each item with the result of `read`, or how its request failed, as batches end."""
        #: The items of each request; items whose requests are equal share one.
        members: dict[str, list[int]] = {}
        sizes: dict[str, int] = {}
        for index, item in enumerate(items):
            id, sizes_of = _custom_id(item, payload(item))
            members.setdefault(id, []).append(index)
            sizes[id] = sizes_of
        waiting, attempts = list(members), Counter[str]()
        opened: list[_Open] = []
        pause, stopping = FIRST_POLL, False
        self._adopt(self._ledger.batches(), waiting, opened)
        while waiting or opened:
            if stop_requested() and not stopping:
                stopping = True
                waiting.clear()
                self._cancel(opened)
            while waiting and len(opened) < self._client.num_concurrent:
                chunk = self._chunk(waiting, sizes)
                self._submit(chunk, lambda id: payload(items[members[id][0]]), waiting, opened)
            for entry in list(opened):
                if not self._has_ended(entry, waiting, opened):
                    continue
                opened.remove(entry)
                failed: dict[str, str] = {}
                for id, outcome in self._outcomes(entry, waiting, failed):
                    if not isinstance(outcome, FailedRequest):
                        try:
                            results = [(index, read(items[index], outcome)) for index in members[id]]
                        except ModelError as error:  # malformed
                            failed[id] = error.what
                            continue
                        except RefusedError as error:
                            outcome = FailedRequest(reason=self._client.clean(str(error)), retried=attempts[id])
                        else:
                            self._client.observe(outcome)
                            yield from results
                            continue
                    yield from ((index, replace(outcome, retried=attempts[id])) for index in members[id])
                for id, reason in failed.items():
                    attempts[id] += 1
                    if attempts[id] > self._client.max_retries:
                        given_up = FailedRequest(reason=self._client.clean(reason), retried=attempts[id] - 1)
                        yield from ((index, given_up) for index in members[id])
                    elif not stopping:
                        waiting.append(id)
                # Only now, when all that it had is in the hands of the run.
                self._ledger.collect(entry.batch.token, sorted(entry.ids))
                pause = FIRST_POLL
            if opened and not (waiting and len(opened) < self._client.num_concurrent):
                _sleep(pause, interruptible=not stopping)
                pause = min(pause * 1.5, LONGEST_POLL)

    def _adopt(self, batches: Sequence[Batch], waiting: list[str], opened: list[_Open]) -> None:
        """Watch batches of an earlier or another run that have waiting requests."""
        for batch in batches:
            ids = frozenset(waiting) & (set(batch.ids) - batch.collected)
            if not ids or any(entry.batch.token == batch.token for entry in opened):
                continue
            if not batch.id and not batch.is_being_submitted:
                # Its process ended while it was submitted: it may be there all the same.
                id = self._found(batch)
                if id is None:
                    self._ledger.collect(batch.token, batch.ids)
                    continue
                self._ledger.set_id(batch.token, id)
                batch = replace(batch, id=id)
            logger.info("%s: %d requests are in %s, from an earlier run", self._client.shown, len(ids), _name(batch))
            opened.append(_Open(batch, ids))
            waiting[:] = [id for id in waiting if id not in ids]

    def _chunk(self, waiting: Sequence[str], sizes: Mapping[str, int]) -> list[str]:
        """The first of the waiting requests, as many as one batch takes."""
        chunk: list[str] = []
        total = 0
        for id in waiting[: self._most]:
            total += sizes[id]
            if chunk and total > self._interface.most_bytes:
                break
            chunk.append(id)
        return chunk

    def _submit(
        self,
        chunk: Sequence[str],
        payload: Callable[[str], Mapping[str, Any]],
        waiting: list[str],
        opened: list[_Open],
    ) -> None:
        """Submit those requests of a chunk that no other run has submitted, and watch where they are."""
        batch, holders = self._ledger.claim(chunk)
        self._adopt(holders, waiting, opened)
        if batch is None:
            return
        requests = [(id, payload(id)) for id in batch.ids]
        id = self._created(batch, requests)
        self._ledger.set_id(batch.token, id)
        batch = replace(batch, id=id)
        logger.info("%s: submitted %d requests as %s", self._client.shown, len(batch.ids), _name(batch))
        opened.append(_Open(batch, frozenset(batch.ids)))
        taken = set(batch.ids)
        waiting[:] = [id for id in waiting if id not in taken]

    def _created(self, batch: Batch, requests: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
        """The id of a batch that is submitted once, also if the response to the submission is lost."""
        for attempt in range(1, _SUBMISSIONS + 1):
            try:
                return self._interface.create(batch.token, requests)
            except RefusedError as error:
                self._ledger.collect(batch.token, batch.ids)
                raise self._client.error(error) from error
            except FailedAttemptError as failed:
                if id := self._found(batch):
                    return id
                if attempt == _SUBMISSIONS:
                    self._ledger.collect(batch.token, batch.ids)
                    raise self._client.error(failed, attempt) from failed
                time.sleep(self._client.pause(failed, attempt))
        raise AssertionError("unreachable")

    def _found(self, batch: Batch) -> str | None:
        """The id of a batch whose submission may have worked, as the server knows it."""
        known = {other.id for other in self._ledger.batches() if other.id}
        return self._interface.find(batch.token, len(batch.ids), batch.created, known)

    def _has_ended(self, entry: _Open, waiting: list[str], opened: list[_Open]) -> bool:
        """Whether a batch has ended; one that is gone, or was never submitted, gives its requests back."""
        if not entry.batch.id:
            self._look_again(entry, waiting, opened)
            return False
        try:
            status = self._interface.status(entry.batch.id)
        except RefusedError as error:
            if error.status != 404:
                raise self._client.error(error) from error
            message = "%s: the server does not have %s any more: its requests are submitted again"
            logger.warning(message, self._client.shown, _name(entry.batch))
            self._give_back(entry, waiting, opened)
            return False
        if status.done != entry.done and not status.ended:
            message = "%s: %s: %d of %d requests are done (%s)"
            logger.info(
                message, self._client.shown, _name(entry.batch), status.done, len(entry.batch.ids), status.state
            )
            entry.done = status.done
        return status.ended

    def _look_again(self, entry: _Open, waiting: list[str], opened: list[_Open]) -> None:
        """Look up the id of a batch that another process is submitting."""
        current = next((batch for batch in self._ledger.batches() if batch.token == entry.batch.token), None)
        if current is not None and current.id:
            entry.batch = current
        elif current is None or not current.is_being_submitted:
            self._give_back(entry, waiting, opened, forget=False)

    def _give_back(self, entry: _Open, waiting: list[str], opened: list[_Open], *, forget: bool = True) -> None:
        opened.remove(entry)
        waiting += sorted(entry.ids)
        if forget:
            self._ledger.collect(entry.batch.token, entry.batch.ids)

    def _outcomes(
        self, entry: _Open, waiting: list[str], failed: dict[str, str]
    ) -> Iterator[tuple[str, Mapping[str, Any] | FailedRequest]]:
        """The response to each request of an ended batch, or that it failed for good; `failed` gets the others."""
        status = self._interface.status(entry.batch.id)
        if status.problem:
            yield from self._after_refusal(entry, status.problem, status.lines, waiting)
            return
        missing = set(entry.ids)
        for id, outcome in self._interface.outcomes(entry.batch.id, entry.batch.ids):
            if id not in missing:  # it belongs to another run, or comes twice
                continue
            missing.remove(id)
            if isinstance(outcome, FailedAttemptError):
                failed[id] = str(outcome)
            elif isinstance(outcome, RefusedError):
                yield id, FailedRequest(reason=self._client.clean(str(outcome)))
            else:
                yield id, outcome
        failed |= dict.fromkeys(sorted(missing), f"the batch has no response to it ({status.state})")

    def _after_refusal(
        self, entry: _Open, problem: str, lines: Mapping[int, str], waiting: list[str]
    ) -> Iterator[tuple[str, FailedRequest]]:
        """The requests for which the server refused a whole batch; the others are submitted again without them."""
        ids = entry.batch.ids
        at_fault = {ids[line]: message for line, message in lines.items() if 0 <= line < len(ids)}
        if not at_fault:
            self._ledger.collect(entry.batch.token, ids)
            message = f"the server refuses the batch: {self._client.clean(problem)}"
            hint = "where it allows fewer at once, add num_concurrent=1,batch_requests=500; otherwise leave batch out"
            raise ModelError(message, where=self._client.shown, hint=hint)
        for id, message in at_fault.items():
            if id in entry.ids:
                yield id, FailedRequest(reason=self._client.clean(message))
        waiting += sorted(entry.ids - at_fault.keys())

    def _cancel(self, opened: Sequence[_Open]) -> None:
        if opened:
            then = "stop once more to leave them running: the same command then collects them"
            logger.warning("cancelling %d batches, and waiting for what they have finished; %s", len(opened), then)
        for entry in opened:
            if entry.batch.id:
                try:
                    self._interface.cancel(entry.batch.id)
                except (RefusedError, FailedAttemptError, ModelError) as error:  # it has ended meanwhile
                    logger.info("%s: %s", _name(entry.batch), self._client.clean(str(error)))


def _name(batch: Batch) -> str:
    return f"batch {batch.id or batch.token}"


def _custom_id(item: Any, payload: Mapping[str, Any]) -> tuple[str, int]:
    """The name of a request by its content, and its size; repeats of one question have names of their own."""
    text = json.dumps(payload, sort_keys=True)
    return sha256(f"{getattr(item, 'sample', 0)} {text}")[:48], len(text) + 200


def _sleep(seconds: float, *, interruptible: bool) -> None:
    """Wait; a stop that is requested meanwhile ends it early."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and not (interruptible and stop_requested()):
        time.sleep(min(left, _STOP_CHECK_SECONDS))

"""Worker: a process of a cluster that holds one copy of the model, and WorkerModel, the driver's view of it."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multiform.errors import UsageError
from multiform.models import Model, models
from multiform.models.identity import package_version
from multiform.models.model import Usage
from multiform.models.prices import Price
from multiform.models.registry import ModelEntry
from multiform.prompts.media import Kind
from multiform.prompts.prompt import Content, Messages
from multiform.requests import Request
from multiform.run.executors.local import Facts, FactsModel, LocalExecutor, Unit, create_model
from multiform.run.executors.pool import PoolExecutor
from multiform.run.executors.ranges import RangeWorker
from multiform.run.executors.work_units import DocRef
from multiform.run.pending import Batch
from multiform.run.store import CachedResponses, read_lines
from multiform.stopping import request_stop, stoppable

logger = logging.getLogger("multiform")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """What a worker reports about the model that it has loaded, with the worker's version of Multiform."""

    facts: Facts
    media: frozenset[Kind]
    stored: bool
    counts_tokens: bool
    batch: bool
    version: str | None


class Worker:
    """The code of a worker: loads the model, and runs units on it."""

    model: Model

    def __init__(self) -> None:
        self._turns = _Turns()
        self._job: Sequence[Any] = ()
        self._documents: RangeWorker
        #: What the model has computed, and the tokens that its server has counted, at the last look.
        self._counts: tuple[Usage, Mapping[str, int]] = Usage(), {}

    def load(self, name: str, entry: ModelEntry, arguments: Mapping[str, Any], folder: str) -> LoadedModel:
        """Load the model; relative paths in its arguments are those of the driver, which is in `folder`."""
        self._messages = _Messages()
        with suppress(OSError):  # a node may not have that folder
            os.chdir(folder)
        models.register(name)(entry)  # the driver's own code may have registered it
        model = self.model = create_model(name, arguments)
        return LoadedModel(
            facts=Facts.of(model),
            media=model.media,
            stored=model.stored,
            counts_tokens=model.usage() is not None,
            batch=model.batch,
            version=package_version("multiform"),
        )

    def run(self, unit: Sequence[Any], job: Sequence[Any], pause: float, run: int) -> Iterator[Batch]:
        """What is done with a unit of a run, gathered for `pause` seconds: requests, or a range of documents.

        `job` refers to the RangeJob of the documents.
        """
        self._count()
        with self._turns.of(run):
            for batch in self._run_range(unit, job, pause) if isinstance(unit[0], DocRef) else self._run(unit, pause):
                batch.logged = self._messages.pop_all()
                batch.usage, batch.server_tokens = self._count()
                yield batch

    def _count(self) -> tuple[Usage, dict[str, int]]:
        """What the model has computed since the last look, and the tokens that its server has counted."""
        usage, tokens = self.model.usage() or Usage(), self.model.server_tokens()
        (before, tokens_before), self._counts = self._counts, (usage, tokens)
        return usage.since(before), {name: number - tokens_before.get(name, 0) for name, number in tokens.items()}

    def _run_range(self, refs: Sequence[DocRef], job: Sequence[Any], pause: float) -> Iterator[Batch]:
        if self._job != job:
            from ray import get

            self._documents, self._job = RangeWorker(self.model, get(job[0])), job
        return self._documents.run(refs, pause)

    def _run(self, unit: Unit, pause: float) -> Iterator[Batch]:
        positions = {request: position for position, request in enumerate(unit)}
        sent = time.monotonic()
        batch = Batch()
        for request, output in LocalExecutor(self.model).run([unit]):
            batch.responses += 1
            batch.finished.append(positions[request])
            batch.outputs.append((positions[request], output))
            if time.monotonic() - sent >= pause:
                yield batch
                batch, sent = Batch(), time.monotonic()
        yield batch

    def call(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the model, such as `plan`, and return its result."""
        return getattr(self.model, method)(*arguments, **options)

    def stop(self, run: int) -> None:
        """Finish what is in flight, and begin nothing new of this run."""
        self._turns.stop(run)


@dataclass(frozen=True, slots=True)
class RemoteStore:
    """Looks responses up in the store of the driver, from any node: `reader` is a process on the driver's."""

    reader: Any

    def read_responses(self, identity: str, requests: Mapping[bytes, Request]) -> CachedResponses:
        from ray import get

        return read_lines(get(self.reader.lines.remote(identity, list(requests))), requests)


class WorkerModel(FactsModel):
    """The driver's view of the model on its workers: facts, chat template and plans; its executor runs the requests."""

    handles_stop = True

    def __init__(self, pool: Any, executor: PoolExecutor) -> None:
        started = time.monotonic()
        loaded = pool.wait_until_loaded()
        if loaded.batch:  # whose ledger is this process's, as is the store that its responses must reach first
            message = "a batch interface needs no workers: its provider runs the requests"
            raise UsageError(message, where="--executor", hint="leave --executor out, or batch=true")
        super().__init__(loaded.facts)
        self.loading_seconds = time.monotonic() - started
        self.media = loaded.media
        self.stored = loaded.stored  # type: ignore[misc]
        self._counts_tokens = loaded.counts_tokens
        self._pool = pool
        self._executor = executor

    def _refuse(self, requests: Sequence[Request]) -> Any:
        raise RuntimeError(f"model '{self.name}' is on workers: its executor runs the requests")

    loglikelihood = loglikelihood_rolling = generate = _refuse

    def apply_chat_template(self, messages: Messages, *, add_generation_prompt: bool = True) -> Content:
        options = {"add_generation_prompt": add_generation_prompt}
        content: Content = self._pool.call("apply_chat_template", messages, **options)
        return content

    def plan(self, requests: Sequence[Request]) -> str | None:
        planned: str | None = self._pool.call("plan", requests)
        return planned

    def workload(self, requests: Sequence[Request]) -> Usage | None:
        usage: Usage | None = self._pool.call("workload", requests)
        return usage

    def usage(self) -> Usage | None:
        return self._executor.usage if self._counts_tokens else None

    def server_tokens(self) -> dict[str, int]:
        return dict(self._executor.server_tokens)

    def price(self, file: Path | None = None) -> Price | None:
        price: Price | None = self._pool.call("price", None if file is None else file.absolute())
        return price

    def estimate_tokens(self, requests: Sequence[Request]) -> dict[str, int]:
        tokens: dict[str, int] = self._pool.call("estimate_tokens", requests)
        return tokens


class _Turns:
    """Which run a worker is working on, so that a stop ends that run and no later one.

    A stop comes from another thread: before, during or after a unit of its run.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current = self._stopped = -1

    def stop(self, run: int) -> None:
        with self._lock:
            self._stopped = max(self._stopped, run)
            if self._current == run:
                request_stop()

    @contextmanager
    def of(self, run: int) -> Iterator[None]:
        """A block in which a unit of a run is computed; `stop_requested()` says whether that run was stopped."""
        with stoppable():
            with self._lock:
                self._current = run
                if run <= self._stopped:
                    request_stop()
            try:
                yield
            finally:
                with self._lock:
                    self._current = -1


class _Messages(logging.Handler):
    """Collects what a worker logs, for the driver's log."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: list[tuple[int, str]] = []
        logger.addHandler(self)
        logger.setLevel(logging.INFO)

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append((record.levelno, record.getMessage()))

    def pop_all(self) -> list[tuple[int, str]]:
        lines, self._lines = self._lines, []
        return lines

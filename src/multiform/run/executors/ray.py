"""RayExecutor: runs requests on the workers of a Ray cluster, each of which holds one copy of the model.

Small objects come to the driver by value, so that a response that has arrived stays when its worker's node dies.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from multiform.errors import ModelError, MultiformError, UsageError, reason
from multiform.models import Model, models
from multiform.models.identity import package_version
from multiform.models.model import Usage
from multiform.run.executors.cluster import ClusterOptions, check_address, no_cluster, resources_text
from multiform.run.executors.local import LazyModel, model_key
from multiform.run.executors.pool import Event, Failed, Finished, PoolExecutor, Ready, Responded
from multiform.run.executors.ranges import RangedDocs
from multiform.run.executors.worker import LoadedModel, RemoteStore, Worker, WorkerModel
from multiform.run.pending import Batch
from multiform.run.progress import Progress
from multiform.run.store import Store
from multiform.tasks.functions import imported_files

logger = logging.getLogger("multiform")

#: Seconds in which a worker gathers responses before it sends them. With many workers it is longer, so that the driver
#: gets at most `_MESSAGES_PER_SECOND`.
_PAUSE = 0.2
_MESSAGES_PER_SECOND = 200
#: How often a worker may die while it loads the model before it is no longer replaced.
_LOAD_ATTEMPTS = 3
#: Seconds without any worker before a warning.
_LONG = 30.0
#: Seconds without a response, and without a token more, after which a worker that is alive is given up; and seconds in
#: which it has to say how many tokens it has computed.
SILENCE = 1800.0
_PATIENCE = 10.0


class RayExecutor(PoolExecutor):
    """Runs requests on the workers of a cluster, which are started when the model is first needed."""

    pool: RayPool

    def __init__(self, options: ClusterOptions) -> None:
        super().__init__()
        self._options = options
        self._key: tuple[str, str] | None = None

    def load(
        self,
        model: str | Model | Any,
        arguments: Mapping[str, Any],
        progress: Progress,
        open_store: Callable[[], Store | None] = lambda: None,
    ) -> Model:
        if not isinstance(model, str):
            message = f"workers load a model by its name, and this is a {type(model).__name__}"
            hint = "register its class with register_model, and name it"
            raise UsageError(message, where="--executor ray", hint=hint)
        self._options.check_model(model, arguments)
        key = model_key(model, arguments)
        if self._key != key:
            self.close()
            self.pool, self._key = RayPool(self._options, model, arguments, progress), key
        return super().load(model, arguments, progress, open_store)

    def _load(self, name: str, arguments: Mapping[str, Any], progress: Progress) -> Model:
        return WorkerModel(self.pool, self)

    def _run(self, units: Iterable[Sequence[Any]]) -> Iterator[tuple[Any, Batch]]:
        if isinstance(self.model, LazyModel):
            self.model.model  # noqa: B018  (compares what the store knows with what a worker has loaded)
        return super()._run(units)

    def close(self) -> None:
        if self._key is not None:
            self.pool.close()
        self._model = self._key = None


class RayPool:
    """Workers for one model on a cluster, started when they are first needed."""

    def __init__(self, options: ClusterOptions, name: str, arguments: Mapping[str, Any], progress: Progress) -> None:
        self._ray = import_module("ray")
        self._errors = import_module("ray.exceptions")
        for module in imported_files:  # workers cannot import them by name
            self._ray.cloudpickle.register_pickle_by_value(module)
        self.options = options
        self.size = options.workers or 1
        self._model = (name, models.get(name), dict(arguments), os.getcwd())
        self._progress = progress
        self._first: LoadedModel | None = None
        self._connected = self._started = False
        self._number = 0
        self._actors: dict[int, Any] = {}
        self._loading: dict[Any, int] = {}
        self._streams: dict[Any, int] = {}
        #: When each worker with a unit was heard of last, and how many tokens it had computed then.
        self._heard: dict[int, tuple[float, int]] = {}
        #: The consecutive failures of each worker, or how often it has died while it was loading.
        self._failures: dict[int, int] = {}
        #: The reference of the job that documents are submitted for; a tuple, which Ray leaves as it is.
        self._job: tuple[Any, ...] = ()
        #: The number of the current run, raised by each stop: workers skip units of runs that were stopped.
        self._run = 0
        self._logged: set[tuple[int, str]] = set()
        #: Events that came while `wait_until_loaded` waited for the first worker.
        self._early: list[Event] = []
        self._waiting_since = 0.0

    def start(self) -> None:
        if self._started:
            return
        if not self._connected:
            self._connect()
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        self.options = self.options.fit(nodes)
        self.size = self.options.workers or 1
        self._started = True
        self._waiting_since = time.monotonic()
        resources = resources_text(self.options.resources)
        self._progress.message(f"loading model '{self._model[0]}' on {self.size} Ray workers with {resources}")
        for _ in range(self.size):
            self._add()

    def begin_job(self, documents: RangedDocs, cache: Store | None, *, stores: bool) -> None:
        self.start()
        reader = None
        if cache is not None:
            node = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
                self._ray.get_runtime_context().get_node_id(), soft=False
            )
            actor = self._ray.remote(Store).options(num_cpus=0, scheduling_strategy=node)
            reader = RemoteStore(actor.remote(cache.path.absolute()))
        self._job = (self._ray.put(documents.job(reader, stores=stores)),)

    def submit(self, worker: int, unit: Sequence[Any]) -> None:
        pause = max(_PAUSE, self.size / _MESSAGES_PER_SECOND)
        run = self._actors[worker].run.options(num_returns="streaming")
        self._streams[run.remote(unit, self._job, pause, self._run)] = worker
        self._heard[worker] = time.monotonic(), -1

    def events(self) -> Sequence[Event]:
        events, self._early = self._early, []
        return events or self._new_events()

    def _new_events(self) -> list[Event]:
        refs = [*self._loading, *self._streams]
        if not refs:
            raise ModelError("nothing is left to wait for", hint="run the same command again to go on")
        ready, _ = self._ray.wait(refs, num_returns=1, timeout=1.0, fetch_local=False)
        if len(ready) == 1 and len(refs) > 1:
            ready, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)
        self._say_waiting()
        events = [
            event
            for ref in ready
            for event in (self._load_event(ref) if ref in self._loading else self._unit_events(ref))
        ]
        return events or self._silent_events()

    def stop(self) -> None:
        for actor in self._actors.values():
            actor.stop.remote(self._run)
        self._run += 1

    def wait_until_loaded(self, workers: int = 1) -> LoadedModel:
        """The model, once `workers` have loaded it."""
        self.start()
        while self._first is None or len(self._actors) - len(self._loading) < workers:
            self._early += self._new_events()
        return self._first

    def call(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the model on a worker and return its result."""
        self.wait_until_loaded()
        worker = next(iter(set(self._actors) - set(self._loading.values())))
        try:
            return self._ray.get(self._actors[worker].call.remote(method, *arguments, **options))
        except self._errors.RayTaskError as error:
            raise _cause(error) from error
        except self._errors.RayError as error:
            raise ModelError(f"a worker died: {reason(error)}", hint="run the same command again") from error

    def abandon(self) -> None:
        for actor in self._actors.values():
            self._ray.kill(actor)
        self._actors, self._loading, self._streams, self._early = {}, {}, {}, []
        self._started = False

    def close(self) -> None:
        """End the workers, and the cluster where it was started for them."""
        self.abandon()
        if self._connected:
            self._ray.shutdown()
        self._connected = False

    def _connect(self) -> None:
        """Connect to the cluster, or start one on this machine; one that the program has started is used."""
        address = self.options.address or "local"
        if self._ray.is_initialized():
            connected = str(self._ray.get_runtime_context().gcs_address)
            if self.options.address not in (None, "auto", connected):
                message = f"this program is connected to the Ray cluster at {connected}, and not to '{address}'"
                raise UsageError(message, where="--ray_address", hint="leave it out, or call ray.shutdown() before")
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Ray gives the workers of a cluster a low priority: beside other processes they would get hardly any time.
        os.environ.setdefault("RAY_worker_niceness", "0")
        if ":" in address:
            check_address(address)
        settings = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
        if address == "local":
            settings["include_dashboard"] = False
        try:
            with _keep_signals_and_logs():
                self._ray.init(address, **settings)
        except Exception as error:  # a node that does not start in time is a bare Exception
            if address == "local":
                hint = "run the same command again when the machine is less busy, or with --ray_address"
                raise ModelError(f"Ray does not start on this machine: {reason(error)}", hint=hint) from error
            raise no_cluster(address, reason(error)) from error
        self._connected = True

    def _add(self, failures: int = 0) -> None:
        """Start a worker; Ray finds a node for it when there is room."""
        amounts = dict(self.options.resources)
        actor = (
            self._ray.remote(Worker)
            .options(
                num_cpus=amounts.pop("CPU", 0),
                num_gpus=amounts.pop("GPU", 0),
                memory=amounts.pop("memory", None),
                resources=amounts,
                max_restarts=0,
                max_concurrency=2,  # a stop arrives while a unit runs
            )
            .remote()
        )
        self._number += 1
        self._actors[self._number] = actor
        self._failures[self._number] = failures
        self._loading[actor.load.remote(*self._model)] = self._number

    def _load_event(self, ref: Any) -> list[Event]:
        """A worker has loaded the model, or could not."""
        worker = self._loading.pop(ref)
        try:
            loaded: LoadedModel = self._ray.get(ref)
        except self._errors.RayTaskError as error:
            cause = _cause(error)
            if cause.exit_code == 2:  # the input is wrong, whichever worker loads it
                raise cause from error
            self._drop(worker)
            return self._unloadable(str(cause))
        except self._errors.RayError as error:
            failures = self._drop(worker) + 1
            if failures < _LOAD_ATTEMPTS:
                self._add(failures)
                return []
            return self._unloadable(f"its process died, as it does when memory runs out ({reason(error)})")
        if loaded.version != (installed := package_version("multiform")):
            message = f"a worker has Multiform {loaded.version}, and the driver {installed}"
            raise UsageError(message, where="--executor ray", hint="install the same version on every node")
        self._first = self._first or loaded
        facts, first = loaded.facts, self._first.facts
        if facts.identity != first.identity:
            message = f"model '{facts.name}' differs between workers: {facts.identity} is not {first.identity}"
            raise ModelError(message, hint="put the same files on every node, and run the same command again")
        self._failures[worker] = 0
        return [Ready(worker)]

    def _unloadable(self, why: str) -> list[Event]:
        """A worker is not replaced; an error where it was the last one."""
        if not self._actors and self._first is not None:
            message = f"no worker is left, and none can be started: {why}"
            raise ModelError(message, hint="run the same command again to go on")
        if not self._actors:
            message = f"the model fits on no worker: {why}"
            hint = "give each worker more with --resources, such as gpu=2 or memory=40GB, or a smaller dtype"
            raise UsageError(message, where="--executor ray", hint=hint)
        logger.warning("a worker could not load the model, the others go on: %s", why)
        return []

    def _unit_events(self, stream: Any) -> list[Event]:
        """A worker has sent responses, is done with its unit, or has failed on it."""
        worker = self._streams[stream]
        try:
            batch: Batch = self._ray.get(next(stream))
        except StopIteration:
            del self._streams[stream]
            self._failures[worker] = 0
            return [Finished(worker)]
        except self._errors.RayTaskError as error:
            del self._streams[stream]
            cause = _cause(error)
            if cause.exit_code == 2:  # the input is wrong, whichever worker runs it
                raise cause from error
            self._failures[worker] += 1
            broken = self._failures[worker] > 1  # such as a GPU after an error: it fails on every unit
            if broken:
                self._replace(worker)
            return [Failed(worker, str(cause), dead=broken)]
        except self._errors.RayError as error:
            del self._streams[stream]
            self._replace(worker)
            return [Failed(worker, f"its worker died ({type(error).__name__})", dead=True)]
        self._heard[worker] = time.monotonic(), self._heard[worker][1]
        for line in batch.logged:
            if line not in self._logged:
                self._logged.add(line)
                logger.log(line[0], "%s", line[1])
        return [Responded(worker, batch)]

    def _silent_events(self) -> list[Event]:
        """Workers that are alive, but neither respond nor compute: they are replaced, as dead ones are."""
        events: list[Event] = []
        for stream, worker in list(self._streams.items()):
            heard, computed = self._heard[worker]
            if time.monotonic() - heard < SILENCE:
                continue
            try:
                usage = self._ray.get(self._actors[worker].call.remote("usage"), timeout=_PATIENCE) or Usage()
                now = usage.computed_tokens
            except self._errors.RayError:  # it does not even say that
                now = computed
            if now > max(computed, 0):
                self._heard[worker] = time.monotonic(), now
                continue
            del self._streams[stream]
            self._replace(worker)
            events.append(Failed(worker, f"its worker was silent for {SILENCE:.0f} seconds", dead=True))
        return events

    def _replace(self, worker: int) -> None:
        self._drop(worker)
        self._add()

    def _drop(self, worker: int) -> int:
        """Kill a worker; returns how often it has failed."""
        self._ray.kill(self._actors.pop(worker))
        return self._failures.pop(worker)

    def _say_waiting(self) -> None:
        """Warn when there has been no worker for long."""
        if len(self._loading) < len(self._actors):
            self._waiting_since = time.monotonic()
        elif time.monotonic() - self._waiting_since > _LONG:
            self._waiting_since = time.monotonic()
            logger.warning(
                "no worker is ready; free on the cluster: %s", resources_text(self._ray.available_resources())
            )


@contextmanager
def _keep_signals_and_logs() -> Iterator[None]:
    """Keep Ray, while it starts, from logging and from handling SIGTERM, which ends a run as Ctrl-C does."""
    main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM) if main}
    log = logging.getLogger("ray")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _cause(error: Any) -> MultiformError:
    """The error that was raised on a worker, from Ray's error."""
    if isinstance(error.cause, MultiformError):
        return error.cause
    return ModelError(f"a worker failed: {reason(error.cause)}", hint="its log is in Ray's folder of the session")

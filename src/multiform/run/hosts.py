"""Hosts: where a run's model is loaded, in this process or on the workers of a cluster, and its executor.

A host keeps the model that it has loaded, so that several runs of one model load it once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from multiform.errors import ModelError, UsageError
from multiform.models import Model, models
from multiform.requests import FailedRequest, Output, Request
from multiform.run.executors import Executor, LocalExecutor, Unit
from multiform.run.executors.cluster import ClusterOptions
from multiform.run.executors.pool import PoolExecutor
from multiform.run.lazy_model import LazyModel
from multiform.run.progress import Progress
from multiform.run.setup import load_model, loaded_model
from multiform.run.store import Store

if TYPE_CHECKING:  # Ray is imported where it is used
    from multiform.run.executors.ray import RayPool


class Host(Protocol):
    """Provides a run's model and its executor."""

    def model(
        self, model: str | Model | Any, arguments: Mapping[str, Any], progress: Progress, store: Store | None
    ) -> Model:
        """The model itself, or the registered one of that name; loaded when it is needed if the store knows it."""

    def executor(self, model: Model) -> Executor:
        """The executor for a model of this host."""

    def close(self) -> None:
        """Release the model."""


class LocalHost:
    """This process."""

    def __init__(self) -> None:
        self._key: tuple[str, str] | None = None
        self._loaded: Model | None = None

    def model(
        self, model: str | Model | Any, arguments: Mapping[str, Any], progress: Progress, store: Store | None
    ) -> Model:
        return load_model(model, arguments, progress, store, load=lambda: self._load(str(model), arguments, progress))

    def executor(self, model: Model) -> Executor:
        return LocalExecutor(model)

    def close(self) -> None:
        self._key = self._loaded = None

    def _load(self, model: str, arguments: Mapping[str, Any], progress: Progress) -> Model:
        key = _key(model, arguments)
        if self._loaded is None or self._key != key:
            self.close()  # before the next one is loaded, which may need the memory
            self._loaded, self._key = loaded_model(model, arguments, progress), key
        return self._loaded


class CachedHost:
    """No model at all: a run uses stored responses only, and fails where it needs others."""

    def model(
        self, model: str | Model | Any, arguments: Mapping[str, Any], progress: Progress, store: Store | None
    ) -> Model:
        if isinstance(model, str) and model in models and models.get(model).signature(arguments) is not None:
            return load_model(model, arguments, progress, store, load=_unstored)
        # The identity of other models, such as those on servers, is known once they are loaded.
        return load_model(model, arguments, progress, store)

    def executor(self, model: Model) -> Executor:
        return CachedExecutor()

    def close(self) -> None:
        pass


class CachedExecutor:
    """An executor without a model: every request is an error."""

    asked_again = 0

    def run(self, units: Sequence[Unit]) -> Iterator[tuple[Request, Output | FailedRequest]]:
        if units:
            message = f"{sum(map(len, units))} responses are not stored"
            raise ModelError(message, hint="run the same command without --cached to compute them")
        return iter(())


def _unstored() -> Model:
    message = "nothing of this model is stored"
    raise ModelError(message, hint="run the same command without --cached to ask it")


class RayHost:
    """The workers of a Ray cluster, which are started when the model is first needed."""

    def __init__(self, options: ClusterOptions) -> None:
        self._options = options
        self._current: _Current | None = None

    def model(
        self, model: str | Model | Any, arguments: Mapping[str, Any], progress: Progress, store: Store | None
    ) -> Model:
        from multiform.run.executors.ray import RayPool
        from multiform.run.executors.remote_model import RemoteModel

        if not isinstance(model, str):
            message = f"workers load a model by its name, and this is a {type(model).__name__}"
            raise UsageError(
                message, where="--executor ray", hint="register its class with register_model, and name it"
            )
        self._options.check_model(model, arguments)
        key = _key(model, arguments)
        if self._current is None or self._current.key != key:
            self.close()
            pool = RayPool(self._options, model, arguments, progress)
            self._current = _Current(key, pool, PoolExecutor(pool))
        pool, executor = self._current.pool, self._current.executor
        return load_model(model, arguments, progress, store, load=lambda: RemoteModel(pool, executor))

    def executor(self, model: Model) -> PoolExecutor:
        if self._current is None:
            raise RuntimeError("the model of this host comes before its executor")
        executor, pool = self._current.executor, self._current.pool
        # A model that is known from the store is compared with what a worker has loaded, before it is run.
        executor.start = partial(getattr, model, "model") if isinstance(model, LazyModel) else pool.start
        return executor

    def close(self) -> None:
        if self._current is not None:
            self._current.pool.close()
        self._current = None


class _Current(NamedTuple):
    """The model of a Ray host, by its name and arguments, and who asks it."""

    key: tuple[str, str]
    pool: RayPool
    executor: PoolExecutor


@contextmanager
def chosen_host(cluster: ClusterOptions | None) -> Iterator[Host]:
    """The host of a run: the cluster where there is one, else this process."""
    host: Host = LocalHost() if cluster is None else RayHost(cluster)
    try:
        yield host
    finally:
        host.close()


def _key(model: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
    return model, repr(sorted(arguments.items()))

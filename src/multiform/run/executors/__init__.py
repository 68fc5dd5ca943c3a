"""Executors: they load the model of a run and run its requests, in this process or on the workers of a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager

from multiform.run.executors.cluster import ClusterOptions
from multiform.run.executors.local import CachedExecutor, Executor, LocalExecutor, Unit, responses, units

__all__ = ["CachedExecutor", "Executor", "LocalExecutor", "Unit", "open_executor", "responses", "units"]


@contextmanager
def open_executor(cluster: ClusterOptions | None, *, cached: bool = False) -> Iterator[Executor]:
    """The executor of a run: the workers of a cluster where there is one, else this process.

    With `cached`, one that runs no model.
    """
    executor: Executor
    if cached:
        executor = CachedExecutor()
    elif cluster is None:
        executor = LocalExecutor()
    else:
        from multiform.run.executors.ray import RayExecutor

        executor = RayExecutor(cluster)
    try:
        yield executor
    finally:
        executor.close()

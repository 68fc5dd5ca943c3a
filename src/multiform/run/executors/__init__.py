"""Executors: they load the model of a run and run its requests, in this process or on the workers of a cluster."""

from multiform.run.executors.local import CachedExecutor, Executor, LocalExecutor, Unit, units

__all__ = ["CachedExecutor", "Executor", "LocalExecutor", "Unit", "units"]

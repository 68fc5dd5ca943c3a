"""Executors: they send the requests of a run to its model, in this process or on the workers of a cluster."""

from multiform.run.executors.local import Executor, LocalExecutor, Unit, responses, units

__all__ = ["Executor", "LocalExecutor", "Unit", "responses", "units"]

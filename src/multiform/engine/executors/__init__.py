"""Executors: who asks the model. There is one in this process; others can ask elsewhere."""

from multiform.engine.executors.base import Executor, Unit, responses, units
from multiform.engine.executors.local import LocalExecutor

__all__ = ["Executor", "LocalExecutor", "Unit", "responses", "units"]

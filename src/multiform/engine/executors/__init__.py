"""Executors: who asks the model. One in this process now; others may ask it elsewhere."""

from multiform.engine.executors.base import Executor, Unit
from multiform.engine.executors.local import LocalExecutor

__all__ = ["Executor", "LocalExecutor", "Unit"]

"""The engine: from requests to a model's answers."""

from multiform.engine.run import answers

__all__ = ["answers"]

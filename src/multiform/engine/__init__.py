"""The engine: from requests to a model's answers."""

from multiform.engine.responses import answers

__all__ = ["answers"]

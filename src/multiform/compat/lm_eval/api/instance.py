"""Instance: one request, as tasks written for lm-eval make it and models written for lm-eval get it."""

from multiform.models.foreign import Instance, OutputType

__all__ = ["Instance", "OutputType"]

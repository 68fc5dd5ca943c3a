"""Instance: one request, as tasks written for lm-eval make it and models written for lm-eval get it; and responses."""

from multiform.models.foreign import Instance, OutputType
from multiform.requests import Completion, LLOutput

__all__ = ["Completion", "GenInstance", "Instance", "LLInstance", "LLOutput", "OutputType"]

#: Requests for completions and for log-likelihoods, which `request_type` tells apart.
GenInstance = LLInstance = Instance

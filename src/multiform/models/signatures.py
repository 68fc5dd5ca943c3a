"""Signatures: what tells the models of one kind apart, without loading anything.

Equal signatures mean equal models. What a model turned out to be is stored under its signature, so
that a run whose answers are all known need not load the model to tell which one it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from multiform.registry import Registry

#: From a model's arguments to its signature, or None where it cannot be told.
Sign: TypeAlias = Callable[[dict[str, Any]], str | None]

signatures: Registry[Sign] = Registry(
    "model",
    lazy={
        "hf": "multiform.models.hf.signature:signature",
        "hf-auto": "multiform.models.hf.signature:signature",
        "huggingface": "multiform.models.hf.signature:signature",
        "hf-multimodal": "multiform.models.hf.signature:signature",
        "bundled": "multiform.models.hf.signature:bundled_signature",
    },
)

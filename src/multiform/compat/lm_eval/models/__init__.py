"""The models of Multiform under lm-eval's names, as classes that answer instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multiform.errors import UsageError, nearest
from multiform.models import models

if TYPE_CHECKING:
    from multiform.compat.lm_eval.api.model import LM

_HF = ("hf", "hf-auto", "huggingface")


def model_class(name: str) -> type[LM]:
    """The class of a model that Multiform has."""
    from multiform.compat.lm_eval.models.wrapped import ModelLM

    if name in _HF:
        from multiform.compat.lm_eval.models.huggingface import HFLM

        return HFLM
    if name not in models:
        from multiform.cli.lm_eval import INSTEAD

        hint = INSTEAD.get(name) or nearest(name, models, listed="models")
        raise UsageError(f"no model '{name}' here", where="model", hint=hint)
    return type(f"{name}_lm", (ModelLM,), {"model_name": name})

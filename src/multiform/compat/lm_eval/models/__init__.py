"""The models of Multiform under lm-eval's names, as classes that answer instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multiform.errors import UsageError, nearest
from multiform.models.base import models

if TYPE_CHECKING:
    from multiform.compat.lm_eval.api.model import LM

#: Other names of lm-eval for what we have.
ALIASES = {"hf-auto": "hf", "huggingface": "hf"}


def model_class(name: str) -> type[LM]:
    """The class of a model that Multiform has."""
    from multiform.compat.lm_eval.models.wrapped import ModelLM

    ours = ALIASES.get(name, name)
    if ours == "hf":
        from multiform.compat.lm_eval.models.huggingface import HFLM

        return HFLM
    if ours not in models:
        hint = nearest(name, models, listed="models")
        raise UsageError(f"no model '{name}' here", where="model", hint=hint)
    return type(f"{ours}_lm", (ModelLM,), {"model_name": ours})

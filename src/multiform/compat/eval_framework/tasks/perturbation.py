"""Noise in questions: the kinds, and a class of tasks with noise."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar

from multiform.catalog.base_task import BaseTask
from multiform.formats.perturbation import Perturbation as PerturbationConfig

__all__ = ["PerturbationConfig", "PerturbationType", "create_perturbation_class"]

SomeTask = TypeVar("SomeTask", bound=BaseTask[Any])


class PerturbationType(str, Enum):  # noqa: UP042 - a name that a configuration takes as well
    """The kinds of noise."""

    EDITOR = "editor"
    PERMUTE = "permute"
    REPLACE = "replace"
    DELETE = "delete"
    UPPERCASE = "uppercase"

    def __str__(self) -> str:
        return self.value


def create_perturbation_class(base_class: type[SomeTask], perturbation_config: PerturbationConfig) -> type[SomeTask]:
    """A class of the same tasks whose questions have noise."""
    changes = {key: getattr(perturbation_config, key) for key in ("type", "probability", "seed")}
    noise = {**changes, "type": str(changes["type"]), "unmodifiable_words": perturbation_config.unmodifiable_words}
    config = {**base_class.CONFIG, "perturbation": noise}
    # Without a NAME in its body the class is not registered in the place of the one that it comes from.
    return type(f"Perturbed{base_class.__name__}", (base_class,), {"CONFIG": config, "__module__": __name__})

"""Fields of a task configuration that call the hooks of a Python task."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from multiform.compat.eval_framework.sample_hooks import NO_SUBJECT, SampleHooks
from multiform.errors import DataError
from multiform.fields import Doc
from multiform.formats.dialects.metric_classes import BaseMetric
from multiform.formats.dialects.styler import ResponseType
from multiform.formats.perturbation import Perturbation

#: The limit of tokens of a completion, where a class does not set one.
DEFAULT_MAX_TOKENS = 256

#: The modules that form identities name for the hooks of our own classes; they stay the same when a class moves.
_STABLE_PLACES = {"StylerHooks": "multiform.tasks.styler_hooks", "SampleHooks": "multiform.tasks.sample_hooks"}


def item_of(doc: Doc, subject: Any) -> dict[str, Any]:
    """A document as the hooks get it: a copy with the key `subject`.

    Where the dataset has no subjects, a column of that name is not replaced.
    """
    return {"subject": subject, **doc} if subject == NO_SUBJECT else {**doc, "subject": subject}


def hook(task: SampleHooks, name: str, subject: Any) -> Callable[[Doc], Any]:
    """A method of the task as a field of a configuration; it gets a copy of the document with its subject."""
    method = getattr(task, name)

    def call(doc: Doc) -> Any:
        return method(item_of(doc, subject))

    call.__name__, call.__qualname__ = method.__name__, method.__qualname__
    own = method.__module__ == SampleHooks.__module__
    call.__module__ = _STABLE_PLACES[method.__qualname__.partition(".")[0]] if own else method.__module__
    call.__wrapped__ = method  # type: ignore[attr-defined]
    return call


class HookedPrompt:
    """The field `doc_to_text` of a task that writes its prompts itself: its instruction and its cue."""

    def __init__(self, task: SampleHooks, subject: Any, noise: Perturbation | None = None) -> None:
        self.task, self.subject, self.noise = task, subject, noise
        self.__module__, self.__qualname__ = type(task).__module__, f"{type(task).__qualname__}._get_instruction_text"

    def __call__(self, doc: Doc) -> str:
        item, task = item_of(doc, self.subject), self.noisy_task()
        return task._get_instruction_text(item) + task._get_cue_text(item)

    def with_noise(self, noise: Perturbation) -> HookedPrompt:
        """The same field with noise in the question, or in the instruction where the class writes that itself."""
        return HookedPrompt(self.task, self.subject, noise)

    def noisy_task(self) -> SampleHooks:
        """A copy of the task, with the noise of this field."""
        task = copy.copy(self.task)
        if self.noise is None:
            return task
        name = "_get_instruction_text" if "_get_instruction_text" in task._own_hooks else "_get_raw_question"
        method, noise = getattr(self.task, name), self.noise
        setattr(task, name, lambda item: noise(method(item)))
        return task


class HookedDataset:
    """The field `custom_dataset` of a class with its own `_load_dataset`."""

    #: The dataset mirror is passed as an argument.
    takes_mirror = True

    def __init__(self, task: SampleHooks, subject: Any) -> None:
        self.task, self.subject = task, subject
        self.__module__, self.__qualname__ = type(task).__module__, f"{type(task).__qualname__}._load_dataset"

    def __call__(self, *, dataset_mirror: Path | None = None, **_: Any) -> Mapping[str, Sequence[dict[str, Any]]]:
        self.task._mirror = dataset_mirror
        self.task.rnd = None
        self.task._load_dataset(self.subject)
        rows = getattr(self.task, "dataset", None)
        if not isinstance(rows, Mapping):
            message = f"{type(self.task).__name__}._load_dataset did not set self.dataset to the rows of each split"
            raise DataError(message, hint='set e.g. self.dataset = {"test": [...]}')
        return rows


def calculates(task: SampleHooks) -> bool:
    """Whether the metric classes are computed from responses as eval-framework has them.

    Built-in classes of log-likelihoods need none of that: the registered metrics have the same values.
    """
    classes = [metric for metric in task.get_metrics() if isinstance(metric, type) and issubclass(metric, BaseMetric)]
    generates = task.get_response_type() is ResponseType.COMPLETION
    return any(metric.has_calculate() or (generates and metric.is_registered()) for metric in classes)

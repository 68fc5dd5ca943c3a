"""Tasks written for lm-eval: subclasses of Multiform's, with lm-eval's constructor and the methods that it calls."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from multiform.compat.lm_eval.api.building import OWN_CODE, building, current
from multiform.compat.lm_eval.api.scores import TaskScores
from multiform.compat.lm_eval.config.task import TaskConfig
from multiform.config import TaskConfig as OurConfig
from multiform.errors import ConfigError, running
from multiform.fields import Doc
from multiform.tasks import Task as OurTask

ALL_OUTPUT_TYPES = ["loglikelihood", "multiple_choice", "loglikelihood_rolling", "generate_until"]


class Task(TaskScores):
    """A task whose methods may be overridden as those of lm-eval's are.

    What it does not override is done by Multiform's task for its output type. That type is known only once a
    subclass's constructor has said it, so the object then becomes one of both classes.
    """

    any_keys = True
    VERSION: ClassVar[Any] = None
    DATASET_PATH: str | None = None
    DATASET_NAME: str | None = None
    #: The configuration of a class that brings one along.
    CONFIG: ClassVar[Mapping[str, Any] | None] = None

    def __init__(
        self,
        data_dir: str | None = None,
        cache_dir: str | None = None,
        download_mode: Any = None,
        config: Mapping[str, Any] | OurConfig | None = None,
    ) -> None:
        made = config if isinstance(config, OurConfig) else self._configuration(config or {})
        super().__init__(made, dataset_mirror=current().mirror)
        self.DATASET_PATH, self.DATASET_NAME = made.dataset_path, made.dataset_name
        if self.VERSION is not None:
            made.metadata.setdefault("version", self.VERSION)
        self.VERSION = made.metadata.get("version")  # type: ignore[misc]

    def _configuration(self, given: Mapping[str, Any]) -> OurConfig:
        """The configuration that the class's attributes and the given keys make."""
        file = current().config
        own = {
            "task": file.task if file is not None else type(self).__name__,
            "dataset_path": self.DATASET_PATH,
            "dataset_name": self.DATASET_NAME,
            "output_type": getattr(self, "OUTPUT_TYPE", None),
        }
        keys = {key: value for key, value in {**(self.CONFIG or {}), **given}.items() if key not in ("class", "group")}
        set_keys = {key: value for key, value in own.items() if value is not None and keys.get(key) is None}
        return TaskConfig.from_dict({**keys, **set_keys}, source=file._source if file is not None else None)

    @classmethod
    def of_config(cls, config: OurConfig, *, dataset_mirror: Path | None = None) -> OurTask:
        """The task of a file; its class gets the file's keys where its constructor takes them."""
        place = config.where("class")
        with (
            running(f"{cls.__name__}()", kind=ConfigError, where=place, hint=OWN_CODE),
            building(config, dataset_mirror),
        ):
            made = cls(config=dict(config._class_keys)) if _takes_config(cls) else cls()
        made.config.task = config.task
        return made

    @property
    def _config(self) -> OurConfig:
        return self.config

    @property
    def task_name(self) -> str:
        return self.config.task

    @property
    def fewshot_cfg(self) -> Any:
        return self.config.fewshot_config

    def should_decontaminate(self) -> bool:
        return self.config.should_decontaminate

    def __repr__(self) -> str:
        return f"{type(self).__name__}(task_name={self.config.task!r}, output_type={self.config.output_type!r})"


class ConfigurableTask(Task):
    """A task that its configuration describes: ``ConfigurableTask(config={...})``, or a subclass with code."""


class MultipleChoiceTask(Task):
    """A task whose documents hold `choices` and the index `gold`."""

    OUTPUT_TYPE = "multiple_choice"

    def doc_to_target(self, doc: Doc, doc_to_target: Any = None) -> Any:
        return f" {doc['choices'][doc['gold']]}"

    def doc_to_choice(self, doc: Doc, doc_to_choice: Any = None) -> list[str]:
        return list(doc["choices"])

    def gold(self, doc: Doc) -> tuple[int, ...]:
        return (int(doc["gold"]),)

    def shot_answer(self, doc: Doc) -> str:
        return str(doc["choices"][doc["gold"]])


class PerplexityTask(Task):
    """A task that scores whole texts."""

    OUTPUT_TYPE = "loglikelihood_rolling"

    def has_training_docs(self) -> bool:
        return False

    def doc_to_text(self, doc: Doc, doc_to_text: Any = None) -> Any:
        return ""

    def doc_to_target(self, doc: Doc, doc_to_target: Any = None) -> Any:
        return doc


def _takes_config(kind: type[Task]) -> bool:
    parameters = inspect.signature(kind.__init__).parameters.values()
    return any(one.name == "config" or one.kind is one.VAR_KEYWORD for one in parameters)

"""Tasks written for lm-eval: subclasses of Multiform's, with lm-eval's constructor and the methods that it calls."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from multiform.compat.lm_eval.api.building import OWN_CODE, building, current
from multiform.compat.lm_eval.api.scores import TaskScores
from multiform.compat.lm_eval.api.utils import Message, maybe_delimit, requires_delimiter
from multiform.compat.lm_eval.config.task import TaskConfig
from multiform.compat.lm_eval.utils import apply_template
from multiform.config import TaskConfig as OurConfig
from multiform.errors import ConfigError, running
from multiform.fields import Doc
from multiform.forms import RunSettings
from multiform.forms import Task as OurTask
from multiform.forms.hooks import Hooks

ALL_OUTPUT_TYPES = ["loglikelihood", "multiple_choice", "loglikelihood_rolling", "generate_until"]


class Task(TaskScores):
    """A task with lm-eval's methods, all of which may be overridden.

    What it does not override is done as Multiform does it for its output type.
    """

    any_keys = True
    VERSION: ClassVar[Any] = None
    DATASET_PATH: str | None = None
    DATASET_NAME: str | None = None
    #: The configuration of a class that brings one along.
    CONFIG: ClassVar[Mapping[str, Any] | None] = None

    def __init__(
        self,
        data_dir: str | Mapping[str, Any] | OurConfig | None = None,
        cache_dir: str | None = None,
        download_mode: Any = None,
        config: Mapping[str, Any] | OurConfig | None = None,
    ) -> None:
        if isinstance(data_dir, Mapping | OurConfig):  # lm-eval 0.5 takes the configuration alone
            data_dir, config = None, data_dir
        task_config = _with_items(config) if isinstance(config, OurConfig) else self._configuration(config or {})
        if self.VERSION is not None and "version" not in task_config.metadata:
            task_config = task_config.changed(metadata={**task_config.metadata, "version": self.VERSION})
        super().__init__(task_config, dataset_mirror=current().mirror)
        self.DATASET_PATH, self.DATASET_NAME = task_config.dataset_path, task_config.dataset_name
        self.VERSION = task_config.metadata.get("version")  # type: ignore[misc]

    @classmethod
    def _base(cls) -> type[OurTask]:
        return Task

    def _configure(self, config: OurConfig, settings: RunSettings) -> None:
        super()._configure(config, settings)
        if isinstance(config, TaskConfig) and config.__dict__.get("_on_change") is None:
            object.__setattr__(config, "_on_change", lambda new: self._configure(new, self.form.settings))

    def _configuration(self, config: Mapping[str, Any]) -> OurConfig:
        """The configuration that the class's attributes and the given keys make."""
        file = current().config
        attributes = {
            "task": file.task if file is not None else type(self).__name__,
            "dataset_path": self.DATASET_PATH,
            "dataset_name": self.DATASET_NAME,
            "output_type": type(self).OUTPUT_TYPE,
        }
        keys = {key: value for key, value in {**(self.CONFIG or {}), **config}.items() if key not in ("class", "group")}
        set_keys = {key: value for key, value in attributes.items() if value is not None and keys.get(key) is None}
        return TaskConfig.from_dict({**keys, **set_keys}, source=file._source if file is not None else None)

    @classmethod
    def of_config(cls, config: OurConfig, *, dataset_mirror: Path | None = None) -> OurTask:
        """The task of a file; its class gets the file's keys where its constructor takes them."""
        place = config.where("class")
        with (
            running(f"{cls.__name__}()", kind=ConfigError, where=place, hint=OWN_CODE),
            building(config, dataset_mirror),
        ):
            task = cls(config=dict(config._class_keys)) if _takes_config(cls) else cls()
        names = {"task": config.task, "_qualified_name": config._qualified_name}
        if any(getattr(task.config, key) != name for key, name in names.items()):
            task._configure(task.config.changed(**names), task.form.settings)
        return task

    @classmethod
    def from_config(cls, config: OurConfig | dict[str, Any], *, dataset_mirror: Path | None = None) -> OurTask:
        """The task of the class here for the configuration's output type; that of a file's `class:`, if it has one."""
        task_config = _with_items(config) if isinstance(config, OurConfig) else TaskConfig.from_dict(config)
        if task_config._task_class is not None:
            return super().from_config(task_config, dataset_mirror=dataset_mirror)
        kind = next(kind for kind in _BY_OUTPUT_TYPE if task_config.output_type == kind.OUTPUT_TYPE)
        with building(task_config, dataset_mirror or current().mirror):
            return kind(config=task_config)

    @property
    def _config(self) -> OurConfig:
        """The configuration; one that is set takes the place of it."""
        return self.config

    @_config.setter
    def _config(self, config: OurConfig | Mapping[str, Any]) -> None:
        changed = _with_items(config) if isinstance(config, OurConfig) else TaskConfig.from_dict(config)
        self._configure(changed, self.form.settings)

    @property
    def task_name(self) -> str:
        return self.name

    @property
    def multiple_input(self) -> int:
        """How many prompts the first document has, where each choice makes one; 0 where there is one for all."""
        return len(self.doc_to_choice(self.eval_docs[0]) or ()) if self.renderer.several_inputs else 0

    @property
    def multiple_target(self) -> int:
        """How many right answers the first document has, where they are a list; else 0."""
        target = self.doc_to_target(self.eval_docs[0])
        return len(target) if isinstance(target, list) else 0

    @property
    def fewshot_cfg(self) -> Any:
        return self.config.fewshot_config

    @staticmethod
    def resolve_field(doc: Doc, field: str | None = None) -> Any:
        """A template rendered with a document; None where there is none."""
        return None if field is None else apply_template(field, doc)

    def should_decontaminate(self) -> bool:
        return self.config.should_decontaminate

    def __repr__(self) -> str:
        return f"{type(self).__name__}(task_name={self.config.task!r}, output_type={self.config.output_type!r})"


class ConfigurableTask(Task):
    """A task that its configuration describes: ``ConfigurableTask(config={...})``, or a subclass with code."""

    def build_qa_turn(
        self,
        *,
        q: str | None = None,
        c: Sequence[str] | None = None,
        a: str | int | Sequence[str] | None = None,
        gen_prefix: str | None = None,
        tgt_delim: str = " ",
        few_delim: str = "\n\n",
    ) -> list[Message]:
        """A question as messages, with its answer (a text, the index of a choice, or several texts) or what begins it.

        Prompts themselves are made elsewhere: an override does not change them, and is refused.
        """
        assert isinstance(q, str), f"the question is not a string: {q!r}"
        answered = a is not None and a != ""
        delimited = requires_delimiter(q, gen_prefix) if gen_prefix else answered
        messages = [Message("user", q, tgt_delim if delimited else "")]
        if answered:
            first = a[0] if isinstance(a, Sequence) and not isinstance(a, str) else a
            answer = c[a] if c and isinstance(a, int) else first
            assert isinstance(answer, str), f"the answer is not a string: {a!r}"
            messages.append(Message("assistant", maybe_delimit(gen_prefix, answer), few_delim))
        elif gen_prefix:
            messages.append(Message("assistant", gen_prefix))
        return messages


class MultipleChoiceTask(Task):
    """A task whose documents hold `choices` and the index `gold`, unless its configuration says where they are."""

    OUTPUT_TYPE = "multiple_choice"
    #: Whether the configuration says where the choices are.
    _maps_choices = False

    def _configure(self, config: OurConfig, settings: RunSettings) -> None:
        self._maps_choices = config.doc_to_choice is not None
        super()._configure(config, settings)

    def doc_to_target(self, doc: Doc, doc_to_target: Any = None) -> Any:
        if self._maps_choices:
            return super().doc_to_target(doc, doc_to_target)
        return f" {doc['choices'][doc['gold']]}"

    def doc_to_choice(self, doc: Doc, doc_to_choice: Any = None) -> list[str] | None:
        return super().doc_to_choice(doc, doc_to_choice) if self._maps_choices else list(doc["choices"])

    def _hooks(self) -> Hooks:
        hooks = {**super()._hooks()}
        if not self._maps_choices:
            hooks["gold"] = lambda doc: (int(doc["gold"]),)
            hooks["fewshot_doc_to_target"] = lambda doc: str(doc["choices"][doc["gold"]])
            return hooks
        for name in ("doc_to_target", "doc_to_choice"):
            if getattr(type(self), name) is getattr(MultipleChoiceTask, name):
                hooks.pop(name)
                hooks.pop(f"fewshot_{name}")
        return hooks


class GenerateTask(ConfigurableTask):
    """A task in which the model completes the prompt."""

    OUTPUT_TYPE = "generate_until"


class LoglikelihoodTask(ConfigurableTask):
    """A task that scores the right answer after the prompt."""

    OUTPUT_TYPE = "loglikelihood"


class LoglikelihoodRollingTask(ConfigurableTask):
    """A task that scores whole texts, which its configuration describes."""

    OUTPUT_TYPE = "loglikelihood_rolling"


class PerplexityTask(Task):
    """A task that scores whole texts."""

    OUTPUT_TYPE = "loglikelihood_rolling"

    def has_training_docs(self) -> bool:
        return False

    def doc_to_text(self, doc: Doc, doc_to_text: Any = None) -> Any:
        return ""

    def doc_to_target(self, doc: Doc, doc_to_target: Any = None) -> Any:
        return doc


_BY_OUTPUT_TYPE: tuple[type[Task], ...] = (
    MultipleChoiceTask,
    GenerateTask,
    LoglikelihoodTask,
    LoglikelihoodRollingTask,
)


def _with_items(config: OurConfig) -> TaskConfig:
    """A configuration whose fields can be read as those of a dict, too."""
    return config if isinstance(config, TaskConfig) else TaskConfig(**config._given)


def _takes_config(kind: type[Task]) -> bool:
    parameters = inspect.signature(kind.__init__).parameters.values()
    return any(parameter.name == "config" or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)

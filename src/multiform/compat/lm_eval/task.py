"""Tasks written for lm-eval: subclasses of Multiform's, with lm-eval's constructor and the methods that it calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

from multiform.compat.lm_eval.config import TaskConfig, build_context, build_from
from multiform.compat.lm_eval.model_helpers import to_instances, to_requests
from multiform.errors import ConfigError, DataError, placing, running
from multiform.fields import Doc
from multiform.forms import RunSettings, Sample
from multiform.forms import Task as OurTask
from multiform.forms.spec import FIELD_HOOKS, OWN_CODE
from multiform.prompts.prompt import ChatTemplate, Prompt, PromptOptions
from multiform.requests import Completion, LLOutput, Output, RollingRequest
from multiform.requests import Instance as Ours
from multiform.scoring.filters import Pipeline
from multiform.statistics.estimates import Estimate
from multiform.tasks.config import TaskConfig as OurConfig

ALL_OUTPUT_TYPES = ["loglikelihood", "multiple_choice", "loglikelihood_rolling", "generate_until"]


class Task(OurTask):
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
            task_config = task_config.replace(metadata={**task_config.metadata, "version": self.VERSION})
        super().__init__(task_config, dataset_mirror=build_context().mirror)
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
        file = build_context().config
        attributes = {
            "task": file.task if file is not None else type(self).__name__,
            "dataset_path": self.DATASET_PATH,
            "dataset_name": self.DATASET_NAME,
            "output_type": type(self).OUTPUT_TYPE,
        }
        keys = {key: value for key, value in {**(self.CONFIG or {}), **config}.items() if key not in ("class", "group")}
        set_keys = {key: value for key, value in attributes.items() if value is not None and keys.get(key) is None}
        return TaskConfig.from_dict({**keys, **set_keys}, source=file.stated.source if file is not None else None)

    @classmethod
    def of_config(cls, config: OurConfig, *, dataset_mirror: Path | None = None) -> OurTask:
        """The task of a file; its class gets the file's keys where its constructor takes them."""
        with (
            running(f"{cls.__name__}()", raises=ConfigError, where=config.where("class"), hint=OWN_CODE),
            build_from(config, dataset_mirror),
        ):
            parameters = inspect.signature(cls.__init__).parameters.values()
            takes_config = any(each.name == "config" or each.kind is each.VAR_KEYWORD for each in parameters)
            task = cls(config=dict(config.stated.class_keys)) if takes_config else cls()
        names = {"task": config.task, "_qualified_name": config._qualified_name}
        if any(getattr(task.config, key) != name for key, name in names.items()):
            task._configure(task.config.replace(**names), task.form.settings)
        return task

    @classmethod
    def from_config(cls, config: OurConfig | dict[str, Any], *, dataset_mirror: Path | None = None) -> OurTask:
        """The task of the class here for the configuration's output type; that of a file's `class:`, if it has one."""
        task_config = _with_items(config) if isinstance(config, OurConfig) else TaskConfig.from_dict(config)
        if task_config.stated.task_class is not None:
            return super().from_config(task_config, dataset_mirror=dataset_mirror)
        with build_from(task_config, dataset_mirror or build_context().mirror):
            return _BY_OUTPUT_TYPE[task_config.output_type](config=task_config)

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

    def _hooks(self, config: OurConfig) -> dict[str, Callable[..., Any]]:
        hooks = super()._hooks(config)
        for name in FIELD_HOOKS:  # an override knows no other template for few-shot examples
            if name in hooks:
                hooks[f"fewshot_{name}"] = hooks[name]
        if "construct_requests" in hooks:
            hooks["construct_requests"] = self._make_requests
            hooks["filtered"] = self._filter_responses
        if "aggregation" in hooks:
            hooks.setdefault("estimates", self.estimates)
        return hooks

    def download(self, dataset_kwargs: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        """Read the dataset. lm-eval does so when a task is created, Multiform when a row is needed."""
        super().download(dataset_kwargs)

    def construct_requests(self, doc: dict[str, Any], ctx: Any, **kwargs: Any) -> Any:
        """The instances of one document: one, or a list of them."""
        chat = bool(kwargs.pop("apply_chat_template", False))
        template, renderer = kwargs.pop("chat_template", None), self.form.renderer
        fields = renderer.fields(doc)
        options = PromptOptions(apply_chat_template=chat, chat_template=template)
        context = renderer.hook_prompts.to_prompts(ctx, fields, options)
        asked = renderer.instances(fields, context, options, doc_id=0)
        return to_instances(doc, [instance.request for instance in asked], **kwargs)

    @property
    def instances(self) -> Any:
        """The requests that `build_all_requests` made, as instances."""
        by_doc = groupby(self._instances, key=lambda instance: instance.doc_id)
        return [
            instance
            for doc_id, asked in by_doc
            for instance in to_instances(
                self.eval_docs[doc_id],
                [entry.request for entry in asked],
                metadata=(self.config.task, doc_id, self.config.repeats),
            )
        ]

    def _make_requests(
        self, doc: Doc, ctx: Any, *, doc_id: int, apply_chat_template: bool, chat_template: ChatTemplate | None
    ) -> list[Ours]:
        """What the task's own `construct_requests` makes, as our requests."""
        with running("construct_requests", where=self._place, hint="call it on this document to debug it"):
            instances = self.construct_requests(
                doc=doc,  # type: ignore[arg-type]
                ctx=ctx,
                metadata=(self.config.task, doc_id, self.config.repeats),
                apply_chat_template=apply_chat_template,
                chat_template=chat_template,
            )
        listed = instances if isinstance(instances, list | tuple) else [instances]
        if {"loglikelihood_rolling", "loglikelihood"} <= {getattr(instance, "request_type", "") for instance in listed}:
            message = "a document asks for the likelihood of a whole text and of a continuation"
            raise DataError(message, where=self._place, hint="make two tasks of it")
        with placing(self._place):
            return to_requests(instances, doc_id, self.config.repeats, self.form.renderer.media.read_media)

    @property
    def _place(self) -> str | None:
        return self.config.where("class")

    def _filter_responses(self, pipeline: Pipeline, sample: Sample, outputs: Sequence[Output]) -> list[Any]:
        """What the responses of each instance come to; a task's own instances may be of several kinds."""
        rolling = any(isinstance(instance.request, RollingRequest) for instance in sample.instances)
        results: list[Any] = []
        texts: list[str] = []
        for output in outputs:
            if isinstance(output, LLOutput):
                results.append(output.loglikelihood if rolling else (output.loglikelihood, output.is_greedy))
                continue
            texts.append(output.text)
            if len(texts) == self.config.repeats:
                left = pipeline(texts, sample.doc)
                results.append(left[0] if pipeline.single else left)
                texts = []
        return results

    def process_results(self, doc: Doc, results: Sequence[Any]) -> Mapping[str, Any] | None:
        """The values of one document: by the configuration's function, or by its metrics."""
        if self.config.process_results is not None:
            return super().process_results(doc, results)
        renderer = self.form.renderer
        asked = renderer.instances(renderer.fields(doc), Prompt(""), PromptOptions(), doc_id=0)
        sample = renderer.with_requests(0, doc, asked)
        return self.form.scorer.compute_values(sample, [_output(r) for r in results], results)

    def estimates(self, scored: Any, bootstrap_iters: int = 100_000) -> dict[str, Estimate]:
        try:
            return super().estimates(scored, bootstrap_iters)
        except DataError as error:
            if "aggregation" not in self.form.hooks:
                raise
            hint = "the task's own code does that: install what it imports and allow what it downloads, or predict_only"
            raise DataError(error.what, where=self.config.where("aggregation"), hint=hint) from error

    def should_decontaminate(self) -> bool:
        return self.config.should_decontaminate

    def __repr__(self) -> str:
        return f"{type(self).__name__}(task_name={self.config.task!r}, output_type={self.config.output_type!r})"


class ConfigurableTask(Task):
    """A task that its configuration describes: ``ConfigurableTask(config={...})``, or a subclass with code."""


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

    def _hooks(self, config: OurConfig) -> dict[str, Callable[..., Any]]:
        hooks = super()._hooks(config)
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


_BY_OUTPUT_TYPE: dict[str, type[Task]] = {
    "multiple_choice": MultipleChoiceTask,
    "generate_until": GenerateTask,
    "loglikelihood": LoglikelihoodTask,
    "loglikelihood_rolling": LoglikelihoodRollingTask,
}


def _with_items(config: OurConfig) -> TaskConfig:
    """A configuration whose fields can be read as those of a dict, too."""
    return config if isinstance(config, TaskConfig) else TaskConfig.from_stated(config.stated)


def _output(result: Any) -> Output:
    """A result as it was before filtering, as far as that can be told."""
    if isinstance(result, tuple | list) and len(result) == 2 and not isinstance(result[0], str):
        return LLOutput(float(result[0]), bool(result[1]))
    return LLOutput(result) if isinstance(result, int | float) else Completion(str(result))

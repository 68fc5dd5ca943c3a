"""Tasks written for lm-eval: subclasses of Multiform's, with lm-eval's constructor and the methods that it calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from multiform.compat.lm_eval.api import translate
from multiform.compat.lm_eval.api.building import building, current
from multiform.compat.lm_eval.api.documents import TaskDocs
from multiform.compat.lm_eval.config.task import TaskConfig
from multiform.config import TaskConfig as OurConfig
from multiform.errors import ConfigError, DataError, MultiformError, reason
from multiform.fields import Doc
from multiform.media import Kind, Media
from multiform.requests import Completion, LLOutput, Request
from multiform.requests import Instance as Ours
from multiform.scoring.filters import Pipeline
from multiform.scoring.outcome import Outcome
from multiform.scoring.scorers import Scorer
from multiform.scoring.statistics import Estimate
from multiform.tasks import Answered, PromptOptions, ScoredDoc
from multiform.tasks import Task as OurTask
from multiform.tasks.media import read_media
from multiform.tasks.task import kind_of

T = TypeVar("T")

ALL_OUTPUT_TYPES = ["loglikelihood", "multiple_choice", "loglikelihood_rolling", "generate_until"]


class Task(TaskDocs):
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
        self.__class__ = _joined(type(self), kind_of(made.output_type))
        self._rolling = False
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
        try:
            with building(config, dataset_mirror):
                made = cls(config=dict(config._class_keys)) if _takes_config(cls) else cls()
        except MultiformError:
            raise
        except Exception as error:  # a user's constructor may raise anything
            what = f"{cls.__name__}() failed: {reason(error)}"
            hint = "it runs the task's own code: install what that imports, and allow what it downloads"
            raise ConfigError(what, where=place, hint=hint) from error
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

    def requests(self, doc: dict[str, Any], ctx: str | list[str], *, apply_chat_template: bool) -> list[Request]:
        """What is asked about a document by its output type."""
        return super().requests(doc, ctx, apply_chat_template=apply_chat_template)  # type: ignore[safe-super]

    def outcomes(self, doc: Doc, answered: Answered, results: Sequence[Any]) -> list[Outcome]:
        """What metrics see of a document by its output type."""
        return super().outcomes(doc, answered, results)  # type: ignore[safe-super]

    def construct_requests(self, doc: dict[str, Any], ctx: str | list[str], **kwargs: Any) -> Any:
        """The instances of one document: one, or a list of them."""
        chat = bool(kwargs.pop("apply_chat_template", False))
        kwargs.pop("chat_template", None)
        return translate.instances(doc, self.requests(doc, ctx, apply_chat_template=chat), **kwargs)

    @property
    def instances(self) -> Any:
        """The requests that `build_all_requests` made, as instances."""
        made = groupby(self._instances, key=lambda one: one.doc_id)
        return [
            instance
            for doc_id, some in made
            for instance in translate.instances(
                self.eval_docs[doc_id],
                [one.request for one in some],
                metadata=(self.config.task, doc_id, self.config.repeats),
            )
        ]

    def asked(self, doc_id: int, doc: dict[str, Any], context: str | list[str], options: PromptOptions) -> list[Ours]:
        if not self._asks_itself:
            made = self.requests(doc, context, apply_chat_template=options.apply_chat_template)
            return [Ours(doc_id, index, request) for index, request in enumerate(made)]
        given = self._by_its_code("construct_requests", lambda: self._constructed(doc_id, doc, context, options))
        kinds = {getattr(one, "request_type", "") for one in (given if isinstance(given, list | tuple) else [given])}
        self._rolling = "loglikelihood_rolling" in kinds
        if self._rolling and "loglikelihood" in kinds:
            what = "a document asks for the likelihood of a whole text and of a continuation"
            raise DataError(what, where=self._place, hint="make two tasks of it")
        try:
            return translate.requests(given, doc_id, self.config.repeats, self._read_media)
        except DataError as error:
            raise DataError(error.what, where=error.where or self._place, hint=error.hint) from error

    def _constructed(self, doc_id: int, doc: dict[str, Any], context: str | list[str], options: PromptOptions) -> Any:
        return self.construct_requests(
            doc=doc,
            ctx=context,
            metadata=(self.config.task, doc_id, self.config.repeats),
            apply_chat_template=options.apply_chat_template,
            chat_template=options.chat_template,
        )

    def _read_media(self, value: Any, kind: Kind) -> list[Media | None]:
        return read_media(value, kind, self._find, self.config)

    @property
    def _place(self) -> str | None:
        return self.config.where("class")

    def _by_its_code(self, name: str, call: Callable[[], T]) -> T:
        """What a task's own method returns; whatever it raises is an error of the task."""
        try:
            return call()
        except MultiformError:
            raise
        except Exception as error:  # a user's method may raise anything
            what = f"{name} failed: {reason(error)}"
            raise DataError(what, where=self._place, hint="call it on this document to debug it") from error

    def filtered(self, pipeline: Pipeline, doc: Doc, outputs: Sequence[Any]) -> list[Any]:
        """What each instance's answers come to; those of a task's own instances may be of several kinds."""
        if not self._asks_itself:
            return super().filtered(pipeline, doc, outputs)
        made: list[Any] = []
        texts: list[str] = []
        for output in outputs:
            if isinstance(output, LLOutput):
                made.append(output.loglikelihood if self._rolling else (output.loglikelihood, output.is_greedy))
                continue
            assert isinstance(output, Completion)
            texts.append(output.text)
            if len(texts) == self.config.repeats:
                kept = pipeline(texts, doc)
                made.append(kept[0] if pipeline.single else kept)
                texts = []
        return made

    def process_results(self, doc: Doc, results: Sequence[Any]) -> Mapping[str, Any] | None:
        """The values of one document: by the configuration's function, or by its metrics."""
        if self.config.process_results is not None:
            return super().process_results(doc, results)
        asked = self.requests(dict(doc), "", apply_chat_template=False)
        outputs = [_output(result) for result in results]
        made = tuple(Ours(0, index, request) for index, request in enumerate(asked))
        outcomes = self.outcomes(doc, Answered(doc_id=0, instances=made, outputs=tuple(outputs)), results)
        return self.scoring.scorers[0].score_repeats(outcomes)

    def _scored(self, scorer: Scorer, answered: Answered, values: Mapping[str, Any] | None = None) -> ScoredDoc:
        return self._by_its_code("process_results", lambda: super(Task, self)._scored(scorer, answered, values))

    def _one_each(self, scorer: Scorer, values: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """What a task aggregates itself is kept as it is."""
        if values is None or not self._aggregates_itself:
            return super()._one_each(scorer, values)
        own = self.aggregation()
        others = {key: value for key, value in values.items() if key not in own}
        made = super()._one_each(scorer, others) or {}
        return {**{key: value for key, value in values.items() if key in own}, **made}

    def estimates(self, scored: Any, bootstrap_iters: int = 100_000) -> dict[str, Estimate]:
        try:
            return super().estimates(scored, bootstrap_iters)
        except DataError as error:
            if not self._aggregates_itself:
                raise
            hint = "the task's own code does that: install what it imports and allow what it downloads, or predict_only"
            raise DataError(error.what, where=self.config.where("aggregation"), hint=hint) from error

    @property
    def _asks_itself(self) -> bool:
        return type(self).construct_requests is not Task.construct_requests

    @property
    def _scores_itself(self) -> bool:
        overridden = type(self).process_results is not Task.process_results
        return not self._only_metric and (overridden or self.config.process_results is not None)

    @property
    def _aggregates_itself(self) -> bool:
        return type(self).aggregation is not OurTask.aggregation

    def shot_question(self, doc: Doc) -> str:
        overridden = type(self).doc_to_text is not OurTask.doc_to_text
        return str(self.doc_to_text(doc)) if overridden else super().shot_question(doc)

    def shot_answer(self, doc: Doc) -> str:
        """The answer of an example; an override of `doc_to_target` knows no other template for examples."""
        if type(self).doc_to_target is OurTask.doc_to_target:
            return super().shot_answer(doc)
        target = self.doc_to_target(doc)
        target = target[0] if isinstance(target, list) else target
        indexed = isinstance(target, int) and not isinstance(target, bool) and self.config.doc_to_choice is not None
        return self.doc_to_choice(doc)[target] if indexed else str(target)

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
        return str(self.doc_to_target(doc))


class PerplexityTask(Task):
    """A task that scores whole texts."""

    OUTPUT_TYPE = "loglikelihood_rolling"

    def has_training_docs(self) -> bool:
        return False

    def doc_to_text(self, doc: Doc, doc_to_text: Any = None) -> Any:
        return ""

    def doc_to_target(self, doc: Doc, doc_to_target: Any = None) -> Any:
        return doc


@cache
def _joined(own: type[Task], kind: type[OurTask]) -> type[Task]:
    """A class that is both, called like the first."""
    if issubclass(own, kind):
        return own
    names = {"__module__": own.__module__, "__qualname__": own.__qualname__, "__doc__": own.__doc__}
    return type(own.__name__, (own, kind), names)


def _takes_config(kind: type[Task]) -> bool:
    parameters = inspect.signature(kind.__init__).parameters.values()
    return any(one.name == "config" or one.kind is one.VAR_KEYWORD for one in parameters)


def _output(result: Any) -> Any:
    """A result as it was before filtering, as far as that can be told."""
    if isinstance(result, tuple | list) and len(result) == 2 and not isinstance(result[0], str):
        return LLOutput(float(result[0]), bool(result[1]))
    return LLOutput(result) if isinstance(result, int | float) else Completion(str(result))

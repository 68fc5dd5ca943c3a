"""Task: a form with the methods that users call one by one and override.

A façade: everything is done by its `form`, which is replaced when a setting changes. A method that a subclass overrides
is a hook of the form, which calls it in the place of what it would do.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from multiform.errors import ConfigError, UsageError
from multiform.fields import Doc, FieldSpec
from multiform.formats.base import OutputType
from multiform.forms import output_kinds as lengths
from multiform.forms.form import Form
from multiform.forms.request_cache import cached_requests
from multiform.forms.sample import Sample, ScoredSample, read_response
from multiform.forms.samplers import Sampler
from multiform.forms.scorer import scores_with_errors
from multiform.forms.spec import FIELD_HOOKS, RunSettings, collect_hooks
from multiform.prompts.prompt import ChatTemplate, PromptOptions, is_messages
from multiform.requests import Instance, Output
from multiform.scoring.aggregations import DEFAULT_ITERATIONS
from multiform.statistics.estimates import Estimate
from multiform.tasks.config import TaskConfig
from multiform.tasks.datasets.documents import Docs

_CLASSES: dict[str, type[Task]] = {}


class Task:
    """An evaluation task under one format: its documents, prompts, requests and scores."""

    #: The output type that a class is for; None for any. That of a task is its configuration's.
    OUTPUT_TYPE: OutputType | None = None
    #: Whether the class gets all keys of a task file, and says itself which of them it knows.
    any_keys: ClassVar[bool] = False

    form: Form

    def __init__(
        self,
        config: TaskConfig | dict[str, Any],
        *,
        dataset_mirror: Path | None = None,
        settings: RunSettings | None = None,
    ) -> None:
        if not isinstance(config, TaskConfig):
            config = TaskConfig.from_dict(self._with_output_type(config))
        self._check_output_type(config)
        self.dataset_mirror = dataset_mirror
        self._instances: list[Instance] = []
        self._configure(config, settings or RunSettings())

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__dict__.get("OUTPUT_TYPE") is not None:
            _CLASSES.setdefault(cls.__dict__["OUTPUT_TYPE"], cls)

    @classmethod
    def from_config(cls, config: TaskConfig | dict[str, Any], *, dataset_mirror: Path | None = None) -> Task:
        """The task of the right class for the configuration's output type."""
        config = config if isinstance(config, TaskConfig) else TaskConfig.from_dict(config)
        task_class = config.stated.task_class or _CLASSES[config.output_type]
        if not issubclass(task_class, Task):
            message = f"{task_class.__name__} is not a subclass of multiform.Task"
            raise ConfigError(message, where=config.where("class"), hint="subclass MultipleChoiceTask or GenerateTask")
        return task_class.of_config(config, dataset_mirror=dataset_mirror)

    @classmethod
    def of_config(cls, config: TaskConfig, *, dataset_mirror: Path | None = None) -> Task:
        """The task of this class; a class whose constructor takes other arguments overrides it."""
        return cls(config, dataset_mirror=dataset_mirror)

    @classmethod
    def _with_output_type(cls, config: dict[str, Any]) -> dict[str, Any]:
        """The configuration with the output type of the class, if it names none and no format decides it."""
        decided = [config.get(key) for key in ("output_type", "formats", "template", "_formats_selection")]
        if cls.OUTPUT_TYPE is None or any(decided) or "@" in str(config.get("task", "")):
            return config
        return {**config, "output_type": cls.OUTPUT_TYPE}

    def _check_output_type(self, config: TaskConfig) -> None:
        """Refuse a configuration of another output type than that of the class."""
        output_type = type(self).OUTPUT_TYPE
        if output_type is not None and output_type != config.output_type:
            name = type(self).__name__
            message = f"{name} is a task of {output_type}, and the configuration says {config.output_type}"
            class_name = _CLASSES[config.output_type].__name__
            hint = f"set output_type: {output_type}, or derive the class from {class_name} or Task"
            raise ConfigError(message, where=config.where("output_type"), hint=hint)

    # The form, its hooks and its settings.

    def _configure(self, config: TaskConfig, settings: RunSettings) -> None:
        """Replace the form by that of a configuration under the settings of a run, with the hooks of this object."""
        form: Form | None = self.__dict__.get("form")
        is_plain = type(self) in _CLASSES.values()
        self.form = Form(
            config,
            settings,
            {} if is_plain else self._hooks(config),
            mirror=self.dataset_mirror,
            task=None if is_plain else self,
            loaded=None if form is None else form.source,
        )
        self.OUTPUT_TYPE = config.output_type
        self._scored: list[ScoredSample] = []

    @classmethod
    def _base(cls) -> type[Task]:
        """The class whose methods are the defaults that subclasses override."""
        return Task

    def _hooks(self, config: TaskConfig) -> dict[str, Callable[..., Any]]:
        """The methods that a subclass overrides; for few-shot examples, they get the field of `fewshot_config`."""
        hooks = collect_hooks(self, self._base(), where=config.where("class"))

        def of_shot(doc: Doc, *, name: str) -> Any:
            return getattr(self, name)(doc, getattr(self.form.fewshot, name))

        shots = {f"fewshot_{name}": partial(of_shot, name=name) for name in FIELD_HOOKS if name in hooks}
        return {**hooks, **shots}

    def copy_with(self, config: TaskConfig, settings: RunSettings) -> Self:
        """A copy of this task, whose form has another configuration or other settings."""
        task = copy.copy(self)
        task._instances = []
        for name, value in vars(self).items():  # what one form draws is no matter of another
            if isinstance(value, random.Random) or type(value).__module__.startswith("numpy.random"):
                setattr(task, name, copy.deepcopy(value))
        task._configure(config, settings)
        return task

    def under(self, settings: RunSettings) -> Self:
        """The same task with the settings of a run; this one stays as it is."""
        return self.copy_with(*self.form.values_under(settings))

    @property
    def config(self) -> TaskConfig:
        return self.form.config

    @property
    def name(self) -> str:
        """The form's name, ``task@format`` if a format was selected."""
        return self.form.name

    @property
    def num_fewshot(self) -> int:
        return self.form.num_fewshot

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.form.summary()}>"

    def get_config(self, key: str) -> Any:
        return getattr(self.config, key, None)

    def set_config(self, key: str, value: Any, update: bool = False) -> None:
        """Change a key of the configuration; with `update`, add to the mapping that is there."""
        self._configure(*self.form.change_key(key, value, update=update))

    def dump_config(self) -> dict[str, Any]:
        """The configuration as it is used, as plain data."""
        return self.form.to_dict()

    def override_metric(self, metric_name: str) -> None:
        """Compute this metric instead of all others; the task's own code does not score any more."""
        self._configure(self.config, replace(self.form.settings, metric=metric_name))

    def set_repeats(self, repeats: int) -> None:
        """Set how often each generation request is repeated."""
        self.set_config("repeats", repeats)

    def set_num_fewshot(self, num_fewshot: int) -> None:
        """Override the number of few-shot examples; a task that sets 0 keeps it."""
        if self.config.num_fewshot != 0:
            self.set_config("num_fewshot", num_fewshot)

    def set_fewshot_seed(self, seed: int | None = None) -> None:
        self._configure(self.config, replace(self.form.settings, fewshot_seed=seed))

    # Documents. A subclass overrides what comes from elsewhere: `download` sets `dataset`, `test_docs` and the like
    # give the documents of a split, which are then taken as they are.

    def download(self, dataset_kwargs: Mapping[str, Any] | None = None) -> None:
        """Open the dataset now instead of when it is first needed, with further arguments."""
        if dataset_kwargs and not dataset_kwargs.items() <= self.config.dataset_kwargs.items():
            self.set_config("dataset_kwargs", dict(dataset_kwargs), update=True)
        self.form.source.open_dataset()

    @property
    def dataset(self) -> Any:
        """The splits, each as a `datasets.Dataset`, or as a subclass's `download` sets them."""
        return self.form.source.splits

    @dataset.setter
    def dataset(self, splits: Mapping[str, Any]) -> None:
        self.form.source.use(splits)

    def has_training_docs(self) -> bool:
        return self.config.training_split is not None

    def has_validation_docs(self) -> bool:
        return self.config.validation_split is not None

    def has_test_docs(self) -> bool:
        return self.config.test_split is not None

    def training_docs(self) -> Docs:
        return self._split("training_split")

    def validation_docs(self) -> Docs:
        return self._split("validation_split")

    def test_docs(self) -> Docs:
        return self._split("test_split")

    def _split(self, key: str) -> Docs:
        name = getattr(self.config, key)
        if name is None:
            raise ConfigError(f"the task has no {key}", where=self.config.where(), hint=f"set {key}")
        return self.form.source.split(name)

    def fewshot_docs(self) -> Docs:
        """The documents that few-shot examples are drawn from."""
        return self.form.source.fewshot()

    def get_docs(self, split: str | None = None) -> Docs:
        """The processed documents of a split, by default of the one that is evaluated."""
        return self.form.source.split(split) if split is not None else self.eval_docs

    @property
    def eval_docs(self) -> Docs:
        return self.form.source.eval_docs()

    def doc_iterator(
        self, *, rank: int = 0, limit: float | None = None, world_size: int = 1, samples: Sequence[int] | None = None
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """The documents to evaluate, with their index in the split."""
        return self.form.select_docs(rank=rank, limit=limit, world_size=world_size, samples=samples)

    @staticmethod
    def process_doc(doc: Doc) -> Doc:
        """Transform one document; override it to have every document of every split transformed."""
        return doc

    def _process_doc(self, doc: Doc) -> Doc:
        """`process_doc` under its older name, for code that maps it over a split of `dataset`."""
        return self.process_doc(doc)

    # Fields of a document.

    def doc_to_text(self, doc: Doc, doc_to_text: FieldSpec = None) -> Any:
        """The question; the inputs, or the index of the right one, of a task with several inputs; None without any."""
        if doc_to_text is not None:
            return self.form.renderer.reader.question(doc_to_text, doc)
        return self.form.renderer.fields(doc, hooks=False).question

    def doc_to_choice(self, doc: Doc, doc_to_choice: FieldSpec = None) -> list[str] | None:
        """The choices that are ranked: their texts, or the labels that the format scores; None if there are none."""
        if doc_to_choice is not None:
            return self.form.renderer.reader.choices(doc_to_choice, doc)
        return self.form.renderer.fields(doc, hooks=False).choices

    def doc_to_target(self, doc: Doc, doc_to_target: FieldSpec = None) -> Any:
        """The answer as the task's fields give it; a spelled-out list is a list. None if the task has none."""
        fields = self.form.renderer.fields(doc, hooks=False)
        if doc_to_target is None:
            return fields.target
        return self.form.renderer.reader.target(doc_to_target, doc, lambda: fields.choices or [])

    def doc_to_image(self, doc: Doc, doc_to_image: Any = None) -> Any:
        """The images as the document has them: a value, or a list without empty ones; None if there are none."""
        return self.form.renderer.media.value("doc_to_image", doc_to_image, doc)

    def doc_to_audio(self, doc: Doc, doc_to_audio: Any = None) -> Any:
        """The sounds as the document has them, like `doc_to_image`."""
        return self.form.renderer.media.value("doc_to_audio", doc_to_audio, doc)

    def doc_to_prefix(self, doc: Doc) -> str:
        """The beginning of the answer that the prompt gives."""
        return self.form.renderer.fields(doc, hooks=False).gen_prefix

    def doc_to_decontamination_query(self, doc: Doc) -> str:
        """The text that is looked up in a training corpus: the task's query, or the question."""
        return self.form.renderer.decontamination_query(doc)

    @staticmethod
    def count_bytes(text: str) -> int:
        """The length of a text, for perplexity per byte."""
        return lengths.count_bytes(text)

    @staticmethod
    def count_words(text: str) -> int:
        """The number of words, for perplexity per word; override it for other word boundaries."""
        return lengths.count_words(text)

    # Prompts and requests.

    @property
    def sampler(self) -> Sampler:
        """Draws the few-shot examples; made on first use, when the dataset is read."""
        return self.form.renderer.examples.configured_sampler

    def fewshot_context(
        self,
        doc: dict[str, Any],
        num_fewshot: int,
        system_instruction: str | None = None,
        apply_chat_template: bool = False,
        fewshot_as_multiturn: bool = False,
        chat_template: ChatTemplate | None = None,
        gen_prefix: str | None = None,
    ) -> Any:
        """The whole prompt of a document: system text, few-shot examples, question, beginning of the answer.

        A text, or messages for a server that gets messages. A list of them if the document has several inputs, one
        for each.
        """
        options = PromptOptions(
            system_instruction=system_instruction,
            apply_chat_template=apply_chat_template,
            fewshot_as_multiturn=fewshot_as_multiturn,
            chat_template=chat_template,
        )
        renderer = self.form.renderer
        context = renderer.context(renderer.fields(doc), num_fewshot, options, gen_prefix or "")
        return renderer.hook_prompts.contents(context)

    def construct_requests(
        self,
        doc: dict[str, Any],
        ctx: str | Sequence[str] | list[dict[str, Any]],
        *,
        doc_id: int = 0,
        metadata: dict[str, Any] | None = None,
        apply_chat_template: bool = False,
        chat_template: ChatTemplate | None = None,
        **kwargs: Any,
    ) -> list[Instance] | None:
        """The requests of one document, tied to it; an override may return None to leave it out.

        The prompt is a text, messages, or one of these for each of several inputs. Messages are written by the chat
        template, or as plain text if there is none.
        """
        options = PromptOptions(apply_chat_template=apply_chat_template, chat_template=chat_template)
        renderer, fields = self.form.renderer, self.form.renderer.fields(doc)
        context = renderer.hook_prompts.to_prompts(ctx, fields, options)
        is_chat = apply_chat_template or (is_messages(ctx) and chat_template is not None)
        options = replace(options, apply_chat_template=is_chat)
        return renderer.instances(fields, context, options, doc_id=doc_id, metadata=metadata)

    def sample(self, doc_id: int, doc: Doc, chat_template: ChatTemplate | None = None) -> Sample:
        """One document, rendered: its prompt, gold answer and requests."""
        return self.form.renderer.sample(doc_id, doc, chat_template)

    @property
    def instances(self) -> list[Instance]:
        """The requests that `build_all_requests` made."""
        return self._instances

    def build_all_requests(
        self,
        *,
        limit: float | None = None,
        samples: Sequence[int] | None = None,
        rank: int = 0,
        world_size: int = 1,
        cache_requests: bool = False,
        rewrite_requests_cache: bool = False,
        system_instruction: str | None = None,
        apply_chat_template: bool = False,
        fewshot_as_multiturn: bool = False,
        chat_template: ChatTemplate | None = None,
        tokenizer_name: str = "",
    ) -> list[Instance]:
        """Make and keep the requests of all documents to evaluate, or read them from the request cache."""
        settings = replace(
            self.form.settings,
            system_instruction=system_instruction,
            apply_chat_template=apply_chat_template,
            fewshot_as_multiturn=fewshot_as_multiturn,
        )
        self.form.scorer.check()
        task = self.under(settings)
        docs = list(task.doc_iterator(limit=limit, samples=samples, rank=rank, world_size=world_size))
        if cache_requests:
            caching: dict[str, Any] = {"refresh": rewrite_requests_cache, "template_name": tokenizer_name}
            self._instances = cached_requests(task.form, docs, chat_template, **caching)
        else:
            self._instances = task.form.requests(docs, chat_template)
        return self._instances

    # Scores: of one document, or of all `instances`, whose values the scorers keep.

    def process_results(self, doc: Doc, results: Sequence[Any]) -> Mapping[str, Any] | None:
        """The values of a document by the task's own code, or None to have the metrics compute them.

        `results` are pairs of log-likelihood and greedy flag, log-likelihoods of whole texts, or completions.
        """
        function = self.config.process_results
        return None if function is None else function(doc, results)

    def score(self, sample: Sample, outputs: Sequence[Output]) -> list[ScoredSample]:
        """Filter and score a sample, once for each scorer that does not wait for all of them."""
        return self.form.scorer.score(sample, outputs)

    def _answered_samples(self) -> list[tuple[Sample, list[Output]]]:
        """The documents of `instances`, with what a model returned, which is in their `resps`."""
        if not self._instances:
            raise UsageError("there are no requests yet", where=self.name, hint="call build_all_requests() first")
        by_doc: dict[int, list[Instance]] = {}
        for instance in self._instances:
            by_doc.setdefault(instance.doc_id, []).append(instance)
        answered = []
        for doc_id, instances in by_doc.items():
            sample = self.form.renderer.with_requests(doc_id, self.eval_docs[doc_id], instances)
            answered.append((sample, [read_response(instance, self.name) for instance in instances]))
        return answered

    def apply_filters(self) -> None:
        """Filter the responses in `instances`, into their `filtered_resps` and the scorers' `filtered_docs`."""
        for sample, outputs in self._answered_samples():
            self.form.scorer.keep_filtered(sample, outputs)

    def process_instances(self) -> list[ScoredSample]:
        """Filter and score all documents of `instances`, once for each scorer, which keeps the values."""
        samples = self._answered_samples()
        self._scored = [result for sample, outputs in samples for result in self.score(sample, outputs)]
        self._scored += self.form.scorer.score_together(samples)
        self.form.scorer.keep_scored(self._scored)
        return self._scored

    def aggregate(self, bootstrap_iters: int = DEFAULT_ITERATIONS) -> tuple[dict[str, float], int]:
        """All scores, keyed ``metric,scorer``, with standard errors, and the number of documents.

        The documents are those that `process_instances` scored.
        """
        if not self._scored:
            raise UsageError("no document is scored yet", where=self.name, hint="call process_instances() first")
        estimates = self.estimates(self._scored, bootstrap_iters)
        return scores_with_errors(estimates), len({scored.doc_id for scored in self._scored})

    def estimates(
        self, scored: Iterable[ScoredSample], bootstrap_iters: int = DEFAULT_ITERATIONS
    ) -> dict[str, Estimate]:
        """All scores of the form with their uncertainty, keyed ``metric,scorer``."""
        return self.form.scorer.estimates(list(scored), bootstrap_iters)

    def aggregation(self) -> dict[str, Callable[[Sequence[Any]], float]]:
        """The function that aggregates each metric."""
        return {metric.name: metric.aggregate() for metric in self.form.scorer.metrics}

    def higher_is_better(self) -> dict[str, bool]:
        """Whether higher is better in each metric, and in the values that scored documents have by other names."""
        return self.form.scorer.directions


class MultipleChoiceTask(Task):
    """A task that ranks choices by their log-likelihood after the prompt."""

    OUTPUT_TYPE = "multiple_choice"


class GenerateTask(Task):
    """A task in which the model completes the prompt."""

    OUTPUT_TYPE = "generate_until"


class LoglikelihoodTask(Task):
    """A task that scores the log-likelihood of the right answer after the prompt."""

    OUTPUT_TYPE = "loglikelihood"


class RollingTask(Task):
    """A task that scores the log-likelihood of the whole text of a document."""

    OUTPUT_TYPE = "loglikelihood_rolling"

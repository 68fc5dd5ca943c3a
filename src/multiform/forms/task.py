"""Task: one benchmark under one format, with the methods that users call and override.

A thin adapter: the values are in its `Form`, a `Renderer` makes samples of documents and a `FormScorer` scores them.
A method that a subclass overrides is called in the place of what they would do.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

from multiform.errors import ConfigError, MultiformError
from multiform.fields import Doc, FieldSpec
from multiform.formats import OutputType
from multiform.forms import form as lengths
from multiform.forms.examples import check_fewshot
from multiform.forms.form import Form, RunSettings
from multiform.forms.hooks import FIELD_HOOKS, Hooks, collect_hooks
from multiform.forms.kinds import choice
from multiform.forms.renderer import Renderer
from multiform.forms.request_cache import RequestCache, requests_folder
from multiform.forms.sample import Sample
from multiform.forms.samplers import Sampler
from multiform.forms.scorer import FormScorer
from multiform.forms.task_scores import TaskScores
from multiform.prompts.prompt import ChatTemplate, PromptOptions, is_messages
from multiform.requests import Instance
from multiform.scoring.build import Scoring
from multiform.tasks import TaskConfig
from multiform.tasks.datasets.documents import DocSource

_CLASSES: dict[str, type[Task]] = {}


class Task(TaskScores):
    """An evaluation task under one format: its documents, prompts, requests and scores."""

    #: The output type that a class is for; None for any. That of a task is its configuration's.
    OUTPUT_TYPE: OutputType | None = None
    #: Whether the class gets all keys of a task file, and says itself which of them it knows.
    any_keys: ClassVar[bool] = False
    #: Whether every document has one prompt, also where its question looks like the index of one of several.
    _one_input: ClassVar[bool] = False

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

    @classmethod
    def _with_output_type(cls, config: dict[str, Any]) -> dict[str, Any]:
        """The configuration with the output type of the class, where it names none and no format decides it."""
        output_type = cls.OUTPUT_TYPE
        decided = [config.get(key) for key in ("output_type", "formats", "template", "_formats_selection")]
        if output_type is None or any(decided) or "@" in str(config.get("task", "")):
            return config
        return {**config, "output_type": output_type}

    def _check_output_type(self, config: TaskConfig) -> None:
        """Refuse a configuration of another output type than that of the class."""
        output_type = type(self).OUTPUT_TYPE
        if output_type is not None and output_type != config.output_type:
            name = type(self).__name__
            message = f"{name} is a task of {output_type}, and the configuration says {config.output_type}"
            class_name = _CLASSES[config.output_type].__name__
            hint = f"set output_type: {output_type}, or derive the class from {class_name} or Task"
            raise ConfigError(message, where=config.where("output_type"), hint=hint)

    def _configure(self, config: TaskConfig, settings: RunSettings) -> None:
        """Compile the form, and rebuild everything that is derived from it."""
        self.config = config
        self.OUTPUT_TYPE = config.output_type
        self.form = Form(config, settings, self._hooks())
        check_fewshot(self.form)
        self._check_choice_order()
        self.source = DocSource(
            config,
            self.dataset_mirror,
            hooks=self.form.hooks,
            download=self._downloaded if "download" in self.form.hooks else None,
            arguments=settings.model_args,
            metadata=self.form.metadata,
        ).reusing(self.__dict__.get("source"))
        self.renderer = Renderer(
            self.form,
            eval_docs=lambda: self.eval_docs,
            fewshot_docs=self.fewshot_docs,
            mirror=self.dataset_mirror,
            one_input=self._one_input,
        )
        self.scorer = FormScorer(self.form)

    def under(self, settings: RunSettings) -> Self:
        """The same task with the settings of a run; this one stays as it is."""
        settings = replace(settings, metric=settings.metric or self.form.settings.metric)
        if settings.perturbation is not None:
            self._check_perturbation()
        config = self.config.changed(**settings.overrides) if settings.overrides else self.config
        task = copy.copy(self)
        task._instances = []
        task._configure(config, settings)
        return task

    def _check_perturbation(self) -> None:
        """Refuse a perturbation of prompts that code of the class makes."""
        if {"doc_to_text", "fewshot_context"} & self.form.hooks.keys():
            message = f"{type(self).__name__} makes its prompts itself, so that no perturbation can change them"
            raise ConfigError(message, where=self.name, hint="run it without a perturbation")

    def _check_choice_order(self) -> None:
        """Refuse another order of the choices where code of the task makes or reads prompts with them."""
        if self.config.choice_order is None:
            return
        code = [name for name in (*FIELD_HOOKS, "fewshot_context", "construct_requests") if name in self.form.hooks]
        if self.form.scores_itself and self.config.output_type != "multiple_choice":
            code.append("process_results")
        if code:
            message = f"the order of choices cannot change under code of the task ({code[0]})"
            raise ConfigError(message, where=self.name, hint="leave the order out, or run the task without the code")

    @classmethod
    def _base(cls) -> type[Task]:
        """The class whose methods are the defaults that subclasses override."""
        return Task

    def _hooks(self) -> Hooks:
        """The methods that a subclass overrides; for few-shot examples, they get the field of `fewshot_config`."""
        hooks = collect_hooks(self, self._base(), where=self.config.where("class"))
        for name in FIELD_HOOKS:
            if name in hooks:
                hooks[f"fewshot_{name}"] = lambda doc, name=name: getattr(self, name)(
                    doc, getattr(self.form.fewshot, name)
                )
        return hooks

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__dict__.get("OUTPUT_TYPE") is not None:
            _CLASSES.setdefault(cls.__dict__["OUTPUT_TYPE"], cls)

    @classmethod
    def from_config(cls, config: TaskConfig | dict[str, Any], *, dataset_mirror: Path | None = None) -> Task:
        """The task of the right class for the configuration's output type."""
        config = config if isinstance(config, TaskConfig) else TaskConfig.from_dict(config)
        task_class = config._task_class or _CLASSES[config.output_type]
        if not issubclass(task_class, Task):
            message = f"{task_class.__name__} is not a subclass of multiform.Task"
            raise ConfigError(message, where=config.where("class"), hint="subclass MultipleChoiceTask or GenerateTask")
        return task_class.of_config(config, dataset_mirror=dataset_mirror)

    @classmethod
    def of_config(cls, config: TaskConfig, *, dataset_mirror: Path | None = None) -> Task:
        """The task of this class; a class whose constructor takes other arguments overrides it."""
        return cls(config, dataset_mirror=dataset_mirror)

    @property
    def name(self) -> str:
        """The form's name, ``task@format`` where a format was selected."""
        return self.form.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.form.summary()}>"

    @property
    def scoring(self) -> Scoring:
        return self.form.scoring

    @property
    def notes(self) -> list[MultiformError]:
        """Warnings about the task's files, and its known errors."""
        source, place = self.config._source, self.config.where("known_errors")
        form = f"@{self.config.format_label}" if self.config.format_label else "the task"
        errors = self.config.known_errors or ()
        known = [MultiformError(f"{form} keeps an error on purpose: {error}", where=place) for error in errors]
        return [*(source.notes if source is not None else ()), *known, *self.scoring.notes, *self.scorer.check()]

    @staticmethod
    def count_bytes(text: str) -> int:
        """The length of a text, for perplexity per byte."""
        return lengths.count_bytes(text)

    @staticmethod
    def count_words(text: str) -> int:
        """The number of words, for perplexity per word; override it for other word boundaries."""
        return lengths.count_words(text)

    def doc_to_text(self, doc: Doc, doc_to_text: FieldSpec = None) -> Any:
        """The question; the inputs, or the index of the right one, of a task with several inputs; None without any."""
        if doc_to_text is not None:
            return self.renderer.reader.question(doc_to_text, doc)
        return None if self.config.doc_to_text is None else self.renderer.fields(doc, hooks=False).question

    def doc_to_choice(self, doc: Doc, doc_to_choice: FieldSpec = None) -> list[str] | None:
        """The choices that are ranked: their texts, or the labels that the format scores; None where there are none."""
        if doc_to_choice is not None:
            return self.renderer.reader.choices(doc_to_choice, doc)
        return self.renderer.fields(doc, hooks=False).choices

    def doc_to_target(self, doc: Doc, doc_to_target: FieldSpec = None) -> Any:
        """The answer as the task's fields give it; a spelled-out list is a list. None where the task has none."""
        fields = self.renderer.fields(doc, hooks=False)
        if doc_to_target is None:
            return fields.target
        return self.renderer.reader.target(doc_to_target, doc, lambda: fields.choices or [])

    def doc_to_image(self, doc: Doc, doc_to_image: Any = None) -> Any:
        """The images as the document has them: a value, or a list without empty ones; None where there are none."""
        return self.renderer.media.value("doc_to_image", doc_to_image, doc)

    def doc_to_audio(self, doc: Doc, doc_to_audio: Any = None) -> Any:
        """The sounds as the document has them, like `doc_to_image`."""
        return self.renderer.media.value("doc_to_audio", doc_to_audio, doc)

    def doc_to_prefix(self, doc: Doc) -> str:
        """The beginning of the answer that the prompt gives."""
        return self.renderer.fields(doc, hooks=False).gen_prefix

    def doc_to_decontamination_query(self, doc: Doc) -> str:
        """The text that is looked up in a training corpus: the task's query, or the question."""
        spec, key = self.config.doc_to_decontamination_query, "doc_to_decontamination_query"
        return str(self.doc_to_text(doc)) if spec is None else self.renderer.reader.text(spec, doc, key)

    def gold(self, doc: Doc) -> tuple[int, ...]:
        """The indexes of the right choices; an answer that is none of them is an error."""
        return choice.gold(self.form, self.renderer.fields(doc))

    @property
    def num_fewshot(self) -> int:
        return self.form.num_fewshot

    @property
    def sampler(self) -> Sampler:
        """Draws the few-shot examples; made on first use, when the dataset is read."""
        return self.renderer.examples.configured_sampler

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

        A text, or messages for a server that gets messages. A list of them where the document has several inputs, one
        for each.
        """
        options = PromptOptions(
            system_instruction=system_instruction,
            apply_chat_template=apply_chat_template,
            fewshot_as_multiturn=fewshot_as_multiturn,
            chat_template=chat_template,
        )
        context = self.renderer.context(self.renderer.fields(doc), num_fewshot, options, gen_prefix or "")
        return self.renderer.hook_prompts.contents(context)

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
        template, or as plain text where there is none.
        """
        fields, template = self.renderer.fields(doc), chat_template
        chat = apply_chat_template or (is_messages(ctx) and template is not None)
        context = self.renderer.read_context(ctx, fields, chat=apply_chat_template, chat_template=template)
        return self.renderer.instances(fields, context, doc_id=doc_id, metadata=metadata, chat=chat)

    def sample(self, doc_id: int, doc: Doc, chat_template: ChatTemplate | None = None) -> Sample:
        """One document, rendered: its prompt, gold answer and requests.

        >>> from multiform.tasks import TaskManager
        >>> task = Task.from_config(TaskManager().load("quiz@mcqa")[0])
        >>> sample = task.sample(0, task.eval_docs[0])
        >>> sample.instances[0].request.continuation, sample.choices
        (' A', ('A', 'B', 'C', 'D'))
        """
        return self.renderer.sample(doc_id, doc, chat_template)

    def stream_requests(self, docs: Iterable[tuple[int, dict[str, Any]]]) -> Iterator[Instance]:
        """The requests of documents, built lazily; none is kept."""
        for doc_id, doc in docs:
            yield from self.sample(doc_id, doc).instances

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
        cache_folder: Path | None = None,
    ) -> list[Instance]:
        """Make and keep the requests of all documents to evaluate, or read them from the request cache."""
        settings = replace(
            self.form.settings,
            system_instruction=system_instruction,
            apply_chat_template=apply_chat_template,
            fewshot_as_multiturn=fewshot_as_multiturn,
        )
        self.scorer.check()
        task = self.under(settings)
        docs = list(task.doc_iterator(limit=limit, samples=samples, rank=rank, world_size=world_size))
        cache = None
        if cache_requests and not self.renderer.media.kinds:  # images and sounds are not for a file of text
            shots = self.fewshot_docs() if self.num_fewshot else []
            folder = cache_folder or requests_folder()
            classes = [type(self), *([type(task.sampler)] if self.num_fewshot else [])]
            cache = RequestCache.of(classes, task.form, docs, shots, folder=folder, template=tokenizer_name)
        cached = cache.read() if cache is not None and not rewrite_requests_cache else None
        if cached is None:
            rendered = (task.sample(doc_id, doc, chat_template) for doc_id, doc in docs)
            cached = [instance for sample in rendered for instance in sample.instances]
            if cache is not None:
                cache.write(cached)
        self._instances = cached
        return self._instances


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

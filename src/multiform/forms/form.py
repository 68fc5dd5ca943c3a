"""Form: one task under one format, with the settings of a run: the unit that is run, linted, cached and reported."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from multiform.calls import accepted_arguments
from multiform.errors import ConfigError, DataError, MultiformError, UsageError, locating, nearest, running
from multiform.fields import Doc
from multiform.forms.conversations import ConversationKind
from multiform.forms.output_kinds import OUTPUT_KINDS, OutputKind
from multiform.forms.renderer import Renderer
from multiform.forms.request_cache import RequestCache
from multiform.forms.sample import Sample, ScoredSample
from multiform.forms.samplers import check_fewshot
from multiform.forms.scorer import FormScorer
from multiform.forms.spec import FIELD_HOOKS, FormSpec, RunSettings
from multiform.forms.thoughts import BudgetKind, ThoughtKind
from multiform.prompts.prompt import ChatTemplate
from multiform.requests import Instance, Output, resolved_names
from multiform.scoring.aggregations import DEFAULT_ITERATIONS
from multiform.statistics.estimates import Estimate
from multiform.statistics.sampling import draw_documents
from multiform.tasks import TaskConfig
from multiform.tasks.config import task_keys
from multiform.tasks.datasets.documents import Docs, DocSource, select_docs, select_ids
from multiform.tasks.datasets.files import Dataset


class TaskObject(Protocol):
    """The object of a task class, whose methods are the hooks of its form."""

    @property
    def form(self) -> Form:
        """The form of this object."""

    def copy_with(self, config: TaskConfig, settings: RunSettings) -> TaskObject:
        """A copy of the object with another form."""


@dataclass(frozen=True, eq=False, repr=False)
class Form(FormSpec):
    """A task under one format, with the settings of a run: its documents, samples and scores. Immutable.

    A hook, which is a method that the class of the task overrides, is called in the place of what the form would do.

    >>> from multiform.tasks import TaskManager
    >>> form = Form(TaskManager().load("quiz@mcqa")[0], RunSettings(num_fewshot=3))
    >>> form
    <Form quiz@mcqa: multiple_choice, 3-shot>
    >>> doc_id, doc = next(form.docs())
    >>> sample = form.sample(doc_id, doc)
    >>> sample.instances[0].request.continuation, sample.choices
    (' A', ('A', 'B', 'C', 'D'))
    """

    #: Folder in which datasets are looked up before the hub.
    mirror: Path | None = None
    #: The object whose methods are the hooks; None for a task without a class of its own.
    task: TaskObject | None = None
    #: Documents that are loaded already, which are used again if they are the same.
    loaded: DocSource | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be run; no file is read."""
        if self.num_fewshot or self.fewshot.sampler != "default":
            check_fewshot(self)
        self._check_choice_order()
        _ = self.renderer, self.scorer

    def _check_choice_order(self) -> None:
        """Refuse another order of the choices if code of the task makes or reads prompts with them."""
        if self.config.choice_order is None:
            return
        code = [name for name in (*FIELD_HOOKS, "fewshot_context", "construct_requests") if name in self.hooks]
        if self.scores_itself and self.output_type != "multiple_choice":
            code.append("process_results")
        if code:
            message = f"the order of choices cannot change under code of the task ({code[0]})"
            raise ConfigError(message, where=self.name, hint="leave the order out, or run the task without the code")

    def __reduce__(self) -> tuple[Any, ...]:
        """A form without hooks is a value: the process that gets it reads the dataset itself."""
        if self.hooks or self.task is not None:
            raise TypeError(f"'{self.name}' has code of its class, and stays in its process")
        return Form, (self.config, self.settings, {}, self.mirror)

    def under(self, settings: RunSettings) -> Form:
        """The same form with the settings of a run; this one stays as it is. Its hooks are those of a task with it."""
        config, settings = self.values_under(settings)
        if self.task is not None:
            return self.task.copy_with(config, settings).form
        return Form(config, settings, self.hooks, mirror=self.mirror, loaded=self.source)

    def values_under(self, settings: RunSettings) -> tuple[TaskConfig, RunSettings]:
        """The configuration and settings that the form has under the settings of a run."""
        settings = replace(settings, metric=settings.metric or self.settings.metric)
        makes_prompts = not self.hooks.keys().isdisjoint({"doc_to_text", "fewshot_context"})
        if settings.perturbation is not None and makes_prompts and "perturbation" not in self.hooks:
            message = f"{type(self.task).__name__} makes its prompts itself, so no perturbation can change them"
            raise ConfigError(message, where=self.name, hint="run it without a perturbation")
        return self.config.replace(**settings.overrides) if settings.overrides else self.config, settings

    def change_key(self, key: str, value: Any, *, update: bool = False) -> tuple[TaskConfig, RunSettings]:
        """The configuration and settings with another value of a key; with `update`, added to the mapping it has."""
        if key not in task_keys():
            known = [name for name in task_keys() if not name.startswith("_")]
            raise ConfigError(f"unknown key '{key}' in a task", where=self.name, hint=nearest(key, known))
        if key == "generation_kwargs" and isinstance(value, Mapping):
            value = resolved_names(value)
        current = getattr(self.config, key)
        if update:
            if not isinstance(current, dict) or not isinstance(value, Mapping):
                message = f"'{key}' is a {type(current).__name__}, not a mapping that can be updated"
                raise ConfigError(message, where=self.name, hint="call it without update=True")
            value = {**current, **value}
        if key == "generation_kwargs" and self.format is not None:  # a run's arguments are over the format's
            return self.config, replace(self.settings, gen_kwargs={**self.settings.gen_kwargs, **value})
        return self.config.replace(**{key: value}), self.settings

    @property
    def notes(self) -> list[MultiformError]:
        """Warnings about the task's files, and its known errors."""
        source, place = self.config.stated.source, self.where("known_errors")
        form = f"@{self.format_label}" if self.format_label else "the task"
        errors = self.config.known_errors or ()
        known = [MultiformError(f"{form} keeps an error on purpose: {error}", where=place) for error in errors]
        return [*(source.notes if source is not None else ()), *known, *self.scoring.notes, *self.scorer.check()]

    @property
    def ignores_choices(self) -> bool:
        """Whether a model would generate without seeing the choices, if nothing says that this is intended."""
        config = self.config
        if self.task is not None or self.output_type != "generate_until" or config.doc_to_choice is None:
            return False
        stated = (config.output_type_stated, config.process_results, config.scorer, config.repeats > 1)
        settings = [config.stated.get(key) for key in ("generation_kwargs", "metric_list", "filter_list")]
        return not any(stated) and not any(settings)

    # Documents.

    @cached_property
    def source(self) -> DocSource:
        """Reads the splits of the dataset, when they are first needed."""
        source = DocSource(
            self.config,
            self.mirror,
            hooks=self.hooks,
            download=self._download if "download" in self.hooks else None,
            arguments=self.settings.model_args,
            metadata=self.metadata,
        )
        return source.reusing(self.loaded)

    def _download(self) -> Dataset:
        """The dataset that the `download` of a task's class opens, or sets as `dataset`."""
        download, place = self.hooks["download"], self.where("class")
        hint = "it runs the task's own code: install what that imports, and allow what it downloads"
        with running("download", where=place, hint=hint):
            download(**accepted_arguments(download, {"dataset_kwargs": dict(self.config.dataset_kwargs)}))
        # `download` may change the configuration of its object, which has another form then.
        source = self.source if self.task is None else self.task.form.source
        if not source.is_open:
            hint = 'set e.g. self.dataset = {"test": [...]}, or call super().download()'
            raise DataError("download set no dataset", where=place, hint=hint)
        return source.dataset

    @property
    def eval_docs(self) -> Docs:
        """All documents of the evaluated split."""
        docs: Docs = self.hooks.get("eval_docs", self.source.eval_docs)()
        return docs

    def fewshot_docs(self) -> Docs:
        """The documents that few-shot examples are drawn from."""
        docs: Docs = self.hooks.get("fewshot_docs", self.source.fewshot)()
        return docs

    def docs(self, *, limit: float | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
        """The documents that the run selects, with their index in the split; with `limit`, the first of all."""
        select: Callable[..., Iterator[tuple[int, dict[str, Any]]]] = self.hooks.get("doc_iterator", self.select_docs)
        if limit is not None:
            return select(limit=limit, samples=None)
        return select(limit=self.settings.limit, samples=self._selected_samples)

    def doc_ids(self) -> Sequence[int]:
        """The indexes of the documents that the run selects; none of them is read, unless code of the task does."""
        if "doc_iterator" in self.hooks:
            return [doc_id for doc_id, _ in self.docs()]
        try:
            return select_ids(len(self.eval_docs), limit=self.settings.limit, samples=self._selected_samples)
        except DataError as error:
            raise error.or_at(self.name) from error

    @property
    def _selected_samples(self) -> Sequence[int] | None:
        """The indexes that the run names or draws; None where it takes the first documents, or all."""
        named = self.settings.samples
        samples = None if named is None else named.get(self.name, named.get(self.task_name))
        return self._drawn_samples if samples is None else samples

    @cached_property
    def _drawn_samples(self) -> list[int] | None:
        """The indexes of a random sample of documents; None if the run takes the first ones, or all."""
        limit, (method, _, column) = self.settings.limit, self.settings.sample.partition(":")
        if limit is None or method == "first":
            return None
        docs = self.eval_docs
        number = min(len(docs), math.ceil(len(docs) * limit) if limit < 1 else int(limit))
        strata = self._strata(column, docs) if method == "stratified" else None
        return draw_documents(range(len(docs)), number, strata=strata, seed=self.settings.sample_seed)

    def _strata(self, column: str, docs: Docs) -> list[str]:
        """The value of each document in a column, by default in that of the task's clusters."""
        column = column or str(self.metadata.get("cluster") or "")
        if not column:
            hint = "name a column, e.g. --sample stratified:subject, or draw with --sample random"
            raise UsageError("the task names no clusters to stratify by", where=f"--sample: {self.name}", hint=hint)
        missing = next((number for number, doc in enumerate(docs) if column not in doc), None)
        if missing is not None:
            message = f"document {missing} has no column '{column}'"
            hint = nearest(column, list(docs[missing]), listed="columns")
            raise UsageError(message, where=f"--sample: {self.name}", hint=hint)
        return [str(doc[column]) for doc in docs]

    def select_docs(
        self, *, rank: int = 0, limit: float | None = None, world_size: int = 1, samples: Sequence[int] | None = None
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """The first documents or those that `samples` names, with their index; of several ranks, the share of one."""
        try:
            yield from select_docs(self.eval_docs, rank=rank, limit=limit, world_size=world_size, samples=samples)
        except DataError as error:
            raise error.or_at(self.name) from error

    # Samples.

    @cached_property
    def _output_kind(self) -> OutputKind:
        """How requests are built and responses read, by output type, format and turns."""
        config = self.config
        if config.doc_to_turns is None:
            if config.format is not None and config.format.thinks:
                return ThoughtKind(self)
            if self.output_type == "generate_until" and self.generation_kwargs.get("thinking_budget") is not None:
                return BudgetKind(self)
            return OUTPUT_KINDS[self.output_type](self)
        if self.output_type != "generate_until":
            message = f"the model replies in a conversation, and output_type {self.output_type} generates nothing"
            hint = "set output_type: generate_until, or choose a format that generates"
            raise ConfigError(message, where=config.where("doc_to_turns"), hint=hint)
        return ConversationKind(self)

    @cached_property
    def renderer(self) -> Renderer:
        """Makes samples of documents."""
        eval_docs, fewshot_docs = lambda: self.eval_docs, self.fewshot_docs
        return Renderer(self, self._output_kind, eval_docs=eval_docs, fewshot_docs=fewshot_docs, mirror=self.mirror)

    def sample(self, doc_id: int, doc: Doc, chat_template: ChatTemplate | None = None) -> Sample:
        """One document, rendered: its prompt, gold answer and requests."""
        sample: Sample = self.hooks.get("sample", self.renderer.sample)(doc_id, doc, chat_template)
        return sample

    def continue_sample(
        self, sample: Sample, outputs: Sequence[Output], chat_template: ChatTemplate | None = None
    ) -> Sample | None:
        """The sample with the requests that follow from its responses so far; None once it has all of them.

        `outputs` are the responses to its instances, in their order. A pure function: a run may ask again at any time.
        """
        with locating(f"doc {sample.doc_id}"):
            requests = self._output_kind.next_requests(sample, outputs, chat_template)
        if not requests:
            return None
        first = len(sample.instances)
        added = [Instance(sample.doc_id, first + number, request) for number, request in enumerate(requests)]
        return replace(sample, instances=(*sample.instances, *added))

    def requests(
        self,
        docs: Sequence[tuple[int, Doc]],
        chat_template: ChatTemplate | None = None,
        *,
        cache_folder: Path | None = None,
        rewrite_cache: bool = False,
        tokenizer_name: str = "",
    ) -> list[Instance]:
        """The requests of documents, from the request cache in `cache_folder` if it has them."""
        cache = None
        if cache_folder is not None and not self.has_media:  # images and sounds are not for a file of text
            shots = self.fewshot_docs() if self.num_fewshot else []
            code = [type(self.renderer.examples.sampler)] if self.num_fewshot else []
            classes = code if self.task is None else [type(self.task), *code]
            cache = RequestCache.of(self, docs, shots, classes=classes, folder=cache_folder, template=tokenizer_name)
        cached = cache.load() if cache is not None and not rewrite_cache else None
        if cached is None:
            rendered = (self.sample(doc_id, doc, chat_template) for doc_id, doc in docs)
            cached = [instance for sample in rendered for instance in sample.instances]
            if cache is not None:
                cache.write(cached)
        return cached

    def decontamination_query(self, doc: Doc) -> str:
        """The text that is looked up in a training corpus: the task's query, or the question."""
        query: str = self.hooks.get("doc_to_decontamination_query", self.renderer.decontamination_query)(doc)
        return query

    # Scores.

    @cached_property
    def scorer(self) -> FormScorer:
        """Scores samples, and aggregates their values."""
        return FormScorer(self, self._output_kind)

    def score(self, sample: Sample, outputs: Sequence[Output]) -> list[ScoredSample]:
        """Filter and score a sample, once for each scorer that does not wait for all of them."""
        scored: list[ScoredSample] = self.hooks.get("score", self.scorer.score)(sample, outputs)
        return scored

    def estimates(
        self, scored: Iterable[ScoredSample], bootstrap_iters: int = DEFAULT_ITERATIONS
    ) -> dict[str, Estimate]:
        """All scores of the form with their uncertainty, keyed ``metric,scorer``."""
        estimates: dict[str, Estimate]
        estimates = self.hooks.get("estimates", self.scorer.estimates)(list(scored), bootstrap_iters)
        return estimates

    @property
    def higher_is_better(self) -> dict[str, bool]:
        """Whether higher is better in each metric, and in the values that scored documents have by other names."""
        if "higher_is_better" in self.hooks:
            directions: dict[str, bool] = self.hooks["higher_is_better"]()
            return directions
        return self.scorer.directions

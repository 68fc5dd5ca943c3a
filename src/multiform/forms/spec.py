"""FormSpec: all that follows from configuration, run settings and hooks before a document is rendered.

Hooks are the methods that the class of a task overrides, collected once when the task is built. A run calls each of
them at the place where the data passes anyway. A method that a run has no place for is refused by its name, as a class
that overrides it would otherwise be ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from multiform.arguments import accepted_arguments, overridden_methods
from multiform.errors import ConfigError, DataError, UsageError, nearest, placing, running
from multiform.formats.base import FormatConfig, OutputType
from multiform.forms.scoring import Scoring, build_scoring
from multiform.hashing import short_hash
from multiform.prompts.prompt import ChatTemplate, Delimiters, PromptOptions
from multiform.scoring.scorers.choice_match import ChoiceMatch
from multiform.statistics.sampling import draw_documents
from multiform.tasks.config import TaskConfig
from multiform.tasks.datasets.documents import Docs, DocSource, select_ids
from multiform.tasks.datasets.files import Dataset
from multiform.tasks.keys import FewshotConfig, plain

#: What to do where a task's own code fails before there is a document.
OWN_CODE = "it runs the task's own code: install what that imports, and allow what it downloads"
#: The seed of few-shot examples.
DEFAULT_SEED = 1234

#: Keys that change neither a prompt nor a score; the resolved format counts instead of the way it was written.
_NOT_IDENTITY = (
    *("task", "task_alias", "tag", "metadata", "formats", "variations", "template", "keep_description", "lint_ignore"),
    *("example", "known_errors"),
)
#: Fields of a format that count only if they are set: without a variation, prompts do not depend on them.
_SELDOM = {"instruction_at": "examples", "variations": None, "language": None}

#: Overridden methods by name. `fewshot_doc_to_text` and so on read few-shot examples.
Hooks: TypeAlias = Mapping[str, Callable[..., Any]]
Method = TypeVar("Method", bound=Callable[..., Any])

#: The methods that give the fields of a document.
FIELD_HOOKS = ("doc_to_text", "doc_to_choice", "doc_to_target")
#: The methods that a run calls if a class overrides them.
CALLED = (
    *FIELD_HOOKS,
    *("doc_to_image", "doc_to_audio", "fewshot_context", "construct_requests", "process_results", "aggregation"),
    *("download", "has_training_docs", "has_validation_docs", "has_test_docs"),
    *("training_docs", "validation_docs", "test_docs", "fewshot_docs", "eval_docs", "process_doc"),
    *("sampler", "count_words", "count_bytes"),
    *("doc_iterator", "sample", "score", "estimates", "higher_is_better", "doc_to_decontamination_query"),
)
_SETTING = "set the key in the configuration, or override what uses it"
#: The methods that a run does not call, and what to override instead.
REFUSED = {
    "build_all_requests": "override construct_requests, or fewshot_context for the prompt",
    "build_qa_turn": "override fewshot_context, which writes the whole prompt",
    "instances": "override construct_requests",
    "get_docs": "override test_docs, validation_docs or training_docs",
    "doc_to_prefix": "give gen_prefix, or override fewshot_context",
    "apply_filters": "give filter_list with a filter of your own, or override process_results",
    "process_instances": "override process_results",
    "aggregate": "override aggregation, which gives a function for each metric",
    **dict.fromkeys(("get_config", "set_config", "dump_config", "override_metric"), _SETTING),
    "name": "set task in the configuration",
    **dict.fromkeys(("config", "num_fewshot", "under", "copy_with"), _SETTING),
    **dict.fromkeys(("set_repeats", "set_num_fewshot", "set_fewshot_seed"), _SETTING),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """The settings of a run that prompts and scores depend on, in addition to those of the task."""

    #: Number of few-shot examples; a task that sets 0 keeps it.
    num_fewshot: int | None = None
    fewshot_seed: int | None = DEFAULT_SEED
    system_instruction: str | None = None
    #: Whether prompts are written as chats, and with which of the model's templates if it has several.
    apply_chat_template: bool | str = False
    #: Whether examples are turns of a chat; None means: wherever there is a chat.
    fewshot_as_multiturn: bool | None = None
    #: Generation arguments over those of tasks and formats.
    gen_kwargs: Mapping[str, Any] = field(default_factory=dict)
    #: Whether completions end as soon as the label that is read from them is certain.
    stop_at_answer: bool = False
    #: Noise in the questions, as a task's `perturbation` says it.
    perturbation: Mapping[str, Any] | None = None
    #: Whether descriptions keep what they say of choices, under formats that show none.
    keep_description: bool = False
    #: The only metric to compute, instead of all that tasks and formats name.
    metric: str | None = None
    #: Added to the metadata of every task.
    metadata: Mapping[str, Any] = field(default_factory=dict)
    #: Arguments of the model, which a task's `custom_dataset` gets.
    model_args: Mapping[str, Any] = field(default_factory=dict)
    #: How many documents are evaluated: a number, or a fraction below 1.
    limit: float | None = None
    #: Which documents that are: "first", "random", "stratified" or "stratified:COLUMN".
    sample: str = "first"
    sample_seed: int | None = 0
    #: The documents to evaluate, by the name of the form or task.
    samples: Mapping[str, Sequence[int]] | None = None

    @property
    def overrides(self) -> dict[str, Any]:
        """The keys that the run changes in every task."""
        noise = {} if self.perturbation is None else {"perturbation": dict(self.perturbation)}
        return {**noise, "keep_description": True} if self.keep_description else noise

    @property
    def multiturn(self) -> bool:
        """Examples are turns of their own in a chat, unless that is turned off."""
        return bool(self.apply_chat_template) if self.fewshot_as_multiturn is None else self.fewshot_as_multiturn

    def prompt_options(self, chat_template: ChatTemplate | None) -> PromptOptions:
        """How prompts are written for a model with this chat template."""
        return PromptOptions(
            system_instruction=self.system_instruction,
            apply_chat_template=bool(self.apply_chat_template),
            fewshot_as_multiturn=self.multiturn,
            chat_template=chat_template,
        )


class TaskObject(Protocol):
    """The object of a task class, whose methods are the hooks of its form."""

    @property
    def form(self) -> FormSpec:
        """The form of this object."""

    def copy_with(self, config: TaskConfig, settings: RunSettings) -> TaskObject:
        """A copy of the object with another form."""


@dataclass(frozen=True, eq=False)
class FormSpec:
    """A task's configuration under its format, with the settings of a run, the hooks of its class, and its documents.

    >>> config = TaskConfig(task="t", doc_to_text="q", doc_to_choice="options", doc_to_target="key", formats="mcqa")
    >>> spec = FormSpec(config, RunSettings(num_fewshot=3))
    >>> spec.name, spec.num_fewshot, spec.output_type
    ('t', 3, 'multiple_choice')
    """

    config: TaskConfig
    settings: RunSettings = field(default_factory=RunSettings)
    #: The methods that the class of the task overrides.
    hooks: Hooks = field(default_factory=dict)
    #: Folder in which datasets are looked up before the hub.
    mirror: Path | None = None
    #: The object whose methods are the hooks; None for a task without a class of its own.
    task: TaskObject | None = None
    #: Documents that are loaded already, which are used again if they are the same.
    loaded: DocSource | None = None

    def hook(self, name: str, default: Method) -> Method:
        """The method that the class of the task overrides, or else the default."""
        return cast(Method, self.hooks.get(name, default))

    @property
    def name(self) -> str:
        """``task@format`` if a format was selected, the task's name otherwise."""
        return self.config.form_name

    @property
    def task_name(self) -> str:
        """The task's name, without a format."""
        return self.config.base_name

    @property
    def alias(self) -> str:
        """The name that tables show."""
        alias = self.config.task_alias
        return self.name.replace(self.task_name, alias, 1) if alias else self.name

    @property
    def format(self) -> FormatConfig | None:
        """The format that lays out the prompts; None for a task that writes them itself."""
        return self.config.format

    @property
    def format_label(self) -> str | None:
        """What stands after the @ of the name."""
        return self.config.format_label

    @property
    def output_type(self) -> OutputType:
        return self.config.output_type

    def where(self, *key: str | int) -> str | None:
        """The file and line of a key of the task, for messages."""
        return self.config.where(*key)

    def where_stated(self, *keys: str) -> str | None:
        """The file and line of the first of these keys that the task sets, or of the last one."""
        return self.config.where(next((key for key in keys if getattr(self.config, key)), keys[-1]))

    @property
    def delimiters(self) -> Delimiters:
        """What stands between a question and its answer, and between examples."""
        return Delimiters(self.config.target_delimiter, self.config.fewshot_delimiter)

    @property
    def num_fewshot(self) -> int:
        return self.config.shots(self.settings.num_fewshot)

    @property
    def fewshot(self) -> FewshotConfig:
        config = self.config.fewshot_config
        assert isinstance(config, FewshotConfig)
        return config

    @property
    def fewshot_split(self) -> str | None:
        """The split that few-shot examples are drawn from, unless the task lists them itself."""
        config = self.config
        return self.fewshot.split or config.training_split or config.validation_split or config.test_split

    @property
    def fewshot_seed(self) -> int | None:
        """The seed of the few-shot examples: that of the run, and the next ones for further draws."""
        seed, draw = self.settings.fewshot_seed, self.config.fewshot_draw
        return seed if seed is None else seed + draw

    @property
    def generates(self) -> bool:
        """Whether the model writes: its answer, or a thought before the choices are scored."""
        return self.output_type == "generate_until" or (self.config.format is not None and self.config.format.generates)

    @cached_property
    def generation_kwargs(self) -> dict[str, Any]:
        kwargs = dict(self.config.generation_kwargs)
        return {**kwargs, **self.settings.gen_kwargs} if self.generates else kwargs

    @cached_property
    def metadata(self) -> dict[str, Any]:
        return {**self.config.metadata, **self.settings.metadata}

    @property
    def cluster(self) -> str | None:
        """The column that says which documents depend on each other."""
        return self.metadata.get("cluster")

    @cached_property
    def scoring(self) -> Scoring:
        """The scorers of the form, and what the task names that does not fit it."""
        return build_scoring(self.config, own_results=self.scores_itself, metric=self.settings.metric)

    @cached_property
    def has_media(self) -> bool:
        """Whether its prompts have images or audio clips."""
        fields = ("doc_to_image", "doc_to_audio")
        return any(getattr(self.config, field) is not None or field in self.hooks for field in fields)

    @property
    def stops_at_answer(self) -> bool:
        """Whether completions end at the label with which they begin: nothing after it would change the scores."""
        if not self.settings.stop_at_answer or self.output_type != "generate_until" or not self.compares:
            return False
        primed = self.format is not None and self.format.choice_labels is not None and bool(self.config.gen_prefix)
        # Only this very class reads a completion that continues a statement by the label with which it begins.
        return primed and all(type(each) is ChoiceMatch and not each.pipeline.steps for each in self.scoring.scorers)

    @property
    def bypassed(self) -> bool:
        """Whether nothing is computed, as with `predict_only`."""
        return self.settings.metric == "bypass"

    @property
    def scores_itself(self) -> bool:
        """Whether code of the task computes its scores from the responses, instead of the metrics."""
        has_code = "process_results" in self.hooks or self.config.process_results is not None
        return has_code and self.settings.metric is None

    @property
    def compares(self) -> bool:
        """Whether metrics compare the responses with what is right."""
        return not self.scores_itself and not self.bypassed

    @property
    def needs_references(self) -> bool:
        """Whether completions are compared with references, which every document must have then."""
        return self.compares and any(scorer.needs_references for scorer in self.scoring.scorers)

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
        with running("download", where=place, hint=OWN_CODE):
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
        return self.hook("eval_docs", self.source.eval_docs)()

    def fewshot_docs(self) -> Docs:
        """The documents that few-shot examples are drawn from."""
        return self.hook("fewshot_docs", self.source.fewshot)()

    def docs(self, *, limit: float | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
        """The documents that the run selects, with their index in the split; with `limit`, the first of all."""
        select = self.hook("doc_iterator", self.select_docs)
        if limit is not None:
            return select(limit=limit, samples=None)
        return select(limit=self.settings.limit, samples=self._selected_samples)

    def doc_ids(self) -> Sequence[int]:
        """The indexes of the documents that the run selects; none of them is read, unless code of the task does."""
        if "doc_iterator" in self.hooks:
            return [doc_id for doc_id, _ in self.docs()]
        with placing(self.name):
            return select_ids(len(self.eval_docs), limit=self.settings.limit, samples=self._selected_samples)

    @cached_property
    def _selected_samples(self) -> Sequence[int] | None:
        """The indexes that the run names or draws; None where it takes the first documents, or all."""
        named = self.settings.samples or {}
        samples = named.get(self.name, named.get(self.task_name))
        limit, (method, _, column) = self.settings.limit, self.settings.sample.partition(":")
        if samples is not None or limit is None or method == "first":
            return samples
        docs = self.eval_docs
        number = len(select_ids(len(docs), limit=limit))
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
            hint = nearest(column, list(docs[missing]), listed="columns")
            raise UsageError(f"document {missing} has no column '{column}'", where=f"--sample: {self.name}", hint=hint)
        return [str(doc[column]) for doc in docs]

    def select_docs(
        self, *, rank: int = 0, limit: float | None = None, world_size: int = 1, samples: Sequence[int] | None = None
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """The first documents or those that `samples` names, with their index; of several ranks, the share of one."""
        with placing(self.name):
            docs = self.eval_docs
            for index in select_ids(len(docs), limit=limit, samples=samples)[rank::world_size]:
                yield index, docs[index]

    # Identity.

    def to_dict(self) -> dict[str, Any]:
        """The configuration as the run uses it, as plain data."""
        run = {"output_type": self.output_type, "num_fewshot": self.num_fewshot, "metadata": plain(self.metadata)}
        if self.generates:
            run["generation_kwargs"] = plain(self.generation_kwargs)
        if self.settings.metric is not None:
            run["metric_list"] = [{"metric": self.settings.metric}]
        return {**self.config.to_dict(), **run}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.summary()}>"

    def summary(self) -> str:
        """The form in a line: its name, output type and number of few-shot examples."""
        chat = ", chat template" if self.settings.apply_chat_template else ""
        limit = "" if self.settings.limit is None else f", limit {self.settings.limit:g}"
        return f"{self.name}: {self.output_type}, {self.num_fewshot}-shot{chat}{limit}"

    def identity(self, chat_template: str | None = None) -> str:
        """A short hash of everything that determines prompts and scores; `chat_template` names the model's."""
        described = {**self.to_dict(), **self.config.templates()}
        settings, fields = self.settings, None
        if self.config.format is not None:
            values = self.config.format.to_dict()
            fields = {key: value for key, value in values.items() if key not in _SELDOM or value != _SELDOM[key]}
        return short_hash(
            {
                "config": {key: value for key, value in described.items() if key not in _NOT_IDENTITY},
                "format": fields,
                "seed": self.fewshot_seed if self.num_fewshot else None,
                "system_instruction": settings.system_instruction,
                "chat": chat_template if settings.apply_chat_template else None,
                "multiturn": settings.multiturn,
                **({"one_target": True} if self.config.stated.get("multiple_targets") is False else {}),
                **({} if self.config.choice_order is None else {"choice_order": self.config.choice_order.name}),
            }
        )


def collect_hooks(task: object, base: type, *, where: str | None) -> dict[str, Callable[..., Any]]:
    """The methods of a task that override those of `base`; a ConfigError for one that a run does not call."""
    task_class = type(task)
    for name, definer in overridden_methods(task_class, base, REFUSED).items():
        if not definer.__module__.startswith("multiform."):
            message = f"{task_class.__name__} overrides {name}, which a run does not call"
            raise ConfigError(message, where=where, hint=REFUSED[name])
    names = overridden_methods(task_class, base, CALLED)
    # A property as a function without arguments.
    return {
        name: getattr(task, name) if callable(getattr(task_class, name)) else partial(getattr, task, name)
        for name in names
    }

"""The keys that a task may state, with their types and defaults; StatedKeys: those that one states, and where."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from typing_extensions import NotRequired, Required, TypedDict  # pydantic needs these before 3.12

from multiform.errors import ConfigError, placing, running
from multiform.fields import Field, FieldSpec
from multiform.formats.base import FormatConfig, OutputType
from multiform.formats.dialects.template import TemplateConfig
from multiform.hashing import stable_name
from multiform.paths import display
from multiform.schema import check_keys, check_values, key_path

logger = logging.getLogger("multiform")


class SamplesError(ConfigError, ValueError):
    """`samples` are neither a list of documents nor a function that returns one."""


@dataclass
class FewshotConfig:
    """Configuration of few-shot examples; a field that the task has as well overrides the task's."""

    #: Registered sampler: "default" draws at random, "first_n" takes the first ones.
    sampler: str = "default"
    #: Split to draw from; by default the task's `fewshot_split`.
    split: str | None = None
    process_docs: Callable[..., Any] | None = None
    #: Documents to use, by index, instead of drawing from all.
    fewshot_indices: list[int] | None = None
    #: A list of few-shot examples, or a function that returns one; `split` takes precedence.
    samples: list[dict[str, Any]] | Callable[[], list[dict[str, Any]]] | None = None
    doc_to_text: str | int | list[Any] | Callable[..., Any] | None = None
    doc_to_choice: str | list[Any] | dict[str, Any] | Callable[..., Any] | None = None
    doc_to_target: str | int | float | list[Any] | Callable[..., Any] | None = None
    gen_prefix: str | None = None
    fewshot_delimiter: str | None = None
    target_delimiter: str | None = None
    #: The reasoning before the answer of a few-shot example, for formats that show it.
    doc_to_rationale: str | Callable[..., Any] | None = None
    #: Documents to use, in this order, by the values of columns: ``[{id: Mercury_SC_415702}, ...]``.
    fewshot_rows: list[dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        try:
            check_values(type(self), vars(self), partial(key_path, "fewshot_config"))
        except ConfigError as error:
            raise error.as_kind(SamplesError) if "fewshot_config.samples" in str(error.where) else error from None
        for name in ("doc_to_text", "doc_to_choice", "doc_to_target", "doc_to_rationale", "gen_prefix"):
            with placing(f"fewshot_config.{name}"):
                Field.of(getattr(self, name))
        if self.split is not None and self.samples is not None:
            logger.warning("fewshot_config has both split and samples; the split is used")

    def get_docs(self, dataset: Mapping[str, Any]) -> Any | None:
        """The documents that few-shot examples are drawn from, or None when neither split nor samples are set."""
        if self.split is not None:
            docs = dataset[self.split]
            return self.process_docs(docs) if self.process_docs is not None else docs
        if callable(self.samples):
            with running("fewshot_config.samples", raises=ConfigError, hint="call it to debug it"):
                samples = self.samples()
            if not isinstance(samples, list) or not all(isinstance(doc, dict) for doc in samples):
                message = f"fewshot_config.samples returned {type(samples).__name__}, not a list of documents"
                raise SamplesError(message, hint="return a list of dicts")
            return samples
        return self.samples

    @classmethod
    def from_dict(
        cls,
        cfg: Mapping[str, Any],
        *,
        fewshot_split: str | None = None,
        process_docs: Callable[[Iterable[dict[str, Any]]], Any] | None = None,
        fewshot_delimiter: str | None = None,
        target_delimiter: str | None = None,
        gen_prefix: str | None = None,
        doc_to_text: FieldSpec = None,
        doc_to_choice: FieldSpec = None,
        doc_to_target: FieldSpec = None,
        doc_to_rationale: FieldSpec = None,
        **overloads: Any,
    ) -> FewshotConfig:
        """Build from the mapping `cfg`; the keyword arguments are the task's values, used if `cfg` has none."""
        inherited = {
            "split": fewshot_split,
            "process_docs": process_docs,
            "fewshot_delimiter": fewshot_delimiter,
            "target_delimiter": target_delimiter,
            "gen_prefix": gen_prefix,
            "doc_to_text": doc_to_text,
            "doc_to_choice": doc_to_choice,
            "doc_to_target": doc_to_target,
            "doc_to_rationale": doc_to_rationale,
        }
        values = {**cfg, **overloads}
        check_keys("fewshot_config", cls.__dataclass_fields__, values, partial(key_path, "fewshot_config"))
        return cls(**{**inherited, **values})


class MetricConfig(TypedDict, total=False):
    """An entry of `metric_list`; other keys than these are passed to the metric as arguments.

    Example::

        metric_list:
          - metric: exact_match
            aggregation: mean
            higher_is_better: true
            ignore_case: true
    """

    metric: Required[str | Callable[..., Any]]
    aggregation: str | Callable[..., Any] | None
    reduction: str | Callable[..., Any] | None
    higher_is_better: bool | None
    kwargs: dict[str, Any] | None


class FilterStep(TypedDict, total=False):
    """One step of a filter pipeline; other keys than these are passed to the filter as arguments."""

    function: Required[str | Callable[..., Any]]
    kwargs: dict[str, Any]


class FilterPipeline(TypedDict):
    """A named sequence of filters that are applied to the model's responses, optionally with metrics of its own."""

    name: str
    filter: list[FilterStep]
    metric_list: NotRequired[list[MetricConfig]]


class ScorerConfig(TypedDict, total=False):
    """A registered scorer and the arguments of its constructor."""

    type: Required[str]
    kwargs: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class TaskKeys:
    """The keys that a task may state, with their defaults."""

    #: Unique name; ``name@format`` selects a format.
    task: str = ""
    #: Shown in tables instead of the name.
    task_alias: str | None = None
    #: A format's name, a mapping with `type` and overrides, or a table of several.
    formats: str | dict[str, Any] | FormatConfig | None = None
    #: Axes on which formats may be varied: names of values with the fields that they change.
    variations: dict[str, Any] | None = None
    output_type: OutputType = "generate_until"
    tag: list[str] = field(default_factory=list)
    custom_dataset: Callable[..., Any] | None = None
    #: Name on the hub, local folder or file, or a file type ("json") with `data_files` in `dataset_kwargs`.
    dataset_path: str | None = None
    dataset_name: str | None = None
    dataset_kwargs: dict[str, Any] = field(default_factory=dict)
    training_split: str | None = None
    #: Evaluated when there is no test split.
    validation_split: str | None = None
    test_split: str | None = None
    fewshot_split: str | None = None
    #: Columns by other names, such as those of another revision of the dataset: the old name with the new one.
    rename_columns: dict[str, str] | None = None
    #: Columns that hold several documents, such as the questions of a passage: each of their entries becomes one.
    unfold_columns: list[str] | None = None
    #: Documents to leave out: a template that is true for them, such as ``{{label == -1}}``.
    drop_docs: str | None = None
    #: Evaluate a sample of the documents: ``{number: 1000, seed: 1234}`` is ``random.Random(1234).sample(docs, 1000)``.
    draw_docs: dict[str, int] | None = None
    process_docs: Callable[..., Any] | None = None
    #: Text or Jinja template before every prompt.
    description: str | Callable[..., str] = ""
    #: Whether sentences about choices stay in the description under a format that shows no choices.
    keep_description: bool = False
    doc_to_text: str | int | list[Any] | Callable[..., Any] | None = None
    doc_to_choice: str | list[Any] | dict[str, Any] | Callable[..., Any] | None = None
    doc_to_target: str | int | float | list[Any] | Callable[..., Any] | None = None
    #: What follows the first turn of a conversation: turns of the user's, or messages with role and content.
    doc_to_turns: str | list[Any] | Callable[..., Any] | None = None
    #: What the question is about, such as a passage: formats write it before the question.
    doc_to_context: str | None = None
    #: The number, 0 or 1, from which `doc_to_target` counts choices; by default numbers count from 0, digits as text
    #: from what the data show.
    answer_base: int | None = None
    #: The reasoning that leads to the answer, shown by few-shot examples of formats that ask for it.
    doc_to_rationale: str | Callable[..., Any] | None = None
    #: The beginning of the completion, added to the prompt.
    gen_prefix: str | None = None
    doc_to_image: str | list[str] | Callable[..., Any] | None = None
    doc_to_audio: str | list[str] | Callable[..., Any] | None = None
    process_results: Callable[..., Any] | None = None
    target_delimiter: str = " "
    fewshot_delimiter: str = "\n\n"
    fewshot_config: dict[str, Any] | FewshotConfig | None = None
    num_fewshot: int | None = None
    generation_kwargs: dict[str, Any] = field(default_factory=dict)
    metric_list: list[MetricConfig] = field(default_factory=list)
    filter_list: list[FilterPipeline] = field(default_factory=list)
    scorer: str | ScorerConfig | None = None
    repeats: int = 1
    unsafe_code: bool = False
    use_prompt: str | None = None
    multiple_inputs: bool = False
    #: False, if a task says so: a text that spells a list is one answer.
    multiple_targets: bool = False
    should_decontaminate: bool = False
    doc_to_decontamination_query: str | Callable[..., str] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    #: A row with the columns of the dataset, made up for the task's page and for tests without the dataset.
    example: dict[str, Any] | None = None
    #: What is known to be wrong with the prompts and kept on purpose, such as an error of another harness.
    known_errors: list[str] | None = None
    #: The protocol that an entry of `formats` belongs to, with its version, such as ``olmes 1``.
    protocol: str | None = None
    #: Codes of lint that are not reported of this task, each with the reason.
    lint_ignore: dict[str, str] | None = None
    #: A template's name, or a mapping with `template_type` and overrides.
    template: str | dict[str, Any] | TemplateConfig | None = None
    #: The template as an object: the same as `template`, and what `template` resolves to.
    template_config: TemplateConfig | None = None
    #: Noise in the question: `type`, `probability`, `seed` and `unmodifiable_words`.
    perturbation: dict[str, Any] | None = None
    perturbation_unmodifiable_words: list[str] | None = None
    #: The format that follows the ``@`` of a name, and the whole name if another task has the same one.
    _formats_selection: str | None = None
    _qualified_name: str | None = None


def default_keys() -> dict[str, Any]:
    """All keys of a task, with their default values."""
    return {f.name: f.default if f.default_factory is MISSING else f.default_factory() for f in fields(TaskKeys)}


def plain(value: Any, keep_callable: bool = False) -> Any:
    """Convert dataclasses, tuples and functions to values that JSON and YAML have; functions become their names.

    With `keep_callable`, functions and formats stay as they are.
    """
    if isinstance(value, FormatConfig):  # a format that is not registered cannot be written down by name
        return value if keep_callable else {"type": value.format_name, **value.to_dict()}
    if is_dataclass(value) and not isinstance(value, type) and not callable(value):
        inner = {f.name: getattr(value, f.name) for f in fields(value) if not f.name.startswith("_")}
        return {key: plain(item, keep_callable) for key, item in inner.items() if item is not None}
    if isinstance(value, str):  # subclasses become plain strings
        return str(value)
    if isinstance(value, Mapping):
        return {key: plain(item, keep_callable) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, keep_callable) for item in value]
    if callable(value) and not keep_callable:
        return stable_name(value)
    return value


KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class FilePosition:
    """A place in a file, lines counted from 1."""

    file: Path
    line: int

    def __str__(self) -> str:
        return f"{display(self.file)}:{self.line}"


@dataclass(frozen=True, slots=True)
class Source:
    """The positions of the keys of one configuration, which may come from several files."""

    file: Path
    positions: Mapping[KeyPath, FilePosition] = field(default_factory=dict)
    #: Warnings about the files, such as a key that is given twice.
    notes: tuple[ConfigError, ...] = ()

    def at(self, *path: str | int) -> FilePosition:
        """The position of a key, given as a path, or of the innermost key around it that is known."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.positions:
                return self.positions[path[:length]]
        return FilePosition(self.file, 1)

    def under(self, *path: str | int) -> Source:
        """The source of a part of the configuration, such as one item of a list."""
        inner = {key[len(path) :]: position for key, position in self.positions.items() if key[: len(path)] == path}
        return Source(self.file, inner, self.notes)

    def over(self, sources: Iterable[Source]) -> Source:
        """This source merged over others, the later ones first: a top-level key hides the same key below it."""
        merged: dict[KeyPath, FilePosition] = {}
        notes: dict[str, ConfigError] = {}
        for source in [*sources, self]:
            notes |= {str(note): note for note in source.notes}
            names = {key[:1] for key in source.positions}
            merged = {key: p for key, p in merged.items() if key[:1] not in names} | dict(source.positions)
        return Source(self.file, merged, tuple(notes.values()))


@dataclass(frozen=True, slots=True)
class StatedKeys:
    """What the file, the class or the call that defines a task or group states: the keys that it sets, and where.

    Loaders, groups and dialects pass it on, and `TaskConfig.from_stated` resolves it. A key that is not set is not
    in `data`, even if a configuration has a default for it.
    """

    data: dict[str, Any]
    source: Source | None = None
    #: The class of the task, if it is not the one of its output type.
    task_class: type | None = None
    #: All keys of the file, for a task class that takes more keys than there are fields.
    class_keys: Mapping[str, Any] = field(default_factory=dict)
    #: The files that it includes, also indirectly.
    included: frozenset[Path] = frozenset()

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or the default if it is not set."""
        return self.data.get(key, default)

    def with_keys(self, **changes: Any) -> StatedKeys:
        """The same with other values of some keys."""
        return replace(self, data={**self.data, **changes})

    def where(self, *path: str | int) -> str | None:
        """The file, line and path of a key, as messages show them."""
        return where(self.source, self.data.get("task", self.data.get("group")), *path)


def where(source: Source | None, task: str | None, *path: str | int) -> str | None:
    """The place of a key as messages show it: ``file.yaml:12: key``, or ``task: key`` without a file."""
    key = ".".join(map(str, path))
    start = str(source.at(*path)) if source else task
    return f"{start}: {key}" if start and key else start or key or None

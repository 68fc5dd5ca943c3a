"""TaskConfig: the configuration of a task, resolved under the format that it runs with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import InitVar, dataclass, field, replace
from functools import wraps
from typing import Any, Self, TypeVar

from multiform.errors import ConfigError, excerpt
from multiform.formats.base import FormatConfig
from multiform.formats.compile import FieldMapping
from multiform.formats.dialects.template import TemplateConfig
from multiform.formats.dialects.template_factory import template_of
from multiform.formats.infer import Recovered
from multiform.formats.select import without_overrides
from multiform.formats.variation import ChoiceOrder
from multiform.schema import check_keys, check_values
from multiform.tasks.functions import resolve_filter_functions, resolve_task_functions
from multiform.tasks.keys import Source, StatedKeys, TaskKeys, default_keys, plain, where
from multiform.tasks.resolve import apply_overrides, format_key, resolve, selected_format
from multiform.tasks.yaml import load_prompt

#: The maximum number of repeats: each of them is a request in memory.
MAX_REPEATS = 10_000
_TEMPLATES = ("output_type", "description", "doc_to_text", "doc_to_choice", "doc_to_target", "gen_prefix",
              "target_delimiter", "fewshot_delimiter")  # fmt: skip
#: Fields that a format or prompt may replace; `to_dict` has them as the task states them.
_REPLACED_BY_FORMAT = (*_TEMPLATES, "fewshot_config", "filter_list", "scorer")

Config = TypeVar("Config", bound="TaskConfig")


def _pass_stated_keys(cls: type[Config]) -> type[Config]:
    """Have the constructor tell `__post_init__` which keys the call sets.

    `output_type="generate_until"` and no `output_type` are the same value, but not the same statement.
    """
    init = cls.__init__

    @wraps(init)
    def constructor(self: Any, *, _stated: StatedKeys | None = None, **keys: Any) -> None:
        init(self, **keys, _stated=_stated or StatedKeys(keys))

    cls.__init__ = constructor  # type: ignore[method-assign]
    return cls


@_pass_stated_keys
@dataclass(frozen=True, kw_only=True)
class TaskConfig(TaskKeys):
    """Configuration of one evaluation task, with its fields resolved under a format.

    >>> config = TaskConfig(task="t", doc_to_text="q", doc_to_choice="options", doc_to_target="key", formats="mcqa")
    >>> config.output_type, config.doc_to_target
    ('multiple_choice', "{{ key|gold_index(options, 'letters') }}")

    Under a format, `doc_to_text`, `doc_to_choice` and `doc_to_target` are the format's templates, and `mapping` has
    the fields of the task.
    """

    #: The same keys with the places where they stand; without it, they are those of the call.
    _stated: InitVar[StatedKeys | None] = None

    #: What the task states, before any format.
    stated: StatedKeys = field(init=False, compare=False)
    #: The fields as the task states them, without perturbation.
    stated_mapping: FieldMapping = field(init=False, compare=False)
    #: The fields that the format renders.
    mapping: FieldMapping = field(init=False, compare=False)
    #: The fields of few-shot examples that the format renders, if they have their own.
    fewshot_mapping: FieldMapping | None = field(init=False, default=None, compare=False)
    #: The format that the task runs under, and the label by which it was selected.
    format: FormatConfig | None = field(init=False, default=None)
    format_label: str | None = field(init=False, default=None)
    #: What its variation says, by axis; the order of the choices; and which draw of few-shot examples it has.
    axes: Mapping[str, str] = field(init=False, default_factory=dict, compare=False)
    choice_order: ChoiceOrder | None = field(init=False, default=None)
    fewshot_draw: int = field(init=False, default=0)
    #: The mapping recovered from a task that was written as a finished prompt.
    recovered: Recovered | None = field(init=False, default=None, compare=False)
    #: Whether the task or its format sets `output_type`; otherwise it is `generate_until` by default.
    output_type_stated: bool = field(init=False, default=True, compare=False)
    #: The settings of the task that its format overrides, for messages.
    overridden: tuple[str, ...] = field(init=False, default=(), compare=False)

    def __post_init__(self, _stated: StatedKeys | None) -> None:
        self._set(stated=_stated)
        self._set(stated=self._check_stated())
        # What the keys refer to is loaded here: `resolve` reads no file.
        if pipelines := self.stated.get("filter_list"):
            pipelines = resolve_filter_functions(pipelines, self.stated.source, self.where("filter_list"))
            self._set(stated=self.stated.with_keys(filter_list=pipelines))
        self._set(**resolve(self.stated, self._load_library_prompt(), where=self.where))

    def _set(self, **values: Any) -> None:
        """Set attributes of the frozen object while it is built."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, source: Source | None = None, **overrides: Any) -> Self:
        """Build from a mapping of keys; errors name the file and line of a key if `source` knows them."""
        return cls.from_stated(StatedKeys({**data, **overrides}, source))

    @classmethod
    def from_stated(cls, stated: StatedKeys) -> Self:
        """Build from what a file or class states; functions that it names are imported."""
        if not str(stated.get("task", "")):
            raise ConfigError("missing key 'task'", where=where(stated.source, None), hint="give the task a name")
        check_keys("a task", default_keys(), stated.data, stated.where)
        keys = resolve_task_functions(stated.data)
        return cls(**keys, _stated=replace(stated, data=keys))

    @property
    def base_name(self) -> str:
        """The task's name without a format."""
        return self.task.rpartition("@")[0] or self.task if "@" in self.task else self.task

    @property
    def form_name(self) -> str:
        """The name that results are keyed by: ``task@format`` if a format was selected, else the bare task.

        A task that had to be told from another one of the same name is ``group::task``.
        """
        if self._qualified_name is not None:
            return self._qualified_name
        if not self._formats_selection and "@" not in self.task:
            return self.base_name
        label = self.format_label or self._formats_selection or self.task.rpartition("@")[2]
        return f"{self.base_name}@{label}"

    def tasks(self) -> Iterator[TaskConfig]:
        """This task alone; a group has several."""
        yield self

    def shots(self, requested: int | None) -> int:
        """The number of few-shot examples in a run that asks for this number; a task that sets 0 keeps it."""
        return (self.num_fewshot or 0) if requested is None or self.num_fewshot == 0 else requested

    def format_key(self, name: str) -> tuple[str, ...]:
        """The path of a key of the task's format, if the task itself defines that format."""
        return format_key(self.formats, self.format_label, name)

    def where(self, *path: str | int) -> str | None:
        """The file, line and path of a key, as messages show them."""
        return where(self.stated.source, self.form_name, *path)

    def to_dict(self, keep_callable: bool = False) -> dict[str, Any]:
        """The configuration as plain data, without empty fields; functions by name, unless `keep_callable` is true.

        Fields are as the task states them, so that the same configuration can be built again; `templates` has the
        resolved ones. `output_type` is that of the format, but for a finished prompt, whose question and choices can
        be recovered only with the output type that it was written for.
        """
        public = {key: value for key, value in default_keys().items() if key[0] != "_" and key != "template_config"}
        replaced = (self.format, self.use_prompt, self.template, self.perturbation)
        as_stated = ("fewshot_config",) if all(cause is None for cause in replaced) else _REPLACED_BY_FORMAT
        values = {
            name: self.stated.get(name, default) if name in as_stated else getattr(self, name)
            for name, default in public.items()
        }
        if self.recovered is None or (self.recovered.how == "raw" and not isinstance(self.stated_mapping.answer, int)):
            values["output_type"] = self.output_type
        if isinstance(self.template, TemplateConfig):
            values["template"] = self.template.to_dict()
        if self._formats_selection is not None:
            values["task"] = self.form_name
        return {key: plain(value, keep_callable) for key, value in values.items() if value is not None}

    def templates(self) -> dict[str, Any]:
        """The exact templates and delimiters that prompts are rendered with."""
        return {name: plain(getattr(self, name)) for name in _TEMPLATES if getattr(self, name) is not None}

    def replace(self, **changes: Any) -> Self:
        """A copy of the configuration in which some keys are changed."""
        stated = self.stated.with_keys(**changes)
        if "formats" not in changes and "formats" in stated.data:
            formats = without_overrides(stated.data["formats"], selected_format(stated), changes.keys())
            stated = stated.with_keys(formats=formats)
        return type(self)(**stated.data, _stated=stated)

    def __repr__(self) -> str:
        """The keys that were set, as the task has them, without long values."""
        defaults = default_keys()
        values = {key: value for key, value in self.stated.data.items() if key[0] != "_" and value != defaults[key]}
        keys = {**values, "task": self.form_name}
        return f"{type(self).__name__}({', '.join(f'{key}={excerpt(plain(keys[key]), 40)}' for key in keys)})"

    def _load_library_prompt(self) -> dict[str, Any]:
        """The fields that `use_prompt` names, from its library."""
        if self.stated.get("use_prompt") is None:
            return {}
        _, stated = apply_overrides(self.stated, self.where)
        try:
            return load_prompt(stated)
        except ConfigError as error:
            raise error.at(self.where("use_prompt") or "use_prompt") from error

    def _check_stated(self) -> StatedKeys:
        """What the task states, with checked types, in the order of the fields; empty keys get their default values."""
        stated = self.stated.data
        values = {name: stated[name] for name in default_keys() if name in stated}
        if isinstance(values.get("tag"), str):
            values["tag"] = [values["tag"]]
        for name in ("metric_list", "filter_list", "dataset_kwargs", "generation_kwargs", "metadata", "tag"):
            if name in values and values[name] is None:  # an empty value in YAML
                values[name] = {} if name.endswith("kwargs") or name == "metadata" else []
        source = self.stated.source
        check_values(TaskKeys, values, lambda *path: where(source, self.task, *path))
        values |= self._stated_template()
        if not self.task.partition("@")[0] and (self.task or source is not None):
            raise ConfigError("the task has no name", where=self.where("task"), hint="write 'task: name'")
        if "\n" in self.task:
            message = f"the name {excerpt(self.task)} has more than one line"
            raise ConfigError(message, where=self.where("task"), hint="write it on one line")
        for name, least in (("num_fewshot", 0), ("repeats", 1)):
            number = values.get(name)
            if number is not None and number < least:
                message = f"expected {least} or more, got {number}"
                raise ConfigError(message, where=self.where(name), hint=f"give a number of {least} or more")
        if values.get("answer_base") not in (None, 0, 1):
            message = f"expected 0 or 1, got {values['answer_base']}"
            hint = "say whether answers count from 0 or from 1"
            raise ConfigError(message, where=self.where("answer_base"), hint=hint)
        if values.get("repeats", 1) > MAX_REPEATS:
            message = f"expected {MAX_REPEATS:,} or less, got {values['repeats']:,}"
            raise ConfigError(message, where=self.where("repeats"), hint="ask each question fewer times")
        return replace(self.stated, data=values)

    def _stated_template(self) -> dict[str, Any]:
        """The template that `template` or `template_config` states, as the value of `template`."""
        name, config = self.template, self.template_config
        if config is None:
            return {}
        if name is not None and template_of(name) != config:
            message = "template and template_config are two different templates"
            raise ConfigError(message, where=self.where("template_config"), hint="give one of the two")
        return {"template": config if name is None else name, "template_config": None}

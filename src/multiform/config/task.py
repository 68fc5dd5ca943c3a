"""TaskConfig: a task as its file says it, under the format that it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from multiform.config.check import check_keys, check_values
from multiform.config.fewshot import FewshotConfig
from multiform.config.functions import resolve_functions
from multiform.config.generation import generation_defaults
from multiform.config.keys import TaskKeys
from multiform.config.prompts import load_prompt
from multiform.config.recovered import recovered
from multiform.config.serialize import plain
from multiform.config.source import Source, where
from multiform.config.wrapped import wrapped
from multiform.errors import ConfigError, MultiformError, shorten
from multiform.fields import Field, FieldSpec
from multiform.formats import FieldMapping, FormatConfig, TemplateConfig, compile_format, select_format
from multiform.formats.infer import Recovered
from multiform.formats.perturbation import Perturbation, perturbed
from multiform.formats.raw import check_raw

_TEMPLATES = ("output_type", "description", "doc_to_text", "doc_to_choice", "doc_to_target", "gen_prefix",
              "target_delimiter", "fewshot_delimiter")  # fmt: skip
#: Fields that a format or prompt replaces; `to_dict` gives them as the task did.
_MADE_BY_FORMAT = (*_TEMPLATES, "fewshot_config", "filter_list", "scorer")


@dataclass(kw_only=True)
class TaskConfig(TaskKeys):
    """Configuration of one evaluation task: what its file says, and what a format makes of it.

    >>> config = TaskConfig(task="t", doc_to_text="q", doc_to_choice="options", doc_to_target="key", formats="mcqa")
    >>> config.output_type, config.doc_to_target
    ('multiple_choice', "{{ key|gold_index(options, 'letters') }}")

    Under a format, `doc_to_text`, `doc_to_choice` and `doc_to_target` become the format's templates;
    `mapping` keeps what the task gave.
    """

    _formats_selection: str | None = None
    _qualified_name: str | None = None
    _source: Source | None = field(default=None, repr=False, compare=False)
    _task_class: type | None = field(default=None, repr=False, compare=False)
    #: All that the file says, for a class that takes more keys than there are fields.
    _class_keys: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    _given: dict[str, Any] = field(init=False, default_factory=dict, repr=False, compare=False)
    #: The fields as the task gave them, and without noise.
    prompt: FieldMapping = field(init=False, repr=False, compare=False)
    #: The fields as a format sees them.
    mapping: FieldMapping = field(init=False, repr=False, compare=False)
    #: The format that the task runs under, and the label by which it was selected.
    format: FormatConfig | None = field(init=False, default=None, repr=False)
    format_label: str | None = field(init=False, default=None, repr=False)
    #: How the mapping was found where the task was written as a finished prompt.
    recovered: Recovered | None = field(init=False, default=None, repr=False, compare=False)
    #: The template that the task runs under.
    template_config: TemplateConfig | None = field(init=False, default=None, repr=False, compare=False)
    #: What the task said and the format does otherwise.
    set_aside: tuple[str, ...] = field(init=False, default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        self._check()
        self._given = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        self._apply_prompt()
        self.prompt = FieldMapping(self.doc_to_text, self.doc_to_choice, self.doc_to_target)
        self.doc_to_text = self._noisy(self.doc_to_text)  # type: ignore[assignment]
        self.mapping = FieldMapping(self.doc_to_text, self.doc_to_choice, self.doc_to_target)
        self._compile_fields()
        self._resolve_formats()
        self._apply_generation_defaults()
        self._build_fewshot_config()
        self._normalize_scoring_config()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, source: Source | None = None, **overrides: Any) -> TaskConfig:
        """Build from plain data; errors name the file and line that `source` knows."""
        values = {**data, **overrides}
        task = str(values.get("task", ""))
        if not task:
            raise ConfigError("missing key 'task'", where=where(source, None), hint="give the task a name")
        check_keys("a task", task_keys(), values, lambda *path: where(source, task, *path))
        return cls(**resolve_functions(values), _source=source)

    def _apply_prompt(self) -> None:
        """Take the fields of the prompt that `use_prompt` names."""
        if self.use_prompt is None:
            return
        folder = self._source.file.parent if self._source else Path()
        try:
            found = load_prompt(
                self.use_prompt, folder=folder, dataset_path=self.dataset_path, dataset_name=self.dataset_name
            )
        except ConfigError as error:
            raise error.at(self.where("use_prompt") or "use_prompt") from error
        for key, value in found.items():
            setattr(self, key, value)

    @property
    def base_name(self) -> str:
        """The task's name without a format."""
        return self.task.rpartition("@")[0] or self.task if "@" in self.task else self.task

    @property
    def form_name(self) -> str:
        """``task@format`` where a format was asked for, the bare task otherwise; or the qualified name."""
        if self._qualified_name is not None:
            return self._qualified_name
        selected = self._formats_selection or ("@" in self.task and self.format_label)
        return f"{self.base_name}@{self.format_label}" if selected else self.base_name

    def format_key(self, name: str) -> tuple[str, ...]:
        """The path of a key of the task's format, where the task itself defines that format."""
        if not isinstance(self.formats, dict) or self.format_label is None:
            return ("formats",)
        return ("formats", name) if "type" in self.formats else ("formats", self.format_label, name)

    def where(self, *path: str | int) -> str | None:
        """How a message names the place of a key."""
        return where(self._source, self.form_name, *path)

    def to_dict(self, keep_callable: bool = False) -> dict[str, Any]:
        """The configuration as plain data, without empty fields; functions by name unless kept.

        What a format or prompt made of the task's fields is not in it, so that the same configuration can be
        built from it again; `templates` has that.
        """
        public = [f.name for f in fields(self) if f.init and not f.name.startswith("_")]
        replaced = (self.format, self.use_prompt, self.template, self.perturbation)
        made = ("fewshot_config",) if all(one is None for one in replaced) else _MADE_BY_FORMAT
        values = {name: self._given[name] if name in made else getattr(self, name) for name in public}
        if isinstance(self.template, TemplateConfig):
            values["template"] = self.template.to_dict()
        if self._formats_selection is not None:
            values["task"] = self.form_name
        return {key: plain(value, keep_callable) for key, value in values.items() if value is not None}

    def templates(self) -> dict[str, Any]:
        """The exact templates and delimiters that prompts are made with."""
        return {name: plain(getattr(self, name)) for name in _TEMPLATES if getattr(self, name) is not None}

    def _check(self) -> None:
        tag: Any = self.tag
        self.tag = [tag] if isinstance(tag, str) else tag
        for name in ("metric_list", "filter_list", "dataset_kwargs", "generation_kwargs", "metadata", "tag"):
            if getattr(self, name) is None:  # an empty value in YAML
                setattr(self, name, {} if name.endswith("kwargs") or name == "metadata" else [])
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        check_values(type(self), given, lambda *path: where(self._source, self.task, *path))
        if not self.task.partition("@")[0] and (self.task or self._source is not None):
            raise ConfigError("the task has no name", where=self.where("task"), hint="write 'task: name'")
        for name in ("num_fewshot", "repeats"):
            value, least = getattr(self, name), 1 if name == "repeats" else 0
            if value is not None and value < least:
                what = f"expected {least} or more, got {value}"
                raise ConfigError(what, where=self.where(name), hint=f"give a number of {least} or more")

    def _resolve_formats(self) -> None:
        """Replace the mapping by the templates of the selected format, if there is one."""
        selection = self._formats_selection or self.task.partition("@")[2] or None
        if self.template is not None:
            if self.formats is not None:
                hint = "keep one of the two; 'multiform convert' turns one into the other"
                raise ConfigError("a task has formats or a template", where=self.where("template"), hint=hint)
            if selection is None:
                self._apply_template(self.template)
                return
        try:
            selected = select_format(self.formats, selection)
        except ConfigError as error:
            if selection is not None and error.what.startswith("unknown format '"):
                raise ConfigError(error.what, where=f"{self.base_name}@{selection}", hint=error.hint) from error
            raise self._placed(error, "formats") from error
        if selected is None:
            return
        self.format, self.format_label = selected.format, selected.label
        if self.formats is None and self.template is None and not self.multiple_inputs:
            self.recovered = self._recovered(self.prompt, selected.format)
        self.mapping = self._raw_mapping(self.prompt, self.recovered)
        try:
            check_raw(selected.format, self.mapping)
            templates = compile_format(selected.format, self.mapping)
        except ConfigError as error:
            raise self._placed(error, "formats") from error
        self.doc_to_text = templates.doc_to_text  # type: ignore[assignment]
        self.doc_to_choice = templates.doc_to_choice  # type: ignore[assignment]
        self.doc_to_target = templates.doc_to_target  # type: ignore[assignment]
        self._take_over(selected.format)

    def _recovered(self, prompt: FieldMapping, form: FormatConfig) -> Recovered:
        """The raw mapping behind the fields of a task that was not written for formats."""
        try:
            found = recovered(
                prompt,
                output_type=self._given["output_type"],
                processed=self.process_docs is not None,
                needs_choices=form.needs_choices,
            )
        except ConfigError as error:
            raise ConfigError(error.what, where=self.where(str(error.where)), hint=error.hint) from error
        ranks = self._given["output_type"] == "multiple_choice" and self.process_results is None
        return found.spread_out() if form.shows_choices and ranks else found

    def _raw_mapping(self, prompt: FieldMapping, found: Recovered | None) -> FieldMapping:
        """The mapping that a format works on: what was found behind a prompt, or what the task says."""
        raw = prompt if found is None else found.mapping
        question = "question" if raw.question is None else raw.question
        return FieldMapping(self._noisy(question), raw.choices, "answer" if raw.answer is None else raw.answer)

    def _apply_template(self, template: str | dict[str, Any] | TemplateConfig) -> None:
        """Wrap the task's fields into functions that give what the template makes of them."""
        try:
            made = wrapped(template, self.mapping, self.output_type)
        except ConfigError as error:
            raise self._placed(error, "template") from error
        self.template_config, self.format, self.format_label = made.template, made.format, made.label
        self.doc_to_text, self.doc_to_choice, self.doc_to_target = (
            made.doc_to_text,
            made.doc_to_choice,
            made.doc_to_target,
        )
        self.output_type = made.output_type
        if made.format is not None:
            self._take_over(made.format)

    def _noisy(self, question: FieldSpec) -> FieldSpec:
        """The question with the noise that the task asks for."""
        if self.perturbation is None:
            return question
        try:
            made = Perturbation.of(self.perturbation, self.perturbation_unmodifiable_words or ())
        except ConfigError as error:
            raise self._placed(error, "perturbation") from error
        return perturbed(question, made)

    def changed(self, **changes: Any) -> TaskConfig:
        """The same task with some of its keys changed, as if its file said so."""
        return type(self)(**{**self._given, **changes})

    def _take_over(self, form: FormatConfig) -> None:
        """A format owns layout and scoring; what the task said otherwise is set aside and reported."""
        aside = []
        if self.gen_prefix is not None and self.gen_prefix != form.gen_prefix:
            aside.append(f"gen_prefix {shorten(self.gen_prefix, 40)}")
        if self.scorer is not None and form.scorer is not None:
            aside.append(f"scorer {shorten(self.scorer, 40)}")
        if self.filter_list and (form.scorer is not None or form.scored != "generation"):
            aside.append("filter_list " + ", ".join(f["name"] for f in self.filter_list))
            self.filter_list = []
        if self.recovered is not None and self.process_results is not None and form.output_type != self.output_type:
            aside.append("process_results")  # it was written for other outputs
            self.process_results = None
        self.set_aside = tuple(aside)
        self.output_type = form.output_type
        self.gen_prefix = form.gen_prefix
        self.target_delimiter = form.target_delimiter
        self.fewshot_delimiter = form.fewshot_delimiter
        self.scorer = form.scorer if form.scorer is not None else self.scorer  # type: ignore[assignment]

    def _compile_fields(self) -> None:
        """Compile every template now, so that a syntax error is an error of the file, not of a run."""
        for name in ("doc_to_text", "doc_to_choice", "doc_to_target", "description", "gen_prefix"):
            try:
                Field.of(getattr(self, name))
            except ConfigError as error:
                raise ConfigError(error.what, where=self.where(name), hint=error.hint) from error

    def _apply_generation_defaults(self) -> None:
        try:
            self.generation_kwargs = generation_defaults(
                self.generation_kwargs, self.output_type, self.fewshot_delimiter, self.format
            )
        except ConfigError as error:
            if self.format is None or self.format.generation_kwargs is None:
                raise self._placed(error, "generation_kwargs") from error
            place = self.where(*self.format_key("generation_kwargs"))
            raise ConfigError(error.what, where=place, hint=error.hint) from error

    def _build_fewshot_config(self) -> None:
        given = _fewshot_mapping(self.fewshot_config)
        if given.get("doc_to_text") is not None and self.recovered is None:
            given["doc_to_text"] = self._noisy(given["doc_to_text"])
        try:
            if self.format is not None and any(
                given.get(k) is not None for k in ("doc_to_text", "doc_to_choice", "doc_to_target")
            ):
                given |= self._fewshot_templates(given)
            self.fewshot_config = FewshotConfig.from_dict(
                given,
                **({} if "split" in given else {"fewshot_split": self.fewshot_split}),
                process_docs=self.process_docs,
                fewshot_delimiter=self.fewshot_delimiter,
                target_delimiter=self.target_delimiter,
                gen_prefix=self.gen_prefix,
                doc_to_text=self.doc_to_text,
                doc_to_choice=self.doc_to_choice,
                doc_to_target=self.doc_to_target,
            )
        except ConfigError as error:
            raise self._placed(error, "fewshot_config") from error

    def _fewshot_templates(self, given: Mapping[str, Any]) -> dict[str, FieldSpec]:
        """A few-shot mapping of its own goes through the same format as the task's."""
        assert self.format is not None
        raw = self.mapping if self.recovered is None else self.prompt
        if self.recovered is not None and self.format.needs_choices and given.get("samples") is None:
            given = {}  # examples of their own form, such as with reasoning, get the form of the format
        mapping = FieldMapping(
            given.get("doc_to_text", raw.question),
            given.get("doc_to_choice", raw.choices),
            given.get("doc_to_target", raw.answer),
        )
        if self.recovered is not None:
            mapping = self._raw_mapping(mapping, self._recovered(mapping, self.format))
        made = compile_format(self.format, mapping)
        return {
            "doc_to_text": made.doc_to_text,
            "doc_to_choice": made.doc_to_choice,
            "doc_to_target": made.doc_to_target,
        }

    def _normalize_scoring_config(self) -> None:
        if isinstance(self.scorer, str):
            self.scorer = {"type": self.scorer}

    def _placed(self, error: MultiformError, root: str) -> ConfigError:
        """An error whose place is a path of keys below `root`, with the file and line of the deepest key."""
        inner = (error.where or "").removeprefix(root).split(".")
        keys = [int(part) if part.isdigit() else part for part in inner if part]
        return ConfigError(error.what, where=self.where(root, *keys), hint=error.hint)


def _fewshot_mapping(given: Mapping[str, Any] | FewshotConfig | None) -> dict[str, Any]:
    """What is set of a few-shot configuration; the task has the rest."""
    if isinstance(given, FewshotConfig):
        return {key: value for key, value in vars(given).items() if value is not None}
    return dict(given or {})


def task_keys() -> list[str]:
    """The keys that a task may have."""
    return [f.name for f in fields(TaskConfig) if f.init]

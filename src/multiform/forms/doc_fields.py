"""FieldReader and DocFields: the fields of a document, each evaluated once; errors name the field, file and line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

from multiform.errors import ConfigError, DataError, MissingColumnError, MultiformError, excerpt
from multiform.fields import Doc, Field, FieldSpec
from multiform.formats.base import TEMPLATES, FormatConfig
from multiform.formats.compile import CompiledFormat, FieldMapping
from multiform.formats.infer.document import problem
from multiform.formats.variation import move_gold
from multiform.forms.spec import FIELD_HOOKS, FormSpec, Hooks
from multiform.labels import (
    choice_list,
    digit_answers,
    digit_base,
    gold_index,
    label_list,
    parse_literal_list,
    whole_number,
)
from multiform.prompts.template import has_markup
from multiform.tasks.config import TaskConfig
from multiform.tasks.keys import FewshotConfig

#: The number of documents that are checked for prompts among the questions that were recovered from a task.
_CHECKED = 16
#: The fields that hooks may give; `gold` has the indexes of the right choices.
_OVERRIDDEN = (*FIELD_HOOKS, "gold")


class FieldReader:
    """Reads the fields of a task's documents."""

    def __init__(self, config: TaskConfig, docs: Callable[[], Iterable[Doc]] = tuple) -> None:
        self.config = config
        #: All documents, from which it is decided once whether digits count choices from 0 or from 1.
        self._docs = docs
        self._checked = 0
        #: Whether some answers are numbers, so that their kinds are mixed, which is a finding of its own.
        self._has_numbers = False
        self._first_digits: str | None = None

    def value(self, spec: FieldSpec, doc: Doc, key: str) -> Any:
        """The value of a field; `key` is what the task file calls it."""
        if spec is None:
            raise ConfigError(f"the task has no {key}", where=self.config.where(), hint=f"set {key}")
        try:
            return Field.of(spec).value(doc)
        except MultiformError as error:
            raise self.locate_error(error, doc, key) from error

    def text(self, spec: FieldSpec, doc: Doc, key: str) -> str:
        """A text that may be a template; empty if it is not set."""
        if spec is None or spec == "":
            return ""
        try:
            return str(Field.text(spec).value(doc))
        except MultiformError as error:
            raise error.relocate(self.config.where(key)) from error

    def question(self, spec: FieldSpec, doc: Doc) -> Any:
        """The question as text. Without a format, it may be a list of inputs, or the index of the right one."""
        value = self.value(spec, doc, "doc_to_text")
        if value is None:
            raise self.null_question()
        if self.config.format is not None or not isinstance(value, list | int | str) or isinstance(value, bool):
            return str(value)
        if isinstance(value, str) and has_markup(str(spec)) and self.config.doc_to_choice is not None:
            index = whole_number(value)
            return value if index is None else index
        return value

    def target(self, spec: FieldSpec, doc: Doc, choices: Callable[[], list[str]]) -> Any:
        """The answer. Without a format, a template may spell out an index or a list; columns and code give values."""
        if self._is_literal(spec, doc):
            return spec
        value = self.value(spec, doc, "doc_to_target")
        if self.config.format is not None:
            return value
        # The index of a template without a format counts from 0 already.
        base = 0 if self.config.template_config is not None else self.config.answer_base or 0
        if not isinstance(value, str):
            return _from_zero(value, base) if self.config.doc_to_choice is not None else value
        index = whole_number(value.strip()) if self.config.doc_to_choice is not None else None
        index = None if index is None or index < base else index - base
        if isinstance(spec, str) and spec not in doc:
            # A text that spells a list is one answer if the task says that there is one.
            listed = None if self.config.stated.get("multiple_targets") is False else parse_literal_list(value)
            return index if index is not None else value if listed is None else _from_zero(listed, base)
        return index if index is not None and value not in choices() else value

    def base_of(self, answer: Any) -> int | None:
        """The number from which an answer counts choices under a format.

        The task says it, or the data do: all documents are read once, when the first answer of digits is. None if
        numbers count from 0, and digits from 1.
        """
        config = self.config
        if config.recovered is not None and config.recovered.mapping.answer is not config.stated_mapping.answer:
            return None  # it is an index already
        if config.answer_base is not None or not digit_answers(answer):
            return config.answer_base
        return 0 if self.digit_base == 0 else None

    @property
    def unclear_digits(self) -> str | None:
        """The first answer of digits, if these count from 1 because no document shows what they count from."""
        decided = self.__dict__.get("digit_base", 1) is not None
        return None if decided or self._has_numbers else self._first_digits

    @cached_property
    def digit_base(self) -> int | None:
        """Whether digits as answers count from 0 or from 1, as far as a document shows it; None if none does."""
        mapping = self.config.mapping
        # The labels beside the texts of choices, as in {"text": [...], "label": [...]}.
        texts = Field.of(mapping.choices).expression() or ""
        labels = Field.of(f"{{{{ {texts.removesuffix('.text')}.label }}}}") if texts.endswith(".text") else None
        for doc_id, doc in enumerate(self._docs() if mapping.choices is not None else ()):
            try:
                answer = self.value(mapping.answer, doc, "doc_to_target")
                choices = self.choices(mapping.choices, doc) if digit_answers(answer) else []
            except MultiformError:  # it is an error of the document, when that is rendered
                continue
            self._has_numbers |= isinstance(answer, int)
            if choices:
                self._first_digits = self._first_digits or f"doc {doc_id}: {excerpt(answer)}"
                try:
                    names = None if labels is None else labels.value(doc)
                except MultiformError:  # there are none
                    names = None
                base = digit_base(answer, choices, names if isinstance(names, list | tuple) else ())
                if base is not None:
                    return base
        return None

    def _is_literal(self, spec: FieldSpec, doc: Doc) -> bool:
        """Whether a word that is not a column can only stand for itself: a choice, or an answer that nothing reads."""
        if not isinstance(spec, str) or spec in doc or has_markup(spec) or self.config.format is not None:
            return False
        choices = self.config.doc_to_choice
        return self.config.process_results is not None or (isinstance(choices, list) and spec in choices)

    def choices(self, spec: FieldSpec, doc: Doc) -> list[str]:
        """The choices as a list of texts; anything else is an error."""
        try:
            value = choice_list(self.value(spec, doc, "doc_to_choice"))
        except DataError as error:
            raise error if error.where else self._bad_choices(error.what) from error
        if not isinstance(value, list | tuple):
            raise self._bad_choices(f"expected a list of choices, got {excerpt(value)}")
        if not value:
            raise self._bad_choices("the list of choices is empty")
        for choice in value:
            if not isinstance(choice, str | int | float):
                hint = None if choice is not None else "leave out what is null: {{choices|reject('none')|list}}"
                raise self._bad_choices(f"a choice is {excerpt(choice)}, not text or a number", hint)
        return [choice if isinstance(choice, str) else str(choice) for choice in value]

    def check_recovered(self, question: Callable[[], Any], choices: list[str]) -> None:
        """Refuse a recovered question that turns out to be a prompt, or an index, once a document is there."""
        if self.config.recovered is None or self._checked >= _CHECKED:
            return
        self._checked += 1
        value, message = question(), None
        hint = "run the task without a format, or include it in a file with formats:, doc_to_text and doc_to_choice"
        if isinstance(value, list | int | float):
            message = f"doc_to_text gives {excerpt(value, 40)}, not a question"
        elif (fault := problem(str(value), choices)) is not None:
            message = f"a format would wrap a prompt twice: {fault}"
        if message is not None:
            raise ConfigError(message, where=self.config.where("doc_to_text"), hint=hint)

    def null_question(self) -> DataError:
        hint = "drop the document in process_docs, or name another column"
        return DataError("the question is null", where=self.config.where("doc_to_text"), hint=hint)

    def _bad_choices(self, what: str, hint: str | None = None) -> DataError:
        hint = hint or "name the column that holds the list, e.g. doc_to_choice: choices"
        return DataError(what, where=self.config.where("doc_to_choice"), hint=hint)

    def locate_error(self, error: MultiformError, doc: Doc, key: str) -> MultiformError:
        """The error at the field of the task that causes it, if a format's template holds several."""
        mapping = self.config.mapping
        specs = {"doc_to_text": mapping.question, "doc_to_choice": mapping.choices, "doc_to_target": mapping.answer}
        if self.config.format is not None:
            for name, spec in specs.items():
                try:
                    Field.of(spec).value(doc)
                except MultiformError as cause:
                    return self._at(cause, name)
            choices = [] if mapping.choices is None else self.choices(mapping.choices, doc)
            fault = _format_fault(self.config.format, doc, choices)
            if fault is not None:
                return self._at(fault[1], *self.config.format_key(fault[0]))
        return self._at(error, key)

    def _at(self, error: MultiformError, *key: str) -> MultiformError:
        if not isinstance(error, MissingColumnError) or not self.config.dataset_path:
            return error.relocate(self.config.where(*key))
        message, hint = f"{error.what} in {self.config.dataset_path}", error.hint
        if revision := self.config.dataset_kwargs.get("revision"):
            hint = f"{hint}; if revision {revision} has it by a new name, write rename_columns: {{new: old}}"
        return MissingColumnError(message, where=self.config.where(*key), hint=hint)


def _from_zero(value: Any, base: int) -> Any:
    """An answer whose numbers count from `base`, as one whose numbers count from 0."""
    if isinstance(value, list | tuple):
        return [_from_zero(item, base) for item in value] if base else value
    return value - base if base and isinstance(value, int) and not isinstance(value, bool) else value


@dataclass(frozen=True, eq=False)
class FieldSet:
    """Where the prompt, the choices and the target of documents come from."""

    #: What has doc_to_text, doc_to_choice, doc_to_target and gen_prefix.
    specs: TaskConfig | FewshotConfig
    #: The format that lays them out, if there is one.
    format: CompiledFormat | None
    #: Methods of a task that users wrote to give a field themselves.
    overrides: Hooks

    @classmethod
    def of_docs(cls, form: FormSpec) -> FieldSet:
        """The fields of evaluated documents."""
        config, overrides = form.config, {name: form.hooks[name] for name in _OVERRIDDEN if name in form.hooks}
        compiled = None if config.format is None else CompiledFormat.of(config.format, config.mapping)
        return cls(config, compiled, overrides)

    @classmethod
    def of_shots(cls, form: FormSpec, docs: FieldSet) -> FieldSet:
        """The fields of few-shot examples: those of evaluated documents, unless `fewshot_config` has its own."""
        config, shots = form.config, form.fewshot
        overrides = {name: form.hooks[f"fewshot_{name}"] for name in _OVERRIDDEN if f"fewshot_{name}" in form.hooks}
        if all(getattr(shots, name) is getattr(config, name) for name in (*FIELD_HOOKS, "gen_prefix")):
            return replace(docs, overrides=overrides)
        if config.format is None:
            return cls(shots, None, overrides)
        compiled = CompiledFormat.of(config.format.of_shots(), config.fewshot_mapping or config.mapping)
        return cls(shots, compiled, overrides)


class DocFields:
    """The fields of one document. Each is evaluated when it is first needed, and only once."""

    def __init__(self, doc: Doc, reader: FieldReader, fields: FieldSet, *, several_inputs: bool = False) -> None:
        self.doc = doc
        self.reader = reader
        #: Whether the document has several prompts that share one continuation.
        self.several_inputs = several_inputs
        self._fields, self._specs, self._overrides = fields, fields.specs, fields.overrides

    @cached_property
    def question(self) -> Any:
        """The question as the prompt has it, laid out by the format; or several inputs, or the index of one."""
        if "doc_to_text" in self._overrides:
            return self._overrides["doc_to_text"](self.doc)
        compiled = self._fields.format
        if self._specs.doc_to_text is None:
            return None
        if compiled is None:
            return self.reader.question(self._specs.doc_to_text, self.doc)
        question = self.raw_question if compiled.needs_question else None
        choices = self.shown_choices or ()
        self.reader.check_recovered(lambda: self.raw_question, list(choices))
        try:
            return compiled.prompt(self.doc, question=question, choices=choices)
        except MultiformError as error:
            raise self.reader.locate_error(error, self.doc, "doc_to_text") from error

    @cached_property
    def instruction(self) -> str:
        """The instruction with which the question begins, if the prompt has it only once, before the examples."""
        compiled = self._fields.format
        if compiled is None or compiled.format.instruction_at != "start" or "doc_to_text" in self._overrides:
            return ""
        return compiled.instruction(self.doc, choices=self.shown_choices or ())

    @cached_property
    def choices(self) -> list[str] | None:
        """What is ranked, or None if the task has no choices."""
        if "doc_to_choice" in self._overrides:
            return cast("list[str] | None", self._overrides["doc_to_choice"](self.doc))
        compiled, spec = self._fields.format, self._specs.doc_to_choice
        if spec is None:
            return None
        if compiled is None:
            return self.reader.choices(spec, self.doc)
        try:
            return compiled.choices(self.shown_choices or ())
        except MultiformError as error:
            raise self.reader.locate_error(error, self.doc, "doc_to_choice") from error

    @cached_property
    def target(self) -> Any:
        """The answer as the task gives it, or as the format wants it; None if the task has none."""
        if "doc_to_target" in self._overrides:
            return self._overrides["doc_to_target"](self.doc)
        compiled, spec = self._fields.format, self._specs.doc_to_target
        if spec is None:
            return None
        if compiled is None:
            return self.reader.target(spec, self.doc, lambda: self.choices or [])
        return self._target_under(compiled, self.permutation)

    @property
    def first_target(self) -> Any:
        """The target, the first of several; None if the list of them is empty."""
        return next(iter(self.target), None) if isinstance(self.target, list) else self.target

    @property
    def answer(self) -> Any:
        """The target in the order that the document has its choices in: the same in every order of a prompt."""
        if self.permutation is None or self._fields.format is None or "doc_to_target" in self._overrides:
            return self.target
        return self._target_under(self._fields.format, None)

    def _target_under(self, compiled: CompiledFormat, permutation: tuple[int, ...] | None) -> Any:
        """The answer as the format wants it, among choices that are permuted."""
        gold, choices = self._raw_gold, self.raw_choices
        try:
            if permutation is None or choices is None:
                return compiled.target(gold, choices)
            return compiled.target(move_gold(gold, permutation), self.shown_choices)
        except MultiformError as error:
            raise self.reader.locate_error(error, self.doc, "doc_to_target") from error

    @cached_property
    def _raw_gold(self) -> Any:
        """The index of the right choice, or several, in the order of the document; the answer if there are none."""
        compiled = self._fields.format
        assert compiled is not None
        answer, choices = self.reader.value(compiled.mapping.answer, self.doc, "doc_to_target"), self.raw_choices
        if choices is None:
            return answer
        base = self.reader.base_of(answer)
        try:
            return gold_index(answer, choices, compiled.format.choice_labels or "letters", base)
        except MultiformError as error:
            raise self.reader.locate_error(error, self.doc, "doc_to_target") from error

    @property
    def right_choices(self) -> tuple[int, ...] | None:
        """The indexes of the right choices in the order of the document, under a format; None if it cannot tell."""
        if self._fields.format is None or self.raw_choices is None:
            return None
        if self._specs.doc_to_target is None or "doc_to_target" in self._overrides:
            return None
        return tuple(self._raw_gold) if isinstance(self._raw_gold, list) else (self._raw_gold,)

    @property
    def has_target(self) -> bool:
        """Whether the task says what is right at all."""
        return self._specs.doc_to_target is not None or "doc_to_target" in self._overrides

    @cached_property
    def gold(self) -> tuple[int, ...] | None:
        """The indexes of the right choices if a method of the task gives them."""
        return tuple(self._overrides["gold"](self.doc)) if "gold" in self._overrides else None

    @cached_property
    def gen_prefix(self) -> str:
        """The beginning of the answer that the prompt gives."""
        return self.reader.text(self._specs.gen_prefix, self.doc, "gen_prefix")

    @cached_property
    def raw_question(self) -> Any:
        """The question as the task's own field gives it, before a format lays it out."""
        question = self.reader.value(self._mapping.question, self.doc, "doc_to_text")
        if question is None:
            raise self.reader.null_question()
        return question

    @cached_property
    def raw_choices(self) -> list[str] | None:
        """The choices as the task's own field gives them, before a format orders and labels them."""
        spec = self._mapping.choices
        return None if spec is None else self.reader.choices(spec, self.doc)

    @cached_property
    def permutation(self) -> tuple[int, ...] | None:
        """For each choice that is shown, its index in the document; None if the form leaves them in their order."""
        order = self.reader.config.choice_order
        if order is None or self.raw_choices is None:
            return None
        return order.permutation(len(self.raw_choices), f"{self.raw_question} {self.raw_choices}")

    @cached_property
    def shown_choices(self) -> list[str] | None:
        """The choices in the order in which the format shows them."""
        permutation, choices = self.permutation, self.raw_choices
        return choices if permutation is None or choices is None else [choices[index] for index in permutation]

    @property
    def _mapping(self) -> FieldMapping:
        compiled = self._fields.format
        return self.reader.config.mapping if compiled is None else compiled.mapping


def _format_fault(form: FormatConfig, doc: Doc, choices: list[str]) -> tuple[str, MultiformError] | None:
    """The first field of a format that fails by itself on a document, with its error; None if none does."""
    labels: list[str] = []
    if form.choice_labels is not None and choices:
        try:
            labels = label_list(len(choices), form.choice_labels)
        except MultiformError as error:
            return "choice_labels", error
    known = {"_num_choices": len(choices), "_choice_labels": labels, "_choice_list_and": "", "_choice_list_or": ""}
    for name in TEMPLATES:
        try:
            Field.text(getattr(form, name)).value({**doc, **known})
        except MultiformError as error:
            return name, error
    return None

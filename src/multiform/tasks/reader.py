"""Reads the fields of a task out of documents, with errors that name field, file and document."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from multiform.config import TaskConfig
from multiform.errors import ConfigError, DataError, MultiformError, shorten
from multiform.fields import Doc, Field, FieldSpec
from multiform.formats.infer import problem
from multiform.jinja import choice_list, has_markup, parse_literal_list
from multiform.tasks.blame import part_at_fault

#: So many documents are looked at for prompts that a template does not show.
_CHECKED = 16


class DocReader:
    """The fields of one task, each compiled when it is first read."""

    def __init__(self, config: TaskConfig) -> None:
        self.config = config
        self._fields: dict[int, Field] = {}
        self._checked = 0

    def read(self, spec: FieldSpec, doc: Doc, key: str) -> Any:
        """The value of a field; `key` is what the task file calls it."""
        if spec is None:
            raise ConfigError(f"the task has no {key}", where=self.config.where(), hint=f"set {key}")
        compiled = self._fields.get(id(spec))
        if compiled is None:
            compiled = self._fields[id(spec)] = Field.of(spec)
        try:
            return compiled.read(doc)
        except MultiformError as error:
            raise self._blamed(error, doc, key) from error

    def text(self, spec: FieldSpec, doc: Doc, key: str) -> str:
        """A text that may be a template; nothing where it is not set."""
        if spec is None or spec == "":
            return ""
        try:
            return str(Field.text(spec).read(doc))
        except MultiformError as error:
            raise type(error)(error.what, where=self.config.where(key), hint=error.hint) from error

    def question(self, spec: FieldSpec, doc: Doc) -> Any:
        """The question as text. Without a format, it may be a list of inputs, or the index of the right one."""
        value = self.read(spec, doc, "doc_to_text")
        if value is None:
            raise self._null_question()
        if self.config.format is not None or not isinstance(value, list | int | str) or isinstance(value, bool):
            return str(value)
        if (
            isinstance(value, str)
            and value.isdigit()
            and has_markup(str(spec))
            and self.config.doc_to_choice is not None
        ):
            return int(value)
        return value

    def target(self, spec: FieldSpec, doc: Doc) -> Any:
        """The answer. Without a format, a template may spell out an index or a list; columns and code give values."""
        if self._is_literal(spec, doc):
            return spec
        value = self.read(spec, doc, "doc_to_target")
        if not isinstance(value, str) or self.config.format is not None:
            return value
        if isinstance(spec, str) and spec not in doc:
            listed = parse_literal_list(value)
            return int(value) if self._is_index(value) else value if listed is None else listed
        return int(value) if self._is_index(value) and value not in self._choices(doc) else value

    def _is_literal(self, spec: FieldSpec, doc: Doc) -> bool:
        """Whether a word that is no column can only be meant as itself: a choice, or an answer that nothing reads."""
        if not isinstance(spec, str) or spec in doc or has_markup(spec) or self.config.format is not None:
            return False
        choices = self.config.doc_to_choice
        return self.config.process_results is not None or (isinstance(choices, list) and spec in choices)

    def _is_index(self, value: str) -> bool:
        return self.config.doc_to_choice is not None and value.strip().isdigit()

    def _choices(self, doc: Doc) -> list[str]:
        return self.choices(self.config.doc_to_choice, doc)

    def choices(self, spec: FieldSpec, doc: Doc) -> list[str]:
        """The choices as a list of texts; anything else is an error."""
        try:
            value = choice_list(self.read(spec, doc, "doc_to_choice"))
        except DataError as error:
            raise error if error.where else self._bad_choices(error.what) from error
        if not isinstance(value, list | tuple):
            raise self._bad_choices(f"expected a list of choices, got {shorten(value)}")
        if not value:
            raise self._bad_choices("the list of choices is empty")
        for choice in value:
            if not isinstance(choice, str | int | float):
                raise self._bad_choices(f"a choice is {shorten(choice)}, not text or a number")
        return [choice if isinstance(choice, str) else str(choice) for choice in value]

    def raw_choices(self, doc: Doc) -> list[str]:
        """The choices as the task gives them, whatever its format does with them."""
        return self.choices(self.config.mapping.choices, doc)

    def check(self, doc: Doc) -> None:
        """Check what a format renders before it renders it: a string would pass for a list of letters."""
        if self.config.format is None:
            return
        question = self.config.mapping.question
        if isinstance(question, str) and self.read(question, doc, "doc_to_text") is None:
            raise self._null_question()
        choices = [] if self.config.mapping.choices is None else self.raw_choices(doc)
        if self.config.recovered is not None and self._checked < _CHECKED:
            self._checked += 1
            self._check_raw(doc, choices)

    def _check_raw(self, doc: Doc, choices: list[str]) -> None:
        """Refuse a question that turns out to be a prompt, or an index, once a document is there."""
        question = self.read(self.config.mapping.question, doc, "doc_to_text")
        hint = (
            "run the task without a format, or give formats:, doc_to_text and doc_to_choice in a file that includes it"
        )
        if isinstance(question, list | int | float):
            what = f"doc_to_text gives {shorten(question, 40)}, not a question"
            raise ConfigError(what, where=self.config.where("doc_to_text"), hint=hint)
        found = problem(str(question), choices)
        if found is not None:
            what = f"a format would wrap a prompt twice: {found}"
            raise ConfigError(what, where=self.config.where("doc_to_text"), hint=hint)

    def _null_question(self) -> DataError:
        hint = "drop the document in process_docs, or name another column"
        return DataError("the question is null", where=self.config.where("doc_to_text"), hint=hint)

    def _bad_choices(self, what: str) -> DataError:
        hint = "name the column that holds the list, e.g. doc_to_choice: choices"
        return DataError(what, where=self.config.where("doc_to_choice"), hint=hint)

    def _blamed(self, error: MultiformError, doc: Doc, key: str) -> MultiformError:
        """The error at the field of the task that causes it, where a format's template holds several."""
        mapping = self.config.mapping
        parts = {"doc_to_text": mapping.question, "doc_to_choice": mapping.choices, "doc_to_target": mapping.answer}
        if self.config.format is not None:
            for name, spec in parts.items():
                try:
                    Field.of(spec).read(doc)
                except MultiformError as cause:
                    return self._at(cause, name)
            choices = [] if mapping.choices is None else self.raw_choices(doc)
            found = part_at_fault(self.config.format, doc, choices)
            if found is not None:
                return self._at(found[1], *self.config.format_key(found[0]))
        return self._at(error, key)

    def _at(self, error: MultiformError, *key: str) -> MultiformError:
        what = error.what
        if what.startswith("no column") and self.config.dataset_path:
            what = f"{what} in {self.config.dataset_path}"
        return type(error)(what, where=self.config.where(*key), hint=error.hint)


@contextmanager
def placing(place: str) -> Iterator[None]:
    """Adds a place, such as the document, to the errors of a block."""
    try:
        yield
    except (DataError, ConfigError) as error:
        where = f"{error.where}: {place}" if error.where else place
        raise type(error)(error.what, where=where, hint=error.hint) from error

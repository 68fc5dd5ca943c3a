"""Which part of a format is at fault when its template fails on a document."""

from __future__ import annotations

from collections.abc import Sequence

from multiform.answers import label_list
from multiform.errors import MultiformError
from multiform.fields import Doc, Field
from multiform.formats import FormatConfig
from multiform.jinja import has_markup

#: The texts of a format that may be templates, in the order in which a prompt has them.
_TEXTS = ("instruction", "question_prefix", "question_suffix", "choices_prefix", "answer_instruction", "answer_prompt")


def part_at_fault(form: FormatConfig, doc: Doc, choices: Sequence[str]) -> tuple[str, MultiformError] | None:
    """The first field of the format that fails by itself, with its error; None where none does."""
    labels: list[str] = []
    if form.choice_labels is not None and choices:
        try:
            labels = label_list(len(choices), form.choice_labels)
        except MultiformError as error:
            return "choice_labels", error
    known = {"_num_choices": len(choices), "_choice_labels": labels, "_choice_list_and": "", "_choice_list_or": ""}
    for name in _TEXTS:
        text = getattr(form, name, None)
        if isinstance(text, str) and has_markup(text):
            try:
                Field.text(text).read({**doc, **known})
            except MultiformError as error:
                return name, error
    return None

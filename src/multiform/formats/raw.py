"""Tells a raw field mapping from one that is a prompt already, so that no format wraps a prompt twice."""

from __future__ import annotations

import re

from multiform.errors import ConfigError
from multiform.formats.base import FormatConfig
from multiform.formats.compile import FieldMapping
from multiform.jinja import has_markup, literal_text
from multiform.labels import label_list

_OPENING = re.compile(r"^\s*(question|q|problem)\s*:", re.IGNORECASE)
_CUE = re.compile(r"(^|\n)\s*(the\s+)?(best\s+|final\s+|correct\s+)?(answer|a|response|output)(\s+is)?\s*:?\s*$", re.I)
_LABEL = re.compile(r"(^|\n)\s*[\[(]?([A-Ja-j]|[1-9])[\].):]+\s*$")


def check_raw(form: FormatConfig, mapping: FieldMapping) -> None:
    """Refuse a mapping whose question is a whole prompt, or whose choices are bare labels."""
    reason = prompt_in_question(mapping.question)
    # What the format puts nothing before may begin as it likes.
    if reason and not (reason.startswith("it begins") and not form.question_prefix.strip()):
        raise ConfigError(
            f"doc_to_text is a prompt already ({reason}); a format would wrap it twice",
            hint='give the bare question, e.g. doc_to_text: question or "{{question}}", and let the format do the rest',
        )
    if form.needs_choices and choices_are_labels(mapping.choices):
        raise ConfigError(
            "doc_to_choice holds the labels of the choices, not the choices",
            hint="give the choices' texts, e.g. doc_to_choice: choices; the format adds the labels",
        )


def prompt_in_question(question: object) -> str | None:
    """What shows that a question template is a prompt already, or None.

    >>> prompt_in_question("Question: {{question}}\\nAnswer:")
    "it ends in 'Answer:'"
    >>> prompt_in_question("{{passage}}\\n{{question}}") is None
    True
    """
    if not isinstance(question, str) or not has_markup(question):
        return None
    pieces = literal_text(question)
    last = pieces[-1] if pieces else ""
    if last.strip() and _CUE.search(last):
        return f"it ends in {last.strip()!r}"
    if any(_LABEL.search(piece) for piece in pieces[:-1]):
        return "it enumerates choices"
    if pieces and _OPENING.match(pieces[0]):
        return f"it begins with {pieces[0].strip()!r}"
    return None


def choices_are_labels(choices: object) -> bool:
    """Whether the choices are a literal list of labels such as A, B, C, D."""
    if not isinstance(choices, list) or len(choices) < 2:
        return False
    bare = [str(choice).strip().strip("().").upper() for choice in choices]
    return bare in (label_list(len(bare)), label_list(len(bare), "numbers"))

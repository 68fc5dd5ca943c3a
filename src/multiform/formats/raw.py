"""Checks that a field mapping is raw: a bare question and the choices' texts, not a finished prompt."""

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


def check_raw(format: FormatConfig, mapping: FieldMapping) -> None:
    """Raise a ConfigError for a mapping whose question is a whole prompt, or whose choices are bare labels."""
    # A question may begin with "Question:" where the format puts nothing before it.
    reason = prompt_in_question(mapping.question, any_opening=not format.question_prefix.strip())
    if reason is not None:
        raise ConfigError(
            f"doc_to_text is a prompt already ({reason}); a format would wrap it twice",
            hint='give the bare question, e.g. doc_to_text: question or "{{question}}", and let the format do the rest',
        )
    if format.needs_choices and choices_are_labels(mapping.choices):
        raise ConfigError(
            "doc_to_choice holds the labels of the choices, not the choices",
            hint="give the choices' texts, e.g. doc_to_choice: choices; the format adds the labels",
        )


def prompt_in_question(question: object, *, any_opening: bool = False) -> str | None:
    """What shows that a question template is a whole prompt, or None where it seems to be a bare question.

    With `any_opening`, a question may begin with a label such as ``Question:``.

    >>> prompt_in_question("Question: {{question}}\\nAnswer:")
    "it ends in 'Answer:'"
    >>> prompt_in_question("{{passage}}\\n{{question}}") is None
    True
    """
    if not isinstance(question, str) or not has_markup(question):
        return None
    literals = literal_text(question)
    last = literals[-1] if literals else ""
    if last.strip() and _CUE.search(last):
        return f"it ends in {last.strip()!r}"
    if any(_LABEL.search(literal) for literal in literals[:-1]):
        return "it enumerates choices"
    if literals and not any_opening and _OPENING.match(literals[0]):
        return f"it begins with {literals[0].strip()!r}"
    return None


def choices_are_labels(choices: object) -> bool:
    """Whether the choices are a literal list of labels such as A, B, C, D."""
    if not isinstance(choices, list) or len(choices) < 2:
        return False
    bare = [str(choice).strip().strip("().").upper() for choice in choices]
    return bare in (label_list(len(bare)), label_list(len(bare), "numbers"))

"""What a format works on where a task was written without formats: the raw mapping behind its prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from multiform.fields import FieldSpec
from multiform.formats import FieldMapping
from multiform.formats.infer import Prompt, Recovered, Refused, infer


def recovered(prompt: FieldMapping, *, output_type: str, processed: bool, needs_choices: bool) -> Recovered:
    """The raw mapping behind a task's fields; a ConfigError names the field that stands in the way."""
    made = _prompt(prompt.question, prompt.choices, prompt.answer, output_type, processed)
    found = infer(replace(made, needs_choices=needs_choices))
    if isinstance(found, Refused):
        raise found.error()
    return found


def inferred(data: Mapping[str, Any]) -> Recovered | Refused:
    """The same for a task file that is read but not loaded: what its code does is not asked."""
    text, choices, target = (data.get(key) for key in ("doc_to_text", "doc_to_choice", "doc_to_target"))
    output_type = str(data.get("output_type", "generate_until"))
    return infer(_prompt(text, choices, target, output_type, data.get("process_docs") is not None))


def _prompt(text: FieldSpec, choices: FieldSpec, target: FieldSpec, output_type: str, processed: bool) -> Prompt:
    return Prompt(
        text=text, choices=choices, target=target, ranks=output_type == "multiple_choice", processed=processed
    )

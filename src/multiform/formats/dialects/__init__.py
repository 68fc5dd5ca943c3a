"""The other dialects of formats: `template:` and the stylers of Python tasks, both translated to `FormatConfig`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from multiform.errors import ConfigError, nearest
from multiform.formats.base import FormatConfig, formats


def overlay_fields(dialect_fields: Mapping[str, Any], format_fields: Mapping[str, Any], *, name: str) -> FormatConfig:
    """A format from the fields that a dialect sets, overridden by fields of the format itself.

    `type` among `format_fields` is the registered format whose class is used; `name` is for error messages.
    """
    kind = format_class(format_fields.get("type"))
    changes = {key: value for key, value in format_fields.items() if key != "type"}
    known = [field.name for field in fields(kind)]
    for key in changes:
        if key not in known:
            message = f"unknown key '{key}' in the format of {name}"
            raise ConfigError(message, where="format", hint=nearest(str(key), known))
    try:
        return kind(**{**dialect_fields, **changes})
    except ConfigError as error:
        if error.where not in changes:
            raise
        raise error.relocate(f"format.{error.where}") from error


def unexpressed_fields(
    format: FormatConfig, dialect_fields: Mapping[str, Any], *, name: str
) -> tuple[dict[str, Any], list[str]]:
    """The fields of a format that a dialect's fields do not express, and messages about what cannot be expressed.

    >>> from multiform.formats import ClozeFormat
    >>> format = ClozeFormat(question_prefix="Q: ", answer_prompt="A:")
    >>> unexpressed_fields(format, {"answer_prompt": "A:"}, name="a doctest")
    ({'type': 'cloze', 'question_prefix': 'Q: '}, [])
    """

    lost: list[str] = []
    kind: dict[str, Any] = {}
    if type(format) is not FormatConfig:
        label = format.format_name
        if label in formats and formats.get(label) is type(format):
            kind = {"type": label}
        else:
            lost.append(
                f"the class {type(format).__name__} is not registered: its code (such as `until`) is left behind"
            )
    expressed = overlay_fields(dialect_fields, kind, name=name)
    values, known = format.to_dict(), {"language": None, **expressed.to_dict()}
    for key in values.keys() - known.keys():
        lost.append(f"{key} is a field of {type(format).__name__} alone")
    more = {key: value for key, value in values.items() if key in known and value != known[key]}
    return {**kind, **more}, lost


def format_class(name: Any) -> type[FormatConfig]:
    """The class of a registered format; FormatConfig where the name is None."""

    if name is None:
        return FormatConfig
    if not isinstance(name, str) or name not in formats:
        hint = nearest(str(name), formats, listed="formats")
        raise ConfigError(f"unknown format '{name}'", where="format.type", hint=hint)
    entry: Any = formats.get(name)
    return entry if isinstance(entry, type) else type(entry())

"""The names by which other dialects know formats, and what a dialect's own words leave unsaid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from multiform.errors import ConfigError, nearest
from multiform.registry import Registry

if TYPE_CHECKING:
    from multiform.formats.base import FormatConfig

#: Gives the format of a name, with some of the dialect's own fields or of the format's changed.
Dialect = Callable[[Mapping[str, Any]], "FormatConfig"]

#: Asked after the registered formats, and never part of ``@all``.
dialect_names: Registry[Dialect] = Registry("style")


def overlaid(own: Mapping[str, Any], given: Mapping[str, Any], *, name: str) -> FormatConfig:
    """The format that a dialect's own words say, with the fields that only a format can say laid over it.

    `type` among them names the registered format whose class it is.
    """
    from dataclasses import fields

    kind = format_class(given.get("type"))
    changes = {key: value for key, value in given.items() if key != "type"}
    known = [field.name for field in fields(kind)]
    for key in changes:
        if key not in known:
            what = f"unknown key '{key}' in the format of {name}"
            raise ConfigError(what, where="format", hint=nearest(str(key), known))
    try:
        return kind(**{**own, **changes})
    except ConfigError as error:
        if error.where not in changes:
            raise
        raise error.moved(f"format.{error.where}") from error


def unsaid(form: FormatConfig, own: Mapping[str, Any], *, name: str) -> tuple[dict[str, Any], list[str]]:
    """The fields of a format that a dialect's own words do not say, and what cannot be said at all.

    >>> from multiform.formats import ClozeFormat
    >>> unsaid(ClozeFormat(question_prefix="Q: ", answer_prompt="A:"), {"answer_prompt": "A:"}, name="a doctest")
    ({'type': 'cloze', 'question_prefix': 'Q: '}, [])
    """
    from multiform.formats.base import FormatConfig, formats

    lost: list[str] = []
    kind: dict[str, Any] = {}
    if type(form) is not FormatConfig:
        label = form.format_name
        if label in formats and formats.get(label) is type(form):
            kind = {"type": label}
        else:
            lost.append(f"the class {type(form).__name__} is not registered: its code (such as `until`) is left behind")
    said = overlaid(own, kind, name=name)
    fields, known = form.to_dict(), said.to_dict()
    for key in fields.keys() - known.keys():
        lost.append(f"{key} is a field of {type(form).__name__} alone")
    more = {key: value for key, value in fields.items() if key in known and value != known[key]}
    return {**kind, **more}, lost


def format_class(name: Any) -> type[FormatConfig]:
    """The class of a registered format; the base class where no name is given."""
    from multiform.formats.base import FormatConfig, formats

    if name is None:
        return FormatConfig
    if not isinstance(name, str) or name not in formats:
        hint = nearest(str(name), formats, listed="formats")
        raise ConfigError(f"unknown format '{name}'", where="format.type", hint=hint)
    entry: Any = formats.get(name)
    return entry if isinstance(entry, type) else type(entry())

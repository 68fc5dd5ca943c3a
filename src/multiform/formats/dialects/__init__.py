"""The other dialects of formats: `template:` and the stylers of Python tasks, both translated to `FormatConfig`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any

from typing_extensions import Self

from multiform.errors import ConfigError, nearest
from multiform.formats.base import FormatConfig, formats


class FormatDialect(ABC):
    """A format as a template or styler writes it; `format` has fields of the format that its own arguments lack.

    `type` among these is the registered format whose class is used.

    >>> from multiform.formats import ClozeFormat, ClozeStyle
    >>> ClozeStyle.from_format(ClozeFormat(question_prefix="Q: ", fewshot_delimiter="|"))[0].format["fewshot_delimiter"]
    '|'
    """

    format: dict[str, Any]

    @abstractmethod
    def own_fields(self) -> dict[str, Any]:
        """The fields of the format that follow from the arguments."""

    @classmethod
    @abstractmethod
    def words(cls, format: FormatConfig) -> dict[str, Any]:
        """The arguments for a format, as far as they can express it."""

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """The arguments that construct the object, without default values."""

    @classmethod
    def _title(cls) -> str:
        """The name of the class in messages."""
        return cls.__name__

    def as_format(self) -> FormatConfig:
        """The format of the arguments, whether a subclass overrides methods or not."""
        return self._overlay(self.format)

    def _overlay(self, format_fields: dict[str, Any]) -> FormatConfig:
        """The format of the own fields, overridden by others."""
        kind = _format_class(format_fields.get("type"))
        changes = {key: value for key, value in format_fields.items() if key != "type"}
        known = [field.name for field in fields(kind)]
        for key in changes:
            if key not in known:
                message = f"unknown key '{key}' in the format of {self._title()}"
                raise ConfigError(message, where="format", hint=nearest(str(key), known))
        try:
            return kind(**{**self.own_fields(), **changes})
        except ConfigError as error:
            if error.where not in changes:
                raise
            raise error.relocate(f"format.{error.where}") from error

    @classmethod
    def from_format(cls, format: FormatConfig) -> tuple[Self, list[str]]:
        """The template or styler for a format, and messages about what of the format it cannot express."""
        lost: list[str] = []
        kind: dict[str, Any] = {}
        name = format.format_name
        if name in formats and formats.get(name) is type(format):
            kind = {"type": name}
        elif type(format) is not FormatConfig:
            lost.append(
                f"the class {type(format).__name__} is not registered: its code (such as `until`) is left behind"
            )
        words = cls.words(format)
        values, known = format.to_dict(), {"language": None, **cls(**words)._overlay(kind).to_dict()}
        for key in values.keys() - known.keys():
            lost.append(f"{key} is a field of {type(format).__name__} alone")
        more = {key: value for key, value in values.items() if key in known and value != known[key]}
        return cls(**words, format={**kind, **more}), lost  # type: ignore[call-arg]


def _format_class(name: Any) -> type[FormatConfig]:
    """The class of a registered format; FormatConfig if the name is None."""
    if name is None:
        return FormatConfig
    if not isinstance(name, str) or name not in formats:
        hint = nearest(str(name), formats, listed="formats")
        raise ConfigError(f"unknown format '{name}'", where="format.type", hint=hint)
    entry: Any = formats.get(name)
    return entry if isinstance(entry, type) else type(entry())

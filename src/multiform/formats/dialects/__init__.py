"""The dialects of formats: `formats:`, and `template:` and the stylers of Python tasks, which are translated to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from typing_extensions import Self

from multiform.errors import ConfigError, check_keys, nearest
from multiform.formats.base import FormatConfig, formats

DialectName = Literal["formats", "template", "style"]
DIALECTS: tuple[DialectName, ...] = get_args(DialectName)
#: The registered format that a format without a name is a variant of.
_NEAREST = {"labels": "mcqa", "texts": "cloze", "gold": "bpb", "generation": "generate"}


class FormatDialect(ABC):
    """A format as a template or styler writes it; `format` has fields of the format that its own arguments lack.

    `type` among these is the registered format whose class is used.

    >>> from multiform import ClozeFormat, ClozeStyle
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

    def arguments(self) -> dict[str, Any]:
        """The arguments that construct the object, without default values."""
        default = vars(type(self)())
        return {name: value for name, value in vars(self).items() if name in default and value != default[name]}

    @abstractmethod
    def _task_key(self) -> tuple[str, dict[str, Any]]:
        """The key of a task file that it is written under, and what names its class there."""

    @classmethod
    def _title(cls) -> str:
        """The name of the class in messages."""
        return cls.__name__

    def as_format(self) -> FormatConfig:
        """The format of the arguments, whether a subclass overrides methods or not."""
        return self._overlay(self.format)

    def _overlay(self, format_fields: dict[str, Any]) -> FormatConfig:
        """The format of the own fields, overridden by others."""
        format_class = _format_class(format_fields.get("type"))
        changes = {key: value for key, value in format_fields.items() if key != "type"}
        known = [field.name for field in fields(format_class)]
        check_keys(changes, known, f" in the format of {self._title()}", where="format")
        try:
            return format_class(**{**self.own_fields(), **changes})
        except ConfigError as error:
            if error.where not in changes:
                raise
            raise error.relocate(f"format.{error.where}") from error

    @classmethod
    def from_format(cls, format: FormatConfig) -> tuple[Self, list[str]]:
        """The template or styler for a format, and messages about what of the format it cannot express."""
        named = {"type": format.format_name} if _is_registered(format) else {}
        words = cls.words(format)
        changed, lost = _changes(format, cls(**words)._overlay(named))
        return cls(**words, format={**named, **changed}), lost  # type: ignore[call-arg]


def _is_registered(format: FormatConfig) -> bool:
    """Whether the class of a format is the one that its name stands for."""
    return format.format_name in formats and formats.get(format.format_name) is type(format)


def _changes(format: FormatConfig, base: FormatConfig) -> tuple[dict[str, Any], list[str]]:
    """The fields of a format that another one has otherwise, and messages about what the other one cannot have."""
    values, known = format.to_dict(), {"language": None, **base.to_dict()}  # it is left out if a format has none
    lost = []
    if not _is_registered(format) and type(format) is not FormatConfig:
        lost = [f"the class {type(format).__name__} is not registered: its code (such as `until`) is left behind"]
    lost += [f"{key} is a field of {type(format).__name__} alone" for key in values if key not in known]
    return {key: value for key, value in values.items() if key in known and value != known[key]}, lost


def _format_class(name: Any) -> type[FormatConfig]:
    """The class of a registered format; FormatConfig if the name is None."""
    if name is None:
        return FormatConfig
    if not isinstance(name, str) or name not in formats:
        hint = nearest(str(name), formats, listed="formats")
        raise ConfigError(f"unknown format '{name}'", where="format.type", hint=hint)
    entry: Any = formats.get(name)
    return entry if isinstance(entry, type) else type(entry())


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFormat:
    """A format as one dialect writes it, and what differs from the format."""

    dialect: DialectName
    #: The key of a task file and its value.
    key: str
    value: Any
    #: The Python class and its arguments.
    class_name: str
    arguments: Mapping[str, Any]
    differences: tuple[str, ...] = ()

    def python(self) -> str:
        """The Python expression that constructs it.

        >>> write_format(FormatConfig.by_name("mcqa", {"question_prefix": "Q: "}), "formats").python()
        "MCQAFormat(question_prefix='Q: ')"
        """
        return f"{self.class_name}({', '.join(f'{key}={value!r}' for key, value in self.arguments.items())})"


#: The template or styler for a format, and what it cannot express; the modules of both add theirs.
translators: dict[DialectName, Callable[[FormatConfig], tuple[FormatDialect, list[str]]]] = {}


def write_format(format: FormatConfig, dialect: DialectName) -> WrittenFormat:
    """A format as a dialect writes it."""
    if dialect in translators:
        translated, lost = translators[dialect](format)
        (key, named), arguments, class_name = translated._task_key(), translated.arguments(), type(translated).__name__
        value: Any = {**named, **arguments}
    else:
        format_class = type(format) if _is_registered(format) else formats.get(_NEAREST[format.scored])
        arguments, lost = _changes(format, format_class())
        key, class_name, name = "formats", format_class.__name__, format_class.format_name
        value = {"type": name, **arguments} if arguments else name
    return WrittenFormat(
        dialect=dialect, key=key, value=value, class_name=class_name, arguments=arguments, differences=tuple(lost)
    )

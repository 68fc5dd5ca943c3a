"""The dialects of formats: `formats:`, and `template:` and the stylers of Python tasks, which are translated to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from typing_extensions import Self

from multiform.errors import ConfigError, nearest
from multiform.formats.base import FormatConfig, formats
from multiform.schema import check_keys

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

    #: The key of a task file that it is written under, and the key below it that names its class.
    _task_key: tuple[str, str]
    format: dict[str, Any]

    @abstractmethod
    def own_fields(self) -> dict[str, Any]:
        """The fields of the format that follow from the arguments."""

    @classmethod
    @abstractmethod
    def words(cls, format: FormatConfig) -> dict[str, Any]:
        """The arguments for a format, as far as they can express it."""

    @classmethod
    def _class_label(cls) -> str:
        """What a task file calls the class."""
        return cls.__name__

    def arguments(self) -> dict[str, Any]:
        """The arguments that construct the object, without default values."""
        default = vars(type(self)())
        return {name: value for name, value in vars(self).items() if name in default and value != default[name]}

    def as_format(self) -> FormatConfig:
        """The format of the arguments, whether a subclass overrides methods or not."""
        return self._overlay(self.format)

    def format_with(self, changes: Mapping[str, Any]) -> FormatConfig:
        """The format with other arguments, or other fields of the format."""
        more = {key: value for key, value in changes.items() if key not in vars(self)}
        check_keys(f"style '{self._class_label()}'", [*vars(self), *_field_names(self.format.get("type"))], more)
        arguments = {**vars(self), **{key: value for key, value in changes.items() if key not in more}}
        arguments["format"] = {**self.format, **(changes.get("format") or {}), **more}
        return type(self)(**arguments).as_format()

    def _overlay(self, format_fields: Mapping[str, Any]) -> FormatConfig:
        """The format of the own fields, overridden by others."""
        changes = dict(format_fields)
        name = changes.pop("type", None)
        check_keys(f"the format of '{self._class_label()}'", _field_names(name), changes, lambda key: "format")
        values = {**self.own_fields(), **changes}
        try:
            return FormatConfig(**values) if name is None else FormatConfig.by_name(name, values)
        except ConfigError as error:
            raise error.relocate(f"format.{error.where}" if error.where in changes else error.where) from error

    @classmethod
    def from_format(cls, format: FormatConfig) -> tuple[Self, list[str]]:
        """The template or styler for a format, and messages about what of the format it cannot express."""
        named = {"type": format.format_name} if _is_registered(format) else {}
        words = cls.words(format)
        changed, lost = _changes(format, cls(**words)._overlay(named))
        return cls(**words, format={**named, **changed}), lost  # type: ignore[call-arg]


def _field_names(name: Any) -> list[str]:
    """The fields of a registered format; those of every format if the name is None."""
    if name is not None and str(name) not in formats:
        hint = nearest(str(name), formats, listed="formats")
        raise ConfigError(f"unknown format '{name}'", where="format.type", hint=hint)
    return [field.name for field in fields(FormatConfig if name is None else FormatConfig.by_name(name))]


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
        (key, named), arguments, class_name = translated._task_key, translated.arguments(), type(translated).__name__
        value: Any = {named: translated._class_label(), **arguments}
    else:
        format_class = type(format) if _is_registered(format) else formats.get(_NEAREST[format.scored])
        arguments, lost = _changes(format, format_class())
        key, class_name, name = "formats", format_class.__name__, format_class.format_name
        value = {"type": name, **arguments} if arguments else name
    return WrittenFormat(
        dialect=dialect, key=key, value=value, class_name=class_name, arguments=arguments, differences=tuple(lost)
    )

"""Convert a format to each dialect: `formats:`, `template:` and styler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from multiform.formats.base import FormatConfig, formats
from multiform.formats.dialects.styler import style_from
from multiform.formats.dialects.template_factory import template_from

DialectName = Literal["formats", "template", "style"]
DIALECTS: tuple[DialectName, ...] = get_args(DialectName)
#: The registered format that a format without a name is a variant of.
_NEAREST = {"labels": "mcqa", "texts": "cloze", "gold": "bpb", "generation": "generate"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFormat:
    """A format as one dialect writes it, and what differs from the format."""

    dialect: DialectName
    #: The key of a task file and its value.
    key: str
    value: Any
    #: The Python class and its arguments.
    kind: str
    arguments: Mapping[str, Any]
    differences: tuple[str, ...] = ()

    def python(self) -> str:
        """The Python expression that constructs it.

        >>> write_format(FormatConfig.by_name("mcqa", {"question_prefix": "Q: "}), "formats").python()
        "MCQAFormat(question_prefix='Q: ')"
        """
        return f"{self.kind}({', '.join(f'{key}={value!r}' for key, value in self.arguments.items())})"


def write_format(format: FormatConfig, dialect: DialectName) -> WrittenFormat:
    """A format as a dialect writes it."""
    if dialect == "formats":
        return _as_format(format)
    if dialect == "template":
        template, lost = template_from(format)
        arguments, kind = template.arguments(), type(template).__name__
        key, value = "template", {"template_type": template.template_type, **arguments}
    else:
        styler, lost = style_from(format)
        arguments, kind = styler.arguments(), type(styler).__name__
        key, value = "formats", {"type": kind, **arguments}
    return WrittenFormat(dialect=dialect, key=key, value=value, kind=kind, arguments=arguments, differences=(*lost,))


def _as_format(format: FormatConfig) -> WrittenFormat:
    lost: list[str] = []
    name = format.format_name
    if name not in formats or formats.get(name) is not type(format):
        name = _NEAREST[format.scored]
        if type(format) is not FormatConfig:
            lost.append(
                f"the class {type(format).__name__} is not registered: its code (such as `until`) is left behind"
            )
    kind = formats.get(name)
    default = {**kind().to_dict(), "language": None}  # which is left out if a format has none
    changed = {key: value for key, value in format.to_dict().items() if key in default and value != default[key]}
    lost += [
        f"{field.name} is a field of {type(format).__name__} alone"
        for field in fields(format)
        if field.name not in default
    ]
    value: Any = {"type": name, **changed} if changed else name
    return WrittenFormat(
        dialect="formats", key="formats", value=value, kind=kind.__name__, arguments=changed, differences=tuple(lost)
    )

"""One format in the words of each dialect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from multiform.formats.base import FormatConfig, formats
from multiform.formats.dialects.builtin_stylers import style_arguments, style_from
from multiform.formats.dialects.template_factory import template_from

DialectName = Literal["formats", "template", "style"]
DIALECTS: tuple[DialectName, ...] = get_args(DialectName)
#: The registered format that a format without a name is a variant of.
_NEAREST = {"labels": "mcqa", "texts": "cloze", "gold": "bpb", "generation": "generate"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A format as one dialect writes it, and where that is not the same."""

    dialect: DialectName
    #: The key of a task file under which it stands, and what stands there.
    key: str
    value: Any
    #: The class that makes it, and the arguments.
    kind: str
    arguments: Mapping[str, Any]
    differences: tuple[str, ...] = ()

    def python(self) -> str:
        """The Python expression that makes it.

        >>> written(FormatConfig.named("mcqa", {"question_prefix": "Q: "}), "formats").python()
        "MCQAFormat(question_prefix='Q: ')"
        """
        return f"{self.kind}({', '.join(f'{key}={value!r}' for key, value in self.arguments.items())})"


def written(form: FormatConfig, dialect: DialectName) -> Written:
    """The format in the words of a dialect."""
    if dialect == "template":
        template, lost = template_from(form)
        brief = template.brief()
        arguments = {key: value for key, value in brief.items() if key != "template_type"}
        kind = type(template).__name__
        return Written(
            dialect=dialect, key="template", value=brief, kind=kind, arguments=arguments, differences=(*lost,)
        )
    if dialect == "style":
        styler, lost = style_from(form)
        kind, arguments = type(styler).__name__, style_arguments(styler)
        value = {"type": kind, **arguments}
        return Written(
            dialect=dialect, key="formats", value=value, kind=kind, arguments=arguments, differences=(*lost,)
        )
    return _as_format(form)


def _as_format(form: FormatConfig) -> Written:
    lost: list[str] = []
    name = form.format_name
    if name not in formats or formats.get(name) is not type(form):
        name = _NEAREST[form.scored]
        if type(form) is not FormatConfig:
            lost.append(f"the class {type(form).__name__} is not registered: its code (such as `until`) is left behind")
    kind = formats.get(name)
    default = kind().to_dict()
    changed = {key: value for key, value in form.to_dict().items() if key in default and value != default[key]}
    lost += [f"{one.name} is a field of {type(form).__name__} alone" for one in fields(form) if one.name not in default]
    value: Any = {"type": name, **changed} if changed else name
    return Written(
        dialect="formats", key="formats", value=value, kind=kind.__name__, arguments=changed, differences=tuple(lost)
    )

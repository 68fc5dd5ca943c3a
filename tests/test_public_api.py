"""The public API, with signatures, as one readable text: `golden/public_api.txt`.

A change of the text is a change that users see, and belongs in the changelog. To write it again::

    make golden
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import types
from collections.abc import Iterator
from dataclasses import is_dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import pydantic
from typing_extensions import is_typeddict

import multiform

GOLDEN = Path(__file__).parent / "golden" / "public_api.txt"
#: Methods of a BaseTask that begin with an underscore and are yet there to be overridden, as the documentation says.
HOOKS = re.compile("_(get|load|sample|create|shuffle)_")
WIDTH = 120


class Bare:
    """An annotation that is printed as it is written."""

    def __init__(self, annotation: object) -> None:
        text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
        self.text = re.sub(r"~|\b(typing|collections\.abc|multiform(\.\w+)*)\.", "", text)

    def __repr__(self) -> str:
        return self.text


def signature(name: str, function: Any) -> str:
    """A function with its parameters, one on each line where they do not fit on one."""
    described = inspect.signature(function)
    empty = inspect.Signature.empty
    parameters = [
        parameter if parameter.annotation is empty else parameter.replace(annotation=Bare(parameter.annotation))
        for parameter in described.parameters.values()
    ]
    result = described.return_annotation
    arrow = "" if result is empty else f" -> {Bare(result)!r}"
    line = f"{name}{stable(inspect.Signature(parameters))}{arrow}"
    if len(line) <= WIDTH:
        return line
    names = [stable(parameter) for parameter in parameters]
    first_keyword = next((i for i, p in enumerate(parameters) if p.kind is p.KEYWORD_ONLY), None)
    if first_keyword is not None and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        names.insert(first_keyword, "*")
    return "\n".join([f"{name}(", *(f"    {one}," for one in names), f"){arrow}"])


def stable(value: object) -> str:
    """A signature or parameter in words that are the same in every process: no addresses, and sets sorted."""
    text = re.sub(" at 0x[0-9a-f]+", "", str(value))
    return re.sub(r"(?<=frozenset\(\{)[^}]*", lambda match: ", ".join(sorted(match[0].split(", "))), text)


def class_text(name: str, cls: type) -> str:
    bases = [base.__name__ for base in cls.__mro__[1:] if is_public(base) or base in (Exception, Enum)]
    head = f"class {name}({bases[0]})" if bases else f"class {name}"
    return "\n".join([head, *("    " + line for part in parts(cls) for line in part.splitlines())])


def is_public(cls: type) -> bool:
    return getattr(multiform, cls.__name__, None) is cls


def parts(cls: type) -> Iterator[str]:
    """How a class is made, and its public attributes: its own, and those that it has of bases that are not public."""
    if issubclass(cls, Enum):
        yield from (f"{name} = {member.value!r}" for name, member in cls.__members__.items())
    elif is_typeddict(cls):
        yield from (f"{key}: {Bare(kind)!r}" for key, kind in get_type_hints(cls).items())
    elif issubclass(cls, pydantic.BaseModel):
        yield from (f"{key}: {Bare(info.annotation)!r}" for key, info in cls.model_fields.items())
    elif getattr(cls, "_is_protocol", False):
        pass
    elif is_dataclass(cls) or any("__init__" in vars(base) for base in owners(cls)):
        yield signature("__init__", cls.__init__)
    attributes: dict[str, Any] = {}
    for base in reversed(owners(cls)):
        attributes |= vars(base)
    for name, value in sorted(attributes.items()):
        hook = cls is multiform.BaseTask and HOOKS.match(name + "_")
        if (not name.startswith("_") or hook) and name not in getattr(cls, "__dataclass_fields__", ()):
            yield from member(cls, name, value)


def owners(cls: type) -> list[type]:
    """The class, and its bases that are neither public nor from elsewhere, nor bases of a public one."""
    public = {base for other in cls.__mro__[1:] if is_public(other) for base in other.__mro__}
    own = [base for base in cls.__mro__[1:] if base.__module__.startswith("multiform.") and base not in public]
    return [cls, *own]


def member(cls: type, name: str, value: Any) -> Iterator[str]:
    if isinstance(value, classmethod | staticmethod):
        yield signature(f"{type(value).__name__} {name}", getattr(cls, name))
    elif isinstance(value, property):
        result = inspect.signature(value.fget).return_annotation if value.fget else "Any"
        yield f"property {name}: {Bare(result)!r}"
    elif isinstance(value, functools.cached_property):
        yield f"property {name}: {Bare(inspect.signature(value.func).return_annotation)!r}"
    elif inspect.isfunction(value):
        yield signature(name, value)


def kind_text(name: str, value: Any) -> str:
    if inspect.isclass(value) and not isinstance(value, types.GenericAlias):
        return class_text(name, value)
    if inspect.ismodule(value):
        public = {key: function for key, function in vars(value).items() if inspect.isfunction(function)}
        own = [key for key, function in public.items() if function.__module__ == value.__name__ and key[0] != "_"]
        return "\n".join([f"module {name}", *(f"    {signature('def ' + key, public[key])}" for key in sorted(own))])
    if inspect.isroutine(value):
        return signature(f"def {name}", value)
    return f"type {name} = {Bare(value)!r}"


def public_api() -> str:
    return "\n\n".join(kind_text(name, getattr(multiform, name)) for name in multiform.__all__) + "\n"


def test_the_public_api_is_what_the_golden_file_says() -> None:
    assert public_api() == GOLDEN.read_text(encoding="utf-8"), "if that is meant: make golden"


def test_every_public_name_is_the_one_that_its_module_defines_or_exports() -> None:
    """No module imports a public name by accident, and the table of modules lists every name."""
    tree = ast.parse(Path(multiform.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    homes = {name.name: str(node.module) for node in imports for name in node.names}
    assert sorted(homes) == sorted(multiform.__all__)
    own = {name: home for name, home in homes.items() if home != "multiform"}
    assert all(getattr(multiform, name) is getattr(import_module(home), name) for name, home in own.items())


def test_every_public_class_and_function_says_what_it_is() -> None:
    objects = {name: getattr(multiform, name) for name in multiform.__all__}
    own = {name: value for name, value in objects.items() if getattr(value, "__module__", "").startswith("multiform")}
    assert [name for name, value in own.items() if not inspect.getdoc(value)] == []


def test_what_users_subclass_and_what_they_register_is_public() -> None:
    registers = {name.removeprefix("register_") for name in multiform.__all__ if name.startswith("register_")}
    kinds = {"aggregation", "filter", "format", "metric", "model", "reduction", "sampler", "scorer"}
    assert registers == kinds


if __name__ == "__main__":
    GOLDEN.write_text(public_api(), encoding="utf-8")

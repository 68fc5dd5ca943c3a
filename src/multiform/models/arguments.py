"""Checks of a model's arguments, before anything is loaded."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args, get_type_hints

from multiform.errors import UsageError, nearest, shorten

logger = logging.getLogger("multiform")

_WORDS: dict[Any, tuple[str, str]] = {
    bool: ("true or false", "true"),
    int: ("a whole number", "8"),
    float: ("a number", "0.5"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An argument that is not supported where `when` holds of its value, and what to do instead."""

    hint: str
    when: Callable[[Any], bool] = bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentRules:
    """How a model treats arguments that lm-eval has and its constructor does not.

    `renamed` maps lm-eval's names to ours. Arguments in `without_effect` change nothing, for the reason that is
    logged; those in `ignored` are dropped without a word, and those in `refused` are errors.
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    without_effect: Mapping[str, str] = field(default_factory=dict)
    ignored: Collection[str] = ()
    refused: Mapping[str, Refusal] = field(default_factory=dict)

    def resolve(
        self,
        arguments: Mapping[str, Any],
        accepted: Collection[str],
        *,
        suggestions: Collection[str] = (),
        where: str | None = None,
    ) -> dict[str, Any]:
        """Those of the arguments that are accepted, under their own names.

        Raises a UsageError for an unknown one, with the nearest among the accepted ones and the suggestions.
        """
        resolved: dict[str, Any] = {}
        for name, value in arguments.items():
            if name in self.refused:
                if self.refused[name].when(value):
                    hint = self.refused[name].hint
                    raise UsageError(f"the model argument '{name}' is not supported", hint=hint)
                if value and name in self.without_effect:
                    self._log(name)
            elif name in self.without_effect:
                self._log(name)
            elif name in self.ignored:
                continue
            elif (own_name := self.renamed.get(name, name)) in accepted:
                resolved.setdefault(own_name, value)
            else:
                known = dict.fromkeys([*suggestions, *accepted, *self.without_effect])
                hint = nearest(name, list(known), listed="arguments")
                raise UsageError(f"unknown model argument '{name}'", where=where, hint=hint)
        return resolved

    def _log(self, name: str) -> None:
        logger.info("the model argument '%s' changes nothing: %s", name, self.without_effect[name])


def argument_names(cls: type) -> list[str]:
    """The names of the arguments that the constructors of a class and its bases take."""
    names: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        if base is not object and (constructor := vars(base).get("__init__")):
            parameters = list(inspect.signature(constructor).parameters.values())[1:]
            names |= dict.fromkeys(each.name for each in parameters if each.kind is not each.VAR_KEYWORD)
    return list(names)


def check_arguments(factory: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Raise a UsageError for the first argument whose type is not that in the constructors of a class."""
    hints: dict[str, Any] = {}
    for cls in reversed(getattr(factory, "__mro__", ())):
        if cls is not object and (constructor := vars(cls).get("__init__")):
            with contextlib.suppress(NameError, TypeError):  # names that only a type checker imports
                hints |= get_type_hints(constructor)
    check_types(hints, arguments)


def check_types(hints: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Raise a UsageError for the first value that is neither null nor of its type; strings accept anything.

    >>> check_types({"max_length": int | None}, {"max_length": "long"})
    Traceback (most recent call last):
    multiform.errors.UsageError: 'max_length' must be a whole number, not 'long'; give e.g. max_length=8
    """
    for name, value in values.items():
        kinds = [kind for kind in get_args(hints.get(name)) or (hints.get(name),) if kind is not type(None)]
        if value is None or any(kind not in _WORDS or _is_a(value, kind) for kind in kinds):
            continue
        words = " or ".join(_WORDS[kind][0] for kind in kinds)
        hint = f"give e.g. {name}={_WORDS[kinds[0]][1]}"
        raise UsageError(f"'{name}' must be {words}, not {shorten(value)}", hint=hint)


def _is_a(value: Any, kind: type) -> bool:
    if kind is bool:
        return isinstance(value, bool) or value in (0, 1)
    return isinstance(value, (int, kind)) and not isinstance(value, bool)

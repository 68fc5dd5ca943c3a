"""One registry class for formats, models, metrics, filters, scorers and samplers.

An entry is an object, or a ``"module:attribute"`` string that is imported when it is first
asked for, so that listing what there is loads nothing heavy.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar, cast

from multiform.errors import UsageError, nearest

T = TypeVar("T")


class Registry(Generic[T]):
    """Names of one kind of thing, in the order in which they were registered."""

    def __init__(self, kind: str, lazy: Mapping[str, T | str] | None = None) -> None:
        self.kind = kind
        self._entries: dict[str, T | str] = dict(lazy or {})

    def register(self, *names: str) -> Callable[[T], T]:
        """A decorator that registers under one or more names; the last registration wins."""

        def decorate(entry: T) -> T:
            for name in names:
                self._entries[name] = entry
            return entry

        return decorate

    def get(self, name: str) -> T:
        if name not in self:
            hint = nearest(name, self, listed=f"{self.kind}s")
            raise UsageError(f"unknown {self.kind} '{name}'", hint=hint)
        entry = self._entries[name]
        if isinstance(entry, str):
            entry = cast(T, import_attribute(entry))
            self._entries[name] = entry
        return entry

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def import_attribute(path: str) -> Any:
    """The attribute that a "module:attribute" string names.

    >>> import_attribute("math:floor")(2.5)
    2
    """
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)

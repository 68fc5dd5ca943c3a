"""One registry class for formats, models, metrics, filters, scorers and samplers, and the plug-ins that add to it.

An entry is an object, or a ``"module:attribute"`` string that is imported when it is first
asked for, so that listing what there is loads nothing heavy. An installed package adds entries by entry points in its
``pyproject.toml``, each with the name under which its module registers it::

    [project.entry-points."multiform.metrics"]
    first_choice = "my_package.metrics:first_choice"

Entry points are read when a name is not a built-in one, or when names are listed; the module is imported then.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from multiform.errors import MultiformError, UsageError, nearest, reason

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

logger = logging.getLogger("multiform")


class Registry(Generic[T]):
    """Names of things of one sort, in the order in which they were registered.

    `group` is the group of entry points in which installed packages name more of them, and `raises` the class of the
    error for an unknown name.
    """

    def __init__(
        self,
        noun: str,
        lazy: Mapping[str, T | str] | None = None,
        *,
        group: str | None = None,
        raises: type[MultiformError] = UsageError,
    ) -> None:
        self.noun = noun
        self.group = group
        self.raises = raises
        self._entries: dict[str, T | str] = dict(lazy or {})
        #: Plug-ins whose import was tried.
        self._tried: set[str] = set()

    def register(self, *names: str) -> Callable[[T], T]:
        """A decorator that registers under one or more names; the last registration wins."""

        def decorate(entry: T) -> T:
            for name in names:
                self._entries[name] = entry
            return entry

        return decorate

    def get(self, name: str, *, where: str | None = None) -> T:
        """The entry of a name; an unknown one is an error at `where`."""
        if name not in self:
            hint = nearest(str(name), self, listed=f"{self.noun}s")
            raise self.raises(f"unknown {self.noun} '{name}'", where=where, hint=hint)
        if name not in self._entries:
            self._load_plugin(name)
        entry = self._entries[name]
        if isinstance(entry, str):
            entry = cast(T, import_attribute(entry))
            self._entries[name] = entry
        return entry

    def foreign_names(self) -> list[str]:
        """The names of entries that code outside of Multiform has registered, which other processes may not have."""
        return [name for name, entry in self._entries.items() if not isinstance(entry, str) and _is_foreign(entry)]

    def __contains__(self, name: object) -> bool:
        return name in self._entries or (self.group is not None and name in entry_points_of(self.group))

    def __iter__(self) -> Iterator[str]:
        self._load_plugins()
        return iter(self._entries)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _load_plugins(self) -> None:
        """Import all plug-ins; one that fails is left out, with a warning."""
        for name, point in entry_points_of(self.group).items() if self.group else ():
            if name in self._tried:
                continue
            try:
                if name not in self._entries:
                    self._load_plugin(name)
                elif point.module not in sys.modules or isinstance(self._entries[name], str):  # somebody else's
                    logger.warning(
                        "plug-in '%s' (%s) of %s is not used: there is a %s of that name",
                        *(name, self.group, package_of(point), self.noun),
                    )
            except UsageError as error:
                logger.warning("%s", error)
            self._tried.add(name)

    def _load_plugin(self, name: str) -> None:
        """Import the plug-in of that name, which registers itself."""
        point = entry_points_of(self.group or "")[name]
        try:
            point.load()
        except (Exception, SystemExit) as error:  # whatever the package raises while it is imported
            message = f"plug-in '{name}' ({self.group}) of {package_of(point)} cannot be imported: {reason(error)}"
            raise UsageError(message, hint=f"update or uninstall the package, or fix {point.module}") from error
        if name not in self._entries:
            message = f"plug-in '{name}' of {package_of(point)}: {point.module} registers no {self.noun} of that name"
            raise UsageError(message, hint="see multiform docs contributing, 'Add it to a package'")


def _is_foreign(entry: Any) -> bool:
    """Whether an entry, the function of a metric or that of a partial is defined outside of Multiform."""
    for attribute in ("fn", "func"):
        entry = getattr(entry, attribute, entry)
    return not str(getattr(entry, "__module__", None) or type(entry).__module__).startswith("multiform.")


def import_attribute(path: str) -> Any:
    """The attribute that a "module:attribute" string names.

    >>> import_attribute("math:floor")(2.5)
    2
    """
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)


@cache
def entry_points_of(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group, such as ``multiform.models``, by name; the first package that has a name wins."""
    from importlib.metadata import entry_points

    points: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        first = points.setdefault(point.name, point)
        if first.value != point.value:
            logger.warning(
                "plug-in '%s' (%s) of %s is not used: %s has one of that name",
                *(point.name, group, package_of(point), package_of(first)),
            )
    return points


def package_of(point: EntryPoint) -> str:
    """The name and version of the package that has an entry point."""
    return "an unknown package" if point.dist is None else f"{point.dist.name} {point.dist.version}"

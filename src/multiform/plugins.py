"""Plug-ins: what installed packages add to Multiform, by entry points.

A package names what it adds in its ``pyproject.toml``, by the name under which its module registers it::

    [project.entry-points."multiform.metrics"]
    first_choice = "my_package.metrics:first_choice"

Entry points are read when a name is not a built-in one, or when names are listed. A module is imported when one of its
names is used or listed.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, Any

from multiform.errors import UsageError, reason

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

logger = logging.getLogger("multiform")


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


def load_plugin(point: EntryPoint) -> Any:
    """Import what an entry point names; a UsageError says which package is broken, and why."""
    try:
        return point.load()
    except (Exception, SystemExit) as error:  # whatever the package raises while it is imported
        raise UsageError(
            f"plug-in '{point.name}' ({point.group}) of {package_of(point)} cannot be imported: {reason(error)}",
            hint=f"update or uninstall the package, or fix {point.module}",
        ) from error


def package_of(point: EntryPoint) -> str:
    """The name and version of the package that has an entry point."""
    return "an unknown package" if point.dist is None else f"{point.dist.name} {point.dist.version}"

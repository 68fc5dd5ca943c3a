"""The interface of an executor: units of work in, answers out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias

from multiform.requests import Output, Request

#: Requests of one kind that go to one model together, because they share prefixes: one list of all
#: that is asked, or the requests below one node of the prefix tree.
Unit: TypeAlias = Sequence[Request]


class Executor(Protocol):
    """Has units of work done, in any order and any place."""

    def run(self, units: Sequence[Unit]) -> Iterator[tuple[Request, Output]]:
        """Every request of every unit with its output, as soon as that is known."""

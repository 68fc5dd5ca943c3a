"""What is compared: the requests of a task's first documents in one setting. And where those of the sides differ."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from multiform.requests import resolved_names

LEAK = "lm-eval puts the evaluated document among its own examples, with its answer; Multiform draws another one"
FAILS = "lm-eval fails, and Multiform makes requests"
#: The parts of requests by their kind.
_PARTS = {
    "loglikelihood": ("kind", "context", "continuation"),
    "loglikelihood_rolling": ("kind", "text"),
    "generate_until": ("kind", "context", "gen_kwargs"),
}
#: Differences of single tasks that have a reason of their own, by name.
REASONS: dict[str, str] = {}


class Setting(NamedTuple):
    """How many examples a prompt has, and whether it goes through a chat template."""

    shots: int
    chat: bool

    def __str__(self) -> str:
        return f"{self.shots}-shot{', chat' if self.chat else ''}"


#: No examples and a few, plain and in a chat.
SETTINGS = tuple(Setting(shots, chat) for chat in (False, True) for shots in (0, 3))


@dataclass(frozen=True, slots=True)
class Built:
    """The requests of each document: kind, arguments, repeats; or why there are none.

    `leaked` are the documents that stand among their own examples, with their answer.
    """

    docs: list[list[Any]] = field(default_factory=list)
    leaked: list[int] = field(default_factory=list)
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A document whose requests are not the same, or a task that one side refuses."""

    setting: str
    doc: int | None
    what: str
    theirs: Any
    ours: Any
    #: Why this is as it should be; None where nobody knows.
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The comparison of one task in all settings."""

    task: str
    docs: int = 0
    requests: int = 0
    #: Settings in which neither side makes requests, with what lm-eval says.
    refused: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()

    @property
    def unexplained(self) -> list[Difference]:
        return [difference for difference in self.differences if difference.reason is None]


def compared(task: str, setting: Setting, theirs: Built, ours: Built) -> Compared:
    """Compare every request of every document."""
    if theirs.error and ours.error:
        return Compared(task=task, refused=(f"{setting}: {theirs.error}",))
    differences = list(_differences(task, str(setting), theirs, ours))
    requests = sum(map(len, theirs.docs))
    return Compared(task=task, docs=len(theirs.docs), requests=requests, differences=tuple(differences))


def together(parts: list[Compared]) -> Compared:
    """The comparisons of one task as one."""
    return Compared(
        task=parts[0].task,
        docs=sum(part.docs for part in parts),
        requests=sum(part.requests for part in parts),
        refused=tuple(text for part in parts for text in part.refused),
        differences=tuple(one for part in parts for one in part.differences),
    )


def _differences(task: str, setting: str, theirs: Built, ours: Built) -> Iterator[Difference]:
    reason = next((text for name, text in REASONS.items() if fnmatch.fnmatchcase(task, name)), None)
    if theirs.error:
        yield Difference(setting=setting, doc=None, what="lm-eval fails", theirs=theirs.error, ours=None, reason=FAILS)
        return
    if ours.error:
        what = "Multiform fails"
        yield Difference(setting=setting, doc=None, what=what, theirs=None, ours=ours.error, reason=reason)
        return
    if len(theirs.docs) != len(ours.docs):
        numbers = len(theirs.docs), len(ours.docs)
        yield Difference(setting=setting, doc=None, what="documents", theirs=numbers[0], ours=numbers[1], reason=reason)
    for doc, (expected, got) in enumerate(zip(theirs.docs, ours.docs, strict=False)):
        found = _first(expected, got)
        if found is not None:
            why = LEAK if doc in theirs.leaked else reason
            yield Difference(setting=setting, doc=doc, what=found[0], theirs=found[1], ours=found[2], reason=why)


def _first(expected: list[Any], got: list[Any]) -> tuple[str, Any, Any] | None:
    """What differs first between the requests of a document."""
    if len(expected) != len(got):
        return "number of requests", len(expected), len(got)
    for number, (theirs, ours) in enumerate(zip(expected, got, strict=True)):
        names = _PARTS.get(theirs[0], ("kind",))
        if len(theirs) != len(ours):
            return f"request {number}", theirs, ours
        for name, one, other in zip((*names, "repeats"), theirs, ours, strict=False):
            if name == "gen_kwargs" and isinstance(one, dict):
                one = resolved_names(one)  # max_new_tokens and its kin are max_gen_toks here
            if one != other or type(one) is not type(other):
                return f"request {number}: {name}", one, other
    return None

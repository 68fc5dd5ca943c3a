"""What is known about a value from how it is used, and a value that fits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Kind = Literal["text", "number", "digits", "letter", "list", "indexed", "mapping"]

#: Methods that tell what they are called on; those that a list or a mapping has as well tell nothing.
TEXT_METHODS = frozenset(dir(str)).difference(dir(list), dir(dict))
MAPPING_METHODS = frozenset(("items", "keys", "values"))
LIST_METHODS = frozenset(("append", "extend", "insert", "pop", "copy", "sort"))


@dataclass(frozen=True, slots=True)
class Taste:
    """What is made of a value that may be several things."""

    #: What stands for a value of which nothing is known.
    leaf: Any = "some text"
    #: How many items a list has.
    length: int = 4
    #: Whether a value that is only looked up by number is a text.
    texts: bool = False


@dataclass(slots=True)
class Shape:
    """A value of which it is not known yet what it is."""

    keys: dict[str, Shape] = field(default_factory=dict)
    item: Shape | None = None
    kinds: set[Kind] = field(default_factory=set)
    #: Values that it is compared with or looked up in.
    known: list[Any] = field(default_factory=list)
    #: Texts that it is searched for.
    holds: list[str] = field(default_factory=list)
    #: A list that it is searched in.
    within: Shape | None = None
    #: What the text spells, where it is read as JSON.
    spelled: Shape | None = None

    def key(self, name: str) -> Shape:
        self.kinds.add("mapping")
        return self.keys.setdefault(name, Shape())

    def items(self, kind: Kind = "list") -> Shape:
        self.kinds.add(kind)
        self.item = self.item or Shape()
        return self.item

    def parsed(self) -> Shape:
        self.spelled = self.spelled or Shape()
        return self.spelled

    def value(self, taste: Taste) -> Any:
        """A value that fits."""
        if self.spelled is not None:
            return json.dumps(self.spelled.value(taste))
        if self.keys:
            return {name: shape.value(taste) for name, shape in self.keys.items()}
        if self.within is not None:
            among = self.within.value(taste)
            return among[0] if among else taste.leaf
        if self.known:
            return self.known[0]
        if "list" in self.kinds or ("indexed" in self.kinds and not taste.texts):
            item = self.item or Shape()
            numbered = [replace(taste, leaf=f"{taste.leaf} {n}") for n in range(taste.length)]
            return [item.value(one if taste.leaf == TEXT else taste) for one in numbered]
        made = self._plain(taste.leaf)
        return " ".join([made, *self.holds]) if isinstance(made, str) and self.holds else made

    def _plain(self, leaf: Any) -> Any:
        for kind, made in _PLAIN.items():
            if kind in self.kinds:
                return leaf if kind == "text" and isinstance(leaf, str) else made
        return leaf


TEXT = Taste().leaf
_PLAIN: dict[Kind, Any] = {"letter": "A", "digits": "1", "number": 1, "text": TEXT, "mapping": {"a": TEXT}}


@dataclass(frozen=True, slots=True)
class Known:
    """A value that the template or code itself has."""

    value: Any


@dataclass(frozen=True, slots=True)
class Rows:
    """A dataset, whose rows all have one shape."""

    row: Shape


@dataclass(frozen=True, slots=True)
class Function:
    """Something that can be called with shapes."""

    call: Callable[[list[Any], dict[str, Any]], Any]


def looked_up(container: Any, index: Any) -> Any:
    """What ``container[index]`` is, and what that says about both."""
    if isinstance(container, Rows):
        return container.row.key(index.value) if _is_text(index) else container.row
    if isinstance(container, Known):
        if isinstance(index, Shape):
            found = list(container.value) if isinstance(container.value, dict) else None
            _note_choice(index, found)
        return _inside(container.value, index)
    if not isinstance(container, Shape):
        return None
    if _is_text(index):
        return container.key(index.value)
    if isinstance(index, Shape):
        index.kinds.add("number")
    if isinstance(index, slice):  # a part of a list or of a text
        return container
    return container.items("indexed")


def _inside(value: Any, index: Any) -> Any:
    """What stands in a known container at a place that is known, or at any."""
    try:
        if isinstance(index, Known):
            return Known(value[index.value])
        return Known(next(iter(value.values() if isinstance(value, dict) else value)))
    except (KeyError, IndexError, TypeError, StopIteration, AttributeError):
        return None


def _note_choice(index: Shape, keys: list[Any] | None) -> None:
    if keys is None:
        index.kinds.add("number")
    elif keys:
        index.known.append(keys[0])


def searched(container: Any, wanted: Any) -> None:
    """What ``wanted in container`` or ``container.index(wanted)`` says about both."""
    if not isinstance(wanted, Shape):
        if isinstance(container, Shape) and not container.kinds & {"list", "mapping"}:
            container.kinds.add("text")
            container.holds += [wanted.value] if _is_text(wanted) else []
        return
    if isinstance(container, Known) and container.value:
        if isinstance(container.value, str | list | tuple | dict | set):
            wanted.known.append(next(iter(container.value)))
    elif isinstance(container, Shape):
        container.items()
        if not _part_of(wanted, container):
            wanted.within = container


def _part_of(part: Shape, whole: Shape | None, depth: int = 20) -> bool:
    """Whether a value of the one would need a value of the other first."""
    if whole is None or depth == 0:
        return depth == 0
    inner = (whole.item, whole.within, whole.spelled, *whole.keys.values())
    return part is whole or any(_part_of(part, one, depth - 1) for one in inner)


def compared(one: Any, other: Any) -> None:
    """What ``one == other`` says about both."""
    for shape, value in ((one, other), (other, one)):
        if isinstance(shape, Shape) and isinstance(value, Known) and isinstance(value.value, str | int | bool):
            shape.known.append(value.value)


def method_called(base: Any, name: str, arguments: list[Any]) -> Any:
    """What a call of a method says about what it is called on."""
    if isinstance(base, Known):
        if name in ("index", "count", "find") and arguments:
            searched(base, arguments[0])
        if name == "join" and arguments:
            iterated(arguments[0])
        return looked_up(base, arguments[0]) if name == "get" and arguments else Shape({}, None, set())
    if not isinstance(base, Shape):
        return None
    if name == "get" and arguments and _is_text(arguments[0]):
        return base.key(arguments[0].value)
    if name in ("index", "count") and arguments:
        searched(base, arguments[0])
    elif name in TEXT_METHODS:
        base.kinds.add("text")
        if name in ("startswith", "endswith", "split") and arguments and _is_text(arguments[0]):
            (base.known if name != "split" else base.holds).append(arguments[0].value)
        return Shape(item=Shape(kinds={"text"})) if "split" in name else base
    elif name in LIST_METHODS:
        base.items()
    elif name in MAPPING_METHODS:
        base.kinds.add("mapping")
    return None


def iterated(value: Any) -> Any:
    """What one of the items of a value is."""
    if isinstance(value, Rows):
        return value.row
    if isinstance(value, Shape):
        return value.items()
    if isinstance(value, Known):
        return _inside(value.value, None)
    return None


def counted(value: Any) -> None:
    """What ``len(value)`` says: a list, unless it is known to be a text."""
    if isinstance(value, Shape) and not value.kinds:
        value.kinds.add("list")


def calculated(values: Iterable[Any]) -> None:
    """What arithmetic says about values."""
    for value in values:
        if isinstance(value, Shape) and not value.kinds:
            value.kinds.add("number")


def _is_text(index: Any) -> bool:
    return isinstance(index, Known) and isinstance(index.value, str)

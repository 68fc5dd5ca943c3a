"""Variations of formats: their names, the axes on which a format can be varied, and random draws from these."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from typing import Any

from multiform.arguments import split_outside
from multiform.errors import ConfigError, UsageError, excerpt, nearest
from multiform.formats.axes import BUILTIN, Axis, Change
from multiform.formats.base import FormatConfig
from multiform.hashing import sha256, short_hash
from multiform.labels import label_list

_HINT = "write e.g. mcqa[labels=roman,sep=space]"


@dataclass(frozen=True, slots=True)
class Variation:
    """The label of a format, empty for the format that a task has by default, and a value for some axes.

    >>> variation = Variation.parse("mcqa[labels=roman,wrap=[x]]")
    >>> variation.label, dict(variation.choices)
    ('mcqa', {'labels': 'roman', 'wrap': '[x]'})
    >>> str(variation), str(Variation("mcqa"))
    ('mcqa[labels=roman,wrap=[x]]', 'mcqa')
    """

    label: str
    choices: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Variation:
        """The variation that a text names."""
        label, bracket, rest = text.partition("[")
        if not bracket:
            return cls(text)
        if not rest.endswith("]") or not balanced(text):
            raise ConfigError(f"the brackets of '{text}' do not close", hint=_HINT)
        choices: dict[str, str] = {}
        for part in split_outside(rest[:-1], ","):
            axis, equals, value = (word.strip() for word in part.partition("="))
            if not equals or not axis or not value:
                raise ConfigError(f"expected axis=value in '{text}', got '{part}'", hint=_HINT)
            if axis in choices:
                raise ConfigError(f"'{text}' has two values of {axis}", hint="keep one of them")
            choices[axis] = value
        return cls(label.strip(), choices)

    @property
    def hash(self) -> str:
        """A short hash of the canonical text, the same in every run and on every machine."""
        return short_hash(str(self))

    def replace(self, **choices: str) -> Variation:
        """The variation with other values on some axes."""
        return Variation(self.label, {**self.choices, **choices})

    def __str__(self) -> str:
        choices = ",".join(f"{axis}={value}" for axis, value in self.choices.items())
        return f"{self.label}[{choices}]" if choices else self.label


def balanced(text: str) -> bool:
    """Whether every square bracket is closed."""
    depths = [0, *accumulate((character == "[") - (character == "]") for character in text)]
    return min(depths) == depths[-1] == 0


_NUMBERED = re.compile(r"(shuffle|rotate):(0|[1-9]\d*)")


@dataclass(frozen=True, slots=True)
class ChoiceOrder:
    """How choices are ordered: `reverse`, `rotate:N`, `shuffle:SEED`, or a permutation such as `bdac`.

    >>> order = ChoiceOrder.parse("rotate:1")
    >>> [order.permutation(4, ""), order.permutation(3, "")]
    [(1, 2, 3, 0), (1, 2, 0)]
    """

    name: str

    @classmethod
    def parse(cls, text: str) -> ChoiceOrder | None:
        """The order of that name; None for the original order, whatever it is called."""
        letters = "".join(label_list(len(text), "lower")) if len(text) <= 26 else ""
        permutes = len(text) > 1 and sorted(text) == list(letters)
        if not (text in ("original", "reverse") or _NUMBERED.fullmatch(text) or permutes):
            hint = "write original, reverse, rotate:1, shuffle:7, or a permutation such as bdac"
            raise ConfigError(f"unknown order of choices {excerpt(text)}", where="order", hint=hint)
        return None if text in ("original", "rotate:0", letters) else cls(text)

    def permutation(self, number: int, key: str) -> tuple[int, ...]:
        """For each position, the index of the choice that stands there.

        A shuffle depends only on its seed and on `key`, a text of the document, not on the order or number of
        documents. A permutation may name more positions than a document has choices, but not fewer.

        >>> ChoiceOrder("dbca").permutation(3, "")
        (1, 2, 0)
        """
        method, _, argument = self.name.partition(":")
        if method == "reverse":
            return tuple(reversed(range(number)))
        if method == "rotate":
            return tuple((position + int(argument)) % number for position in range(number))
        if method == "shuffle":
            indexes = list(range(number))
            random.Random(int(sha256(f"{argument} {key}"), 16)).shuffle(indexes)
            return tuple(indexes)
        if number > len(self.name):
            message = f"a document has {number} choices, and the order {self.name} is of {len(self.name)}"
            hint = "name all positions, or use reverse, rotate:N or shuffle:SEED"
            raise ConfigError(message, where="order", hint=hint)
        indexes = [ord(letter) - ord("a") for letter in self.name]
        return tuple(index for index in indexes if index < number)


def move_gold(gold: int | list[int], permutation: Sequence[int]) -> int | list[int]:
    """The positions of the right choices once they are permuted.

    >>> move_gold(0, (1, 2, 0)), move_gold([0, 1], (1, 2, 0))
    (2, [0, 2])
    """
    positions = {index: position for position, index in enumerate(permutation)}
    return sorted(positions[index] for index in gold) if isinstance(gold, list) else positions[gold]


#: Axes that leave the wording as it is: the order of the choices, which few-shot examples are drawn, and how long a
#: model may think.
RUN_AXES = ("order", "draw", "budget")
#: The orders of choices that are drawn at random, beside the original one.
_ORDERS = ("original", "reverse", "rotate:1", "shuffle:1", "shuffle:2", "shuffle:3")
#: Fields that say what is scored, and how: no variation changes them.
SCORING_FIELDS = ("scored", "scorer", "metric_list", "generation_kwargs", "answer_as", "variations")
#: Give up after this many draws in a row that are all known.
_PATIENCE = 500


@dataclass(frozen=True, slots=True)
class Selected:
    """A format with the label by which it was selected, and what its variation says beside the format."""

    label: str
    format: FormatConfig
    #: The values of the variation, by axis, without those that change nothing.
    axes: Mapping[str, str] = field(default_factory=dict)
    order: ChoiceOrder | None = None
    #: Which draw of few-shot examples; 0 is the one of the run's seed.
    draw: int = 0


@dataclass(frozen=True, slots=True)
class Grammar:
    """The axes of a format: those that a task or the format declares, then the built-in ones."""

    axes: Mapping[str, Axis] = field(default_factory=lambda: BUILTIN)
    #: The orders of choices that may be drawn; empty if a task allows only the original one.
    orders: tuple[str, ...] = _ORDERS

    @classmethod
    def of(cls, *declarations: Mapping[str, Any] | None) -> Grammar:
        """The built-in grammar, changed by the values of `variations:` of a task and of a format.

        An axis is a mapping of value names to fields of the format, a list of built-in values that are the only ones
        allowed, or null for an axis that is not varied.

        >>> tone = {"polite": {"instruction": "Please answer."}}
        >>> grammar = Grammar.of({"tone": tone, "labels": ["letters", "roman"]})
        >>> list(grammar.axes)[:2]
        ['tone', 'instruction']
        """
        axes = dict(BUILTIN)
        orders: tuple[str, ...] = _ORDERS
        try:
            for name, values in (axis for declared in declarations for axis in (declared or {}).items()):
                if name == "order":
                    orders = _declared_orders(values)
                else:
                    axes[name] = _declared_axis(name, values, axes.get(name))
        except ConfigError as error:
            raise error.relocate(f"variations.{error.where}") from error
        return cls({name: axes[name] for name in sorted(axes, key=lambda name: name in BUILTIN)}, orders)

    @classmethod
    def common(cls, grammars: Sequence[Grammar]) -> Grammar:
        """The axes and values that several grammars have in common."""
        first, *others = grammars
        axes = {
            name: {value: axis[value] for value in axis if all(value in other.axes.get(name, ()) for other in others)}
            for name, axis in first.axes.items()
        }
        return cls(axes, tuple(order for order in first.orders if all(order in other.orders for other in others)))

    def vary(self, format: FormatConfig, variation: Variation) -> Selected:
        """The format under a variation; an unknown axis or value, or one that does not fit the format, is an error."""
        known = [*self.axes, *RUN_AXES]
        for name in variation.choices:
            if name not in known:
                raise ConfigError(f"unknown axis '{name}' in '{variation}'", hint=nearest(name, known, listed="axes"))
        chosen: dict[str, str] = {}
        for name in (name for name in self.axes if name in variation.choices):
            axis, value = self.axes[name], variation.choices[name]
            if value not in axis:
                hint = nearest(value, axis, listed="values") if axis else "the task does not vary it"
                raise ConfigError(f"unknown value '{value}' of {name} in '{variation}'", hint=hint)
            changed = axis[value](format)
            if changed is None:
                message = f"{name}={value} does not fit format '{variation.label}'"
                raise ConfigError(message, hint="see multiform docs variations for what each axis changes")
            other = replace(format, **changed)
            if other != format:
                format, chosen[name] = other, value
        if "budget" in variation.choices:
            format, chosen["budget"] = _with_budget(format, variation), variation.choices["budget"]
        order, draw = self._order(format, variation), draw_number(variation)
        chosen |= {} if order is None else {"order": order.name}
        chosen |= {"draw": str(draw)} if draw else {}
        return Selected(str(Variation(variation.label, chosen)), format, chosen, order, draw)

    def draw(
        self, formats: Sequence[FormatConfig], base: Variation, number: int, *, seed: int | None, shots: bool
    ) -> list[str]:
        """The labels of distinct variations, drawn at random, that fit all of the formats and differ from `base`.

        They keep the values of `base`. The first n of a larger number with the same seed are those of n. Without
        `shots`, nothing that changes only few-shot examples is varied.
        """
        rng = random.Random(seed)
        known = {_content([self.vary(format, base) for format in formats])}
        drawn: list[str] = []
        tries = 0
        while len(drawn) < number:
            candidate = self._candidate(formats, base, rng, shots=shots)
            varied = [self.vary(format, candidate) for format in formats]
            tries += 1
            if _content(varied) not in known:
                known.add(_content(varied))
                drawn.append(varied[0].label)
                tries = 0
            if tries == _PATIENCE:
                message = f"'{base}' has only {len(drawn)} variations, and {number} were requested"
                raise UsageError(message, where=f"{base}~{number}", hint=f"request {len(drawn)} of them")
        return drawn

    def _candidate(
        self, formats: Sequence[FormatConfig], base: Variation, rng: random.Random, *, shots: bool
    ) -> Variation:
        """One value at random on every axis that fits all formats, in the order of the axes."""
        chosen: dict[str, str] = {}
        for name, axis in self.axes.items():
            value = base.choices.get(name)
            if value is None and (name != "shots" or shots):
                fitting = [value for value, change in axis.items() if all(change(f) is not None for f in formats)]
                value = rng.choice(fitting) if fitting else None
            if value is not None:
                chosen[name] = value
                formats = [replace(format, **(axis[value](format) or {})) for format in formats]
        if "order" not in base.choices and self.orders and all(format.shows_choices for format in formats):
            chosen["order"] = rng.choice(self.orders)
        kept = {axis: base.choices[axis] for axis in RUN_AXES if axis in base.choices}
        return Variation(base.label, {**chosen, **kept})

    def _order(self, format: FormatConfig, variation: Variation) -> ChoiceOrder | None:
        order = ChoiceOrder.parse(variation.choices.get("order", "original"))
        if order is None:
            return None
        if not format.shows_choices:
            message = f"format '{variation.label}' does not show the choices, so their order changes nothing"
            raise ConfigError(message, where="order", hint="choose a format that does, such as mcqa")
        if not self.orders:
            message = "the task does not allow another order of its choices"
            raise ConfigError(message, where="order", hint="leave the order out")
        return order


def _content(varied: Sequence[Selected]) -> str:
    """Everything that prompts depend on, regardless of names."""
    return repr([(variant.format, variant.order) for variant in varied])


def draw_number(variation: Variation) -> int:
    """Which draw of few-shot examples a variation has; 0 if it does not say."""
    text = variation.choices.get("draw", "0")
    if not text.isdecimal():
        raise ConfigError(f"draw={text} is not a whole number", where="draw", hint="write e.g. mcqa[draw=2]")
    return int(text)


def _with_budget(format: FormatConfig, variation: Variation) -> FormatConfig:
    """The format with the thinking budget of a variation, in tokens."""
    text = variation.choices["budget"]
    if not text.isdecimal():
        hint = "write e.g. think[budget=1024]"
        raise ConfigError(f"budget={text} is not a number of tokens", where="budget", hint=hint)
    if not format.generates:
        message = f"under format '{variation.label}' the model does not think"
        raise ConfigError(message, where="budget", hint="choose a format in which it does, such as think or mcq_cot")
    return replace(format, generation_kwargs={**(format.generation_kwargs or {}), "thinking_budget": int(text)})


def _declared_axis(name: Any, values: Any, builtin: Axis | None) -> Axis:
    if not isinstance(name, str) or not name.isidentifier() or name in RUN_AXES:
        hint = f"use letters, digits and _, and none of {', '.join(RUN_AXES)}"
        raise ConfigError(f"an axis cannot be called {excerpt(name)}", where=str(name), hint=hint)
    if values is None or values is False:
        return {}
    if isinstance(values, list | tuple) and builtin is not None:
        for value in values:
            if value not in builtin:
                hint = nearest(str(value), builtin, listed="values")
                raise ConfigError(f"unknown value {excerpt(value)} of axis '{name}'", where=name, hint=hint)
        return {value: builtin[value] for value in values}
    if not isinstance(values, Mapping) or not values:
        message = f"expected a mapping of values, got {excerpt(values)}"
        raise ConfigError(message, where=name, hint="write e.g. tone: {polite: {instruction: Please answer.}}")
    declared = {str(value): _declared_change(name, value, keys) for value, keys in values.items()}
    return {**({"default": lambda format: {}} if builtin is None else builtin), **declared}


def _declared_change(axis: str, value: Any, changed: Any) -> Change:
    text, place = str(value), f"{axis}.{value}"
    if not text or not balanced(text) or any(character in ",=@+~" or character.isspace() for character in text):
        message = f"a value cannot be called {excerpt(value)}"
        raise ConfigError(message, where=axis, hint="use a word, as it is written after @ in brackets")
    if not isinstance(changed, Mapping):
        message = f"expected fields of a format, got {excerpt(changed)}"
        raise ConfigError(message, where=place, hint="write e.g. {question_prefix: 'Q: '}")
    known = [field.name for field in fields(FormatConfig) if field.name not in SCORING_FIELDS]
    for key in changed:
        if key not in known:
            message = f"a variation cannot change '{key}'"
            raise ConfigError(message, where=f"{place}.{key}", hint=nearest(str(key), known, listed="fields"))
    return lambda format: changed


def _declared_orders(values: Any) -> tuple[str, ...]:
    if values is None or values is False:
        return ()
    if not isinstance(values, list | tuple) or not values:
        hint = "write e.g. order: [original, reverse], or null for no other order"
        raise ConfigError(f"expected a list of orders, got {excerpt(values)}", where="order", hint=hint)
    for value in values:
        ChoiceOrder.parse(str(value))
    return tuple(map(str, values))

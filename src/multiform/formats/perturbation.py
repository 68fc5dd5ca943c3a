"""Perturbations: random noise in the question, which depends on nothing but the text and the seed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from multiform.errors import ConfigError
from multiform.fields import Doc, Field, FieldSpec, shown
from multiform.hashing import sha256
from multiform.prompts.template import has_markup, literal_text
from multiform.schema import check_keys, check_values

Kind = Literal["editor", "permute", "replace", "delete", "uppercase"]

_WORD = re.compile(r"[^\W_]+")
_HINT = "write e.g. {type: editor, probability: 0.1, seed: 42}"
_PRINTABLE = [chr(code) for code in range(33, 127)]


@dataclass(frozen=True, kw_only=True)
class Perturbation:
    """Noise that is added to a question.

    `editor` makes typing mistakes (an inserted, dropped or swapped letter, the wrong case, a split word); `permute`,
    `replace` and `delete` change letters inside words; `uppercase` capitalises whole words. `probability` is the
    share of the letters, or for `uppercase` of the words, that is changed.

    >>> Perturbation(type="uppercase", unmodifiable_words=("capital",))("What is the capital of France?")
    'WHAT IS THE capital OF FRANCE?'
    """

    type: Kind = "editor"
    #: By default 0.1, and 1 for `uppercase`.
    probability: float | None = None
    seed: int = 42
    #: Words that are not changed; case does not matter.
    unmodifiable_words: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_values(type(self), vars(self), hint=_HINT)
        if self.probability is None:
            object.__setattr__(self, "probability", 1.0 if self.type == "uppercase" else 0.1)
        elif not 0 <= self.probability <= 1:
            raise ConfigError(f"expected a number from 0 to 1, got {self.probability}", where="probability", hint=_HINT)

    @classmethod
    def of(cls, settings: Mapping[str, Any], protected: Sequence[str] = ()) -> Perturbation:
        """Build from the mapping of `perturbation:`; `protected` are more words that are not changed."""
        check_keys("a perturbation", [field.name for field in fields(cls)], settings)
        perturbation = cls(**settings)
        return replace(perturbation, unmodifiable_words=(*perturbation.unmodifiable_words, *protected))

    def __call__(self, text: str) -> str:
        spans = self._modifiable(text)
        words = [text[start:end] for start, end in spans]
        # A generator for each text, so that the order and number of documents do not matter.
        rng = random.Random(int(sha256(f"{self.type} {self.seed} {text}"), 16))
        changed = _EDITS[self.type](words, float(self.probability or 0), rng)
        chunks, at = [], 0
        for (start, end), word in zip(spans, changed, strict=True):
            chunks += [text[at:start], word]
            at = end
        return "".join(chunks) + text[at:]

    def _modifiable(self, text: str) -> list[tuple[int, int]]:
        protected = sorted((word for word in self.unmodifiable_words if word), key=len, reverse=True)
        pattern = "|".join(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])" for word in protected)
        fixed = [match.span() for match in re.finditer(pattern, text, re.IGNORECASE)] if pattern else []
        spans = [match.span() for match in _WORD.finditer(text)]
        return [(s, e) for s, e in spans if not any(start < e and s < end for start, end in fixed)]


@dataclass(frozen=True, eq=False)
class PerturbedField:
    """A question field with a perturbation; the literal words of its template are not changed."""

    spec: FieldSpec
    perturbation: Perturbation

    def __call__(self, doc: Doc) -> Any:
        value, noisy = Field.of(self.spec).value(doc), self.perturbation
        if isinstance(self.spec, str) and has_markup(self.spec):
            literals = tuple(word for literal in literal_text(self.spec) for word in _WORD.findall(literal))
            noisy = replace(noisy, unmodifiable_words=(*noisy.unmodifiable_words, *literals))
        if isinstance(value, list):
            return [noisy(str(text)) for text in value]
        return value if value is None or isinstance(value, int) else noisy(str(value))

    def __str__(self) -> str:
        return f"{shown(self.spec)} ({self.perturbation})"


def perturb_field(spec: FieldSpec, perturbation: Perturbation) -> FieldSpec:
    """The field with noise; a field with a method `with_noise` applies the noise itself."""
    if spec is None or isinstance(spec, PerturbedField):
        return spec
    method = getattr(spec, "with_noise", None)
    noisy: FieldSpec = method(perturbation) if method is not None else PerturbedField(spec, perturbation)
    return noisy


def _number(total: int, probability: float, rng: random.Random) -> int:
    """How many of `total` items are changed: the expected number, rounded up or down at random."""
    expected = total * probability
    return int(expected) + (rng.random() < expected % 1)


def _uppercase(words: list[str], probability: float, rng: random.Random) -> list[str]:
    return [word.upper() if rng.random() < probability else word for word in words]


def _inside(change: Callable[[list[str], int, random.Random], None]) -> Callable[..., list[str]]:
    """An edit that changes letters inside words, never the first or the last letter."""

    def edit(words: list[str], probability: float, rng: random.Random) -> list[str]:
        places = [(number, at) for number, word in enumerate(words) for at in range(1, len(word) - 1)]
        chosen = rng.sample(places, min(len(places), _number(len(places), probability, rng)))
        letters = [list(word) for word in words]
        for number, at in sorted(chosen, reverse=True):
            change(letters[number], at, rng)
        return ["".join(word) for word in letters]

    return edit


def _swap(word: list[str], at: int, rng: random.Random) -> None:
    other = at + 1 if at + 2 < len(word) or at == 1 else at - 1
    word[at], word[other] = word[other], word[at]


def _replace(word: list[str], at: int, rng: random.Random) -> None:
    word[at] = rng.choice(_PRINTABLE)


def _delete(word: list[str], at: int, rng: random.Random) -> None:
    del word[at]


def _type(words: list[str], probability: float, rng: random.Random) -> list[str]:
    """Typing mistakes, spread over the words by their length."""
    letters = sorted(set("".join(words).lower()))
    sizes = [len(word) - 1 for word in words]
    edited = list(words)
    for _ in range(_number(sum(map(len, words)), probability, rng) if any(sizes) else 0):
        number = rng.choices(range(len(words)), weights=sizes)[0]
        edited[number] = _mistake(edited[number], letters, rng)
    return edited


def _mistake(word: str, letters: Sequence[str], rng: random.Random) -> str:
    at = rng.randrange(1, len(word)) if len(word) > 1 else 0
    edits = ["insert", "case", "case"] + ["swap", "split"] * (len(word) > 1) + ["drop"] * (len(word) > 4)
    edit = rng.choice(edits)
    if edit == "insert":
        return word[:at] + rng.choice(letters) + word[at:]
    if edit == "case":
        return word[:at] + word[at : at + 1].swapcase() + word[at + 1 :]
    if edit == "swap":
        return word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :]
    return f"{word[:at]} {word[at:]}" if edit == "split" else word[:at] + word[at + 1 :]


_EDITS: dict[str, Callable[[list[str], float, random.Random], list[str]]] = {
    "editor": _type,
    "permute": _inside(_swap),
    "replace": _inside(_replace),
    "delete": _inside(_delete),
    "uppercase": _uppercase,
}

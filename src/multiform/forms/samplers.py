"""Few-shot examples: samplers draw the documents before the evaluated one, and each is rendered once.

The random numbers are those of lm-eval 0.4.13, so that the same seed gives the same shots: one
generator for a task, advanced once for each document in order.
"""

from __future__ import annotations

import json
import logging
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import islice
from numbers import Integral
from typing import Any

from multiform.arguments import check_call, name_of
from multiform.errors import ConfigError, DataError, excerpt, locating, placing, running
from multiform.fields import Doc
from multiform.forms.spec import DEFAULT_SEED, FormSpec
from multiform.prompts.media import binary_summary
from multiform.prompts.prompt import Turn
from multiform.registry import Registry

logger = logging.getLogger("multiform")

#: Rendered examples that are kept in memory.
_MAX_RENDERED = 10_000

samplers: Registry[type[Sampler]] = Registry("sampler", raises=ConfigError)
register_sampler = samplers.register


class Sampler(ABC):
    """Draws few-shot examples: indexes of documents in a pool; `label_of` gives the answer of a document."""

    def __init__(
        self, pool: Sequence[Any], *, seed: int | None = DEFAULT_SEED, label_of: Callable[[Any], Any] = repr
    ) -> None:
        self.pool = pool
        self.random = random.Random(seed)
        self.label_of = label_of

    @abstractmethod
    def sample(self, n: int, *, exclude: Any | None = None) -> list[int]:
        """Indexes of n documents; none of them equals the excluded one."""

    def replace(self, drawn: list[int], leaked: Any, seed: int | None) -> list[int]:
        """The drawn indexes, with any document that equals `leaked` replaced by another one.

        The replacement has a generator of its own, made from the document, so that all other draws stay
        what they are.
        """
        if all(differ(self.pool[index], leaked) for index in drawn):
            return drawn
        free = [i for i in range(len(self.pool)) if i not in drawn and differ(self.pool[i], leaked)]
        bad = [index for index in drawn if not differ(self.pool[index], leaked)]
        self._require(len(drawn), len(drawn) - len(bad) + len(free))
        if isinstance(leaked, dict):  # with images named by their content, not by their address in memory
            plain = (str, int, float, list, dict, type(None))
            leaked = {key: item if isinstance(item, plain) else binary_summary(item) for key, item in leaked.items()}
        fresh = dict(zip(bad, random.Random(f"{seed} {leaked}").sample(free, len(bad)), strict=True))
        return [fresh.get(index, index) for index in drawn]

    def _require(self, n: int, available: int) -> None:
        if n > available:
            hint = "lower num_fewshot, or name a larger fewshot_split"
            raise DataError(f"{n} few-shot examples requested but only {available} documents to draw from", hint=hint)


@register_sampler("default")
class RandomSampler(Sampler):
    """Draws few-shot examples at random."""

    def sample(self, n: int, *, exclude: Any | None = None) -> list[int]:
        if not exclude:
            self._require(n, len(self.pool))
            return self.random.sample(range(len(self.pool)), n)
        selected: list[int] = []
        if n < len(self.pool):
            # One more is drawn than needed, so that the excluded one can be dropped.
            drawn = self.random.sample(range(len(self.pool)), n + 1)
            selected = [index for index in drawn if differ(self.pool[index], exclude)][:n]
        if len(selected) < n:
            candidates = [index for index in range(len(self.pool)) if differ(self.pool[index], exclude)]
            self._require(n, len(candidates))
            selected = self.random.sample(candidates, n)
        return selected


@register_sampler("first_n")
class FirstNSampler(Sampler):
    """Takes the first documents of the pool, in order."""

    def sample(self, n: int, *, exclude: Any | None = None) -> list[int]:
        kept = (index for index, doc in enumerate(self.pool) if exclude is None or differ(doc, exclude))
        selected = list(islice(kept, n))
        self._require(n, len(selected))
        return selected

    def replace(self, drawn: list[int], leaked: Any, seed: int | None) -> list[int]:
        """The first ones that are not `leaked`."""
        return self.sample(len(drawn), exclude=leaked)


@register_sampler("balanced")
class BalancedSampler(Sampler):
    """Draws few-shot examples at random, every answer as often as any other, give or take one."""

    def sample(self, n: int, *, exclude: Any | None = None) -> list[int]:
        by_label: dict[str, list[int]] = {}
        for index, doc in enumerate(self.pool):
            if exclude is None or differ(doc, exclude):
                by_label.setdefault(repr(self.label_of(doc)), []).append(index)
        self._require(n, sum(map(len, by_label.values())))
        for indexes in by_label.values():
            self.random.shuffle(indexes)
        drawn: list[int] = []
        while len(drawn) < n:
            available = [label for label, indexes in by_label.items() if indexes]
            self.random.shuffle(available)
            drawn += [by_label[label].pop() for label in available[: n - len(drawn)]]
        self.random.shuffle(drawn)
        return drawn


def checked_draw(drawn: Any, number: int, sampler: Sampler) -> list[int]:
    """The indexes that a sampler drew, checked: their number, and that each is in the pool."""
    size = len(sampler.pool)
    indexes = isinstance(drawn, list | tuple) and all(type(i) is int or isinstance(i, Integral) for i in drawn)
    if indexes and len(drawn) == number and all(0 <= index < size for index in drawn):
        return [int(index) for index in drawn]
    message = f"{type(sampler).__name__} drew {excerpt(drawn)} for {number} examples of {size} documents"
    raise DataError(message, hint="have it return a list of that many indexes of its pool")


def differ(doc: Any, other: Any) -> bool:
    """Whether two documents are not the same."""
    try:
        return bool(doc != other)
    except ValueError:  # arrays, as sounds come in, do not compare to one truth
        return json.dumps(doc, default=binary_summary) != json.dumps(other, default=binary_summary)


class FewshotExamples:
    """Draws few-shot examples and renders them.

    `render` gives the messages of a document, `label_of` its answer.
    """

    def __init__(self, form: FormSpec, *, render: Callable[[Doc], list[Turn]], label_of: Callable[[Doc], Any]) -> None:
        self.form = form
        self._render = render
        self._label_of = label_of
        self._rendered: dict[int, list[Turn]] = {}
        self._has_noted_replacement = False
        is_requested = form.settings.num_fewshot is not None
        self._placing = placing(f"--num_fewshot: {form.name}" if is_requested else form.where("num_fewshot"))
        name, place = form.fewshot.sampler, form.where("fewshot_config", "sampler")
        hint = "see multiform docs fewshot for what it gets"
        self._running_sampler = running(f"sampler '{name}'", raises=ConfigError, where=place, hint=hint)

    @cached_property
    def sampler(self) -> Sampler:
        """Draws the examples: the sampler of the task's class, or the configured one."""
        if "sampler" not in self.form.hooks:
            return self.configured_sampler
        place = self.form.config.where("class")
        with running("sampler", raises=ConfigError, where=place, hint="read it to debug it"):
            sampler = self.form.hooks["sampler"]()
        if not isinstance(sampler, Sampler):
            message = f"sampler is {excerpt(sampler)}, not a multiform.Sampler"
            raise ConfigError(message, where=place, hint="return an object of a subclass of Sampler")
        return sampler

    @cached_property
    def configured_sampler(self) -> Sampler:
        """The sampler that the configuration names; made on first use, when the dataset is read."""
        config = self.form.fewshot
        # Documents that are named are taken in order; everything else is up to the sampler.
        named = config.fewshot_indices is not None or config.fewshot_rows is not None
        name = "first_n" if named else config.sampler
        pool = self.form.fewshot_docs()
        with self._running_sampler:
            return samplers.get(name)(pool, seed=self.form.fewshot_seed, label_of=self._label_of)

    def messages(self, doc: Doc, number: int) -> list[Turn]:
        """The turns of the form's few-shot examples, none of which is the document itself."""
        return [message for index in self.draw(doc, number) for message in self.shot(index)]

    def docs(self, doc: Doc, number: int) -> list[dict[str, Any]]:
        """The documents of the form's few-shot examples."""
        return [dict(self.sampler.pool[index]) for index in self.draw(doc, number)]

    def skip(self, doc: Callable[[], Doc], number: int) -> None:
        """Draw the examples of a document that another process renders, so that those after it are the same."""
        if number:
            with self._running_sampler:
                self.sampler.sample(number, exclude=doc() if self._excludes else None)

    @property
    def _excludes(self) -> bool:
        """Whether a document is left out of its own draw, as in lm-eval 0.4.13; see docs/fewshot.md."""
        return self.form.fewshot.split == self.form.config.test_split

    def draw(self, doc: Doc, number: int) -> list[int]:
        """The indexes of examples for a document; each call goes on with the sampler's random numbers."""
        if number == 0:
            return []
        excluded = doc if self._excludes else None
        with self._placing, self._running_sampler:
            drawn = checked_draw(self.sampler.sample(number, exclude=excluded), number, self.sampler)
            replacements = self.sampler.replace(drawn, doc, seed=self.form.fewshot_seed)
            if replacements == drawn:
                return drawn
            if excluded is None and not self._has_noted_replacement:
                self._has_noted_replacement = True
                note = "few-shot examples that equal the document are replaced; lm-eval keeps those of another split"
                logger.info("%s: %s", self.form.name, note)
            return checked_draw(replacements, number, self.sampler)

    def shot(self, index: int) -> list[Turn]:
        """The turns of the example that has this index."""
        if index not in self._rendered:
            if len(self._rendered) == _MAX_RENDERED:
                self._rendered.clear()
            with locating(f"few-shot {self._place(index)}"):
                self._rendered[index] = self._render(self.sampler.pool[index])
        return self._rendered[index]

    def _place(self, index: int) -> str:
        """Where an example comes from: the row of a split, or its number among the samples that are given."""
        shots = self.form.fewshot
        row: Any = index if shots.fewshot_indices is None else shots.fewshot_indices[index]
        if shots.fewshot_rows is None and shots.split is None and shots.samples is not None:
            return f"sample {row}"
        row = row if shots.fewshot_rows is None else shots.fewshot_rows[index]
        return f"row {row} of split '{self.form.fewshot_split}'"


def check_fewshot(form: FormSpec) -> None:
    """Refuse a sampler that is not registered, or that cannot be called as samplers are called."""
    name, place = form.fewshot.sampler, form.config.where("fewshot_config", "sampler")
    sampler_class: Any = samplers.get(name, where=place)
    if not isinstance(sampler_class, type) or not issubclass(sampler_class, Sampler):
        message = f"sampler '{name}' is {name_of(sampler_class)}, which is not a subclass of Sampler"
        raise ConfigError(message, where=place, hint="register a class: class Mine(Sampler)")
    hint = "write it as __init__(self, pool, *, seed, label_of) and sample(self, n, *, exclude=None)"
    what = f"sampler '{name}': {sampler_class.__name__}.{{}} cannot be called"
    init, sample = what.format("__init__"), what.format("sample")
    check_call(sampler_class.__init__, None, [], seed=0, label_of=repr, what=init, where=place, hint=hint)
    check_call(sampler_class.sample, None, 1, exclude=None, what=sample, where=place, hint=hint)

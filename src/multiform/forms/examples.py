"""The few-shot examples of a form: which documents are drawn for a question, each rendered once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from multiform.errors import ConfigError, DataError, locating, running, shorten
from multiform.fields import Doc
from multiform.forms.samplers import Sampler, check_sampler, checked_draw, samplers
from multiform.forms.spec import FormSpec
from multiform.prompts.prompt import Turn

logger = logging.getLogger("multiform")


class FewshotExamples:
    """Draws few-shot examples and renders them.

    `pool` gives the documents to draw from, `render` the messages of one of them, `label_of` its answer.
    """

    def __init__(
        self,
        form: FormSpec,
        *,
        pool: Callable[[], Sequence[Doc]],
        render: Callable[[Doc], list[Turn]],
        label_of: Callable[[Doc], Any],
    ) -> None:
        self.form = form
        self._pool = pool
        self._render = render
        self._label_of = label_of
        self._rendered: dict[int, list[Turn]] = {}
        self._has_noted_replacement = False

    @cached_property
    def sampler(self) -> Sampler:
        """Draws the examples: the sampler of the task's class, or the configured one."""
        if "sampler" not in self.form.hooks:
            return self.configured_sampler
        place = self.form.config.where("class")
        with running("sampler", kind=ConfigError, where=place, hint="read it to debug it"):
            sampler = self.form.hooks["sampler"]()
        if not isinstance(sampler, Sampler):
            message = f"sampler is {shorten(sampler)}, not a multiform.Sampler"
            raise ConfigError(message, where=place, hint="return an object of a subclass of Sampler")
        return sampler

    @cached_property
    def configured_sampler(self) -> Sampler:
        """The sampler that the configuration names; made on first use, when the dataset is read."""
        config = self.form.fewshot
        # Documents that are named are taken in order; everything else is up to the sampler.
        name = "first_n" if config.fewshot_indices is not None else config.sampler
        pool = self._pool()
        with self._running_sampler:
            return samplers.get(name)(pool, seed=self.form.fewshot_seed, label_of=self._label_of)

    @cached_property
    def _running_sampler(self) -> running:
        name, place = self.form.fewshot.sampler, self.form.config.where("fewshot_config", "sampler")
        return running(f"sampler '{name}'", kind=ConfigError, where=place, hint="see docs/fewshot.md for what it gets")

    def messages(self, doc: Doc, number: int) -> list[Turn]:
        """The turns of the form's few-shot examples, none of which is the document itself."""
        if number == 0:
            return []
        return [message for index in self.draw(doc, number) for message in self.shot(index)]

    def docs(self, doc: Doc, number: int) -> list[dict[str, Any]]:
        """The documents of the form's few-shot examples."""
        return [dict(self.sampler.pool[index]) for index in self.draw(doc, number)] if number else []

    def draw(self, doc: Doc, number: int) -> list[int]:
        """The indexes of examples for a document; each call goes on with the sampler's random numbers."""
        config, seed = self.form.config, self.form.fewshot_seed
        try:
            # lm-eval 0.4.13 leaves the document out only where these two are equal; see docs/fewshot.md.
            excluded = doc if self.form.fewshot.split == config.test_split else None
            with self._running_sampler:
                drawn = checked_draw(self.sampler.sample(number, exclude=excluded), number, self.sampler)
                replacements = self.sampler.replace(drawn, doc, seed=seed)
                if replacements == drawn:
                    return drawn
                if excluded is None:
                    self._note_replacement()
                return checked_draw(replacements, number, self.sampler)
        except DataError as error:
            is_requested = self.form.settings.num_fewshot is not None
            place = f"--num_fewshot: {self.form.name}" if is_requested else config.where("num_fewshot")
            raise error.or_at(place) from error

    def _note_replacement(self) -> None:
        """Log once that prompts are not those of lm-eval, which leaves a document out of its own split only."""
        if not self._has_noted_replacement:
            message = "%s: few-shot examples that equal the document are replaced; lm-eval keeps those of another split"
            logger.info(message, self.form.name)
            self._has_noted_replacement = True

    def shot(self, index: int) -> list[Turn]:
        """The turns of the example that has this index."""
        if index not in self._rendered:
            with locating(f"few-shot {self._place(index)}"):
                self._rendered[index] = self._render(self.sampler.pool[index])
        return self._rendered[index]

    def _place(self, index: int) -> str:
        """Where an example comes from: the row of a split, or its number among the samples that are given."""
        shots = self.form.fewshot
        if shots.fewshot_indices is not None:
            index = shots.fewshot_indices[index]
        if shots.split is None and shots.samples is not None:
            return f"sample {index}"
        return f"row {index} of split '{self.form.fewshot_split}'"


def check_fewshot(form: FormSpec) -> None:
    """Refuse a sampler that is not registered or cannot be called."""
    try:
        check_sampler(form.fewshot.sampler)
    except ConfigError as error:
        raise error.moved(form.config.where("fewshot_config", "sampler")) from error

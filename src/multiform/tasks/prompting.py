"""The prompts of a task: its fields, its few-shot examples, and what they are put together to."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from multiform.config import FewshotConfig, TaskConfig
from multiform.errors import ConfigError, DataError, nearest, shorten
from multiform.fields import Doc, FieldSpec
from multiform.formats.shots import after_prefix, written_answer
from multiform.media import Media, MediaText, media_of, parts
from multiform.tasks import prompt
from multiform.tasks.fewshot import DEFAULT_SEED, Sampler, samplers
from multiform.tasks.marks import check_marks
from multiform.tasks.media import TaskMedia
from multiform.tasks.reader import placing
from multiform.tasks.records import ChatTemplate


class TaskPrompts(TaskMedia):
    """Reads the fields of documents and builds their prompts."""

    def __init__(self, config: TaskConfig | dict[str, Any], *, dataset_mirror: Path | None = None) -> None:
        super().__init__(config, dataset_mirror=dataset_mirror)
        self._seed: int | None = DEFAULT_SEED
        self._shots: dict[int, list[prompt.Message]] = {}
        #: Whether the number of examples is the run's, and not the task's.
        self._shots_asked = False

    def doc_to_text(self, doc: Doc, doc_to_text: FieldSpec = None) -> Any:
        """The question; the inputs, or the index of the right one, of a task with several inputs."""
        spec = self.config.doc_to_text if doc_to_text is None else doc_to_text
        return self.reader.question(spec, doc)

    def doc_to_choice(self, doc: Doc, doc_to_choice: FieldSpec = None) -> list[str]:
        spec = self.config.doc_to_choice if doc_to_choice is None else doc_to_choice
        return self.reader.choices(spec, doc)

    def doc_to_target(self, doc: Doc, doc_to_target: FieldSpec = None) -> Any:
        """The answer as the task's fields give it; a spelled-out list is a list."""
        spec = self.config.doc_to_target if doc_to_target is None else doc_to_target
        return self.reader.target(spec, doc)

    def doc_to_decontamination_query(self, doc: Doc) -> str:
        """The text that is looked up in a training corpus: the task's query, or the question."""
        spec = self.config.doc_to_decontamination_query
        return (
            str(self.doc_to_text(doc)) if spec is None else self.reader.text(spec, doc, "doc_to_decontamination_query")
        )

    def doc_to_prefix(self, doc: Doc) -> str:
        return self.reader.text(self.config.gen_prefix, doc, "gen_prefix")

    @property
    def num_fewshot(self) -> int:
        return self.config.num_fewshot or 0

    def set_num_fewshot(self, num_fewshot: int) -> None:
        """Override the number of examples; a task that sets 0 keeps it."""
        if num_fewshot < 0:
            what = f"expected 0 or more, got {num_fewshot}"
            raise ConfigError(what, where=f"{self.name}: num_fewshot", hint="give a non-negative number")
        if self.config.num_fewshot != 0 or num_fewshot == 0:
            self.config.num_fewshot = num_fewshot
            self._shots_asked = True

    def set_fewshot_seed(self, seed: int | None = None) -> None:
        self._seed = seed
        self.__dict__.pop("sampler", None)

    def set_config(self, key: str, value: Any, update: bool = False) -> None:
        super().set_config(key, value, update)
        if key == "fewshot_config":
            self.config._build_fewshot_config()
            self._forget_shots()

    def download(self, dataset_kwargs: Mapping[str, Any] | None = None) -> None:
        super().download(dataset_kwargs)
        self._forget_shots()

    def _forget_shots(self) -> None:
        self._shots.clear()
        self.__dict__.pop("sampler", None)

    @cached_property
    def sampler(self) -> Sampler:
        """Draws the few-shot examples; made on first use, when the dataset is read."""
        config = self._fewshot
        # Named documents are taken in order; everything else is up to the sampler.
        name = "first_n" if config.fewshot_indices is not None else config.sampler
        return samplers.get(name)(self.fewshot_docs(), seed=self._seed, label_of=self._shot_label)

    def _check_sampler(self) -> None:
        name = self._fewshot.sampler
        if name not in samplers:
            what, place = f"unknown sampler '{name}'", self.config.where("fewshot_config", "sampler")
            raise ConfigError(what, where=place, hint=nearest(name, samplers, listed="samplers"))

    def _shot_label(self, doc: Doc) -> Any:
        return self.doc_to_target(doc, self._fewshot.doc_to_target)

    def fewshot_context(
        self,
        doc: dict[str, Any],
        num_fewshot: int,
        system_instruction: str | None = None,
        apply_chat_template: bool = False,
        fewshot_as_multiturn: bool = False,
        chat_template: ChatTemplate | None = None,
        gen_prefix: str | None = None,
    ) -> str | list[str]:
        """The whole prompt of a document: system text, examples, question, beginning of the answer.

        A list of prompts where the document has several inputs, one for each.
        """
        layout = prompt.Layout(self.config.target_delimiter, self.config.fewshot_delimiter)
        description = self.reader.text(self.config.description, doc, "description")
        messages = prompt.system_message(system_instruction, description, layout)
        for index in self._draw(doc, num_fewshot):
            messages += self._shot(index)
        questions = self.questions(doc)
        illustrated = bool(self.media_kinds)
        prompts = []
        for question in questions:
            turns = messages + prompt.query(self.with_media(question, doc), gen_prefix or "", layout)
            media = self.media_in(turns) if illustrated else ()
            if apply_chat_template and chat_template is not None:
                chat = parts(prompt.chat_messages(turns, multiturn=fewshot_as_multiturn), media)
                text = chat_template(chat, add_generation_prompt=not gen_prefix)
            else:
                text = prompt.plain_text(turns)
            prompts.append(MediaText(text, media) if illustrated else text)
        return prompts if self.has_multiple_inputs else prompts[0]

    def media_in(self, turns: list[prompt.Message]) -> tuple[Media, ...]:
        """What the marks in a prompt stand for: the images and sounds of its examples, then those of its question."""
        media = tuple(one for turn in turns for one in media_of(turn.content))
        if media:
            check_marks(prompt.plain_text(turns), media, self.config)
        return media

    #: Whether a document asks several questions that share one answer.
    has_multiple_inputs: bool = False

    def questions(self, doc: Doc) -> list[str]:
        """The question of a document, or its several inputs."""
        question = self.doc_to_text(doc)
        if isinstance(question, list):
            what, place = f"expected one question, got {shorten(question)}", self.config.where("doc_to_text")
            raise DataError(what, where=place, hint="set multiple_inputs: true if each is scored with the same ending")
        return [str(question)]

    def _draw(self, doc: dict[str, Any], number: int) -> list[int]:
        if number == 0:
            return []
        try:
            # lm-eval 0.4.13 leaves the document out only where these two are equal; see docs/fewshot.md.
            excluded = doc if self._fewshot.split == self.config.test_split else None
            drawn = self.sampler.sample(number, exclude=excluded)
            return self.sampler.replace(drawn, doc, seed=self._seed)
        except DataError as error:
            place = f"--num_fewshot: {self.name}" if self._shots_asked else self.config.where("num_fewshot")
            raise DataError(error.what, where=error.where or place, hint=error.hint) from error

    def _shot(self, index: int) -> list[prompt.Message]:
        """An example, rendered when it is first drawn."""
        if index not in self._shots:
            with placing(f"few-shot {self._shot_place(index)}"):
                self._shots[index] = self._render_shot(self.sampler.pool[index])
        return self._shots[index]

    def _shot_place(self, index: int) -> str:
        """Where an example comes from: the row of a split, or its number among the samples that are given."""
        config = self._fewshot
        if config.fewshot_indices is not None:
            index = config.fewshot_indices[index]
        if config.split is None and config.samples is not None:
            return f"sample {index}"
        task = self.config
        split = config.split or task.training_split or task.validation_split or task.test_split
        return f"row {index} of split '{split}'"

    def _render_shot(self, doc: Doc) -> list[prompt.Message]:
        config = self._fewshot
        layout = prompt.Layout(config.target_delimiter or "", config.fewshot_delimiter or "")
        prefix = self.reader.text(config.gen_prefix, doc, "gen_prefix")
        question = self.with_media(self.shot_question(doc), doc)
        return prompt.shot(question, after_prefix(self._written_answer(doc), prefix), prefix, layout)

    def _written_answer(self, doc: Doc) -> str:
        """The answer of an example as its format asks for it, after its rationale where both have one."""
        answer, form = self.shot_answer(doc), self.config.format
        if form is None:
            return answer
        template = form.shot_answer()
        rationale = ""
        if "{rationale}" in template and self._fewshot.doc_to_rationale is not None:
            value = self.reader.read(self._fewshot.doc_to_rationale, doc, "doc_to_rationale")
            rationale = "" if value is None else str(value)
        return written_answer(template, answer, rationale)

    def shot_question(self, doc: Doc) -> str:
        """The question of an example."""
        return str(self.doc_to_text(doc, self._fewshot.doc_to_text))

    def shot_answer(self, doc: Doc) -> str:
        """The answer of an example as text: the first of several, a choice for an index."""
        target = self.doc_to_target(doc, self._fewshot.doc_to_target)
        target = target[0] if isinstance(target, list) else target
        if isinstance(target, int) and not isinstance(target, bool) and self._fewshot.doc_to_choice is not None:
            choices = self.doc_to_choice(doc, self._fewshot.doc_to_choice)
            if not 0 <= target < len(choices):
                what = f"the answer {target} is not between 0 and {len(choices) - 1}"
                raise DataError(what, where=self.config.where("doc_to_target"), hint="check doc_to_target")
            return choices[target]
        return str(target)

    @property
    def _fewshot(self) -> FewshotConfig:
        assert isinstance(self.config.fewshot_config, FewshotConfig)
        return self.config.fewshot_config

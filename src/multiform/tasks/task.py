"""Task: one benchmark under one format, from documents to requests to scores."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from multiform.config import FewshotConfig, TaskConfig
from multiform.errors import ConfigError, DataError, nearest, shorten
from multiform.fields import Doc, FieldSpec
from multiform.formats import OutputType
from multiform.requests import Instance, Output
from multiform.scoring.build import Scoring, build_scoring
from multiform.scoring.outcome import Outcome
from multiform.scoring.statistics import Estimate
from multiform.tasks import prompt
from multiform.tasks.docs import Docs, DocSource, selected
from multiform.tasks.fewshot import DEFAULT_SEED, Sampler, samplers
from multiform.tasks.reader import DocReader, placing
from multiform.tasks.unsupported import refuse_unsupported

ChatTemplate = Callable[..., str]

_KINDS: dict[str, type[Task]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions:
    """How a run wants its prompts, beside what the task and its format say."""

    system_instruction: str | None = None
    apply_chat_template: bool = False
    fewshot_as_multiturn: bool = False
    chat_template: ChatTemplate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredDoc:
    """What one document came to under one scorer."""

    doc_id: int
    doc: Doc
    target: Any
    instances: tuple[Instance, ...]
    outputs: tuple[Output, ...]
    scorer: str
    filtered: tuple[Any, ...]
    values: Mapping[str, Any]


class Task(ABC):
    """A benchmark under one format. `from_config` gives the subclass that fits the output type."""

    OUTPUT_TYPE: ClassVar[OutputType]

    def __init__(self, config: TaskConfig | dict[str, Any], *, dataset_mirror: Path | None = None) -> None:
        self.config = config if isinstance(config, TaskConfig) else TaskConfig.from_dict(config)
        refuse_unsupported(self.config)
        self.source = DocSource(self.config, dataset_mirror)
        self.scoring: Scoring = build_scoring(self.config)
        self._seed: int | None = DEFAULT_SEED
        self.reader = DocReader(self.config)
        self._shots: dict[int, list[prompt.Message]] = {}
        self._instances: list[Instance] = []

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "OUTPUT_TYPE" in cls.__dict__:
            _KINDS.setdefault(cls.OUTPUT_TYPE, cls)

    @classmethod
    def from_config(cls, config: TaskConfig | dict[str, Any], *, dataset_mirror: Path | None = None) -> Task:
        """The task of the right kind for the configuration's output type."""
        made = config if isinstance(config, TaskConfig) else TaskConfig.from_dict(config)
        return _KINDS[made.output_type](made, dataset_mirror=dataset_mirror)

    # Documents

    @property
    def name(self) -> str:
        """The form's name, ``task@format`` where a format was asked for."""
        return self.config.form_name

    @property
    def eval_docs(self) -> Docs:
        return self.source.evaluated()

    def doc_iterator(
        self, *, rank: int = 0, limit: float | None = None, world_size: int = 1, samples: Sequence[int] | None = None
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """The documents to evaluate, with their index in the split."""
        try:
            yield from selected(self.eval_docs, rank=rank, limit=limit, world_size=world_size, samples=samples)
        except DataError as error:
            raise DataError(error.what, where=error.where or self.name, hint=error.hint) from error

    # Fields

    def doc_to_text(self, doc: Doc, doc_to_text: FieldSpec = None) -> str:
        spec = self.config.doc_to_text if doc_to_text is None else doc_to_text
        return str(self.reader.read(spec, doc, "doc_to_text"))

    def doc_to_choice(self, doc: Doc, doc_to_choice: FieldSpec = None) -> list[str]:
        spec = self.config.doc_to_choice if doc_to_choice is None else doc_to_choice
        return self.reader.choices(spec, doc)

    def doc_to_target(self, doc: Doc, doc_to_target: FieldSpec = None) -> Any:
        """The answer as the task's fields give it; a spelled-out list is a list."""
        spec = self.config.doc_to_target if doc_to_target is None else doc_to_target
        return self.reader.target(spec, doc)

    def doc_to_prefix(self, doc: Doc) -> str:
        return self.reader.text(self.config.gen_prefix, doc, "gen_prefix")

    # Prompts

    @property
    def num_fewshot(self) -> int:
        return self.config.num_fewshot or 0

    def set_num_fewshot(self, num_fewshot: int) -> None:
        """Override the number of examples; a task that sets 0 keeps it."""
        if self.config.num_fewshot != 0 or num_fewshot == 0:
            self.config.num_fewshot = num_fewshot

    def set_fewshot_seed(self, seed: int | None = None) -> None:
        self._seed = seed
        self.__dict__.pop("sampler", None)

    @cached_property
    def sampler(self) -> Sampler:
        """Draws the few-shot examples; made on first use, when the dataset is read."""
        config = self._fewshot
        if config.sampler not in samplers:
            hint = nearest(config.sampler, samplers, listed="samplers")
            what = f"unknown sampler '{config.sampler}'"
            raise ConfigError(what, where=self.config.where("fewshot_config", "sampler"), hint=hint)
        return samplers.get(config.sampler)(self.source.fewshot(), seed=self._seed)

    def fewshot_context(
        self,
        doc: dict[str, Any],
        num_fewshot: int,
        system_instruction: str | None = None,
        apply_chat_template: bool = False,
        fewshot_as_multiturn: bool = False,
        chat_template: ChatTemplate | None = None,
        gen_prefix: str | None = None,
    ) -> str:
        """The whole prompt of a document: system text, examples, question, beginning of the answer."""
        layout = prompt.Layout(self.config.target_delimiter, self.config.fewshot_delimiter)
        description = self.reader.text(self.config.description, doc, "description")
        messages = prompt.system_message(system_instruction, description, layout)
        for index in self._draw(doc, num_fewshot):
            messages += self._shot(index)
        messages += prompt.query(self.doc_to_text(doc), gen_prefix or "", layout)
        if not apply_chat_template or chat_template is None:
            return prompt.plain_text(messages)
        chat = prompt.chat_messages(messages, multiturn=fewshot_as_multiturn)
        return chat_template(chat, add_generation_prompt=not gen_prefix)

    def _draw(self, doc: dict[str, Any], number: int) -> list[int]:
        if number == 0:
            return []
        try:
            # lm-eval 0.4.13 leaves the document out only where these two are equal; see docs/fewshot.md.
            excluded = doc if self._fewshot.split == self.config.test_split else None
            drawn = self.sampler.sample(number, exclude=excluded)
            return self.sampler.replace(drawn, doc, seed=f"{self._seed} {shorten(doc, 500)}")
        except DataError as error:
            raise DataError(
                error.what, where=error.where or self.config.where("num_fewshot"), hint=error.hint
            ) from error

    def _shot(self, index: int) -> list[prompt.Message]:
        """An example, rendered when it is first drawn."""
        if index not in self._shots:
            with placing(f"{self.name}: few-shot doc {index}"):
                self._shots[index] = self._render_shot(self.sampler.pool[index])
        return self._shots[index]

    def _render_shot(self, doc: Doc) -> list[prompt.Message]:
        config = self._fewshot
        layout = prompt.Layout(config.target_delimiter or "", config.fewshot_delimiter or "")
        question = self.doc_to_text(doc, config.doc_to_text)
        prefix = self.reader.text(config.gen_prefix, doc, "gen_prefix")
        return prompt.shot(question, self._shot_answer(doc), prefix, layout)

    def _shot_answer(self, doc: Doc) -> str:
        """The answer of an example as text: the first of several, a choice for an index."""
        target = self.doc_to_target(doc, self._fewshot.doc_to_target)
        target = target[0] if isinstance(target, list) else target
        if isinstance(target, int) and not isinstance(target, bool) and self._fewshot.doc_to_choice is not None:
            choices = self.doc_to_choice(doc, self._fewshot.doc_to_choice)
            if not 0 <= target < len(choices):
                raise DataError(
                    f"the answer {target} is not between 0 and {len(choices) - 1}", hint="check doc_to_target"
                )
            return choices[target]
        return str(target)

    # Requests

    @abstractmethod
    def construct_requests(
        self,
        doc: dict[str, Any],
        ctx: str,
        *,
        doc_id: int,
        metadata: dict[str, Any] | None = None,
        apply_chat_template: bool = False,
        chat_template: ChatTemplate | None = None,
    ) -> list[Instance]:
        """The requests of one document."""

    @property
    def instances(self) -> list[Instance]:
        """The requests that `build_all_requests` made."""
        return self._instances

    def build_all_requests(
        self,
        *,
        limit: float | None = None,
        samples: Sequence[int] | None = None,
        rank: int = 0,
        world_size: int = 1,
        system_instruction: str | None = None,
        apply_chat_template: bool = False,
        fewshot_as_multiturn: bool = False,
        chat_template: ChatTemplate | None = None,
    ) -> list[Instance]:
        """Make and keep the requests of all documents to evaluate."""
        options = PromptOptions(
            system_instruction=system_instruction,
            apply_chat_template=apply_chat_template,
            fewshot_as_multiturn=fewshot_as_multiturn,
            chat_template=chat_template,
        )
        docs = self.doc_iterator(limit=limit, samples=samples, rank=rank, world_size=world_size)
        self._instances = [instance for doc_id, doc in docs for instance in self.requests_of(doc_id, doc, options)]
        return self._instances

    def requests_of(self, doc_id: int, doc: dict[str, Any], options: PromptOptions) -> list[Instance]:
        """The requests of one document; an error names the document."""
        with placing(f"doc {doc_id}"):
            self.reader.check(doc)
            context = self.fewshot_context(
                doc,
                self.num_fewshot,
                system_instruction=options.system_instruction,
                apply_chat_template=options.apply_chat_template,
                fewshot_as_multiturn=options.fewshot_as_multiturn,
                chat_template=options.chat_template,
                gen_prefix=self.doc_to_prefix(doc),
            )
            return self.construct_requests(doc, context, doc_id=doc_id, apply_chat_template=options.apply_chat_template)

    def answer_delimiter(self, apply_chat_template: bool) -> str:
        """What stands between the prompt and a scored answer; in a chat, the turn's end stands there."""
        prefix = self.config.gen_prefix or ""
        if apply_chat_template and (not prefix or prefix[-1].isspace()):
            return ""
        return self.config.target_delimiter

    # Scores

    @abstractmethod
    def outcome(self, doc: Doc, instances: Sequence[Instance], outputs: Sequence[Any]) -> Outcome:
        """What the metrics see of a document."""

    def process_instances(
        self, doc_id: int, instances: Sequence[Instance], outputs: Sequence[Output]
    ) -> list[ScoredDoc]:
        """Filter and score one document, once for each scorer."""
        doc = self.eval_docs[doc_id]
        return [
            ScoredDoc(
                doc_id=doc_id,
                doc=doc,
                target=self.doc_to_target(doc),
                instances=tuple(instances),
                outputs=tuple(outputs),
                scorer=scorer.name,
                filtered=tuple(filtered),
                values=scorer.score(self.outcome(doc, instances, filtered)),
            )
            for scorer in self.scoring.scorers
            for filtered in [self._filtered(scorer.pipeline, doc, outputs)]
        ]

    def _filtered(self, pipeline: Callable[..., list[Any]], doc: Doc, outputs: Sequence[Output]) -> list[Any]:
        return list(outputs)

    def aggregate(self, scored: Iterable[ScoredDoc]) -> dict[str, Estimate]:
        """All scores of a form, keyed ``metric,scorer``."""
        docs = list(scored)
        found: dict[str, Estimate] = {}
        for scorer in self.scoring.scorers:
            values = [doc.values for doc in docs if doc.scorer == scorer.name]
            for metric in scorer.metrics:
                items = [value[metric.name] for value in values]
                if items:
                    found[f"{metric.name},{scorer.name}"] = metric.aggregation(items)
        return found

    def higher_is_better(self) -> dict[str, bool]:
        return {metric.name: metric.higher_is_better for scorer in self.scoring.scorers for metric in scorer.metrics}

    def dump_config(self) -> dict[str, Any]:
        return self.config.to_dict()

    @staticmethod
    def count_bytes(text: str) -> int:
        return len(text.encode("utf-8"))

    @staticmethod
    def count_words(text: str) -> int:
        return len(re.split(r"\s+", text))

    @property
    def _fewshot(self) -> FewshotConfig:
        assert isinstance(self.config.fewshot_config, FewshotConfig)
        return self.config.fewshot_config

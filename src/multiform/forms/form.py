"""Form: one task under one format, with the settings of a run: the unit that is run, linted, cached and reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from multiform.errors import ConfigError, MultiformError, locating
from multiform.fields import Doc
from multiform.forms.conversations import ConversationKind
from multiform.forms.output_kinds import OUTPUT_KINDS, OutputKind
from multiform.forms.renderer import Renderer
from multiform.forms.sample import Sample, ScoredSample
from multiform.forms.samplers import check_fewshot
from multiform.forms.scorer import FormScorer
from multiform.forms.spec import FIELD_HOOKS, FormSpec, RunSettings
from multiform.forms.thoughts import BudgetKind, ThoughtKind
from multiform.prompts.prompt import ChatTemplate
from multiform.requests import Instance, Output, resolved_names
from multiform.schema import check_keys
from multiform.scoring.aggregations import DEFAULT_ITERATIONS
from multiform.statistics.estimates import Estimate
from multiform.tasks.config import TaskConfig
from multiform.tasks.keys import default_keys


@dataclass(frozen=True, eq=False, repr=False)
class Form(FormSpec):
    """A task under one format, with the settings of a run: its documents, samples and scores. Immutable.

    A hook, which is a method that the class of the task overrides, is called in the place of what the form would do.

    >>> from multiform.tasks.manager import TaskManager
    >>> form = Form(TaskManager().load("quiz@mcqa")[0], RunSettings(num_fewshot=3))
    >>> form
    <Form quiz@mcqa: multiple_choice, 3-shot>
    >>> doc_id, doc = next(form.docs())
    >>> sample = form.sample(doc_id, doc)
    >>> sample.instances[0].request.continuation, sample.choices
    (' A', ('A', 'B', 'C', 'D'))
    """

    def __post_init__(self) -> None:
        """Refuse what cannot be run; no file is read."""
        if self.num_fewshot or self.fewshot.sampler != "default":
            check_fewshot(self)
        self._check_choice_order()
        _ = self.renderer, self.scorer

    def _check_choice_order(self) -> None:
        """Refuse another order of the choices if code of the task makes or reads prompts with them."""
        if self.config.choice_order is None:
            return
        code = [name for name in (*FIELD_HOOKS, "fewshot_context", "construct_requests") if name in self.hooks]
        if self.scores_itself and self.output_type != "multiple_choice":
            code.append("process_results")
        if code:
            message = f"the order of choices cannot change under code of the task ({code[0]})"
            raise ConfigError(message, where=self.name, hint="leave the order out, or run the task without the code")

    def __reduce__(self) -> tuple[Any, ...]:
        """A form without hooks is a value: the process that gets it reads the dataset itself."""
        if self.hooks or self.task is not None:
            raise TypeError(f"'{self.name}' has code of its class, and stays in its process")
        return Form, (self.config, self.settings, {}, self.mirror)

    def under(self, settings: RunSettings) -> Form:
        """The same form with the settings of a run; this one stays as it is. Its hooks are those of a task with it."""
        config, settings = self.values_under(settings)
        if self.task is not None:
            form = self.task.copy_with(config, settings).form
            assert isinstance(form, Form)
            return form
        return Form(config, settings, self.hooks, mirror=self.mirror, loaded=self.source)

    def values_under(self, settings: RunSettings) -> tuple[TaskConfig, RunSettings]:
        """The configuration and settings that the form has under the settings of a run."""
        settings = replace(settings, metric=settings.metric or self.settings.metric)
        makes_prompts = not self.hooks.keys().isdisjoint({"doc_to_text", "fewshot_context"})
        if settings.perturbation is not None and makes_prompts and "perturbation" not in self.hooks:
            message = f"{type(self.task).__name__} makes its prompts itself, so no perturbation can change them"
            raise ConfigError(message, where=self.name, hint="run it without a perturbation")
        return self.config.replace(**settings.overrides) if settings.overrides else self.config, settings

    def change_key(self, key: str, value: Any, *, update: bool = False) -> tuple[TaskConfig, RunSettings]:
        """The configuration and settings with another value of a key; with `update`, added to the mapping it has."""
        check_keys("a task", default_keys(), [key], lambda *_: self.name)
        if key == "generation_kwargs" and isinstance(value, Mapping):
            value = resolved_names(value)
        current = getattr(self.config, key)
        if update:
            if not isinstance(current, dict) or not isinstance(value, Mapping):
                message = f"'{key}' is a {type(current).__name__}, not a mapping that can be updated"
                raise ConfigError(message, where=self.name, hint="call it without update=True")
            value = {**current, **value}
        if key == "generation_kwargs" and self.format is not None:  # a run's arguments are over the format's
            return self.config, replace(self.settings, gen_kwargs={**self.settings.gen_kwargs, **value})
        return self.config.replace(**{key: value}), self.settings

    @property
    def notes(self) -> list[MultiformError]:
        """Warnings about the task's files, its known errors, and how its scores differ from published ones."""
        source, place = self.config.stated.source, self.where("known_errors")
        form = f"@{self.format_label}" if self.format_label else "the task"
        errors = self.config.known_errors or ()
        known = [MultiformError(f"{form} keeps an error on purpose: {error}", where=place) for error in errors]
        differs = self.config.metadata.get("differs")
        if isinstance(differs, Mapping):  # by format
            differs = differs.get(self.format_label)
        if isinstance(differs, str):
            message, place = f"scores are not comparable with published ones: {differs}", self.where("metadata")
            known.append(MultiformError(message, where=place))
        return [*(source.notes if source is not None else ()), *known, *self.scoring.notes, *self.scorer.check()]

    @property
    def ignores_choices(self) -> bool:
        """Whether a model would generate without seeing the choices, if nothing says that this is intended."""
        config = self.config
        if self.task is not None or self.output_type != "generate_until" or config.doc_to_choice is None:
            return False
        stated = (config.output_type_stated, config.process_results, config.scorer, config.repeats > 1)
        settings = [config.stated.get(key) for key in ("generation_kwargs", "metric_list", "filter_list")]
        return not any(stated) and not any(settings)

    # Samples.

    @cached_property
    def _output_kind(self) -> OutputKind:
        """How requests are built and responses read, by output type, format and turns."""
        config = self.config
        if config.doc_to_turns is None:
            if config.format is not None and config.format.thinks:
                return ThoughtKind(self)
            if self.output_type == "generate_until" and self.generation_kwargs.get("thinking_budget") is not None:
                return BudgetKind(self)
            return OUTPUT_KINDS[self.output_type](self)
        if self.output_type != "generate_until":
            message = f"the model replies in a conversation, and output_type {self.output_type} generates nothing"
            hint = "set output_type: generate_until, or choose a format that generates"
            raise ConfigError(message, where=config.where("doc_to_turns"), hint=hint)
        return ConversationKind(self)

    @cached_property
    def renderer(self) -> Renderer:
        """Makes samples of documents."""
        return Renderer(self, self._output_kind)

    def sample(self, doc_id: int, doc: Doc, chat_template: ChatTemplate | None = None) -> Sample:
        """One document, rendered: its prompt, gold answer and requests."""
        return self.hook("sample", self.renderer.sample)(doc_id, doc, chat_template)

    def continue_sample(
        self, sample: Sample, outputs: Sequence[Output], chat_template: ChatTemplate | None = None
    ) -> Sample | None:
        """The sample with the requests that follow from its responses so far; None once it has all of them.

        `outputs` are the responses to its instances, in their order. A pure function: a run may ask again at any time.
        """
        with locating(f"doc {sample.doc_id}"):
            requests = self._output_kind.next_requests(sample, outputs, chat_template)
        if not requests:
            return None
        first = len(sample.instances)
        added = [Instance(sample.doc_id, first + number, request) for number, request in enumerate(requests)]
        return replace(sample, instances=(*sample.instances, *added))

    def requests(self, docs: Iterable[tuple[int, Doc]], chat_template: ChatTemplate | None = None) -> list[Instance]:
        """The requests of documents."""
        samples = (self.sample(doc_id, doc, chat_template) for doc_id, doc in docs)
        return [instance for sample in samples for instance in sample.instances]

    def decontamination_query(self, doc: Doc) -> str:
        """The text that is looked up in a training corpus: the task's query, or the question."""
        return self.hook("doc_to_decontamination_query", self.renderer.decontamination_query)(doc)

    # Scores.

    @cached_property
    def scorer(self) -> FormScorer:
        """Scores samples, and aggregates their values."""
        return FormScorer(self, self._output_kind)

    def score(self, sample: Sample, outputs: Sequence[Output]) -> list[ScoredSample]:
        """Filter and score a sample, once for each scorer that does not wait for all of them."""
        return self.hook("score", self.scorer.score)(sample, outputs)

    def estimates(
        self, scored: Iterable[ScoredSample], bootstrap_iters: int = DEFAULT_ITERATIONS
    ) -> dict[str, Estimate]:
        """All scores of the form with their uncertainty, keyed ``metric,scorer``."""
        return self.hook("estimates", self.scorer.estimates)(list(scored), bootstrap_iters)

    @property
    def higher_is_better(self) -> dict[str, bool]:
        """Whether higher is better in each metric, and in the values that scored documents have by other names."""
        return self.hook("higher_is_better", lambda: self.scorer.directions)()


def copy_form(form: Form) -> Form:
    """The same form once more, to render documents that have not had their turn; each problem is reported once."""
    copy = form.under(form.settings)
    copy.renderer.problems = form.renderer.problems
    return copy

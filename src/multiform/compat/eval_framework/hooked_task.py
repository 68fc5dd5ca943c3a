"""HookedTask: runs a Python task whose own hooks write the prompts and compute the scores.

Its configuration has fields that call the hooks: `hook`, `HookedPrompt` and `HookedDataset`.
"""

from __future__ import annotations

import copy
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from multiform.compat.eval_framework.sample_hooks import LOADING, NO_SUBJECT, SampleHooks
from multiform.compat.eval_framework.samples import Completion, Loglikelihood, Message, Role, Sample, calculate
from multiform.errors import ConfigError, DataError, excerpt, running
from multiform.fields import Doc, FieldSpec
from multiform.formats.dialects.metric_classes import BaseMetric, result_keys
from multiform.formats.dialects.styler import ResponseType
from multiform.formats.perturbation import Perturbation
from multiform.forms.sample import Sample as RenderedSample
from multiform.forms.sample import ScoredSample
from multiform.forms.spec import RunSettings
from multiform.forms.task import Task
from multiform.prompts.prompt import ChatTemplate, Turn, chat_messages, plain_text
from multiform.scoring.aggregations import DEFAULT_ITERATIONS
from multiform.scoring.filters import Pipeline
from multiform.statistics.estimates import Estimate, mean_estimate
from multiform.tasks.config import TaskConfig
from multiform.tasks.datasets.documents import Docs

logger = logging.getLogger("multiform")

#: The limit of tokens of a completion, where a class does not set one.
DEFAULT_MAX_TOKENS = 256

#: The modules that form identities name for the hooks of our own classes; they stay the same when a class moves.
_STABLE_PLACES = {"StylerHooks": "multiform.tasks.styler_hooks", "SampleHooks": "multiform.tasks.sample_hooks"}
#: The aggregators of eval-framework that are the same as a mean.
AGGREGATED = ("Pass@1", "IdentifierMean", "Identity")
#: The column with the number of a document's sample.
SAMPLE_ID = "sample_id"


def item_of(doc: Doc, subject: Any) -> dict[str, Any]:
    """A document as the hooks get it: a copy with the key `subject`.

    Where the dataset has no subjects, a column of that name is not replaced.
    """
    return {"subject": subject, **doc} if subject == NO_SUBJECT else {**doc, "subject": subject}


def hook(task: SampleHooks, name: str, subject: Any) -> Callable[[Doc], Any]:
    """A method of the task as a field of a configuration; it gets a copy of the document with its subject."""
    method = getattr(task, name)

    def call(doc: Doc) -> Any:
        return method(item_of(doc, subject))

    call.__name__, call.__qualname__ = method.__name__, method.__qualname__
    own = method.__module__ == SampleHooks.__module__
    call.__module__ = _STABLE_PLACES[method.__qualname__.partition(".")[0]] if own else method.__module__
    call.__wrapped__ = method  # type: ignore[attr-defined]
    return call


class HookedPrompt:
    """The field `doc_to_text` of a task that writes its prompts itself: its instruction and its cue."""

    def __init__(self, task: SampleHooks, subject: Any, noise: Perturbation | None = None) -> None:
        self.task, self.subject, self.noise = task, subject, noise
        self.__module__, self.__qualname__ = type(task).__module__, f"{type(task).__qualname__}._get_instruction_text"

    def __call__(self, doc: Doc) -> str:
        item, task = item_of(doc, self.subject), self.noisy_task()
        return task._get_instruction_text(item) + task._get_cue_text(item)

    def with_noise(self, noise: Perturbation) -> HookedPrompt:
        """The same field with noise in the question, or in the instruction where the class writes that itself."""
        return HookedPrompt(self.task, self.subject, noise)

    def noisy_task(self) -> SampleHooks:
        """A copy of the task, with the noise of this field."""
        task = copy.copy(self.task)
        if self.noise is None:
            return task
        name = "_get_instruction_text" if "_get_instruction_text" in task._own_hooks else "_get_raw_question"
        method, noise = getattr(self.task, name), self.noise
        setattr(task, name, lambda item: noise(method(item)))
        return task


class HookedDataset:
    """The field `custom_dataset` of a class with its own `_load_dataset`."""

    def __init__(self, task: SampleHooks, subject: Any) -> None:
        self.task, self.subject = task, subject
        self.__module__, self.__qualname__ = type(task).__module__, f"{type(task).__qualname__}._load_dataset"

    def __call__(self, *, dataset_mirror: Path | None = None, **_: Any) -> Mapping[str, Sequence[dict[str, Any]]]:
        self.task._mirror = dataset_mirror
        self.task.rnd = None
        self.task._load_dataset(self.subject)
        rows = getattr(self.task, "dataset", None)
        if not isinstance(rows, Mapping):
            message = f"{type(self.task).__name__}._load_dataset did not set self.dataset to the rows of each split"
            raise DataError(message, hint='set e.g. self.dataset = {"test": [...]}')
        return rows


def calculates(task: SampleHooks) -> bool:
    """Whether the metric classes are computed from responses as eval-framework has them.

    Built-in classes of log-likelihoods need none of that: the registered metrics have the same values.
    """
    classes = [metric for metric in task.get_metrics() if isinstance(metric, type) and issubclass(metric, BaseMetric)]
    generates = task.get_response_type() is ResponseType.COMPLETION
    return any(metric.has_calculate() or (generates and metric.is_registered()) for metric in classes)


class HookedTask(Task):
    """Runs the samples of a Python task and scores them with its metrics."""

    _warned = False

    def _configure(self, config: TaskConfig, settings: RunSettings) -> None:
        self._samples: dict[int, Sample] = {}
        #: The row of each document and the document's number among those of its row.
        self._rows: list[tuple[int, int]] = []
        #: The completions of each document before they were post-processed.
        self._raw: dict[int, list[str]] = {}
        self._better: dict[str, bool] = {}
        self._errors: dict[str, list[str]] = {}
        for name in ("python_task", "_numbered_docs", "_metric_objects"):
            self.__dict__.pop(name, None)
        if settings.num_fewshot is not None:
            settings = replace(settings, num_fewshot=_accept_shots(config, settings.num_fewshot))
        super()._configure(config, settings)

    def set_num_fewshot(self, num_fewshot: int) -> None:
        """Override the number of few-shot examples; the constructor of the class may refuse it or change it."""
        super().set_num_fewshot(_accept_shots(self.config, num_fewshot))

    def _hooks(self, config: TaskConfig) -> dict[str, Callable[..., Any]]:
        hooks = super()._hooks(config)
        hooks["several_inputs"] = lambda: False
        hooks["perturbation"] = _prompt_of(config).noisy_task
        if config.process_results is not None or not calculates(_prompt_of(config).task):
            hooks.pop("process_results", None)
        else:
            hooks["values"] = dict  # a metric may have several values for a document, and all of them count
        if config.output_type == "generate_until":
            hooks["filtered"] = self._post_process
        if config.output_type != "multiple_choice":
            hooks.pop("doc_to_choice")
            hooks.pop("fewshot_doc_to_choice")
        return hooks

    @property
    def _prompt(self) -> HookedPrompt:
        return _prompt_of(self.config)

    @cached_property
    def python_task(self) -> SampleHooks:
        """The Python task with the rows and the few-shot sampler of this run."""
        source = self.form.source
        splits = list(source.dataset)  # a class's own _load_dataset may set more than the rows
        task = self._prompt.noisy_task()
        if task._own_hooks.isdisjoint(LOADING):
            splits = [split for split in splits if split in (task.SAMPLE_SPLIT, task.FEWSHOT_SPLIT)]
        task.dataset = {split: source.split(split) for split in splits}
        task._draw = self._draw_examples
        return task

    # Documents and samples.

    @property
    def eval_docs(self) -> Docs:
        return self._numbered_docs

    @cached_property
    def _numbered_docs(self) -> Docs:
        """The evaluated rows, each repeated for every sample that the class creates from it."""
        rows = self.form.source.eval_docs()
        if "_create_samples" not in self.python_task._own_hooks:
            self._rows = [(row, 0) for row in range(len(rows))]
        else:
            for row, doc in enumerate(rows):
                samples = self._create_samples(row, doc, len(self._rows))
                self._samples |= {len(self._rows) + part: sample for part, sample in enumerate(samples)}
                self._rows += [(row, part) for part in range(len(samples))]
        return [{**rows[row], SAMPLE_ID: number} for number, (row, _) in enumerate(self._rows)]

    def sample_of(self, doc: Doc) -> Sample:
        """The sample of a document; created once, as that draws few-shot examples."""
        number = doc.get(SAMPLE_ID)
        if number is None:  # a row that did not come from `eval_docs`
            return self._create_samples(0, doc, 0)[0]
        if number not in self._samples:
            row, _ = self._rows[number]
            self._samples[number] = self._create_samples(row, doc, number)[0]
        return self._samples[number]

    def _create_samples(self, row: int, doc: Doc, number: int) -> list[Sample]:
        task = self.python_task
        task.num_fewshot = self.num_fewshot
        task.rnd = random.Random(f"{self.form.fewshot_seed} {row}")
        with self._running("_create_samples"):
            samples = task._create_samples(self._item(doc), number, str(self._prompt.subject))
        if not isinstance(samples, list) or not samples or not all(isinstance(sample, Sample) for sample in samples):
            message = f"{type(task).__name__}._create_samples returned {excerpt(samples)}, not a list of samples"
            raise DataError(message, where=self.name, hint="return [Sample(...)]")
        return samples

    def _item(self, doc: Doc) -> dict[str, Any]:
        return item_of({key: value for key, value in doc.items() if key != SAMPLE_ID}, self._prompt.subject)

    def _draw_examples(self, item: dict[str, Any]) -> list[dict[str, Any]]:
        """The few-shot examples of an item, drawn by the sampler of the run."""
        names = self.form.source.eval_docs()[0]
        doc = {key: value for key, value in item.items() if key in names}
        return self.form.renderer.examples.docs(doc, self.num_fewshot)

    # Prompts and requests.

    def fewshot_context(
        self,
        doc: dict[str, Any],
        num_fewshot: int,
        system_instruction: str | None = None,
        apply_chat_template: bool = False,
        fewshot_as_multiturn: bool = False,
        chat_template: ChatTemplate | None = None,
        gen_prefix: str | None = None,
    ) -> Any:
        """The messages of the sample as one prompt; in a chat, a last assistant message begins the completion."""
        turns = prompt_turns(self.sample_of(doc).messages, self.name)
        if system_instruction:
            own_system = [turns.pop(0).content] if turns[0].role == "system" else []
            turns.insert(0, Turn("system", "\n\n".join([system_instruction, *own_system]), "\n\n"))
        if apply_chat_template and chat_template is not None:
            chat = chat_messages(turns, multiturn=fewshot_as_multiturn)
            return chat_template(chat, add_generation_prompt=turns[-1].role != "assistant")
        return plain_text(turns)

    def sample(self, doc_id: int, doc: Doc, chat_template: ChatTemplate | None = None) -> RenderedSample:
        self._check_metrics()
        limit = self.form.generation_kwargs.get("max_gen_toks")
        if not self._warned and self._prompt.task.max_tokens is None and limit == DEFAULT_MAX_TOKENS:
            self._warned = True
            hint = "set self.max_tokens, or give --gen_kwargs max_gen_toks=N"
            logger.warning(
                "%s: completions end after %d tokens, as the class sets no max_tokens; %s", self.name, limit, hint
            )
        return super().sample(doc_id, doc, chat_template)

    def doc_to_choice(self, doc: Doc, doc_to_choice: FieldSpec = None) -> list[str]:
        completions = self.sample_of(doc).possible_completions
        if not completions:
            message = f"a sample of {type(self._prompt.task).__name__} has no completions to score"
            raise DataError(message, where=self.name, hint="return some from _get_possible_completions")
        return completions

    def doc_to_target(self, doc: Doc, doc_to_target: FieldSpec = None) -> Any:
        """The ground truth; where registered metrics rank the completions, its indexes among them."""
        truth = self.sample_of(doc).ground_truth
        if self.form.output_type != "multiple_choice" or self.form.scores_itself:
            return truth
        completions = self.doc_to_choice(doc)
        golds = truth if isinstance(truth, list) else [truth]
        indexes = [completions.index(gold) for gold in golds if gold in completions]
        if not indexes:
            message = f"the answer {excerpt(truth)} is none of the completions {excerpt(completions, 120)}"
            raise DataError(message, hint="check _get_ground_truth and _get_possible_completions")
        return indexes if len(indexes) > 1 else indexes[0]

    # Scores.

    @cached_property
    def _metric_objects(self) -> list[BaseMetric[Any]]:
        """The metrics that calculate values; one object for the whole run, as some compare several samples."""
        with self._running("METRICS"):
            return [metric() for metric in self._prompt.task.get_metrics()]

    @property
    def _calculates(self) -> bool:
        """Whether the values come from the metrics of the class."""
        return self.form.scores_itself and self.config.process_results is None

    def _check_metrics(self) -> None:
        """Raise a ConfigError for metrics that cannot be computed, before the model runs."""
        for metric in self._metric_objects if self._calculates else ():
            unsupported = [aggregator.name for aggregator in metric.AGGREGATORS if aggregator.name not in AGGREGATED]
            why = f"it is aggregated by {', '.join(unsupported)}" if unsupported else metric.unavailable()
            if why is not None:
                message = f"metric {type(metric).__name__} cannot be computed: {why}"
                raise ConfigError(message, where=self.name, hint="give the class other METRICS, or use --predict_only")

    def process_results(self, doc: Doc, results: Sequence[Any]) -> Mapping[str, Any] | None:
        """The values that the metrics calculate; a list where a metric has several values for a document."""
        keys = result_keys([type(metric) for metric in self._metric_objects])
        values: dict[str, list[float]] = {}
        for response in self._responses(doc, results):
            for metric in self._metric_objects:
                with self._running(f"{type(metric).__name__}.calculate"):
                    calculated = calculate(metric, response)
                for result in calculated:
                    key = keys.get((type(metric), result.metric_name), result.metric_name)
                    self._better[key] = result.higher_is_better
                    numbers = values.setdefault(key, [])
                    if result.value is not None:
                        numbers.append(float(result.value))
                        continue
                    why = "no value and no error" if result.error is None else result.error.message
                    self._errors.setdefault(key, []).append(why)
        return {key: numbers[0] if len(numbers) == 1 else numbers for key, numbers in values.items()}

    def _post_process(self, pipeline: Pipeline, sample: RenderedSample, outputs: Sequence[Any]) -> list[Any]:
        raw, process = [output.text for output in outputs], self.python_task.post_process_generated_completion
        if SAMPLE_ID in sample.doc:
            self._raw[sample.doc[SAMPLE_ID]] = raw
        with self._running("post_process_generated_completion"):
            texts = [str(process(text, self.sample_of(sample.doc))) for text in raw]
        if self._calculates:
            return list(texts)
        filtered = pipeline(texts, sample.doc)
        return filtered if pipeline.single else [filtered]

    def _responses(self, doc: Doc, results: Sequence[Any]) -> Iterator[Completion | Loglikelihood]:
        """The responses of the model, as the metrics take them."""
        sample = self.sample_of(doc)
        question: dict[str, Any] = {
            "id": sample.id,
            "subject": sample.subject,
            "ground_truth": sample.ground_truth,
            "prompt": plain_text(prompt_turns(sample.messages, self.name)),
            "prompt_sequence_positions": None,
        }
        if self.form.output_type != "generate_until":
            if sample.ground_truth is None:
                raise DataError("there is no answer", where=self.name, hint="check _get_ground_truth")
            scored = zip(self.doc_to_choice(doc), results, strict=True)
            likelihoods = {completion: loglikelihood for completion, (loglikelihood, _) in scored}
            yield Loglikelihood(**question, loglikelihoods=likelihoods, loglikelihoods_sequence_positions={})
            return
        for text, raw in zip(results, self._raw.get(doc.get(SAMPLE_ID, -1), results), strict=True):
            messages = list(sample.messages)
            begun = messages.pop().content if messages and messages[-1].role is Role.ASSISTANT else ""
            yield Completion(
                **question,
                messages=[*messages, Message(role=Role.ASSISTANT, content=begun + raw)],
                completion=text,
                raw_completion=raw,
                raw_completion_sequence_positions=None,
                context=sample.context,
            )

    def estimates(
        self, scored: Iterable[ScoredSample], bootstrap_iters: int = DEFAULT_ITERATIONS
    ) -> dict[str, Estimate]:
        """The mean of all values of each metric; documents without a value are left out, with a warning."""
        docs = list(scored)
        if not self._calculates:
            return super().estimates(docs, bootstrap_iters)
        estimates: dict[str, Estimate] = {}
        for scorer in self.form.scoring.scorers:
            values = [doc.values for doc in docs if doc.scorer == scorer.name]
            for key in dict.fromkeys(key for value in values for key in value):
                per_doc = [value[key] for value in values if key in value]
                numbers = [float(x) for item in per_doc for x in (item if isinstance(item, list) else [item])]
                estimate = mean_estimate(numbers) if numbers else Estimate(value=float("nan"), n=0)
                estimates[f"{key},{scorer.name}"] = estimate
        for key, errors in self._errors.items():
            logger.warning("%s: %s has no value %d times; the first: %s", self.name, key, len(errors), errors[0])
        self._errors = {}
        return estimates

    def higher_is_better(self) -> dict[str, bool]:
        return {**super().higher_is_better(), **self._better}

    def _running(self, name: str) -> running:
        kind = type(self._prompt.task)
        return running(f"{kind.__name__}: {name}", where=self.config.where(), hint="call it to debug it")


def _prompt_of(config: TaskConfig) -> HookedPrompt:
    """The field that writes the prompts of a class."""
    if not isinstance(config.doc_to_text, HookedPrompt):
        message = "a class that writes its prompts itself does not use doc_to_text"
        raise ConfigError(message, where=config.where("doc_to_text"), hint="override _get_instruction_text")
    return config.doc_to_text


def _accept_shots(config: TaskConfig, num_fewshot: int) -> int:
    """The number of few-shot examples that the constructor of the class accepts; it may refuse or change it."""
    kind, name = type(_prompt_of(config).task), config.form_name
    with running(f"{kind.__name__}(num_fewshot={num_fewshot})", raises=ConfigError, where=name):
        number = kind(num_fewshot=num_fewshot).num_fewshot or 0
    if number != num_fewshot:
        logger.warning("%s: %s makes num_fewshot=%d of %d", name, kind.__name__, number, num_fewshot)
    return number


def prompt_turns(messages: Sequence[Message], task: str) -> list[Turn]:
    """The messages of a prompt, the last one stripped of white space as in eval-framework."""
    turns = []
    for message in messages:
        if message.role is None or message.property is not None:
            what = "a message has no role" if message.role is None else f"a message has the property {message.property}"
            raise DataError(what, where=task, hint="give messages of the system, the user and the assistant alone")
        after = "" if message.role.value == "user" else "\n\n"
        turns.append(Turn(message.role.value, message.content, after))
    if not turns:
        raise DataError("a sample has no messages", where=task, hint="check _get_messages and _create_samples")
    last = turns[-1]
    turns[-1] = Turn(last.role, last.content.strip())
    return turns

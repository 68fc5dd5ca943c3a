"""What differs between output types: the requests of a document, and what metrics get of the responses."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from multiform.errors import ConfigError, DataError, excerpt
from multiform.fields import Doc
from multiform.formats.base import OutputType
from multiform.forms.doc_fields import DocFields
from multiform.forms.sample import Context, FilteredSample, Sample
from multiform.forms.spec import FormSpec
from multiform.labels import gold_index, label_list
from multiform.prompts.prompt import ChatTemplate, Prompt, PromptOptions
from multiform.requests import (
    STOP_AT_LABEL,
    Completion,
    GenerationRequest,
    LLOutput,
    LoglikelihoodRequest,
    Output,
    Request,
    RollingRequest,
)
from multiform.scoring.filters import Pipeline
from multiform.scoring.outcome import ChoiceOutcome, LikelihoodOutcome, Outcome, TextOutcome


class OutputKind(ABC):
    """How a form of one output type builds requests and reads responses.

    A document may be asked about in stages, such as the turns of a conversation: `requests` gives the first ones, and
    `next_requests` those that follow from the responses to all before them, until it gives none. A run appends them to
    the instances of the sample, so that `filter_outputs` and `outcomes` get the outputs of all stages, in order.
    """

    #: The type of requests that metrics take responses to.
    request_type: type[Request] = LoglikelihoodRequest
    #: Whether `next_requests` may give any.
    has_stages: bool = False

    def __init__(self, form: FormSpec) -> None:
        self.form = form

    def inputs(self, fields: DocFields) -> list[str]:
        """The questions of a document: one, or one for each of several inputs."""
        if fields.question is None:
            raise self._missing("doc_to_text")
        if isinstance(fields.question, list):
            message, place = f"expected one question, got {excerpt(fields.question)}", self.form.where("doc_to_text")
            hint = "set multiple_inputs: true if each is scored with the same ending"
            raise DataError(message, where=place, hint=hint)
        return [str(fields.question)]

    def solved_example(self, fields: DocFields) -> tuple[str, str]:
        """The question and the answer of a few-shot example: the first of several answers, a choice for an index."""
        target, choices = fields.first_target, fields.choices
        if target is None and (self.form.compares or fields.target is not None):
            raise self._no_answer()
        if not isinstance(target, int) or isinstance(target, bool) or choices is None:
            return str(fields.question), str(target)
        if not 0 <= target < len(choices):
            message = f"the answer {target} is not between 0 and {len(choices) - 1}"
            raise DataError(message, where=self.form.where("doc_to_target"), hint="check doc_to_target")
        return str(fields.question), choices[target]

    def answer_key(self, fields: DocFields) -> dict[str, Any]:
        """The gold answer of a document, as fields of a `Sample`."""
        return {"target": fields.target}

    @abstractmethod
    def requests(self, fields: DocFields, context: Context, options: PromptOptions) -> list[Request]:
        """The requests of a document with this context; the options say whether it is a chat, written by a template."""

    def next_requests(
        self, sample: Sample, outputs: Sequence[Output], chat_template: ChatTemplate | None
    ) -> list[Request]:
        """The requests that follow from the outputs of a sample's instances so far; none once it has all of them.

        A pure function of the sample and the outputs: a resumed run calls it again with stored ones. The chat template
        is that of the model, whether the form applies it or not.
        """
        return []

    def needed_outputs(self, sample: Sample) -> int:
        """How many outputs a sample has after its last stage; 0 if it is asked about only once."""
        return 0

    def filter_outputs(self, pipeline: Pipeline, doc: Doc, outputs: Sequence[Output]) -> list[Any]:
        """The filtered outputs, in the types that filters, metrics and a task's own code take.

        A task's own `construct_requests` may ask for completions and for log-likelihoods.
        """
        return [
            (output.loglikelihood, output.is_greedy)
            if isinstance(output, LLOutput)
            else pipeline([output.text], doc)[0]
            for output in outputs
        ]

    @abstractmethod
    def outcomes(self, filtered: FilteredSample, *, all_repeats: bool) -> list[list[Outcome]]:
        """The outcomes that metrics get for each turn of a sample, one for each repeat that is left after filtering.

        Only conversations have several turns. With `all_repeats` all repeats are one outcome, as a task's own metric
        takes them.
        """

    def check_requests(self, sample: Sample) -> None:
        """Refuse requests of a task's own `construct_requests` that the metrics could not be computed from."""
        types = [type(instance.request) for instance in sample.instances]
        number = len(sample.choices) or (len(types) if self.request_type is GenerationRequest else 1)
        wanted = types[:number] if sample.choices else types  # after those for the choices there may be others
        if wanted != [self.request_type] * number:
            made = ", ".join(f"{types.count(each)} {each.__name__}" for each in dict.fromkeys(types))
            message = f"construct_requests made {made}, and the metrics are of {number} {self.request_type.__name__}"
            hint = "make these, set the output_type of the others, or give process_results"
            raise DataError(message, where=self.form.name, hint=hint)

    def _delimiter(self, options: PromptOptions) -> str:
        """What stands between the prompt and a scored answer; in a chat, the end of the turn stands there."""
        prefix = self.form.config.gen_prefix or ""
        if options.apply_chat_template and (not prefix or prefix[-1].isspace()):
            return ""
        return self.form.config.target_delimiter

    def _no_answer(self) -> DataError:
        return DataError("there is no answer", where=self.form.where("doc_to_target"), hint="check doc_to_target")

    def _missing(self, key: str) -> ConfigError:
        """The error of a task that lacks a field which its scores need."""
        return ConfigError(f"the task has no {key}", where=self.form.where(), hint=f"set {key}")


class ChoiceKind(OutputKind):
    """multiple_choice: one log-likelihood request for each choice.

    With several inputs it is the other way round: the inputs are prompts that share one continuation.
    """

    def inputs(self, fields: DocFields) -> list[str]:
        if not fields.several_inputs:
            return super().inputs(fields)
        if not self.form.config.multiple_inputs:
            return fields.choices or []
        if not isinstance(fields.question, list) or not fields.question:
            message = f"multiple_inputs needs a list of inputs, got {excerpt(fields.question)}"
            raise DataError(message, where=self.form.where("doc_to_text"), hint="return one text for each choice")
        return [str(text) for text in fields.question]

    def solved_example(self, fields: DocFields) -> tuple[str, str]:
        if not fields.several_inputs:
            return super().solved_example(fields)
        if self.form.config.multiple_inputs:
            return self.inputs(fields)[self.gold(fields)[0]], self._continuation(fields)
        return (fields.choices or [])[fields.question], self._continuation(fields)

    def _continuation(self, fields: DocFields) -> str:
        """What all inputs share: the task's only choice, or its target where the choices are the inputs."""
        return (fields.choices or [""])[0] if self.form.config.multiple_inputs else str(fields.target)

    def answer_key(self, fields: DocFields) -> dict[str, Any]:
        labels = self.form.format is not None and self.form.format.scored == "labels"
        gold, problem = self._known_gold(fields)
        return {
            "target": fields.target,
            "choices": tuple(self._candidates(fields)),
            "gold": gold,
            "problem": problem,
            "texts": tuple(fields.shown_choices or ()) if labels else (),
            "permutation": fields.permutation,
        }

    def requests(self, fields: DocFields, context: Context, options: PromptOptions) -> list[Request]:
        delimiter = self._delimiter(options)
        if isinstance(context, list):
            pairs = [(prompt, delimiter + self._continuation(fields)) for prompt in context]
        else:
            pairs = [(context, delimiter + choice) for choice in fields.choices or ()]
        for number, (_, text) in enumerate(pairs, start=1):
            if not text:
                raise self._empty_choice(number, "is empty")
        if self._unconditional is not None:
            if fields.several_inputs:
                message = "acc_mutual_info is not defined for several inputs"
                raise ConfigError(message, where=self.form.where("metric_list"), hint="use acc")
            pairs += [(self._unconditional, continuation) for _, continuation in pairs]
        return [LoglikelihoodRequest(prompt, text) for prompt, text in pairs]

    def _empty_choice(self, number: int, what: str) -> DataError:
        """The error about a choice without tokens: its log-likelihood would be 0, which no other choice reaches."""
        hint = "drop the document in process_docs, or give every choice a text"
        message = f"the text of choice {number} {what}, so its log-likelihood would be 0 and it would always win"
        return DataError(message, where=self.form.where("doc_to_choice"), hint=hint)

    @cached_property
    def _unconditional(self) -> Prompt | None:
        """The prompt that `acc_mutual_info` compares with; None where that metric is not asked for."""
        metrics = [metric for scorer in self.form.scoring.scorers for metric in scorer.metrics]
        prompts = {str(m.kwargs.get("unconditional", "")) for m in metrics if m.name == "acc_mutual_info"}
        if len(prompts) > 1:
            message = "acc_mutual_info is asked for with two different prompts"
            raise ConfigError(message, where=self.form.where("metric_list"), hint="give 'unconditional' once")
        return next(map(Prompt, prompts), None)

    def outcomes(self, filtered: FilteredSample, *, all_repeats: bool) -> list[list[Outcome]]:
        number = len(filtered.sample.choices)
        return [[self._outcome(filtered, 0, filtered.results[:number], filtered.results[number:])]]

    def _outcome(
        self, filtered: FilteredSample, first: int, results: Sequence[Any], unconditional: Sequence[Any]
    ) -> ChoiceOutcome:
        """The outcome of the requests about all choices, from the sample's `first` one on, with their results."""
        sample = filtered.sample
        asked = slice(first, first + len(sample.choices))
        requests = [instance.request for instance in sample.instances[asked]]
        outputs = [output for output in filtered.outputs[asked] if isinstance(output, LLOutput)]
        lengths = [output.tokens for output in outputs]
        for position, output in enumerate(outputs, start=1):
            if output.tokens == 0 and output.loglikelihood == 0:
                raise self._empty_choice(position, "has no token of the model's")
        return ChoiceOutcome(
            loglikelihoods=tuple(ll for ll, _ in results),
            greedy=tuple(greedy for _, greedy in results),
            choices=sample.choices,
            gold=sample.gold,
            tokens=tuple(n for n in lengths if n is not None) if None not in lengths else (),
            unconditional=tuple(ll for ll, _ in unconditional),
            scored=tuple(request.continuation for request in requests if isinstance(request, LoglikelihoodRequest)),
            texts=sample.texts,
        )

    def _candidates(self, fields: DocFields) -> Sequence[str]:
        """What is ranked: the choices, or the inputs of a document that has several."""
        if fields.several_inputs:
            return self.inputs(fields)
        if fields.choices is None and self.form.compares:
            raise self._missing("doc_to_choice")
        return fields.choices or ()

    def gold(self, fields: DocFields) -> tuple[int, ...]:
        """The indexes of the right choices; an answer that is none of them is an error."""
        if fields.gold is not None:
            return fields.gold
        choices = self._candidates(fields)
        by_question = fields.several_inputs and not self.form.config.multiple_inputs
        target = fields.question if by_question else fields.target
        if target is None and not fields.has_target:
            raise self._missing("doc_to_target")
        if isinstance(target, str) and target in choices:
            return (choices.index(target),)
        try:
            index = gold_index(target, choices)
        except DataError as error:
            if not by_question:
                raise error.relocate(self.form.where("doc_to_target")) from error
            message = f"the question is the whole number {excerpt(target)}, so it is the index of the right choice, "
            message += f"and there are {len(choices)} choices"
            hint = 'where it is meant as text, write more than the number, e.g. doc_to_text: "Question: {{question}}"'
            raise DataError(message, where=self.form.where("doc_to_text"), hint=hint) from error
        return tuple(index) if isinstance(index, list) else (index,)

    def _known_gold(self, fields: DocFields) -> tuple[tuple[int, ...], DataError | None]:
        """The indexes of the right choices, and why a document counts as wrong whatever the model picks.

        lm-eval scores a document as wrong without a word where its answer is none of the choices, so that a task
        without a format has to as well; under a format that is an error.
        """
        compares = self.form.compares
        if not compares and fields.target is None and fields.gold is None:
            return (), None
        try:
            return self.gold(fields), None
        except DataError as error:
            if self.form.format is not None and compares:
                raise
            known: list[int] = []  # those of several answers that are among the choices
            for answer in fields.target if isinstance(fields.target, list | tuple) else ():
                with suppress(DataError):
                    index = gold_index(answer, self._candidates(fields))
                    known += index if isinstance(index, list) else [index]
            return tuple(known), error if compares else None


class GenerationKind(OutputKind):
    """generate_until: the model completes the prompt, once or as often as `repeats` says."""

    request_type = GenerationRequest

    def answer_key(self, fields: DocFields) -> dict[str, Any]:
        return {
            "target": fields.target,
            "references": self._references(fields),
            "texts": tuple(self._shown(fields)),
            "labels": tuple(self._labels(fields)),
            "gen_prefix": fields.gen_prefix,
            "permutation": fields.permutation,
        }

    def _shown(self, fields: DocFields) -> list[str]:
        """The choices that the format shows in the prompt."""
        shows = self.form.format is not None and self.form.format.shows_choices
        return fields.shown_choices or [] if shows else []

    def _labels(self, fields: DocFields) -> list[str]:
        """The labels with which the format shows the choices."""
        shown, labels = self._shown(fields), self.form.format and self.form.format.choice_labels
        return label_list(len(shown), labels) if labels else []

    def _references(self, fields: DocFields) -> tuple[str, ...]:
        """The completions that count as right; where nothing is compared with them, those that there are."""
        compares = self.form.needs_references
        if compares and not fields.has_target:
            raise self._missing("doc_to_target")
        targets = fields.target if isinstance(fields.target, list) else [fields.target]
        if self.form.format is None and self.form.config.doc_to_choice is not None:
            choices = fields.choices or []
            targets = [choices[t] if isinstance(t, int) and 0 <= t < len(choices) else t for t in targets]
        if compares and (not targets or any(target is None for target in targets)):
            raise self._no_answer()
        return tuple(str(target) for target in targets if target is not None)

    def requests(self, fields: DocFields, context: Context, options: PromptOptions) -> list[Request]:
        assert isinstance(context, Prompt)
        kwargs = self.form.generation_kwargs
        labels = self._labels(fields) if self.form.stops_at_answer and fields.gen_prefix else []
        if labels:
            kwargs = {**kwargs, STOP_AT_LABEL: labels}
        return generations([context] * self.form.config.repeats, kwargs)

    def filter_outputs(self, pipeline: Pipeline, doc: Doc, outputs: Sequence[Output]) -> list[Any]:
        completions = [output.text for output in outputs if isinstance(output, Completion)]
        if len(completions) < len(outputs):
            return super().filter_outputs(pipeline, doc, outputs)
        texts = pipeline(completions, doc)
        return texts if pipeline.single else [texts]

    def outcomes(self, filtered: FilteredSample, *, all_repeats: bool) -> list[list[Outcome]]:
        sample, outputs, results = filtered.sample, filtered.outputs, filtered.results
        request = sample.instances[0].request
        # Each repeat by itself; all together for a task's own metric, where no filter picked one.
        repeated = bool(results) and isinstance(results[0], list)
        predictions = results[0] if repeated and not all_repeats else results[:1] if repeated else results
        same = len(predictions) == len(outputs)
        outcomes: list[Outcome] = [
            TextOutcome(
                prediction=prediction,
                references=sample.references,
                truncated=bool(getattr(outputs[number if same else 0], "truncated", False)),
                choices=sample.texts,
                labels=sample.labels,
                primed=sample.gen_prefix,
                prompt=request.context if isinstance(request, GenerationRequest) else "",
            )
            for number, prediction in enumerate(predictions)
        ]
        return [outcomes]


def generations(prompts: Sequence[Prompt], kwargs: Mapping[str, Any]) -> list[Request]:
    """A generation request for each prompt, numbered as repeats are."""
    return [GenerationRequest.of(prompt, kwargs, number) for number, prompt in enumerate(prompts)]


def count_bytes(text: str) -> int:
    """The length of a text in UTF-8."""
    return len(text.encode("utf-8"))


def count_words(text: str) -> int:
    """The number of words of a text, as lm-eval counts them: the parts between white space."""
    return len(re.split(r"\s+", text))


class LoglikelihoodKind(OutputKind):
    """loglikelihood: how likely the right answer is after the prompt."""

    def _target_text(self, fields: DocFields) -> str:
        """The text that is scored, the first of several."""
        if not fields.has_target:
            raise self._missing("doc_to_target")
        if fields.first_target is None or fields.first_target == "":
            raise self._no_answer()
        return str(fields.first_target)

    def requests(self, fields: DocFields, context: Context, options: PromptOptions) -> list[Request]:
        assert isinstance(context, Prompt)
        # Without a format, the target's own text carries the delimiter, as in lm-eval.
        delimiter = self._delimiter(options) if self.form.format is not None else ""
        return [LoglikelihoodRequest(context, delimiter + self._target_text(fields))]

    def outcomes(self, filtered: FilteredSample, *, all_repeats: bool) -> list[list[Outcome]]:
        request, result = filtered.sample.instances[0].request, filtered.results[0]
        text = str(request.arguments[-1])  # the continuation, or the text itself
        loglikelihood, greedy = result if isinstance(result, list | tuple) else (result, False)
        words = self.form.hook("count_words", count_words)(text)
        bytes = self.form.hook("count_bytes", count_bytes)(text)
        return [[LikelihoodOutcome(loglikelihood=loglikelihood, is_greedy=greedy, text=text, words=words, bytes=bytes)]]


class RollingKind(LoglikelihoodKind):
    """loglikelihood_rolling: how likely the whole text of a document is."""

    request_type = RollingRequest

    def inputs(self, fields: DocFields) -> list[str]:
        """No question: a text stands by itself."""
        return []

    def requests(self, fields: DocFields, context: Context, options: PromptOptions) -> list[Request]:
        return [RollingRequest(self._target_text(fields))]

    def filter_outputs(self, pipeline: Pipeline, doc: Doc, outputs: Sequence[Output]) -> list[Any]:
        likelihoods = [output.loglikelihood for output in outputs if isinstance(output, LLOutput)]
        return likelihoods if len(likelihoods) == len(outputs) else super().filter_outputs(pipeline, doc, outputs)


OUTPUT_KINDS: dict[OutputType, type[OutputKind]] = {
    "multiple_choice": ChoiceKind,
    "generate_until": GenerationKind,
    "loglikelihood": LoglikelihoodKind,
    "loglikelihood_rolling": RollingKind,
}

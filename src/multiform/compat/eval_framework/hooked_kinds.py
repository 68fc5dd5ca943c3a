"""Python tasks with their own hooks, one class per output type: generation, choices, log-likelihood."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from multiform.compat.eval_framework.hook_fields import DEFAULT_MAX_TOKENS
from multiform.compat.eval_framework.hooked_task import SAMPLE_ID, HookedTask, prompt_turns
from multiform.errors import DataError, shorten
from multiform.fields import Doc, FieldSpec
from multiform.forms.sample import Sample as RenderedSample
from multiform.forms.spec import RunSettings
from multiform.forms.task import GenerateTask, LoglikelihoodTask, MultipleChoiceTask
from multiform.prompts.prompt import ChatTemplate, plain_text
from multiform.scoring.filters import Pipeline
from multiform.tasks import TaskConfig

if TYPE_CHECKING:
    from multiform.formats.dialects.samples import Sample

logger = logging.getLogger("multiform")


class HookedGenerateTask(HookedTask, GenerateTask):
    """The model generates, and the class post-processes the completion."""

    OUTPUT_TYPE = "generate_until"
    _warned = False

    def _configure(self, config: TaskConfig, settings: RunSettings) -> None:
        #: The completions of each document before they were post-processed.
        self._raw: dict[int, list[str]] = {}
        super()._configure(config, settings)

    def _hooks(self, config: TaskConfig) -> dict[str, Callable[..., Any]]:
        return {**super()._hooks(config), "filtered": self._post_process}

    def sample(self, doc_id: int, doc: Doc, chat_template: ChatTemplate | None = None) -> RenderedSample:
        limit = self.form.generation_kwargs.get("max_gen_toks")
        if not self._warned and self._prompt.task.max_tokens is None and limit == DEFAULT_MAX_TOKENS:
            self._warned = True
            hint = "set self.max_tokens, or give --gen_kwargs max_gen_toks=N"
            logger.warning(
                "%s: completions end after %d tokens, as the class sets no max_tokens; %s", self.name, limit, hint
            )
        return super().sample(doc_id, doc, chat_template)

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

    def metric_responses(self, doc: Doc, results: Sequence[Any]) -> Iterator[Any]:
        from multiform.formats.dialects.samples import Completion, Message, Role

        sample = self.sample_of(doc)
        for text, raw in zip(results, self._raw.get(doc.get(SAMPLE_ID, -1), results), strict=True):
            messages = list(sample.messages)
            begun = messages.pop().content if messages and messages[-1].role is Role.ASSISTANT else ""
            yield Completion(
                **_question_fields(sample, self.name),
                messages=[*messages, Message(role=Role.ASSISTANT, content=begun + raw)],
                completion=text,
                raw_completion=raw,
                raw_completion_sequence_positions=None,
                context=sample.context,
            )


class HookedChoiceTask(HookedTask, MultipleChoiceTask):
    """The possible completions of a sample are scored, with one request for each."""

    OUTPUT_TYPE = "multiple_choice"

    def doc_to_choice(self, doc: Doc, doc_to_choice: FieldSpec = None) -> list[str]:
        completions = self.sample_of(doc).possible_completions
        if not completions:
            message = f"a sample of {type(self._prompt.task).__name__} has no completions to score"
            raise DataError(message, where=self.name, hint="return some from _get_possible_completions")
        return completions

    def doc_to_target(self, doc: Doc, doc_to_target: FieldSpec = None) -> Any:
        """The indexes of the ground truth among the completions; the ground truth itself where metrics calculate."""
        truth = self.sample_of(doc).ground_truth
        if self.form.scores_itself:
            return truth
        completions = self.doc_to_choice(doc)
        golds = truth if isinstance(truth, list) else [truth]
        indexes = [completions.index(gold) for gold in golds if gold in completions]
        if not indexes:
            message = f"the answer {shorten(truth)} is none of the completions {shorten(completions, 120)}"
            raise DataError(message, hint="check _get_ground_truth and _get_possible_completions")
        return indexes if len(indexes) > 1 else indexes[0]

    def metric_responses(self, doc: Doc, results: Sequence[Any]) -> Iterator[Any]:
        from multiform.formats.dialects.samples import Loglikelihood

        sample = self.sample_of(doc)
        likelihoods = zip(self.doc_to_choice(doc), results, strict=True)
        if sample.ground_truth is None:
            raise DataError("there is no answer", where=self.name, hint="check _get_ground_truth")
        yield Loglikelihood(
            **_question_fields(sample, self.name),
            loglikelihoods={completion: loglikelihood for completion, (loglikelihood, _) in likelihoods},
            loglikelihoods_sequence_positions={},
        )


class HookedLoglikelihoodTask(HookedTask, LoglikelihoodTask):
    """Only the ground truth is scored."""

    OUTPUT_TYPE = "loglikelihood"


KINDS: Mapping[str, type[HookedTask]] = {
    kind.OUTPUT_TYPE: kind for kind in (HookedGenerateTask, HookedChoiceTask, HookedLoglikelihoodTask)
}


def _question_fields(sample: Sample, task: str) -> dict[str, Any]:
    """The fields of a response that say what the model was asked."""
    return {
        "id": sample.id,
        "subject": sample.subject,
        "ground_truth": sample.ground_truth,
        "prompt": plain_text(prompt_turns(sample.messages, task)),
        "prompt_sequence_positions": None,
    }

"""ThoughtKind: forms under which the model thinks, and then the choices are scored after its thought."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from multiform.errors import DataError
from multiform.fields import Doc
from multiform.formats.builtin import ThinkFormat
from multiform.forms.doc_fields import DocFields
from multiform.forms.output_kinds import ChoiceKind
from multiform.forms.sample import Context, Sample
from multiform.forms.spec import FormSpec
from multiform.models.arguments import CONTEXT
from multiform.models.model import no_continuation
from multiform.prompts.prompt import ChatTemplate, Prompt
from multiform.prompts.thoughts import ThoughtMarkers, ThoughtPlan, find_markers
from multiform.requests import Completion, GenerationRequest, LLOutput, LoglikelihoodRequest, Output, Request
from multiform.scoring.filters import Pipeline
from multiform.scoring.outcome import Outcome


class ThoughtKind(ChoiceKind):
    """multiple_choice after a thought: the model thinks, and then each choice is scored after what it thought.

    The first stage generates thoughts, as many as `repeats` says; the second scores all choices after each of them.
    """

    has_stages = True

    def __init__(self, form: FormSpec) -> None:
        super().__init__(form)
        self._markers: tuple[ChatTemplate, ThoughtMarkers | None] | None = None

    def requests(
        self, fields: DocFields, context: Context, *, chat: bool, chat_template: ChatTemplate | None = None
    ) -> list[Request]:
        assert isinstance(context, Prompt)
        if context.is_chat:
            raise no_continuation(self.form.name)
        plan = self._plan(context.text, chat_template if chat else None)
        kwargs = self.form.generation_kwargs
        stops = [stop for stop in kwargs["until"] if stop != self._lead.strip()]
        limit = kwargs["max_gen_toks"]
        if limit == CONTEXT:  # no token has less than a byte
            ends = [plan.answer("", "") + self._continuation_of(choice) for choice in fields.choices or ()]
            limit = f"{CONTEXT}-{max(len(end.encode()) for end in ends)}"
        kwargs = {**kwargs, "max_gen_toks": limit, "until": [plan.stop, *stops]}
        prompt = replace(context, text=plan.begin(context.text))
        return [GenerationRequest.of(prompt, kwargs, n) for n in range(self.form.config.repeats)]

    def next_requests(
        self, sample: Sample, outputs: Sequence[Output], chat_template: ChatTemplate | None
    ) -> list[Request]:
        if len(outputs) > self.form.config.repeats:
            return []
        continuations = [self._continuation_of(choice) for choice in sample.choices]
        pairs: list[tuple[Prompt, str]] = []
        for instance, output in zip(sample.instances, outputs, strict=True):
            assert isinstance(instance.request, GenerationRequest)
            assert isinstance(output, Completion)
            prompt = instance.request.prompt
            plan = self._plan(prompt.text, chat_template if self.form.settings.apply_chat_template else None)
            thought = output.text if output.thought is None else output.thought
            scored = replace(prompt, text=plan.answer(prompt.text, thought))
            pairs += [(scored, continuation) for continuation in continuations]
        unconditional = self._unconditional_prompt(several_inputs=False)
        if unconditional is not None:
            pairs += [(Prompt(unconditional), continuation) for continuation in continuations]
        return [LoglikelihoodRequest(prompt, continuation) for prompt, continuation in pairs]

    def filter_outputs(self, pipeline: Pipeline, doc: Doc, outputs: Sequence[Output]) -> list[Any]:
        """The log-likelihoods; no filter is made for thoughts."""
        return super().filter_outputs(pipeline, doc, [output for output in outputs if isinstance(output, LLOutput)])

    def outcomes(
        self, sample: Sample, outputs: Sequence[Output], results: Sequence[Any], *, all_repeats: bool
    ) -> list[Outcome]:
        number, thoughts = len(sample.choices), self.form.config.repeats
        if len(results) < number * thoughts:
            message = f"there are {len(results)} log-likelihoods for {number} choices after {thoughts} thoughts"
            hint = "run the task with multiform.evaluate, which scores the choices once the thoughts are known"
            raise DataError(message, where=self.form.name, hint=hint)
        requests = [instance.request for instance in sample.instances]
        outcomes: list[Outcome] = []
        for first in range(0, number * thoughts, number):
            asked = slice(thoughts + first, thoughts + first + number)
            scored = results[first : first + number]
            outcomes.append(
                self._outcome(sample, requests[asked], outputs[asked], scored, results[number * thoughts :])
            )
        return outcomes

    def _continuation_of(self, choice: str) -> str:
        return choice if self._lead[-1].isspace() else f" {choice}"

    @property
    def _lead(self) -> str:
        assert isinstance(self.form.config.format, ThinkFormat)
        return self.form.config.format.after_thought

    def _plan(self, prompt: str, chat_template: ChatTemplate | None) -> ThoughtPlan:
        """How the model thinks after this prompt; the markers of a chat template are looked up once."""
        if chat_template is None:
            return ThoughtPlan(None, self._lead)
        if self._markers is None or self._markers[0] != chat_template:
            self._markers = chat_template, find_markers(chat_template)
        return ThoughtPlan.of(prompt, self._lead, self._markers[1])

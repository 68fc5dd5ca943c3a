"""ThoughtKind and BudgetKind: forms under which the model thinks first, and is then scored or answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from multiform.errors import DataError, UsageError
from multiform.fields import Doc
from multiform.formats.builtin import ThinkFormat
from multiform.forms.doc_fields import DocFields
from multiform.forms.output_kinds import ChoiceKind, GenerationKind
from multiform.forms.sample import Context, Sample
from multiform.forms.spec import FormSpec
from multiform.models.arguments import CONTEXT
from multiform.models.model import no_continuation
from multiform.prompts.prompt import ChatTemplate, Prompt
from multiform.prompts.thoughts import ThoughtMarkers, ThoughtPlan, find_markers
from multiform.requests import Completion, GenerationRequest, LLOutput, LoglikelihoodRequest, Output, Request
from multiform.scoring.filters import Pipeline
from multiform.scoring.outcome import Outcome


class MarkersOfTemplate:
    """The thought markers of a chat template, looked up once."""

    def __init__(self) -> None:
        self._known: tuple[ChatTemplate, ThoughtMarkers | None] | None = None

    def of(self, chat_template: ChatTemplate) -> ThoughtMarkers | None:
        """The markers; None where the template has no thoughts, or a server writes the prompt."""
        if self._known is None or self._known[0] != chat_template:
            self._known = chat_template, find_markers(chat_template)
        return self._known[1]


def _without_budget(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if name != "thinking_budget"}


def _thought(output: Output) -> str:
    """What a model wrote as a thought, whether it is kept apart or not."""
    assert isinstance(output, Completion)
    return output.text if output.thought is None else output.thought


class ThoughtKind(ChoiceKind):
    """multiple_choice after a thought: the model thinks, and then each choice is scored after what it thought.

    The first stage generates thoughts, as many as `repeats` says; the second scores all choices after each of them.
    """

    def __init__(self, form: FormSpec) -> None:
        super().__init__(form)
        self._markers = MarkersOfTemplate()
        self._budget = form.generation_kwargs.get("thinking_budget")
        #: How many thoughts are generated.
        self._thoughts = 0 if self._budget == 0 else form.config.repeats
        self.has_stages = self._thoughts > 0

    def requests(
        self, fields: DocFields, context: Context, *, chat: bool, chat_template: ChatTemplate | None = None
    ) -> list[Request]:
        assert isinstance(context, Prompt)
        if context.is_chat:
            raise no_continuation(self.form.name)
        plan = self._plan(context.text, chat_template if chat else None)
        if not self._thoughts:  # the same after each of as many empty thoughts as there are repeats
            prompt = replace(context, text=plan.answer(plan.begin(context.text), ""))
            return self._scoring_requests([prompt] * self.form.config.repeats, fields.choices or ())
        kwargs = _without_budget(self.form.generation_kwargs)
        stops = [stop for stop in kwargs["until"] if stop != self._lead.strip()]
        limit = kwargs["max_gen_toks"] if self._budget is None else self._budget
        if limit == CONTEXT:  # no token has less than a byte
            ends = [plan.answer("", "") + self._continuation_of(choice) for choice in fields.choices or ()]
            limit = f"{CONTEXT}-{max(len(end.encode()) for end in ends)}"
        kwargs = {**kwargs, "max_gen_toks": limit, "until": [plan.stop, *stops]}
        prompt = replace(context, text=plan.begin(context.text))
        return [GenerationRequest.of(prompt, kwargs, n) for n in range(self.form.config.repeats)]

    def next_requests(
        self, sample: Sample, outputs: Sequence[Output], chat_template: ChatTemplate | None
    ) -> list[Request]:
        if len(outputs) != self._thoughts:
            return []
        prompts: list[Prompt] = []
        for instance, output in zip(sample.instances, outputs, strict=True):
            assert isinstance(instance.request, GenerationRequest)
            assert isinstance(output, Completion)
            prompt = instance.request.prompt
            plan = self._plan(prompt.text, chat_template if self.form.settings.apply_chat_template else None)
            prompts.append(replace(prompt, text=plan.answer(prompt.text, _thought(output))))
        return self._scoring_requests(prompts, sample.choices)

    def _scoring_requests(self, prompts: Sequence[Prompt], choices: Sequence[str]) -> list[Request]:
        """The requests for the log-likelihoods of all choices after each prompt."""
        continuations = [self._continuation_of(choice) for choice in choices]
        pairs = [(prompt, continuation) for prompt in prompts for continuation in continuations]
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
        number, repeats = len(sample.choices), self.form.config.repeats
        if len(results) < number * repeats:
            message = f"there are {len(results)} log-likelihoods for {number} choices after {repeats} thoughts"
            hint = "run the task with multiform.evaluate, which scores the choices once the thoughts are known"
            raise DataError(message, where=self.form.name, hint=hint)
        requests = [instance.request for instance in sample.instances]
        outcomes: list[Outcome] = []
        for first in range(0, number * repeats, number):
            asked = slice(self._thoughts + first, self._thoughts + first + number)
            scored = results[first : first + number]
            outcomes.append(self._outcome(sample, requests[asked], outputs[asked], scored, results[number * repeats :]))
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
        return ThoughtPlan.of(prompt, self._lead, self._markers.of(chat_template))


class BudgetKind(GenerationKind):
    """generate_until with a thinking budget: a thought ends there, and the answer is generated after it.

    Where the model gets a text, the form keeps the budget: the first stage generates the thoughts, and the second the
    answers. Where a server gets messages, it keeps the budget itself.
    """

    def __init__(self, form: FormSpec) -> None:
        super().__init__(form)
        self._markers = MarkersOfTemplate()
        self._budget = form.generation_kwargs["thinking_budget"]
        self._kwargs = _without_budget(form.generation_kwargs)
        self.has_stages = self._budget > 0

    def requests(
        self, fields: DocFields, context: Context, *, chat: bool, chat_template: ChatTemplate | None = None
    ) -> list[Request]:
        assert isinstance(context, Prompt)
        if context.is_chat:
            return super().requests(fields, context, chat=chat, chat_template=chat_template)
        markers = None if not chat or chat_template is None else self._markers.of(chat_template)
        if markers is None:
            message = f"'{self.form.name}' has a thinking budget, and the prompt is a text without a place for thoughts"
            hint = "add --apply_chat_template, and use a model whose chat template has thoughts"
            raise UsageError(message, where="thinking_budget", hint=hint)
        repeats, is_off = self.form.config.repeats, markers.is_closed(context.text)
        if is_off and self._budget:
            message = f"'{self.form.name}' has a thinking budget, and the chat template has switched thinking off"
            raise UsageError(message, where="thinking_budget", hint="add --model_args enable_thinking=true")
        prompt = context if is_off else replace(context, text=markers.open(context.text))
        if self._budget:
            kwargs = {**self._kwargs, "max_gen_toks": self._budget, "until": [markers.end]}
            return _generations([prompt] * repeats, kwargs)
        answered = prompt if is_off else replace(prompt, text=markers.close(prompt.text, ""))
        return _generations([answered] * repeats, self._kwargs)

    def next_requests(
        self, sample: Sample, outputs: Sequence[Output], chat_template: ChatTemplate | None
    ) -> list[Request]:
        first = sample.instances[0].request
        assert isinstance(first, GenerationRequest)
        if not self._budget or first.prompt.is_chat or len(outputs) != self.form.config.repeats:
            return []
        markers = None if chat_template is None else self._markers.of(chat_template)
        assert markers is not None
        texts = [markers.close(first.context, _thought(output)) for output in outputs]
        return _generations([replace(first.prompt, text=text) for text in texts], self._kwargs)

    def filter_outputs(self, pipeline: Pipeline, doc: Doc, outputs: Sequence[Output]) -> list[Any]:
        """What the filters leave of the answers; thoughts are no part of them."""
        return super().filter_outputs(pipeline, doc, outputs[-self.form.config.repeats :])

    def outcomes(
        self, sample: Sample, outputs: Sequence[Output], results: Sequence[Any], *, all_repeats: bool
    ) -> list[Outcome]:
        answers = outputs[-self.form.config.repeats :]
        return super().outcomes(sample, answers, results, all_repeats=all_repeats)


def _generations(prompts: Sequence[Prompt], kwargs: Mapping[str, Any]) -> list[Request]:
    return [GenerationRequest.of(prompt, kwargs, number) for number, prompt in enumerate(prompts)]

"""Thoughts: where they begin and end in a chat, and forms under which a model thinks before it is scored or answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from multiform.errors import MultiformError, UsageError
from multiform.fields import Doc
from multiform.formats.builtin import ThinkFormat
from multiform.forms.doc_fields import DocFields
from multiform.forms.output_kinds import ChoiceKind, GenerationKind, generations
from multiform.forms.sample import Context, FilteredSample, Sample
from multiform.forms.spec import FormSpec
from multiform.models.arguments import CONTEXT
from multiform.models.model import no_continuation
from multiform.prompts.prompt import ChatTemplate, Prompt, PromptOptions, join_delimited
from multiform.requests import Completion, GenerationRequest, LLOutput, LoglikelihoodRequest, Output, Request
from multiform.scoring.filters import Pipeline
from multiform.scoring.outcome import Outcome

_THOUGHT, _ANSWER = "(the thought)", "(the answer)"
_QUESTION = {"role": "user", "content": "(the question)"}
#: The names under which templates look for the thought of a message.
_THOUGHT_KEYS = ("reasoning_content", "thinking", "reasoning")
#: For templates that do not write the thoughts of messages: what a rendered chat shows of a family of models, and what
#: stands before and after the thoughts of that family.
_FAMILIES = (
    ("[BEGIN FINAL RESPONSE]", "Here are my reasoning steps:\n", "\n[BEGIN FINAL RESPONSE]\n"),
    ("[/THINK]", "[THINK]", "[/THINK]"),
    ("<|turn>model", "<|channel>thought\n", "<channel|>"),
    ("<|END_THINKING|>", "<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    ("</think>", "<think>\n", "\n</think>\n\n"),
    ("<think>", "<think>\n", "\n</think>\n\n"),
)
_MARKER = re.compile(r"<[^<>\s]+>|\[[^][]+\]")


@dataclass(frozen=True, slots=True)
class ThoughtMarkers:
    r"""What stands before a thought, and between it and the answer; both are empty for a thought in plain text.

    >>> markers = ThoughtMarkers("<think>\n", "\n</think>\n\n")
    >>> markers.end, markers.begin("<|assistant|>"), markers.begin("<|assistant|><think>")
    ('</think>', '<|assistant|><think>\n', '<|assistant|><think>')
    >>> markers.close("<think>\n", "2 + 2"), markers.close("<think>\n", "2 + 2.\n")
    ('<think>\n2 + 2\n</think>\n\n', '<think>\n2 + 2.\n</think>\n\n')
    """

    opening: str
    closing: str

    @property
    def end(self) -> str:
        """The first marker after a thought, at which the generation of one stops."""
        found = _MARKER.search(self.closing)
        return found[0] if found else self.closing.strip()

    def is_closed(self, prompt: str) -> bool:
        """Whether the prompt ends with an empty thought, as templates write it where thinking is switched off."""
        return prompt.rstrip().endswith(self.closing.strip()) or prompt.rstrip().endswith(self.end)

    def begin(self, prompt: str) -> str:
        """The prompt with the beginning of a thought; as it is where the template has begun one."""
        opening = self.opening.strip()
        return prompt if opening and prompt.rstrip().endswith(opening) else prompt + self.opening

    def close(self, prompt: str, thought: str) -> str:
        """The prompt and its thought, up to where the answer begins."""
        return prompt + thought + (self.closing.lstrip() if thought[-1:].isspace() else self.closing)

    def lead(self, prompt: str, thought: str, lead: str) -> str:
        r"""The prompt and its thought with the beginning of the answer, such as "The answer is".

        >>> ThoughtMarkers("", "").lead("2 + 2?\n", "Two and two are four.", "The answer is")
        '2 + 2?\nTwo and two are four.\nThe answer is'
        """
        return join_delimited(self.close(prompt, thought), lead, "" if self.closing else "\n")


def find_markers(chat_template: ChatTemplate) -> ThoughtMarkers | None:
    """The markers of the model's thoughts, by what its template writes; None where it has none, or is on a server.

    A template that writes the thoughts of messages shows the markers in an answer with a thought. Others drop thoughts
    from past answers; then the markers are those of the family of models that the rendered chat shows.
    """
    try:
        prompt = chat_template([_QUESTION], add_generation_prompt=True)
        if not isinstance(prompt, str):
            return None
        thought = dict.fromkeys(_THOUGHT_KEYS, _THOUGHT)
        answer = {"role": "assistant", **thought, "content": _ANSWER}
        chat = chat_template([_QUESTION, answer], add_generation_prompt=False)
    except MultiformError:  # where it matters, rendering the prompts says so
        return None
    assert isinstance(chat, str)
    before, found, after = chat.partition(_THOUGHT)
    if found and _ANSWER in after:
        opening = before.removeprefix(prompt) if before.startswith(prompt) else ""
        return ThoughtMarkers(opening, after.partition(_ANSWER)[0])
    rendered = prompt + chat
    if closing := re.search(rf"</think>\s*(?={re.escape(_ANSWER)})", chat):  # after a thought that was dropped
        return ThoughtMarkers("<think>", closing[0])
    return next((ThoughtMarkers(*markers) for shown, *markers in _FAMILIES if shown in rendered), None)


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
        self._find_markers = lru_cache(maxsize=1)(find_markers)
        self._budget = form.generation_kwargs.get("thinking_budget")
        #: How many thoughts are generated.
        self._thoughts = 0 if self._budget == 0 else form.config.repeats
        self.has_stages = self._thoughts > 0

    def requests(self, fields: DocFields, context: Context, options: PromptOptions) -> list[Request]:
        assert isinstance(context, Prompt)
        if context.is_chat:
            raise no_continuation(self.form.name)
        markers = self._markers(context.text, options.chat_template if options.apply_chat_template else None)
        if not self._thoughts:  # the same after each of as many empty thoughts as there are repeats
            prompt = replace(context, text=markers.lead(markers.begin(context.text), "", self._lead))
            return self._scoring_requests([prompt] * self.form.config.repeats, fields.choices or ())
        kwargs = _without_budget(self.form.generation_kwargs)
        stops = [stop for stop in kwargs["until"] if stop != self._lead.strip()]
        limit = kwargs["max_gen_toks"] if self._budget is None else self._budget
        if limit == CONTEXT:  # no token has less than a byte
            ends = [markers.lead("", "", self._lead) + self._continuation_of(choice) for choice in fields.choices or ()]
            limit = f"{CONTEXT}-{max(len(end.encode()) for end in ends)}"
        kwargs = {**kwargs, "max_gen_toks": limit, "until": [markers.end or self._lead.strip(), *stops]}
        prompt = replace(context, text=markers.begin(context.text))
        return generations([prompt] * self._thoughts, kwargs)

    def next_requests(
        self, sample: Sample, outputs: Sequence[Output], chat_template: ChatTemplate | None
    ) -> list[Request]:
        if len(outputs) != self._thoughts:
            return []
        prompts: list[Prompt] = []
        for instance, output in zip(sample.instances, outputs, strict=True):
            assert isinstance(instance.request, GenerationRequest)
            prompt = instance.request.prompt
            markers = self._markers(prompt.text, chat_template if self.form.settings.apply_chat_template else None)
            prompts.append(replace(prompt, text=markers.lead(prompt.text, _thought(output), self._lead)))
        return self._scoring_requests(prompts, sample.choices)

    def _scoring_requests(self, prompts: Sequence[Prompt], choices: Sequence[str]) -> list[Request]:
        """The requests for the log-likelihoods of all choices after each prompt."""
        continuations = [self._continuation_of(choice) for choice in choices]
        pairs = [(prompt, continuation) for prompt in prompts for continuation in continuations]
        if self._unconditional is not None:
            pairs += [(self._unconditional, continuation) for continuation in continuations]
        return [LoglikelihoodRequest(prompt, continuation) for prompt, continuation in pairs]

    def needed_outputs(self, sample: Sample) -> int:
        return self._thoughts + len(sample.choices) * self.form.config.repeats

    def filter_outputs(self, pipeline: Pipeline, doc: Doc, outputs: Sequence[Output]) -> list[Any]:
        """The log-likelihoods; no filter is made for thoughts."""
        return super().filter_outputs(pipeline, doc, [output for output in outputs if isinstance(output, LLOutput)])

    def outcomes(self, filtered: FilteredSample, *, all_repeats: bool) -> list[list[Outcome]]:
        number, repeats, results = len(filtered.sample.choices), self.form.config.repeats, filtered.results
        unconditional = results[number * repeats :]
        return [
            [
                self._outcome(filtered, self._thoughts + first, results[first : first + number], unconditional)
                for first in range(0, number * repeats, number)
            ]
        ]

    def _continuation_of(self, choice: str) -> str:
        return choice if self._lead[-1].isspace() else f" {choice}"

    @property
    def _lead(self) -> str:
        assert isinstance(self.form.config.format, ThinkFormat)
        return self.form.config.format.after_thought

    def _markers(self, prompt: str, chat_template: ChatTemplate | None) -> ThoughtMarkers:
        """The markers of the thought after this prompt, empty where its template has switched thinking off."""
        markers = None if chat_template is None else self._find_markers(chat_template)
        return ThoughtMarkers("", "") if markers is None or markers.is_closed(prompt) else markers


class BudgetKind(GenerationKind):
    """generate_until with a thinking budget: a thought ends there, and the answer is generated after it.

    Where the model gets a text, the form keeps the budget: the first stage generates the thoughts, and the second the
    answers. Where a server gets messages, it keeps the budget itself.
    """

    def __init__(self, form: FormSpec) -> None:
        super().__init__(form)
        self._find_markers = lru_cache(maxsize=1)(find_markers)
        self._budget = form.generation_kwargs["thinking_budget"]
        self._kwargs = _without_budget(form.generation_kwargs)
        self.has_stages = self._budget > 0

    def requests(self, fields: DocFields, context: Context, options: PromptOptions) -> list[Request]:
        assert isinstance(context, Prompt)
        if context.is_chat:
            return super().requests(fields, context, options)
        template = options.chat_template if options.apply_chat_template else None
        markers = None if template is None else self._find_markers(template)
        if markers is None:
            message = f"'{self.form.name}' has a thinking budget, and the prompt is a text without a place for thoughts"
            hint = "add --apply_chat_template, and use a model whose chat template has thoughts"
            raise UsageError(message, where="thinking_budget", hint=hint)
        repeats, is_off = self.form.config.repeats, markers.is_closed(context.text)
        if is_off and self._budget:
            message = f"'{self.form.name}' has a thinking budget, and the chat template has switched thinking off"
            raise UsageError(message, where="thinking_budget", hint="add --model_args enable_thinking=true")
        prompt = context if is_off else replace(context, text=markers.begin(context.text))
        if self._budget:
            kwargs = {**self._kwargs, "max_gen_toks": self._budget, "until": [markers.end]}
            return generations([prompt] * repeats, kwargs)
        prompt = prompt if is_off else replace(prompt, text=markers.close(prompt.text, ""))
        return generations([prompt] * repeats, self._kwargs)

    def next_requests(
        self, sample: Sample, outputs: Sequence[Output], chat_template: ChatTemplate | None
    ) -> list[Request]:
        first = sample.instances[0].request
        assert isinstance(first, GenerationRequest)
        if not self._budget or first.prompt.is_chat or len(outputs) != self.form.config.repeats:
            return []
        markers = None if chat_template is None else self._find_markers(chat_template)
        assert markers is not None
        texts = [markers.close(first.context, _thought(output)) for output in outputs]
        return generations([replace(first.prompt, text=text) for text in texts], self._kwargs)

    def needed_outputs(self, sample: Sample) -> int:
        first = sample.instances[0].request if sample.instances else None
        in_stages = self._budget and isinstance(first, GenerationRequest) and not first.prompt.is_chat
        return 2 * self.form.config.repeats if in_stages else 0

    def filter_outputs(self, pipeline: Pipeline, doc: Doc, outputs: Sequence[Output]) -> list[Any]:
        """What the filters leave of the answers; thoughts are no part of them."""
        return super().filter_outputs(pipeline, doc, outputs[-self.form.config.repeats :])

    def outcomes(self, filtered: FilteredSample, *, all_repeats: bool) -> list[list[Outcome]]:
        answers = filtered.outputs[-self.form.config.repeats :]
        return super().outcomes(replace(filtered, outputs=answers), all_repeats=all_repeats)

"""ConversationKind: forms whose documents are conversations; and how the values of turns are merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean
from typing import Any

from multiform.errors import ConfigError, DataError, UsageError, excerpt
from multiform.fields import Doc
from multiform.forms.doc_fields import DocFields, FieldReader
from multiform.forms.output_kinds import GenerationKind, generations
from multiform.forms.sample import Context, Conversation, FilteredSample, Sample, Values
from multiform.prompts.prompt import ChatTemplate, Prompt, PromptOptions, Turn
from multiform.requests import Completion, Output, Request
from multiform.scoring.filters import Pipeline
from multiform.scoring.outcome import Outcome, TextOutcome
from multiform.scoring.scorers import Scorer

#: Metrics whose values are not shown for each turn.
_NOT_BY_TURN = ("invalid", "truncated")
_HINT = "give texts, each a turn of the user, or messages with role (user or assistant) and content"


class ConversationKind(GenerationKind):
    """generate_until with several turns: each reply is part of the prompt of the next.

    With repeats there are as many conversations. The instances of a sample are ordered by turn, then by repeat.
    """

    has_stages = True

    def conversation(self, fields: DocFields, turns: Sequence[Turn], opening: Sequence[Turn] = ()) -> Conversation:
        """The conversation of a document, with the right replies to its turns."""
        if fields.gen_prefix:
            message, hint = "a prompt cannot begin the replies of a conversation", "remove gen_prefix"
            raise ConfigError(message, where=self.form.config.where("gen_prefix"), hint=hint)
        conversation = Conversation(turns=tuple(turns), opening=tuple(opening))
        return replace(conversation, references=self._turn_references(fields, conversation.replies))

    def requests(self, fields: DocFields, context: Context, options: PromptOptions) -> list[Request]:
        assert isinstance(context, Prompt)
        if self.form.generation_kwargs.get("thinking_budget") is not None and not context.is_chat:
            message = f"'{self.form.name}' is a conversation, in which only a server keeps a thinking budget"
            hint = "leave it out, or ask a server with messages: --model openai-chat, anthropic or gemini"
            raise UsageError(message, where="thinking_budget", hint=hint)
        return super().requests(fields, context, options)

    def _references(self, fields: DocFields) -> tuple[str, ...]:
        return ()  # each turn has its own

    def _turn_references(self, fields: DocFields, replies: int) -> tuple[tuple[str, ...], ...]:
        """The right replies, for each reply: a list has an entry for each, and anything else is about the last."""
        if self.form.needs_references and not fields.has_target:
            raise self._missing("doc_to_target")
        target = fields.target if fields.has_target else None
        listed = list(target) if isinstance(target, list | tuple) else [*[None] * (replies - 1), target]
        if len(listed) != replies:
            message = f"there are {len(listed)} references for {replies} replies"
            hint = "list one entry for each reply (null for none, a list for several), or give a text for the last"
            raise DataError(message, where=self.form.where("doc_to_target"), hint=hint)
        if self.form.needs_references and all(entry is None for entry in listed):
            raise self._no_answer()
        entries = [entry if isinstance(entry, list | tuple) else [] if entry is None else [entry] for entry in listed]
        return tuple(tuple(map(str, entry)) for entry in entries)

    def needed_outputs(self, sample: Sample) -> int:
        return 0 if sample.conversation is None else sample.conversation.replies * self.form.config.repeats

    def next_requests(
        self, sample: Sample, outputs: Sequence[Output], chat_template: ChatTemplate | None
    ) -> list[Request]:
        conversation, repeats = sample.conversation, self.form.config.repeats
        assert conversation is not None
        if len(outputs) >= self.needed_outputs(sample):
            return []
        options, delimiters = self.form.settings.prompt_options(chat_template), self.form.delimiters
        replies = [self._replies(outputs, repeat) for repeat in range(repeats)]
        prompts = [conversation.prompt(so_far, options, delimiters) for so_far in replies]
        return generations(prompts, self.form.generation_kwargs)

    def _replies(self, outputs: Sequence[Output], repeat: int) -> list[str]:
        """The replies of one repeat, without thoughts."""
        own = outputs[repeat :: self.form.config.repeats]
        return [output.text.strip() for output in own if isinstance(output, Completion)]

    def filter_outputs(self, pipeline: Pipeline, doc: Doc, outputs: Sequence[Output]) -> list[Any]:
        """The filtered replies of each turn: one, or a list of what is left of the repeats."""
        repeats = self.form.config.repeats
        texts = [output.text for output in outputs if isinstance(output, Completion)]
        filtered = [pipeline(texts[start : start + repeats], doc) for start in range(0, len(outputs), repeats)]
        return [of_turn[0] if len(of_turn) == 1 else of_turn for of_turn in filtered]

    def outcomes(self, filtered: FilteredSample, *, all_repeats: bool) -> list[list[Outcome]]:
        """The outcomes of each turn; none for a turn whose reply is compared with nothing."""
        sample, outputs, repeats = filtered.sample, filtered.outputs, self.form.config.repeats
        conversation = sample.conversation
        assert conversation is not None
        replies = [self._replies(outputs, repeat) for repeat in range(repeats)]
        turns: list[list[Outcome]] = []
        for turn, (references, result) in enumerate(zip(conversation.references, filtered.results, strict=True)):
            if not references and self.form.needs_references:
                turns.append([])
                continue
            predictions = [result] if all_repeats or not isinstance(result, list) else result
            repeat_of = range(repeats) if len(predictions) == repeats else [0] * len(predictions)
            turns.append(
                [
                    TextOutcome(
                        prediction=prediction,
                        references=references,
                        truncated=bool(getattr(outputs[turn * repeats + repeat], "truncated", False)),
                        prompt=sample.instances[turn * repeats + repeat].request.arguments[0],
                        conversation=conversation.messages(replies[repeat][:turn]),
                    )
                    for prediction, repeat in zip(predictions, repeat_of, strict=True)
                ]
            )
        return turns


def read_turns(fields: DocFields, reader: FieldReader) -> tuple[Turn, ...]:
    """What a document says after the first turn of its user; turns that are null are left out."""
    config = reader.config
    where = config.where("doc_to_turns")
    value = reader.value(config.doc_to_turns, fields.doc, "doc_to_turns")
    if not isinstance(value, list | tuple):
        raise DataError(f"expected a list of turns, got {excerpt(value)}", where=where, hint=_HINT)
    turns = tuple(_turn(entry, where) for entry in value if entry is not None)
    roles = ["user", *(turn.role for turn in turns)]
    if roles[-1] == "assistant" or ("assistant", "assistant") in pairwise(roles):
        problem = "ends with" if roles[-1] == "assistant" else "has two replies after each other:"
        message = f"the conversation {problem} a message of the assistant"
        raise DataError(message, where=where, hint="have a turn of the user follow every given reply")
    return turns


def _turn(entry: Any, where: str | None) -> Turn:
    match entry:
        case str():
            return Turn("user", entry)
        case {"role": "user" | "assistant" as role, "content": str(content)}:
            return Turn(role, content)
    raise DataError(f"a turn is {excerpt(entry)}", where=where, hint=_HINT)


def merge_turns(scorer: Scorer, by_turn: Mapping[int, Values]) -> Values:
    """The values of a document from those of its turns: their mean, and each with the number of its turn.

    Parts of a ratio are added.
    """
    merged: dict[str, Any] = {}
    single: dict[str, Any] = {}
    for key in dict.fromkeys(key for values in by_turn.values() for key in values):
        items = {turn: values[key] for turn, values in by_turn.items() if key in values}
        metric = scorer.metric_named(key)
        if not all(isinstance(item, str | None) for item in items.values()):
            merged[key] = _merge(key, [*items.values()])
        for turn, item in items.items() if key not in _NOT_BY_TURN else ():
            name = f"{key}_turn_{turn}"
            single[name] = item
            if metric is not None:
                scorer.value_metrics[name] = metric
    return {**merged, **single}


def _merge(key: str, items: Sequence[Any]) -> Any:
    if all(isinstance(item, int | float) for item in items):
        return fmean(items)
    pairs = [item for item in items if isinstance(item, tuple) and len(item) == 2]
    if len(pairs) == len(items) and all(isinstance(number, int | float) for pair in pairs for number in pair):
        return tuple(map(sum, zip(*pairs, strict=True)))
    message = f"the values of metric '{key}' in the turns of a conversation cannot be averaged: {excerpt(items[0])}"
    raise DataError(message, hint="choose a metric with a number for each document")

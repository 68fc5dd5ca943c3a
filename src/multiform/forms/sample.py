"""Sample: one document of a form, rendered, maybe as a conversation; and what it scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from multiform.errors import DataError, UsageError, excerpt, quantity
from multiform.fields import Doc
from multiform.prompts.prompt import Delimiters, Prompt, PromptOptions, Turn, render_turns
from multiform.requests import Completion, Ending, Instance, LLOutput, Output, RollingRequest
from multiform.scoring.outcome import Outcome

#: A prompt, or one for each input of a document that has several.
Context: TypeAlias = Prompt | list[Prompt]
#: The values of a document by the names of metrics.
Values: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The turns of one document, which begin and end with the user's; the model replies where no reply is given.

    `opening` are the turns before the conversation: the system's, and few-shot examples. `references` are the
    right replies, some for each reply of the model.
    """

    turns: tuple[Turn, ...]
    opening: tuple[Turn, ...] = ()
    references: tuple[tuple[str, ...], ...] = ()

    @property
    def replies(self) -> int:
        """How often the model replies: after each turn of the user's that no given reply follows."""
        return len(self._open_turns)

    @property
    def _open_turns(self) -> list[int]:
        following = [*(turn.role for turn in self.turns[1:]), "user"]
        users = [index for index, turn in enumerate(self.turns) if turn.role == "user"]
        return [index for index in users if following[index] == "user"]

    def before(self, replies: Sequence[str]) -> list[Turn]:
        """The turns up to the one that is to be replied to next, with the replies so far in between."""
        turns: list[Turn] = []
        given, last = list(replies), self._open_turns[len(replies)]
        for index, turn in enumerate(self.turns[: last + 1]):
            turns.append(turn)
            if index in self._open_turns and index < last:
                turns.append(Turn("assistant", given.pop(0)))
        return turns

    def messages(self, replies: Sequence[str]) -> tuple[dict[str, str], ...]:
        """The same as messages, without what stands before the conversation."""
        return tuple({"role": turn.role, "content": turn.content} for turn in self.before(replies))

    def prompt(self, replies: Sequence[str], options: PromptOptions, delimiters: Delimiters) -> Prompt:
        """The prompt of the next reply. As plain text, turns are joined as few-shot examples are."""
        first, *later = self.before(replies)
        if not options.apply_chat_template and later:
            first = replace(first, after=delimiters.target if later[0].role == "assistant" else delimiters.fewshot)
            after = {"user": delimiters.target, "assistant": delimiters.fewshot}
            later = [replace(turn, after=after[turn.role]) for turn in later[:-1]] + later[-1:]
        return render_turns([*self.opening, first], options, later=later)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One document of a form, rendered: its prompt, choices, gold answer, and the requests to a model.

    Which of the fields are set depends on the output type: `choices` and `gold` if choices are ranked,
    `references` if completions are compared.
    """

    doc_id: int
    doc: Doc
    #: What is right as the task's field gives it: an index, a text, or several of them.
    target: Any = None
    #: What is ranked, without the delimiter: labels or texts, or the inputs of a document that has several.
    choices: tuple[str, ...] = ()
    #: The indexes of the right choices; none if the answer is not among them.
    gold: tuple[int, ...] = ()
    #: The indexes of the right choices in the order of the document, whatever is scored; None if nothing is compared.
    right_choices: tuple[int, ...] | None = None
    #: Why the document counts as wrong whatever the model picks: its answer is none of the choices.
    problem: DataError | None = None
    #: What the choices say, and the labels that the prompt gives them, if a format has both.
    texts: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    #: For each choice that the prompt shows, its index in the document; None if they are in their order.
    permutation: tuple[int, ...] | None = None
    #: The completions that count as right.
    references: tuple[Any, ...] = ()
    #: The beginning of the answer that the prompt gives.
    gen_prefix: str = ""
    #: The turns of a conversation, to each of which the model replies.
    conversation: Conversation | None = None
    instances: tuple[Instance, ...] = ()

    @property
    def prompt(self) -> str:
        """The prompt as a model gets it: the context of the first request, or the whole text of a rolling one."""
        if not self.instances:
            return ""
        request = self.instances[0].request
        return request.text if isinstance(request, RollingRequest) else request.context

    def __repr__(self) -> str:
        number = len(self.instances)
        last_words = self.prompt if len(self.prompt) <= 50 else f"…{self.prompt[-49:]}"
        about = f" about {excerpt(last_words, 80)}" if number else ""
        requests = f"{quantity(number, 'request')}{about}"
        return f"<Sample of doc {self.doc_id}: {requests}, gold {_describe(self, _gold(self))}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step from a completion to the prediction: what did it, and what was left."""

    name: str
    value: Any


@dataclass(slots=True)
class FilteredSample:
    """A sample after the filters of a scorer, on its way to a `ScoredSample`."""

    sample: Sample
    outputs: Sequence[Output]
    #: The outputs after the filters.
    results: Sequence[Any]
    steps: list[Step] = field(default_factory=list)
    #: The value of each metric; None until they are computed.
    values: Values | None = None
    #: The outcomes that metrics get, for each turn; one list of them if it is no conversation.
    turns: Sequence[Sequence[Outcome]] = ()

    @property
    def scored_turns(self) -> list[int]:
        """The turns of a conversation whose replies are compared with something, and any other sample's only one."""
        return [0] if len(self.turns) == 1 else [turn for turn, outcomes in enumerate(self.turns) if outcomes]

    def turn_doc(self, turn: int) -> Doc:
        """The document as scorers get it: in a conversation with the number of the turn, from 1."""
        doc = self.sample.doc
        return doc if self.sample.conversation is None else {**doc, "turn": turn + 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredSample:
    """A sample with the model's outputs, and the filtered responses, values and prediction of one scorer."""

    sample: Sample
    outputs: tuple[Output, ...]
    scorer: str
    #: The outputs after the scorer's filters.
    filtered: tuple[Any, ...]
    #: The value of each metric.
    values: Mapping[str, Any]
    #: What the model picked or said: the index of a choice, or the answer that was read out of its completion.
    prediction: Any = None
    #: For generated answers, the way from the raw text to the prediction.
    steps: tuple[Step, ...] = ()
    #: Why there are no outputs, if a request about the document failed and it counts as wrong.
    failure: str | None = None

    @property
    def doc_id(self) -> int:
        return self.sample.doc_id

    @property
    def doc(self) -> Doc:
        return self.sample.doc

    @property
    def target(self) -> Any:
        return self.sample.target

    @property
    def instances(self) -> tuple[Instance, ...]:
        return self.sample.instances

    @property
    def context_truncated(self) -> bool:
        """Whether the beginning of one of its prompts was cut off, as it did not fit into the model's context."""
        return any(output.context_truncated for output in self.outputs)

    @property
    def is_ranked(self) -> bool:
        """Whether choices were scored, maybe after a thought."""
        return any(isinstance(output, LLOutput) for output in self.outputs)

    @property
    def thoughts(self) -> list[Completion]:
        """The completions with a thought; if choices were scored after completions, all of these are thoughts."""
        completions = [output for output in self.outputs if isinstance(output, Completion)]
        return [output for output in completions if output.thought is not None or self.is_ranked]

    @property
    def endings(self) -> frozenset[Ending]:
        """How its completions ended that did not end by themselves."""
        completions = (output for output in self.outputs if isinstance(output, Completion))
        return frozenset(output.ending for output in completions if output.ending is not None)

    @property
    def tied_choices(self) -> tuple[int, ...]:
        """The choices that share the best log-likelihood, if there are several: the first of them is picked."""
        likelihoods = [output.loglikelihood for output in self.outputs if isinstance(output, LLOutput)]
        scores = likelihoods[: len(self.sample.choices)]
        best = max(scores, default=0.0)
        tied = tuple(index for index, score in enumerate(scores) if score == best)
        return tied if len(tied) > 1 else ()

    @property
    def gold(self) -> Any:
        """What would have been right, in the terms of the prediction: the index of a choice, or the target."""
        return _gold(self.sample)

    def __repr__(self) -> str:
        scores = ", ".join(f"{name} {excerpt(value, 20)}" for name, value in self.values.items())
        read = "" if self.prediction is None else f"predicted {_describe(self.sample, self.prediction)}, "
        gold = _describe(self.sample, self.gold)
        return f"<ScoredSample of doc {self.doc_id} by '{self.scorer}': {read}gold {gold}; {scores or 'no scores'}>"


def _gold(sample: Sample) -> Any:
    indexes = sample.gold
    return sample.target if not indexes else indexes[0] if len(indexes) == 1 else list(indexes)


def _describe(sample: Sample, value: Any) -> str:
    """A prediction or gold answer, in a few words; the index of a choice by what the choice says."""
    if isinstance(value, int) and 0 <= value < len(sample.choices):
        return f"{value} ({excerpt(sample.choices[value], 40)})"
    return excerpt(value, 40)


def read_response(instance: Instance, where: str) -> Output:
    """The response that was put into the `resps` of an instance."""
    place = f"{where}: doc {instance.doc_id}: request {instance.idx}"
    if len(instance.resps) != 1:
        message = f"there are {len(instance.resps)} responses" if instance.resps else "there is no response yet"
        raise UsageError(message, where=place, hint="put what the model returns into resps, one for each instance")
    match instance.resps[0]:
        case LLOutput() | Completion() as output:
            return output
        case str() as text:
            return Completion(text)
        case (loglikelihood, is_greedy):
            return LLOutput(float(loglikelihood), bool(is_greedy))
        case int() | float() as loglikelihood:
            return LLOutput(float(loglikelihood))
        case response:
            hint = "give an LLOutput or a Completion, a pair of log-likelihood and greedy flag, a number or a text"
            raise UsageError(f"a response is {excerpt(response)}", where=place, hint=hint)

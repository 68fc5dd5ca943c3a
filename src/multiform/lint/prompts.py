"""Prompts: the rendered documents of a form, as the checks of prompts need them.

Marks around the parts of a question that come from its document distinguish them from the template's text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from multiform.errors import DataError
from multiform.fields import Doc
from multiform.forms import Form, Sample
from multiform.prompts.prompt import ChatTemplate, Turn

#: Characters that no text has: they are for private use.
_OPEN, _CLOSE = "\ue000", "\ue001"
_VALUE = re.compile(f"{_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}")


@dataclass(frozen=True, slots=True)
class Literal:
    """Text of a template, between the texts of a document that stand before and after it."""

    before: str
    text: str
    after: str


def mark(value: Any) -> Any:
    """The value with marks around each of its texts, however nested.

    White space at the ends of a text stays outside, so that stripping has the same effect on a marked text.
    """
    if isinstance(value, str):
        core = value.strip()
        start = value.index(core)
        return f"{value[:start]}{_OPEN}{core}{_CLOSE}{value[start + len(core) :]}"
    if isinstance(value, Mapping):
        return {key: mark(item) for key, item in value.items()}
    return [mark(item) for item in value] if isinstance(value, list) else value


def literals(text: str) -> Iterator[Literal]:
    """The parts of a marked text that are not from the document, with their neighbours.

    >>> [(part.before, part.text, part.after) for part in literals("Question: " + mark("Why?") + "Answer:")]
    [('', 'Question: ', 'Why?'), ('Why?', 'Answer:', '')]
    """
    segments = _VALUE.split(text)
    values = ["", *segments[1::2], ""]
    for index, literal in enumerate(segments[::2]):
        yield Literal(values[index], literal, values[index + 1])


def values(text: str) -> list[str]:
    """The parts of a marked text that are from the document."""
    return _VALUE.findall(text)


#: Two labels in order, such as "(A) yes (B) no".
_ENUMERATED = re.compile(r"(?<!\w)\(?A[.):].*?(?<!\w)\(?B[.):]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Shot:
    """A few-shot example as the prompt has it: its document, and its messages."""

    doc: Doc
    question: Turn
    answer: Turn


@dataclass(frozen=True, slots=True)
class Probe:
    """A document whose prompt was taken apart.

    `turns` are the messages of its (first) prompt. `question` is the text of its question, in which marks stand
    around all that comes from the document, or None if they cannot be told apart.
    """

    doc_id: int
    doc: Doc
    turns: tuple[Turn, ...]
    question: str | None


@dataclass(frozen=True, eq=False)
class Prompts:
    """The rendered documents of a form.

    `failures` are documents that cannot be rendered, with the reason. `probes` are the others, taken apart; there
    are none if the task's own code makes its prompts.
    """

    form: Form
    samples: tuple[Sample, ...] = ()
    failures: Mapping[int, DataError] = field(default_factory=dict)
    docs: Mapping[int, Doc] = field(default_factory=dict)
    probes: tuple[Probe, ...] = ()
    shots: tuple[Shot, ...] = ()
    chat_template: ChatTemplate | None = None

    @property
    def chat(self) -> bool:
        """Whether prompts are written with a chat template."""
        return bool(self.form.settings.apply_chat_template)

    @cached_property
    def choice_texts(self) -> dict[int, tuple[str, ...]]:
        """The texts of the choices of each document, if it has any."""
        texts = {sample.doc_id: sample.texts or sample.choices for sample in self.samples}
        return {doc_id: choices for doc_id, choices in texts.items() if len(choices) > 1}

    @cached_property
    def shared_choices(self) -> tuple[str, ...]:
        """The choices, if all documents have the same, such as yes and no."""
        distinct = set(self.choice_texts.values())
        return distinct.pop() if len(distinct) == 1 and len(self.choice_texts) > 1 else ()

    @cached_property
    def questions(self) -> dict[int, str]:
        """The question of each document as its prompt has it, after all examples."""
        return {
            probe.doc_id: next(message.content for message in reversed(probe.turns) if message.role == "user")
            for probe in self.probes
        }

    @cached_property
    def shows_choices(self) -> bool:
        """Whether prompts show the choices: their texts, or texts that have labels."""
        format = self.form.format
        if format is not None:
            return format.shows_choices
        shown = [_shows(sample) for sample in self.samples]
        return bool(shown) and sum(shown) > len(shown) / 2

    @property
    def delimiter_key(self) -> str:
        """The key that decides what stands between a prompt and the answer that is scored after it.

        Without a format, the target of a log-likelihood task follows the prompt directly, as in lm-eval.
        """
        direct = self.form.output_type == "loglikelihood" and self.form.format is None
        return "doc_to_target" if direct else "target_delimiter"

    def positions(self, sample: Sample) -> int:
        """The number of choices that a model can pick from: of ranked labels, only those that the prompt shows."""
        if sample.texts or not are_labels(sample.choices):
            return len(sample.choices)
        labels = (re.escape(label.strip(" .()")) for label in sample.choices)
        shown = sum(bool(re.search(rf"(?<!\w)\(?{label}[.):]", sample.prompt)) for label in labels)
        return shown or len(sample.choices)


def are_labels(choices: Sequence[str]) -> bool:
    """Whether choices are labels of something else: letters or numbers."""
    return all(len(choice.strip(" .()")) <= 2 for choice in choices)


def _shows(sample: Sample) -> bool:
    listed = are_labels(sample.choices) or all(choice.strip() in sample.prompt for choice in sample.choices)
    return (len(sample.choices) > 1 and listed) or _ENUMERATED.search(sample.prompt) is not None


def render(form: Form, docs: Iterable[tuple[int, Doc]], chat_template: ChatTemplate | None = None) -> Prompts:
    """Render documents; those that cannot be rendered are in `failures`."""
    form = form.under(form.settings)
    samples: list[Sample] = []
    failures: dict[int, DataError] = {}
    docs_by_id: dict[int, Doc] = {}
    for doc_id, doc in docs:
        docs_by_id[doc_id] = doc
        try:
            samples.append(form.sample(doc_id, doc, chat_template))
        except DataError as error:
            failures[doc_id] = error
    probes, shots = _take_apart(form, [sample for sample in samples if sample.instances])
    return Prompts(form, tuple(samples), failures, docs_by_id, tuple(probes), tuple(shots), chat_template)


def _take_apart(form: Form, samples: list[Sample]) -> tuple[list[Probe], list[Shot]]:
    """The documents taken apart, and the few-shot examples that were drawn for them."""
    renderer = form.under(form.settings).renderer  # examples drawn here must not change those of the samples
    if "fewshot_context" in renderer.hooks or form.output_type == "loglikelihood_rolling":
        return [], []
    number, system = form.num_fewshot, form.settings.system_instruction
    probes: list[Probe] = []
    shots: dict[int, Shot] = {}
    for sample in samples:
        fields = renderer.fields(sample.doc)
        turns = renderer.turns(fields, 0, system, fields.gen_prefix)[0]
        drawn = renderer.examples.draw(sample.doc, number) if number else []
        for index in drawn:
            if index not in shots and len(messages := renderer.examples.shot(index)) == 2:
                shots[index] = Shot(renderer.examples.sampler.pool[index], *messages)
        between = [message for index in drawn for message in renderer.examples.shot(index)]
        opening = sum(message.role == "system" for message in turns)
        question = _marked_question(form, sample.doc, str(fields.question)) if not fields.several_inputs else None
        probes.append(Probe(sample.doc_id, sample.doc, (*turns[:opening], *between, *turns[opening:]), question))
    return probes, list(shots.values())


def _marked_question(form: Form, doc: Doc, question: str) -> str | None:
    """The question with marks around the document's texts; None if marks change more than that."""
    try:
        text = str(form.renderer.fields(mark(doc)).question)
    except Exception:  # noqa: BLE001  (a task's own code may raise anything about a changed document)
        return None
    unmarked = _VALUE.sub(r"\1", text)
    return text if unmarked == question else None  # a mark that is left has lost its counterpart

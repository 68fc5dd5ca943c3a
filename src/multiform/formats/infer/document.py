"""Reads question and choices back out of a finished prompt, for tasks whose prompts are written by code.

A prompt is taken apart only where its choices are proven: each text after a label has to be one of the
task's choices, or a value of the document. Everything else stays in the question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from multiform.errors import DataError, shorten
from multiform.fields import Doc, Field, FieldSpec
from multiform.formats.infer import words
from multiform.formats.infer.result import ADD_CHOICES
from multiform.jinja import choice_list, parse_literal_list
from multiform.labels import index_among, label_list

_LABELLED = re.compile(
    r"(?:^|(?<=\n)|(?<=[ \t]))[ \t]*[\[(]?(?P<label>\w{1,4}|[①-⑩])(?:[\])][.:]?|[.:)：．、])[ \t]*", re.MULTILINE
)

_LINE = re.compile(r"[ \t]*[\[(]?(?P<label>[A-Za-z])(?:[\])][.:]?|[.:)])[ \t]+(?P<text>\S.*)")

#: The most choices that a prompt can show.
_MOST = 26


@dataclass(frozen=True, slots=True)
class ReadPrompt:
    """What a prompt of one document consists of."""

    question: str
    choices: tuple[str, ...]


def read_prompt(text: str, choices: Sequence[str], doc: Doc) -> ReadPrompt:
    r"""The question and the choices in a prompt; the choices as given where the prompt shows none.

    >>> doc = {"q": "Two and two?", "options": ["3", "4"]}
    >>> read_prompt("Pick one.\n\nQuestion: Two and two?\nA. 3\nB. 4\nAnswer:", ["A", "B"], doc)
    ReadPrompt(question='Pick one.\n\nTwo and two?', choices=('3', '4'))
    >>> read_prompt("Two and two?", ["3", "4"], doc)
    ReadPrompt(question='Two and two?', choices=('3', '4'))
    """
    scored = [str(choice) for choice in choices]
    if scored == label_list(len(scored), "numbers") and (found := _enumeration(text, len(scored), _known(doc))):
        return ReadPrompt(_bare(found[0], doc), found[1])
    if not are_labels(scored):
        found = _enumeration(text, len(scored), {choice.strip() for choice in scored})
        before = _without_cue(text) if found is None else found[0]
        return ReadPrompt(_bare(before, doc), tuple(scored))
    found = _enumeration(text, len(scored), _known(doc)) or _last_lines(text, len(scored))
    if found is None:
        raise DataError(
            "the task scores labels, and its prompt does not show for certain what they stand for", hint=ADD_CHOICES
        )
    return ReadPrompt(_bare(found[0], doc), found[1])


def read_shown(text: str, doc: Doc) -> ReadPrompt:
    """The question and the choices in a prompt of a task that names no choices: all that are values of the document."""
    known = _known(doc)
    for number in range(_MOST, 1, -1):
        found = _enumeration(text, number, known)
        if found is not None:
            return ReadPrompt(_bare(found[0], doc), found[1])
    raise DataError("the task has no doc_to_choice, and its prompt shows no choices for certain", hint=ADD_CHOICES)


def problem(question: str, choices: Sequence[str] = ()) -> str | None:
    r"""What shows that a question is a prompt already, or that choices are labels, in one document.

    >>> problem("Which?\nA. x\nB. y", ["x", "y"])
    'the question shows the choices already'
    >>> problem("Which?\nAnswer:", ["x", "y"]), problem("Which?", ["(A)", "(B)"])
    ("the question ends in 'Answer:'", 'the choices are labels, not texts')
    """
    if are_labels(choices):
        return "the choices are labels, not texts"
    if len(choices) > 1 and _enumeration(question, len(choices), {choice.strip() for choice in choices}):
        return "the question shows the choices already"
    last = question.strip().rpartition("\n")[2]
    asks = words.ANSWER_CUE.search(last) or words.ANSWER_LINE.search(last)
    return f"the question ends in {last!r}" if asks and last != question.strip() else None


def are_labels(choices: Sequence[str]) -> bool:
    """Whether choices are nothing but the labels A, B, C, ... or (a), (b), ..."""
    stripped = [choice.strip() for choice in choices]
    bare = [choice.strip("().:").upper() for choice in stripped]
    return (
        len(bare) > 1
        and bare == label_list(len(bare))
        and not all(choice.islower() and len(choice) == 1 for choice in stripped)
    )


def _enumeration(text: str, number: int, known: set[str]) -> tuple[str, tuple[str, ...]] | None:
    """What stands before the only list of so many labelled texts that are all known, and those texts.

    Labels at the beginnings of lines come before labels anywhere else.
    """
    every = list(_LABELLED.finditer(text))
    for marks in ([mark for mark in every if text[: mark.start()].endswith("\n") or not mark.start()], every):
        found = []
        for start, mark in enumerate(marks):
            run = _sequence(marks, start, number) if words.is_first_label(mark["label"]) else None
            texts = run and _texts(text, run, known)
            if run and texts:
                found.append((text[: run[0].start()].rstrip(), texts))
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _last_lines(text: str, number: int) -> tuple[str, tuple[str, ...]] | None:
    """Labelled lines at the end of a text: as many as there are labels, or those that a line announces."""
    lines = _without_cue(text).rstrip().split("\n")
    start = len(lines)
    while start > 0 and _LINE.fullmatch(lines[start - 1]):
        start -= 1
    found = [_LINE.fullmatch(line) for line in lines[start:]]
    labels = [one["label"].upper() for one in found if one]
    announced = start > 0 and words.CHOICES_HEADER.search(lines[start - 1]) is not None
    if len(labels) < 2 or labels != label_list(len(labels)) or not (len(labels) == number or announced):
        return None
    return "\n".join(lines[:start]).rstrip(), tuple(one["text"].strip() for one in found if one)


def _sequence(marks: Sequence[re.Match[str]], start: int, number: int) -> list[re.Match[str]] | None:
    """The labels that follow a first one in order."""
    run = [marks[start]]
    for mark in marks[start + 1 :]:
        if len(run) < number and words.follows(mark["label"], [one["label"] for one in run]):
            run.append(mark)
    return run if len(run) == number else None


def _texts(text: str, marks: Sequence[re.Match[str]], known: set[str]) -> tuple[str, ...] | None:
    starts = [mark.end() for mark in marks]
    ends = [mark.start() for mark in marks[1:]]
    texts = [text[start:end].strip() for start, end in zip(starts, ends, strict=False)]
    if not all(one in known for one in texts):
        return None
    rest = text[starts[-1] :]
    for value in sorted(known, key=len, reverse=True):
        after = rest.lstrip()[len(value) :]
        if value and rest.lstrip().startswith(value) and (not after.strip() or _is_cue(after)):
            return (*texts, value)
    return None


def _is_cue(text: str) -> bool:
    asked = words.ANSWER_LINE.match("\n" + text.strip()) or words.ANSWER_CUE.search(text)
    return text[0].isspace() and bool(asked or words.ASKS_TO_CHOOSE.search(text))


def _without_cue(text: str) -> str:
    """The text without a last line that asks for the answer."""
    found = words.ANSWER_CUE.search(text)
    return text[: found.start()].rstrip() if found and "\n" in text.strip() else text


def _bare(text: str, doc: Doc) -> str:
    """The text without a line that announces choices, and without the label of the question.

    A label is taken off where a value of the document follows it.
    """
    text = words.CHOICES_HEADER.sub("", text)
    values = [value.strip() for value in _values(doc) if len(value.strip()) > 2]
    for found in reversed(list(words.QUESTION_LABEL.finditer(text))):
        rest = text[found.end() :].strip()
        if any(rest.startswith(value) or (rest and value.startswith(rest)) for value in values):
            return (text[: found.start()] + text[found.end() :]).strip()
    return text.strip()


def _known(doc: Doc) -> set[str]:
    return {value.strip() for value in _values(doc)}


def _values(value: Any) -> Iterator[str]:
    """All texts in a document, those of lists that are spelled out among them."""
    if isinstance(value, str):
        yield value
        listed = parse_literal_list(value)
        if listed is not None:
            yield from _values(listed)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _values(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _values(one)
    elif isinstance(value, int | float):
        yield str(value)


@dataclass(frozen=True, slots=True)
class _FromPrompt:
    """Two fields of a task: its prompt, and the choices that it scores."""

    text: FieldSpec
    choices: FieldSpec

    def _read(self, doc: Doc) -> ReadPrompt:
        text = Field.of(self.text).read(doc)
        if not isinstance(text, str):
            what = f"doc_to_text gives {shorten(text, 40)}, not a question"
            raise DataError(what, hint=f"run the task without a format, or {ADD_CHOICES}")
        if self.choices is None:
            return read_shown(text, doc)
        return read_prompt(text, choice_list(Field.of(self.choices).read(doc)), doc)


class PromptQuestion(_FromPrompt):
    """The question in the prompt of a document."""

    def __call__(self, doc: Doc) -> str:
        return self._read(doc).question

    def __str__(self) -> str:
        return f"the question in {_name(self.text)}"


class PromptChoices(_FromPrompt):
    """The choices in the prompt of a document."""

    def __call__(self, doc: Doc) -> list[str]:
        return list(self._read(doc).choices)

    def __str__(self) -> str:
        return f"the choices in {_name(self.text)}" + (f", or {_name(self.choices)}" if self.choices else "")


@dataclass(frozen=True, slots=True)
class PromptAnswer:
    """The index of the answer among the choices that a task scores without a format."""

    target: FieldSpec
    choices: FieldSpec
    digits: bool | None

    def __call__(self, doc: Doc) -> int | list[int]:
        value = Field.of(self.target).read(doc)
        listed = parse_literal_list(value) if isinstance(value, str) else None
        names = label_list(_MOST) if self.choices is None else choice_list(Field.of(self.choices).read(doc))
        return index_among(value if listed is None else listed, names, digits=self.digits)

    def __str__(self) -> str:
        return f"the index of {_name(self.target)}" + (f" among {_name(self.choices)}" if self.choices else "")


def _name(spec: FieldSpec) -> str:
    """A field as a message names it, the same in every run."""
    inner = spec.func if isinstance(spec, partial) else spec
    return getattr(inner, "__qualname__", None) or (spec if isinstance(spec, str) else repr(spec))

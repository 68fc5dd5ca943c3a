"""Extracts question and choices from the finished prompt of a document, for tasks whose prompts are written by code.

A prompt is taken apart only where its choices are certain: each text after a label has to be one of the
task's choices, or a value of the document. Everything else stays in the question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from multiform.errors import DataError, excerpt
from multiform.fields import ComputedField, Doc, FieldSpec, shown
from multiform.formats.infer import words
from multiform.formats.infer.layout import ADD_CHOICES
from multiform.labels import bare_labels, choice_list, index_among, label_list, parse_literal_list

_LABELLED = re.compile(
    r"(?:^|(?<=\n)|(?<=[ \t]))[ \t]*[\[(]?(?P<label>\w{1,4}|[①-⑩])(?:[\])][.:]?|[.:)：．、])[ \t]*", re.MULTILINE
)

_LINE = re.compile(r"[ \t]*[\[(]?(?P<label>[A-Za-z])(?:[\])][.:]?|[.:)])[ \t]+(?P<text>\S.*)")

#: The most choices that a prompt can show.
_MOST = 26


class ReadPrompt(NamedTuple):
    """The question and the choices that the prompt of a document shows."""

    question: str
    choices: tuple[str, ...]


def read_prompt(text: str, choices: Sequence[str] | None, doc: Doc) -> ReadPrompt:
    r"""The question and the choices in a prompt; `choices`, which the task scores, where the prompt shows none.

    Without them, the choices are the longest list of values of the document that the prompt shows.

    >>> doc = {"q": "Two and two?", "options": ["3", "4"]}
    >>> read_prompt("Pick one.\n\nQuestion: Two and two?\nA. 3\nB. 4\nAnswer:", ["A", "B"], doc)
    ReadPrompt(question='Pick one.\n\nTwo and two?', choices=('3', '4'))
    >>> read_prompt("Two and two?", ["3", "4"], doc)
    ReadPrompt(question='Two and two?', choices=('3', '4'))
    """
    known = {value.strip() for value in _values(doc)}
    if choices is None:
        prompt = next(filter(None, (_enumeration(text, number, known) for number in range(_MOST, 1, -1))), None)
        if prompt is None:
            message = "the task has no doc_to_choice, and its prompt shows no choices for certain"
            raise DataError(message, hint=ADD_CHOICES)
        return ReadPrompt(_bare(prompt.question, doc), prompt.choices)
    scored, number = [str(choice) for choice in choices], len(choices)
    labels, numbers = are_labels(scored), scored == label_list(number, "numbers")
    prompt = _enumeration(text, number, known) if labels or numbers else None
    if prompt is None and not labels:
        shown = _enumeration(text, number, {choice.strip() for choice in scored})
        prompt = ReadPrompt(_without_cue(text) if shown is None else shown.question, tuple(scored))
    prompt = prompt or _last_lines(text, number)
    if prompt is None:
        hint = ADD_CHOICES
        if all(label in doc for label in scored):  # as in most CSV files
            columns, named = f"columns {scored[0]} to {scored[-1]}", ", ".join(f'"{{{{{label}}}}}"' for label in scored)
            hint = f"for choices in the {columns}, write formats: mcqa and doc_to_choice: [{named}]"
        message = "the task scores labels, and its prompt does not show for certain what they stand for"
        raise DataError(message, hint=hint)
    return ReadPrompt(_bare(prompt.question, doc), prompt.choices)


def problem(question: str, choices: Sequence[str] = ()) -> str | None:
    r"""What shows that the question of a document is a whole prompt, or that its choices are labels; else None.

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
    """Whether the choices are just the labels A, B, C, ... or (a), (b), ..."""
    texts = all(choice.strip().islower() and len(choice.strip()) == 1 for choice in choices)
    return bare_labels(choices) == label_list(len(choices)) and not texts


def _enumeration(text: str, number: int, known: set[str]) -> ReadPrompt | None:
    """The text before the only list of `number` labelled texts that are all in `known`, and these texts.

    A list whose labels are at the beginnings of lines takes precedence.
    """
    all_marks = list(_LABELLED.finditer(text))
    for marks in ([mark for mark in all_marks if text[: mark.start()].endswith("\n") or not mark.start()], all_marks):
        candidates = []
        for start, mark in enumerate(marks):
            run = _sequence(marks, start, number) if words.follows(mark["label"], ()) else None
            texts = run and _texts(text, run, known)
            if run and texts:
                candidates.append(ReadPrompt(text[: run[0].start()].rstrip(), texts))
        if candidates:
            return candidates[0] if len(candidates) == 1 else None
    return None


def _last_lines(text: str, number: int) -> ReadPrompt | None:
    """The text before the labelled lines at its end, and these lines: `number` of them, or after a header line."""
    lines = _without_cue(text).rstrip().split("\n")
    start = len(lines)
    while start > 0 and _LINE.fullmatch(lines[start - 1]):
        start -= 1
    matches = [_LINE.fullmatch(line) for line in lines[start:]]
    labels = [match["label"].upper() for match in matches if match]
    announced = start > 0 and words.CHOICES_HEADER.search(lines[start - 1]) is not None
    if len(labels) < 2 or labels != label_list(len(labels)) or not (len(labels) == number or announced):
        return None
    texts = tuple(match["text"].strip() for match in matches if match)
    return ReadPrompt("\n".join(lines[:start]).rstrip(), texts)


def _sequence(marks: Sequence[re.Match[str]], start: int, number: int) -> list[re.Match[str]] | None:
    """The mark at `start` and those that follow it in the order of their labels, if there are `number` of them."""
    run = [marks[start]]
    for mark in marks[start + 1 :]:
        if len(run) < number and words.follows(mark["label"], [earlier["label"] for earlier in run]):
            run.append(mark)
    return run if len(run) == number else None


def _texts(text: str, marks: Sequence[re.Match[str]], known: set[str]) -> tuple[str, ...] | None:
    starts = [mark.end() for mark in marks]
    ends = [mark.start() for mark in marks[1:]]
    texts = [text[start:end].strip() for start, end in zip(starts, ends, strict=False)]
    if not all(choice in known for choice in texts):
        return None
    rest = text[starts[-1] :]
    for value in sorted(known, key=len, reverse=True):
        after = rest.lstrip()[len(value) :]
        if value and rest.lstrip().startswith(value):
            cue = words.ANSWER_LINE.match("\n" + after.strip()) or words.ANSWER_CUE.search(after)
            if not after.strip() or (after[0].isspace() and (cue or words.ASKS_TO_CHOOSE.search(after))):
                return (*texts, value)
    return None


def _without_cue(text: str) -> str:
    """The text without a last line that asks for the answer."""
    cue = words.ANSWER_CUE.search(text)
    return text[: cue.start()].rstrip() if cue and "\n" in text.strip() else text


def _bare(text: str, doc: Doc) -> str:
    """The text without a line that announces choices, and without the label of the question.

    A label is taken off where a value of the document follows it.
    """
    text = words.CHOICES_HEADER.sub("", text)
    values = [value.strip() for value in _values(doc) if len(value.strip()) > 2]
    for label in reversed(list(words.QUESTION_LABEL.finditer(text))):
        rest = text[label.end() :].strip()
        if any(rest.startswith(value) or (rest and value.startswith(rest)) for value in values):
            return (text[: label.start()] + text[label.end() :]).strip()
    return text.strip()


def _values(value: Any) -> Iterator[str]:
    """All texts in a document, also those in lists that are written as text."""
    if isinstance(value, str):
        yield value
        yield from _values(parse_literal_list(value) or [])
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _values(item)
    elif isinstance(value, int | float):
        yield str(value)


def prompt_fields(text: FieldSpec, choices: FieldSpec) -> tuple[ComputedField, ComputedField]:
    """The question and the choices in the prompts of a task that scores these choices."""
    fields, or_scored = (text, choices), f", or {shown(choices)}" if choices else ""
    return (
        ComputedField(partial(_read_fields, part="question"), fields, f"the question in {shown(text)}"),
        ComputedField(partial(_read_fields, part="choices"), fields, f"the choices in {shown(text)}{or_scored}"),
    )


def answer_field(target: FieldSpec, choices: FieldSpec, digits: bool | None, base: int | None) -> ComputedField:
    """The index of the answer among the choices that a task scores without a format."""
    among = f" among {shown(choices)}" if choices else ""
    compute = partial(_answer_index, digits=digits, base=base)
    return ComputedField(compute, (target, choices), f"the index of {shown(target)}{among}")


def _read_fields(doc: Doc, text: Any, choices: Any, *, part: Literal["question", "choices"]) -> Any:
    if not isinstance(text, str):
        message = f"doc_to_text gives {excerpt(text, 40)}, not a question"
        raise DataError(message, hint=f"run the task without a format, or {ADD_CHOICES}")
    prompt = read_prompt(text, None if choices is None else choice_list(choices), doc)
    return prompt.question if part == "question" else list(prompt.choices)


def _answer_index(doc: Doc, value: Any, choices: Any, *, digits: bool | None, base: int | None) -> int | list[int]:
    return index_among(value, label_list(_MOST) if choices is None else choices, digits, base)

"""Takes a prompt apart: the bare question, the choices it shows, and the wrapping that a format replaces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from multiform.formats.infer import words
from multiform.formats.infer.options import Options, find_options, written_options
from multiform.formats.infer.parts import Part, Text, Value, joined, template_parts


@dataclass(frozen=True, slots=True)
class Layout:
    """What a prompt consists of."""

    #: The template of the bare question.
    question: str
    #: The choices that the prompt shows, if any.
    options: Options | None
    #: Texts that are left out before the choices, and after them.
    before: tuple[str, ...]
    after: str

    @property
    def left_out(self) -> tuple[str, ...]:
        """All that a format replaces, in order."""
        marks = [] if self.options is None else [self.options.marks]
        return tuple(text for text in (*self.before, *marks, self.after) if text)


#: So many words are a sentence.
_SENTENCE = 6


class Unclear(Exception):  # noqa: N818 -- a finding, not a fault
    """Why a prompt cannot be taken apart with certainty."""


def read_layout(template: str, number: int = 0) -> Layout:
    r"""The layout of a prompt; `number` is how many choices the task scores, where it says so.

    >>> layout = read_layout("Question: {{q.strip()}}\nA. {{a}}\nB. {{b}}\nAnswer:")
    >>> layout.question, [item.source for item in layout.options.items], layout.left_out
    ('{{q.strip()}}', ['{{a}}', '{{b}}'], ('Question:', 'A. B.', 'Answer:'))
    >>> read_layout("{{passage}}\nQuestion: {{question}}?\nAnswer:").question
    '{{passage}}\n{{question}}?'
    """
    parts = template_parts(template)
    options = find_options(parts)
    if options is None and number > 1:
        options = _written(parts, number)
    left_out: list[str] = []
    body = list(parts if options is None else _before_choices(options, left_out))
    cue = _take_cue(body) if options is None else _after_choices(options)
    before = _take_labels(body, cue, shows_choices=options is not None)
    question = _stripped(body)
    _check(question)
    left = tuple(text.strip() for text in (*before, *left_out))
    return Layout("".join(part.source for part in question), options, left, cue)


def _written(parts: Sequence[Part], number: int) -> Options | None:
    """Choices that the last text of a prompt spells out."""
    last = parts[-1] if parts else None
    found = written_options(last.text, number) if isinstance(last, Text) else None
    if found is None:
        return None
    before, texts, after = found
    marks = tuple(words.ALPHABETS[0][:number])
    return Options((*parts[:-1], Text(before)), (Text(after),), marks, tuple(Text(text) for text in texts))


def _before_choices(options: Options, left_out: list[str]) -> list[Part]:
    """The parts of the question, without a line that announces the choices."""
    body = joined(options.before)
    last = body[-1] if body else None
    if isinstance(last, Text) and (header := words.CHOICES_HEADER.search(last.text)):
        left_out.append(header[0])
        body[-1] = Text(last.text[: header.start()])
    return joined(body)


def _after_choices(options: Options) -> str:
    """What follows the choices; it has to be a request for the answer."""
    rest = joined(options.after)
    text = "".join(part.text for part in rest if isinstance(part, Text))
    if any(not isinstance(part, Text) for part in rest):
        raise Unclear("after the choices there is more than a request for the answer")
    if text.strip() and not (words.ANSWER_LINE.match("\n" + text.strip()) or _asks(text)):
        raise Unclear(f"it is not clear what {text.strip()!r} after the choices is")
    return text.strip()


def _asks(text: str) -> bool:
    return words.ANSWER_CUE.search(text) is not None or words.ASKS_TO_CHOOSE.search(text) is not None


def _take_cue(body: list[Part]) -> str:
    """Take the request for the answer from the end of a prompt without choices."""
    last = body[-1] if body else None
    if not isinstance(last, Text):
        return ""
    found = words.ANSWER_CUE.search(last.text) or words.ANSWER_LINE.search(last.text)
    if found is not None or (found := words.ONLY_ANSWER_CUE.fullmatch(last.text)):
        body[-1] = Text(last.text[: found.start()])
        return last.text[found.start() :].strip()
    ending = words.ENDS_AS_LABEL.search(last.text)
    if ending is not None and ending["label"].lower() in words.KIND_OF_ANSWER and _says_what_to_do(body):
        body[-1] = Text(last.text[: ending.start()])
        return last.text[ending.start() :].strip()
    if ending is not None or words.OPEN_SENTENCE.search(_last_line(body)):
        raise Unclear(f"it is not clear whether {last.text.strip()!r} at its end belongs to the question")
    return ""


def _last_line(body: Sequence[Part]) -> str:
    """The plain text of the last line."""
    return "".join(part.text if isinstance(part, Text) else "…" for part in body).rstrip().rpartition("\n")[2]


def _says_what_to_do(body: Sequence[Part]) -> bool:
    """Whether a prompt says in a sentence what is asked, so that its last label adds nothing."""
    sentences = [part.text for part in body[:-1] if isinstance(part, Text)]
    return any(len(text.split()) >= _SENTENCE for text in sentences)


def _take_labels(body: list[Part], cue: str, *, shows_choices: bool) -> list[str]:
    """Take the label of the question, and what is no part of it before the label.

    That are examples, the label of a passage, and sentences that tell how to choose among the choices in the prompt.
    """
    found = [(index, match) for index, part in enumerate(body) for match in _labels(part, body, index)]
    if not found:
        return []
    index, match = found[-1]
    text = body[index]
    assert isinstance(text, Text)
    if len(found) > 1 and not (index == 0 and _is_examples(text.text[: match.start()], cue)):
        raise Unclear("several questions are marked in it")
    taken = [match[0]]
    head = text.text[: match.start()]
    if index == 0 and head and _is_examples(head, cue):
        head, taken = "", ["the examples in it", *taken]
    elif index == 0 and shows_choices and words.TELLS_TO_CHOOSE.search(head):
        head, taken = "", [head, *taken]
    kept = " " if not head and match[0].startswith(" ") and index else ""
    body[index] = Text(head + kept + text.text[match.end() :])
    first = body[0]
    if index > 0 and isinstance(first, Text) and (passage := words.PASSAGE_LABEL.fullmatch(first.text)):
        taken.insert(0, passage[0])
        body[0] = Text("")
    return taken


def _labels(part: Part, body: Sequence[Part], index: int) -> list[re.Match[str]]:
    if not isinstance(part, Text):
        return []
    only = words.ONLY_QUESTION_LABEL.fullmatch(part.text)
    if only is not None and "\n" not in part.text and index > 0:
        return [only]
    starts_line = index == 0
    found = list(words.QUESTION_LABEL.finditer(part.text))
    return [match for match in found if match.start() > 0 or starts_line]


def _is_examples(text: str, cue: str) -> bool:
    """Whether a text is nothing but questions and answers, marked as the prompt marks its own."""
    blocks = [block for block in re.split(r"\n\s*\n", text.strip()) if block]
    return bool(blocks) and all(
        len(lines := block.split("\n")) == 2
        and words.QUESTION_LABEL.match(lines[0]) is not None
        and lines[1].startswith(cue or "\0")
        for block in blocks
    )


def _stripped(body: Sequence[Part]) -> list[Part]:
    """The question without white space around it."""
    parts = joined(body)
    if parts and isinstance(parts[0], Text):
        parts[0] = Text(parts[0].text.lstrip())
    if parts and isinstance(parts[-1], Text):
        parts[-1] = Text(parts[-1].text.rstrip())
    return joined(parts)


def _check(question: Sequence[Part]) -> None:
    if all(isinstance(part, Text) for part in question):
        raise Unclear("there is no question in it")
    if any(not isinstance(part, Text | Value) for part in question):
        raise Unclear("a statement in it may write anything")
    for part in question:
        if isinstance(part, Value) and re.search(r"shots?\b|_shot|preprompt", part.expression):
            raise Unclear(f"{part.source} puts examples into it")

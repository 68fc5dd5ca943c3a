"""The layout of a prompt template: its question, the choices that it enumerates, and the request for the answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from multiform.errors import ConfigError
from multiform.formats.infer import words
from multiform.formats.infer.skeleton import MARK, Loop, Part, Skeleton, Statement, Value, plain_source, read_skeleton
from multiform.formats.infer.words import BULLET, follows, option_mark
from multiform.formats.localization import recognised_words

#: Hints where nothing can be recovered.
ADD = "write a file that includes this one and gives formats: (say mcqa), doc_to_text: the bare question"
ADD_CHOICES = f"{ADD}, doc_to_choice: the choices' texts"


class UnclearPromptError(ConfigError):
    """The question and choices behind a prompt cannot be recovered with certainty.

    `key` is the field that stands in the way, and `reason` is the same for all tasks that are refused for it.
    """

    def __init__(
        self, what: str, *, reason: str = "", key: str = "doc_to_text", where: str | None = None, hint: str | None = ADD
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.reason, self.key = reason, key


def no_question() -> UnclearPromptError:
    """The refusal of a prompt that is the same text for all documents."""
    what = "there is no question: the task compares whole texts"
    return UnclearPromptError(what, reason="no question", hint=f"run it without a format, or {ADD}")


def _unclear(why: str, reason: str | None = None) -> UnclearPromptError:
    return UnclearPromptError(f"doc_to_text is a prompt, and {why}", reason=reason or why)


@dataclass(frozen=True, slots=True)
class Options:
    """The choices in a prompt template, with the text of the skeleton before and after them."""

    before: str
    after: str
    #: The labels as they are shown; none where a loop writes them.
    labels: tuple[str, ...]
    #: A template for each choice, or one expression for all of them.
    items: tuple[str, ...] = ()
    whole: str | None = None

    @property
    def marks(self) -> str:
        """The labels as a message shows them."""
        if BULLET in self.labels:
            return "the list of choices"
        if len(self.labels) > 2:
            return f"{self.labels[0]}. … {self.labels[-1]}."
        return " ".join(f"{label}." for label in self.labels) or "the list of choices"


def find_options(skeleton: Skeleton) -> Options | None:
    """The only enumeration in a prompt; None where there is none, or more than one."""
    text = skeleton.text
    marks = list(MARK.finditer(text))
    options = []
    for mark, part in zip(marks, skeleton.parts, strict=True):
        if isinstance(part, Loop) and (whole := _loop_items(part)) is not None:
            options.append(Options(text[: mark.start()], text[mark.end() :], (), whole=whole))
    at = 0
    while at < len(marks):
        run, end = _run(skeleton, marks, at)
        options += [run] if run else []
        at = end if run else at + 1
    return options[0] if len(options) == 1 else None


def _run(skeleton: Skeleton, marks: Sequence[re.Match[str]], at: int) -> tuple[Options | None, int]:
    """The enumeration that begins with the value of a mark, if one does, and the mark after it."""
    text, parts, pieces = skeleton.text, skeleton.parts, MARK.split(skeleton.text)
    labels: list[str] = []
    head, end = "", at
    while end < len(marks) and isinstance(parts[end], Value) and (label := option_mark(pieces[end])):
        if not follows(label[0], labels) or (labels and label[1].strip(" \t\n,;")):
            break
        head = head if labels else label[1]
        labels.append(label[0])
        end += 1
    items = tuple(part.source for part in parts[at:end])
    before = text[: marks[at].start() - len(pieces[at])] + head
    shown = tuple(labels)
    # Choices that a document may lack: {% if choices|length > 4 %}
    while end < len(marks) and not pieces[end] and follows(_optional_label(parts[end]), labels):
        labels.append(_optional_label(parts[end]))
        end += 1
    after = text[marks[end - 1].end() :]
    if len(labels) > len(shown):
        whole = indexed_list(items)
        return (Options(before, after, (), whole=whole) if whole else None), end
    return (Options(before, after, shown, items) if len(items) > 1 else None), end


def _optional_label(part: Part) -> str:
    """The label of a choice that only a condition shows; empty for anything else."""
    if not isinstance(part, Statement) or part.body is None or [*map(type, part.body.parts)] != [Value]:
        return ""
    label = option_mark(part.body.text[:-1]) if MARK.match(part.body.text[-1]) else None
    return label[0] if label and not label[1].strip() else ""


def indexed_list(values: Sequence[str]) -> str | None:
    """The list of which the values are the first items, in order."""
    items = [re.fullmatch(r"\{\{\s*(.+)\[(\d+)\]\s*\}\}", value) for value in values]
    lists = {item[1] for item in items if item}
    right = all(item and int(item[2]) == index for index, item in enumerate(items))
    return lists.pop() if right and len(lists) == 1 else None


def _loop_items(loop: Loop) -> str | None:
    """The expression of the list whose items a loop writes, with labels or dashes; None for another loop."""
    values = [part.expression for part in loop.body.parts if isinstance(part, Value)]
    if len(values) < len(loop.body.parts) or re.search(r"\w", MARK.sub("", loop.body.text)):
        return None
    counted = re.fullmatch(r"range\((.+)\)", loop.items, re.DOTALL)
    if counted is None:
        items = [loop.items for value in values if re.fullmatch(rf"{loop.target}(\.strip\(\)|\s*\|\s*trim)?", value)]
    else:
        indexed = [re.fullmatch(rf"(.+)\[\s*{loop.target}\s*\]", value) for value in values]
        items = [match[1] for match in indexed if match and not _is_label(_last_name(match[1]))]
    item = re.compile(rf"(?<![\w.]){loop.target}(?!\w)")
    return items[0] if len(items) == 1 and all(_is_label(value) or item.search(value) for value in values) else None


def _last_name(expression: str) -> str:
    """The last name of an expression, such as ``label`` of ``choices['label']``."""
    return next(reversed(re.findall(r"\w+", expression)), "")


def _is_label(expression: str) -> bool:
    return "loop.index" in expression or re.search(r"(?i:label|letter|key)|^[A-Z]+$", expression) is not None


_LINE = re.compile(r"[ \t]*[\[(]?(?P<label>\w{1,4})[\])]?[.:)：][ \t]*(?P<text>\S[^\n]*)")


def written_options(text: str, number: int) -> Options | None:
    r"""The choices that are written out in the last text of a prompt.

    >>> options = written_options("\nIs it?\nA. Yes\nB. No\nAnswer:", 2)
    >>> options.before, options.items, options.after
    ('\nIs it?\n', ('Yes', 'No'), 'Answer:')
    """
    last = MARK.split(text)[-1]
    lines = last.splitlines(keepends=True)
    for start in range(len(lines) - number + 1):
        matches = [_LINE.fullmatch(line.rstrip("\n")) for line in lines[start : start + number]]
        labels = [match["label"] for match in matches if match]
        if len(labels) == number and all(follows(label, labels[:index]) for index, label in enumerate(labels)):
            before = text.removesuffix(last) + "".join(lines[:start])
            items = tuple(plain_source(match["text"].strip()) for match in matches if match)
            return Options(before, "".join(lines[start + number :]), tuple(words.ALPHABETS[0][:number]), items)
    return None


#: The number of words from which a text counts as a sentence.
_SENTENCE = 6


_UNCLEAR_END = "a text at its end is neither clearly question nor answer cue"


@lru_cache(maxsize=4096)
def read_layout(template: str, number: int = 0) -> tuple[str, Options | None, tuple[str, ...]]:
    r"""The bare question of a prompt, the choices that it shows, and all texts that a format replaces, in order.

    `number` is how many choices the task scores, where it says so.

    >>> question, options, left_out = read_layout("Question: {{q.strip()}}\nA. {{a}}\nB. {{b}}\nAnswer:")
    >>> question, options.items, left_out
    ('{{q.strip()}}', ('{{a}}', '{{b}}'), ('Question:', 'A. B.', 'Answer:'))
    >>> read_layout("{{passage}}\nQuestion: {{question}}?\nAnswer:")[0]
    '{{passage}}\n{{question}}?'
    """
    skeleton = read_skeleton(template)
    options = find_options(skeleton) or (written_options(skeleton.text, number) if number > 1 else None)
    if options is None:
        text, cue = _split_cue(skeleton.text)
        header = marks = ""
    else:
        text, header = _split_end(options.before, words.CHOICES_HEADER)
        cue, marks = _request_after(options), options.marks
    text, labels = _take_labels(text, cue, shows_choices=options is not None)
    question = text.strip()
    _check(skeleton.parts_in(question))
    left_out = [*(label.strip() for label in labels), header.strip(), marks, cue]
    return skeleton.source(question), options, tuple(filter(None, left_out))


def _split_end(text: str, pattern: re.Pattern[str]) -> tuple[str, str]:
    """The text before what a pattern finds after its last value, and the rest; all of it if nothing is found."""
    match = pattern.search(MARK.split(text)[-1])
    at = len(text) if match is None else len(text) - len(match.string) + match.start()
    return text[:at], text[at:]


def _request_after(options: Options) -> str:
    """What follows the choices; it has to be a request for the answer."""
    text = options.after.strip()
    if MARK.search(text):
        raise _unclear("after the choices there is more than a request for the answer")
    asks = words.ANSWER_CUE.search(options.after) or words.ASKS_TO_CHOOSE.search(text)
    if text and not (asks or words.ANSWER_LINE.match("\n" + text)):
        raise _unclear(f"it is not clear what {text!r} after the choices is", _UNCLEAR_END)
    return text


def _split_cue(text: str) -> tuple[str, str]:
    """The text of a prompt without choices, and the request for the answer at its end."""
    *earlier, last = MARK.split(text)
    for pattern in (words.ANSWER_CUE, words.ANSWER_LINE, words.ONLY_ANSWER_CUE):
        body, cue = _split_end(text, pattern)
        if cue:
            return body, cue.strip()
    ending = words.ENDS_AS_LABEL.search(last)
    # After an instruction in a full sentence, a last label adds nothing.
    instructed = any(len(piece.split()) >= _SENTENCE for piece in earlier)
    if ending is not None and ending["label"].lower() in recognised_words("kind_of_answer") and instructed:
        body, cue = _split_end(text, words.ENDS_AS_LABEL)
        return body, cue.strip()
    plain = MARK.sub("…", text)
    if last and (ending is not None or words.OPEN_SENTENCE.search(plain.rstrip().rpartition("\n")[2])):
        raise _unclear(f"it is not clear whether {last.strip()!r} at its end belongs to the question", _UNCLEAR_END)
    return text, ""


def _take_labels(text: str, cue: str, *, shows_choices: bool) -> tuple[str, list[str]]:
    """The text without the label of the question and texts before it that are not part of the question; and these.

    They are examples, the label of a passage, and instructions to choose among the choices.
    """
    pieces = MARK.split(text)
    labels = [(index, match) for index, piece in enumerate(pieces) for match in _labels(piece, index)]
    if not labels:
        return text, []
    index, match = labels[-1]
    head = match.string[: match.start()]
    if len(labels) > 1 and not (index == 0 and _is_examples(head, cue)):
        raise _unclear("several questions are marked in it")
    taken = [match[0]]
    if index == 0 and head and _is_examples(head, cue):
        head, taken = "", ["the examples in it", *taken]
    elif index == 0 and shows_choices and words.TELLS_TO_CHOOSE.search(head):
        head, taken = "", [head, *taken]
    space = " " if not head and match[0].startswith(" ") and index else ""
    pieces[index] = head + space + match.string[match.end() :]
    if index > 0 and (passage := words.PASSAGE_LABEL.fullmatch(pieces[0])):
        taken.insert(0, passage[0])
        pieces[0] = ""
    return pieces[0] + "".join(map("".join, zip(MARK.findall(text), pieces[1:], strict=True))), taken


def _labels(piece: str, index: int) -> list[re.Match[str]]:
    """The labels of a question in a piece of text; one at its beginning begins a line only in the first piece."""
    only = words.ONLY_QUESTION_LABEL.fullmatch(piece)
    if only is not None and "\n" not in piece and index > 0:
        return [only]
    return [match for match in words.QUESTION_LABEL.finditer(piece) if match.start() > 0 or index == 0]


def _is_examples(text: str, cue: str) -> bool:
    """Whether a text consists of solved examples, with the same labels as the prompt."""
    blocks = [block for block in re.split(r"\n\s*\n", text.strip()) if block]
    return bool(blocks) and all(
        len(lines := block.split("\n")) == 2
        and words.QUESTION_LABEL.match(lines[0]) is not None
        and lines[1].startswith(cue or "\0")
        for block in blocks
    )


def _check(question: Sequence[Part]) -> None:
    """Refuse a question without a value, or with anything but values."""
    if not question:
        raise no_question()
    values = [part for part in question if isinstance(part, Value)]
    if len(values) < len(question):
        raise _unclear("a statement in it may write anything")
    for value in values:
        if re.search(r"shots?\b|_shot|preprompt", value.expression):
            raise _unclear(f"{value.source} puts examples into it", "a column puts examples into it")

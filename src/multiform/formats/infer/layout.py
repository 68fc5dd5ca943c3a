"""The layout of a prompt template: its question, the choices that it enumerates, and the request for the answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from multiform.formats.infer import words
from multiform.formats.infer.parts import Condition, Loop, Part, Text, Value, join_texts, template_parts
from multiform.formats.infer.words import BULLET, follows, is_first_label, option_mark
from multiform.formats.localization import recognised_words


@dataclass(frozen=True, slots=True)
class Options:
    """The choices in a prompt template, with the parts before and after them."""

    before: tuple[Part, ...]
    after: tuple[Part, ...]
    #: The labels as they are shown; none where a loop writes them.
    labels: tuple[str, ...]
    #: An expression or plain text for each choice, or one expression for all of them.
    items: tuple[Value | Text, ...] = ()
    whole: str | None = None

    @property
    def marks(self) -> str:
        """The labels as a message shows them."""
        if BULLET in self.labels:
            return "the list of choices"
        if len(self.labels) > 2:
            return f"{self.labels[0]}. … {self.labels[-1]}."
        return " ".join(f"{label}." for label in self.labels) or "the list of choices"


def find_options(parts: Sequence[Part]) -> Options | None:
    """The only enumeration in a prompt; None where there is none, or more than one."""
    loops = [index for index, part in enumerate(parts) if isinstance(part, Loop) and _loop_items(part) is not None]
    runs = _runs(parts)
    if len(loops) + len(runs) != 1:
        return None
    if runs:
        return runs[0]
    at = loops[0]
    loop = parts[at]
    assert isinstance(loop, Loop)
    return Options(tuple(parts[:at]), tuple(parts[at + 1 :]), (), whole=_loop_items(loop))


def _runs(parts: Sequence[Part]) -> list[Options]:
    runs: list[Options] = []
    at = 0
    while at < len(parts):
        run = _run(parts, at)
        if run is None:
            at += 1
        else:
            runs.append(run)
            at = len(parts) - len(run.after)
    return runs


def _run(parts: Sequence[Part], at: int) -> Options | None:
    """The enumeration that begins at a part, if one does."""
    mark = _mark(parts, at)
    if mark is None or not is_first_label(mark[0]):
        return None
    labels, items, after = [mark[0]], [parts[at + 1]], at + 2
    while (following := _mark(parts, after)) and not following[1].strip(" \t\n,;") and follows(following[0], labels):
        labels.append(following[0])
        items.append(parts[after + 1])
        after += 2
    values = tuple(item for item in items if isinstance(item, Value))
    optional = _optional(parts, after, labels)
    before = (*parts[:at], Text(mark[1]))
    if optional:
        whole = indexed_list(values)
        return Options(before, tuple(parts[after + optional :]), (), whole=whole) if whole else None
    return Options(before, tuple(parts[after:]), tuple(labels), values) if len(values) > 1 else None


def _mark(parts: Sequence[Part], at: int) -> tuple[str, str] | None:
    """The label at the end of a text that a value follows."""
    if at + 1 >= len(parts):
        return None
    text, value = parts[at], parts[at + 1]
    return option_mark(text.text) if isinstance(text, Text) and isinstance(value, Value) else None


def _optional(parts: Sequence[Part], at: int, labels: Sequence[str]) -> int:
    """How many of the parts are further choices that a document may lack: ``{% if choices|length > 4 %}``."""
    labels_so_far = list(labels)
    for count, part in enumerate(parts[at:]):
        mark = _mark(part.body, 0) if isinstance(part, Condition) and len(part.body) == 2 else None
        if mark is None or mark[1].strip() or not follows(mark[0], labels_so_far):
            return count
        labels_so_far.append(mark[0])
    return len(parts) - at


def indexed_list(values: Sequence[Value | Text]) -> str | None:
    """The list of which the values are the first items, in order."""
    items = [re.fullmatch(r"\{\{\s*(.+)\[(\d+)\]\s*\}\}", value.source) for value in values]
    lists = {item[1] for item in items if item}
    right = all(item and int(item[2]) == index for index, item in enumerate(items))
    return lists.pop() if right and len(lists) == 1 else None


def _loop_items(loop: Loop) -> str | None:
    """The expression of the list whose items a loop writes, with labels or dashes; None for another loop."""
    values = [part.expression for part in loop.body if isinstance(part, Value)]
    texts = [part.text for part in loop.body if isinstance(part, Text)]
    if len(values) + len(texts) != len(loop.body) or any(re.search(r"\w", text) for text in texts):
        return None
    counted = re.fullmatch(r"range\((.+)\)", loop.items, re.DOTALL)
    if counted is None:
        items = [loop.items for value in values if re.fullmatch(rf"{loop.target}(\.strip\(\)|\s*\|\s*trim)?", value)]
    else:
        indexed = [re.fullmatch(rf"(.+)\[\s*{loop.target}\s*\]", value) for value in values]
        items = [match[1] for match in indexed if match and not _is_label(value_of(match[1]))]
    item = re.compile(rf"(?<![\w.]){loop.target}(?!\w)")
    return items[0] if len(items) == 1 and all(_is_label(value) or item.search(value) for value in values) else None


def value_of(expression: str) -> str:
    """The last name of an expression, such as ``label`` of ``choices['label']``."""
    names = re.findall(r"\w+", expression)
    return names[-1] if names else ""


def _is_label(expression: str) -> bool:
    return "loop.index" in expression or re.search(r"(?i:label|letter|key)|^[A-Z]+$", expression) is not None


_LINE = re.compile(r"[ \t]*[\[(]?(?P<label>\w{1,4})[\])]?[.:)：][ \t]*(?P<text>\S[^\n]*)")


def written_options(text: str, number: int) -> tuple[str, list[str], str] | None:
    r"""The choices that are written out in a text, with the texts before and after them.

    >>> written_options("\nIs it?\nA. Yes\nB. No\nAnswer:", 2)
    ('\nIs it?\n', ['Yes', 'No'], 'Answer:')
    """
    lines = text.splitlines(keepends=True)
    for start in range(len(lines) - number + 1):
        matches = [_LINE.fullmatch(line.rstrip("\n")) for line in lines[start : start + number]]
        labels = [match["label"] for match in matches if match]
        if len(labels) == number and all(follows(label, labels[:index]) for index, label in enumerate(labels)):
            texts = [match["text"].strip() for match in matches if match]
            return "".join(lines[:start]), texts, "".join(lines[start + number :])
    return None


@dataclass(frozen=True, slots=True)
class PromptLayout:
    """The parts of a prompt template."""

    #: The template of the bare question.
    question: str
    #: The choices that the prompt shows, if any.
    options: Options | None
    #: Texts before and after the choices that are not part of the question.
    before: tuple[str, ...]
    after: str

    @property
    def left_out(self) -> tuple[str, ...]:
        """All texts that a format replaces, in order."""
        marks = [] if self.options is None else [self.options.marks]
        return tuple(text for text in (*self.before, *marks, self.after) if text)


#: The number of words from which a text counts as a sentence.
_SENTENCE = 6


class UnclearLayoutError(Exception):
    """A prompt that cannot be taken apart with certainty.

    `reason` says why in words that are the same for all such prompts, so that they can be counted.
    """

    def __init__(self, what: str, *, reason: str | None = None) -> None:
        super().__init__(what)
        self.reason = reason or what


class NoQuestionError(UnclearLayoutError):
    """A prompt that is the same text for all documents."""


_UNCLEAR_END = "a text at its end is neither clearly question nor answer cue"


@lru_cache(maxsize=4096)
def read_layout(template: str, number: int = 0) -> PromptLayout:
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
        options = _last_text_options(parts, number)
    left_out: list[str] = []
    body = list(parts if options is None else _before_choices(options, left_out))
    cue = _take_cue(body) if options is None else _after_choices(options)
    before = _take_labels(body, cue, shows_choices=options is not None)
    question = _strip_question(body)
    _check(question)
    left_over = tuple(text.strip() for text in (*before, *left_out))
    return PromptLayout("".join(part.source for part in question), options, left_over, cue)


def _last_text_options(parts: Sequence[Part], number: int) -> Options | None:
    """The choices that are written out in the last text of a prompt."""
    last = parts[-1] if parts else None
    options = written_options(last.text, number) if isinstance(last, Text) else None
    if options is None:
        return None
    before, texts, after = options
    marks = tuple(words.ALPHABETS[0][:number])
    return Options((*parts[:-1], Text(before)), (Text(after),), marks, tuple(Text(text) for text in texts))


def _before_choices(options: Options, left_out: list[str]) -> list[Part]:
    """The parts of the question, without a line that announces the choices."""
    body = join_texts(options.before)
    last = body[-1] if body else None
    if isinstance(last, Text) and (header := words.CHOICES_HEADER.search(last.text)):
        left_out.append(header[0])
        body[-1] = Text(last.text[: header.start()])
    return join_texts(body)


def _after_choices(options: Options) -> str:
    """What follows the choices; it has to be a request for the answer."""
    rest = join_texts(options.after)
    text = "".join(part.text for part in rest if isinstance(part, Text))
    if any(not isinstance(part, Text) for part in rest):
        raise UnclearLayoutError("after the choices there is more than a request for the answer")
    asks = words.ANSWER_CUE.search(text) or words.ASKS_TO_CHOOSE.search(text)
    if text.strip() and not (asks or words.ANSWER_LINE.match("\n" + text.strip())):
        message = f"it is not clear what {text.strip()!r} after the choices is"
        raise UnclearLayoutError(message, reason=_UNCLEAR_END)
    return text.strip()


def _take_cue(body: list[Part]) -> str:
    """Remove the request for the answer from the end of a prompt without choices, and return it."""
    last = body[-1] if body else None
    if not isinstance(last, Text):
        return ""
    cue = words.ANSWER_CUE.search(last.text) or words.ANSWER_LINE.search(last.text)
    if cue is not None or (cue := words.ONLY_ANSWER_CUE.fullmatch(last.text)):
        body[-1] = Text(last.text[: cue.start()])
        return last.text[cue.start() :].strip()
    ending = words.ENDS_AS_LABEL.search(last.text)
    # After an instruction in a full sentence, a last label adds nothing.
    instructed = any(isinstance(part, Text) and len(part.text.split()) >= _SENTENCE for part in body[:-1])
    if ending is not None and ending["label"].lower() in recognised_words("kind_of_answer") and instructed:
        body[-1] = Text(last.text[: ending.start()])
        return last.text[ending.start() :].strip()
    plain = "".join(part.text if isinstance(part, Text) else "…" for part in body)
    if ending is not None or words.OPEN_SENTENCE.search(plain.rstrip().rpartition("\n")[2]):
        message = f"it is not clear whether {last.text.strip()!r} at its end belongs to the question"
        raise UnclearLayoutError(message, reason=_UNCLEAR_END)
    return ""


def _take_labels(body: list[Part], cue: str, *, shows_choices: bool) -> list[str]:
    """Remove the label of the question, and texts before it that are not part of the question.

    These are examples, the label of a passage, and instructions to choose among the choices.
    """
    labels = [(index, match) for index, part in enumerate(body) for match in _labels(part, body, index)]
    if not labels:
        return []
    index, match = labels[-1]
    text = body[index]
    assert isinstance(text, Text)
    if len(labels) > 1 and not (index == 0 and _is_examples(text.text[: match.start()], cue)):
        raise UnclearLayoutError("several questions are marked in it")
    taken = [match[0]]
    head = text.text[: match.start()]
    if index == 0 and head and _is_examples(head, cue):
        head, taken = "", ["the examples in it", *taken]
    elif index == 0 and shows_choices and words.TELLS_TO_CHOOSE.search(head):
        head, taken = "", [head, *taken]
    space = " " if not head and match[0].startswith(" ") and index else ""
    body[index] = Text(head + space + text.text[match.end() :])
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
    matches = list(words.QUESTION_LABEL.finditer(part.text))
    return [match for match in matches if match.start() > 0 or starts_line]


def _is_examples(text: str, cue: str) -> bool:
    """Whether a text consists of solved examples, with the same labels as the prompt."""
    blocks = [block for block in re.split(r"\n\s*\n", text.strip()) if block]
    return bool(blocks) and all(
        len(lines := block.split("\n")) == 2
        and words.QUESTION_LABEL.match(lines[0]) is not None
        and lines[1].startswith(cue or "\0")
        for block in blocks
    )


def _strip_question(body: Sequence[Part]) -> list[Part]:
    """The question without white space around it."""
    parts = join_texts(body)
    if parts and isinstance(parts[0], Text):
        parts[0] = Text(parts[0].text.lstrip())
    if parts and isinstance(parts[-1], Text):
        parts[-1] = Text(parts[-1].text.rstrip())
    return join_texts(parts)


def _check(question: Sequence[Part]) -> None:
    if all(isinstance(part, Text) for part in question):
        raise NoQuestionError("there is no question in it")
    if any(not isinstance(part, Text | Value) for part in question):
        raise UnclearLayoutError("a statement in it may write anything")
    for part in question:
        if isinstance(part, Value) and re.search(r"shots?\b|_shot|preprompt", part.expression):
            raise UnclearLayoutError(f"{part.source} puts examples into it", reason="a column puts examples into it")

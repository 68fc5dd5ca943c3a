"""Choice labels, and the many ways in which datasets write down the right answer."""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, islice, product
from string import ascii_uppercase
from typing import Any, Literal

from multiform.errors import DataError, excerpt

LabelSpec = Literal["letters", "numbers", "lower", "roman"] | tuple[str, ...]
#: The kinds of labels that go on without end.
LABEL_KINDS = ("letters", "numbers", "lower", "roman")

#: The most decimal digits that Python reads as a number.
_MAX_DIGITS = 4300

_INDEX_HINT = 'make doc_to_target an index, e.g. "{{choices.index(answer)}}"'
#: The last sentence of a worked solution, such as "So the answer is 42."
_CONCLUSION = re.compile(
    r"(?:^|[.!?\n]\s*)(?P<said>(?:(?:so|thus|therefore|hence)\b,?\s*)?the\s+(?:final\s+|correct\s+)?answer\s+is:?\s+)"
    r"(?P<result>(?:(?!\.\s)[^\n])+?)\.?\s*$",
    re.IGNORECASE,
)


#: The characters of scripts that are written without blanks, as part of a regular expression: Thai, Lao, Burmese,
#: Khmer, Chinese, Japanese; and Korean, whose endings follow a word at once.
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u30ff\u3400-\u9fff\uac00-\ud7af"
#: Labels that cannot be mistaken for a word of a sentence, but for "A", "I" and "a".
_SHORT_WORD = re.compile(r"[A-Z]{1,3}|[a-z]|[0-9]{1,3}")
_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}


def plain_characters(text: str) -> str:
    """A text with ASCII digits and, in place of full-width ones, ASCII characters.

    >>> plain_characters("Ｂ、１２.５ و ١٢٣ और १२३")
    'B、12.5 و 123 और 123'
    """
    text = text.translate(_WIDE)
    if text.isascii():
        return text
    return "".join(str(unicodedata.decimal(char)) if char.isdecimal() else char for char in text)


def letters() -> Iterator[str]:
    """A, B, ... Z, AA, AB, ... without end.

    >>> list(islice(letters(), 25, 29))
    ['Z', 'AA', 'AB', 'AC']
    """
    for width in count(1):
        yield from map("".join, product(ascii_uppercase, repeat=width))


def roman(number: int) -> str:
    """A whole number in Roman numerals.

    >>> [roman(number) for number in (1, 4, 9, 14, 26)]
    ['I', 'IV', 'IX', 'XIV', 'XXVI']
    """
    numerals = ((100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"))
    text = ""
    for value, numeral in numerals:
        times, number = divmod(number, value)
        text += numeral * times
    return text


def label_list(number: int, spec: str | Sequence[str] = "letters") -> list[str]:
    """The first `number` labels, always strings.

    >>> label_list(3), label_list(3, "numbers"), label_list(2, ("I", "II", "III"))
    (['A', 'B', 'C'], ['1', '2', '3'], ['I', 'II'])
    >>> label_list(3, "lower"), label_list(3, "roman")
    (['a', 'b', 'c'], ['I', 'II', 'III'])
    """
    if spec in ("letters", "lower"):
        return list(islice(letters() if spec == "letters" else map(str.lower, letters()), number))
    if spec in ("numbers", "roman"):
        return [str(n) if spec == "numbers" else roman(n) for n in range(1, number + 1)]
    if number > len(spec):
        hint = "add labels to choice_labels, or use 'letters' or 'numbers'"
        raise DataError(f"{number} choices but only {len(spec)} labels ({', '.join(spec)})", hint=hint)
    return [str(label) for label in spec[:number]]


def bare_labels(choices: Sequence[Any]) -> list[str] | None:
    """The labels of choices that are nothing else, such as (B) and (A), as capitals; None if they are texts.

    >>> bare_labels(["(a)", "(b)"]), bare_labels(["1", "2"]), bare_labels(["no", "yes"])
    (['A', 'B'], ['1', '2'], None)
    """
    bare = [str(choice).strip().strip("().:").upper() for choice in choices]
    are_labels = sorted(bare) == label_list(len(bare)) or bare == label_list(len(bare), "numbers")
    return bare if are_labels and len(bare) > 1 else None


def leading_label(labels: Sequence[str]) -> re.Pattern[str] | None:
    """A pattern for texts that certainly begin with one of the labels, whatever else may still be generated.

    What follows the label has to be known: "A" may become "A, B or C", and "I" the beginning of a sentence. None if a
    label is not a short word.

    >>> pattern = leading_label(["A", "B"])
    >>> [bool(pattern.match(text)) for text in (" B.", " B. Paris", "**B**\\n", " A", " A good one", " A, or B")]
    [False, True, True, False, False, False]
    """
    if len({label.casefold() for label in labels}) < len(labels) or not all(map(_SHORT_WORD.fullmatch, labels)):
        return None
    one = "|".join(sorted(map(re.escape, labels), key=len, reverse=True))
    article = r"(?:(?<!\b[AIa])|(?!\s+[a-z]))"
    after = r"(?![^\W_]|\.\d)(?=[)\].*]*[^\S\n]*(?:\n|(?![)\].*,/&'oa])[!-~]))"
    return re.compile(rf"[: \t\n]*(?:(?!\n)[\s*_`\"'“‘$\[(])*(?i:(?:option|choice) +)?(?:{one}){article}{after}")


def join_words(words: Sequence[str], word: str, comma: str = ", ", space: str = " ") -> str:
    """Words as a phrase: commas, then `word` before the last.

    >>> join_words(["A", "B", "C"], "and"), join_words(["A"], "or"), join_words([], "or")
    ('A, B and C', 'A', '')
    >>> join_words(["A", "B", "C"], "或", "、", "")
    'A、B或C'
    """
    if len(words) < 2:
        return "".join(map(str, words))
    return f"{comma.join(map(str, words[:-1]))}{space}{word}{space}{words[-1]}"


def split_solution(text: str) -> tuple[str, str]:
    r"""The reasoning and the result of a worked solution; no reasoning if the text is a bare answer.

    >>> split_solution("48 / 2 = 24\n#### 24"), split_solution("There are 6 left. The answer is 6.")
    (('48 / 2 = 24', '24'), ('There are 6 left.', '6'))
    >>> split_solution("South America")
    ('', 'South America')
    """
    solution, mark, result = text.rpartition("####")
    if mark and solution.strip() and "\n" not in result.strip():
        return solution.strip(), result.strip()
    conclusion = _CONCLUSION.search(text)
    if conclusion is None:
        return "", text
    return text[: conclusion.start("said")].strip(), conclusion["result"]


def gold_index(
    answer: Any, choices: Sequence[Any], labels: str | Sequence[str] = "letters", base: int | None = None
) -> int | list[int]:
    """The 0-based index of the right choice, or a list of them when the answer is a list.

    An answer may be an index, one of a list of labels, a letter, a 1-based digit string, a choice's text or a bool.
    Roman numerals are not answers, as "I" is a letter as well; if a dataset has them, `labels` lists them.
    With a `base` of 0 or 1, numbers and digit strings count from it.

    >>> gold_index(2, "xyz"), gold_index("B", ["x", "y"]), gold_index("2", ["x", "y"])
    (2, 1, 1)
    >>> gold_index("y", ["x", "y"]), gold_index(True, ["no", "yes"]), gold_index(True, ["True", "False"])
    (1, 1, 0)
    >>> gold_index(["A", "y"], ["x", "y"])
    [0, 1]
    >>> gold_index("1", ["x", "y"], base=0), gold_index(1, ["x", "y"], base=1)
    (1, 0)
    """
    answer = answer.tolist() if hasattr(answer, "tolist") else answer  # numpy's scalars and arrays
    if not choices:
        raise DataError("there are no choices", hint="check doc_to_choice, or drop the document in process_docs")
    if isinstance(answer, list | tuple | set):
        if not answer:
            raise DataError("the list of answers is empty", hint="check doc_to_target")
        return sorted({_one_index(item, choices, labels, base) for item in answer})
    return _one_index(answer, choices, labels, base)


def gold_text(answer: Any, choices: Sequence[Any], base: int | None = None) -> str | list[str]:
    """The text of the right choice, or a list of texts when the answer is a list.

    >>> gold_text("B", ["x", "y"])
    'y'
    """
    index = gold_index(answer, choices, base=base)
    return [str(choices[i]) for i in index] if isinstance(index, list) else str(choices[index])


def gold_label(
    answer: Any, choices: Sequence[Any], labels: str | Sequence[str] = "letters", base: int | None = None
) -> str | list[str]:
    """The label of the right choice, or a list of labels when the answer is a list.

    >>> gold_label("y", ["x", "y"], "numbers")
    '2'
    """
    index, names = gold_index(answer, choices, labels, base), label_list(len(choices), labels)
    return [names[i] for i in index] if isinstance(index, list) else names[index]


def choice_list(choices: Any) -> Any:
    """Choices as a list: the values of a mapping, or the items of a list that is spelled out as text."""
    if isinstance(choices, Mapping):
        return list(choices.values())
    listed = parse_literal_list(choices) if isinstance(choices, str) else choices
    if listed is None:
        raise DataError(f"expected a list of choices, got {excerpt(choices)}", hint="check doc_to_choice")
    return listed


def parse_literal_list(text: str) -> list[Any] | None:
    """The list that a rendered template spells out, or None when it is not one.

    >>> parse_literal_list("['a', 'b']")
    ['a', 'b']
    >>> parse_literal_list("a, b") is None
    True
    """
    stripped = text.strip()
    if not (stripped.startswith("[") and stripped.endswith("]")):
        return None
    try:
        value = ast.literal_eval(stripped)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, list) else None


def digit_answers(answer: Any) -> list[str]:
    """The digit strings in an answer.

    >>> digit_answers("3"), digit_answers(["1", "B", 2]), digit_answers(3)
    (['3'], ['1'], [])
    """
    answers = answer if isinstance(answer, list | tuple | set) else [answer]
    return [text.strip() for text in answers if isinstance(text, str) and whole_number(text.strip()) is not None]


def digit_base(answer: Any, choices: Sequence[Any], labels: Sequence[Any] = ()) -> int | None:
    """Whether the digits of an answer count from 0 or from 1, if that is certain.

    A label of the document says it, and so do a 0, and the number of choices; the text of a choice is not its number.

    >>> digit_base("0", "xyz"), digit_base("3", "xyz"), digit_base("1", "xyz"), digit_base("3", ["3", "4", "5"])
    (0, 1, None, None)
    >>> digit_base("1", "xyz", labels=["0", "1", "2"])
    0
    """
    names, texts = [str(label).strip() for label in labels], [str(choice).strip() for choice in choices]
    for text in digit_answers(answer):
        number = int(text)
        if text in names and number - names.index(text) in (0, 1):
            return number - names.index(text)
        if text not in texts and number in (0, len(choices)):
            return 1 if number else 0
    return None


def whole_number(text: str) -> int | None:
    """The number that decimal digits spell; None for any other text, and for more digits than Python reads.

    >>> whole_number("12"), whole_number("x"), whole_number("\u00b2"), whole_number("9" * 5000)
    (12, None, None, None)
    """
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else None


def answer_key_to_index(key: str) -> int:
    """The index of the choice that an answer key names by a letter or a 1-based number.

    >>> answer_key_to_index("A"), answer_key_to_index("c"), answer_key_to_index("2")
    (0, 2, 1)
    """
    text = str(key).strip()
    if text.isdecimal() and int(text) > 0:
        return int(text) - 1
    if len(text) == 1 and text.isascii() and text.isalpha():
        return ord(text.upper()) - ord("A")
    raise DataError(f"{excerpt(key)} is neither a letter nor a number of 1 or more", hint="check the answer key")


def index_among(answer: Any, choices: Any, digits: bool | None = False, base: int | None = None) -> int | list[int]:
    """The index that an answer has among the choices that a task without a format scores; lists may be spelled out.

    Digits that are none of the choices, or whatever they are if `digits` says so, are an index from 0; if it
    is None, they are text and count from 1, as everywhere else. With a `base`, they and numbers count from it.

    >>> index_among("B", ["A", "B"]), index_among("(B)", ["A", "B"]), index_among(1, ["A", "B"])
    (1, 1, 1)
    >>> index_among("2", ["1", "2", "3"]), index_among("2", ["1", "2", "3"], digits=True)
    (1, 2)
    >>> index_among("42", ["41", "42"], digits=True)
    1
    """
    names = choice_list(choices)
    if isinstance(answer, str) and (listed := parse_literal_list(answer)) is not None:
        answer = listed
    answer = answer.tolist() if hasattr(answer, "tolist") else answer
    if isinstance(answer, list | tuple):
        indexes = [index_among(item, names, digits, base) for item in answer]
        return sorted({index for index in indexes if isinstance(index, int)})
    if not isinstance(answer, str):
        return gold_index(answer, names, base=base)
    text = answer.strip()
    for spellings in (list(names), [str(name).strip(" ().:") for name in names]):
        for candidate in (answer, text.strip("().: ")):
            if candidate in spellings and not (digits and text.isdecimal()):
                return spellings.index(candidate)
    number = whole_number(text)
    if number is not None and digits is not None and (number < len(names) or text not in names):
        return _in_range(number - (base or 0), names)
    return gold_index(answer, names, base=base)


def _one_index(answer: Any, choices: Sequence[Any], labels: str | Sequence[str], base: int | None) -> int:
    if isinstance(answer, bool):
        return _bool_index(answer, choices)
    if isinstance(answer, int) or (isinstance(answer, float) and answer.is_integer()):
        return _in_range(int(answer) - (base or 0), choices)
    if not isinstance(answer, str):
        raise _answer_error(answer, choices, "it is not an index, label or text")
    readings = _readings(answer, choices, labels, 1 if base is None else base)
    if len(readings) > 1:
        ways = " or ".join(f"{index} as a {way}" for index, way in readings.items())
        raise _answer_error(answer, choices, f"it is ambiguous: index {ways}")
    if not readings:
        raise _answer_error(answer, choices, "it is neither one of the choices nor a label of one")
    return next(iter(readings))


def _readings(answer: str, choices: Sequence[Any], labels: str | Sequence[str], base: int) -> dict[int, str]:
    """Each index that the answer can mean, with the way in which it means it."""
    text = answer.strip()
    matches = [i for i, choice in enumerate(choices) if str(choice) == answer]
    matches = matches or [i for i, choice in enumerate(choices) if str(choice).strip() == text]
    readings = dict.fromkeys(matches, "choice")
    for way, names in (
        ("label", [] if isinstance(labels, str) else list(labels)),
        ("letter", label_list(len(choices))),
        ("letter", label_list(len(choices), "lower")),
        (f"{base}-based digit", [str(base + index) for index in range(len(choices))]),
    ):
        if text in names[: len(choices)]:
            readings.setdefault(names.index(text), way)
    return readings


def _bool_index(answer: bool, choices: Sequence[Any]) -> int:
    words = [str(choice).strip(" .!").lower() for choice in choices]
    for true, false in (("true", "false"), ("yes", "no")):
        if {true, false} <= set(words):
            return words.index(true if answer else false)
    if len(choices) != 2:
        raise _answer_error(answer, choices, "a bool needs two choices, or choices named true/false or yes/no")
    return int(answer)


def _in_range(index: int, choices: Sequence[Any]) -> int:
    if 0 <= index < len(choices):
        return index
    hint = 'if it counts from 1, write doc_to_target: "{{answer - 1}}", or set answer_base: 1'
    if index < 0:
        hint = "where a dataset hides the answers of this split, name another one as test_split or validation_split"
    raise _answer_error(index, choices, f"the index is not between 0 and {len(choices) - 1}", hint)


def _answer_error(answer: Any, choices: Sequence[Any], why: str, hint: str = _INDEX_HINT) -> DataError:
    message = f"the answer {excerpt(answer)} does not resolve among {excerpt(list(choices), 120)}: {why}"
    return DataError(message, hint=hint)

"""The built-in axes of variations: choices of wording and layout that keep the meaning of a prompt.

Each value of an axis is a function from a format to the fields that it changes, or to None if the value does not fit
the format: labels that are not shown have no wrapper, and a German prompt gets no English words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from multiform.formats.base import FormatConfig
from multiform.formats.builtin import COTGenFormat, GenerateFormat
from multiform.formats.localization import ENGLISH, LocalWords, local_words
from multiform.labels import LABEL_KINDS

Fields = Mapping[str, Any]
Change = Callable[[FormatConfig], Fields | None]
#: A choice that a variation makes: what each of its values changes in a format.
Axis = Mapping[str, Change]

#: The fields of a format that are a word and what follows it, and the words of English prompts.
_WORDS = {
    "question_prefix": {"question": "Question", "q": "Q", "problem": "Problem", "query": "Query"},
    "choices_prefix": {"options": "Options", "choices": "Choices"},
    "answer_prompt": {"answer": "Answer", "a": "A", "response": "Response", "correct": "Correct answer"},
}
#: Those words that a format in another language has in the language's own.
_LOCAL = {"question_prefix": ("question", "problem"), "choices_prefix": ("options",), "answer_prompt": ("answer",)}
#: What stands between a word and what follows it: the mark that belongs to the word, and white space.
_SEPARATORS = {"colon": (":", " "), "space": ("", " "), "dash": (" -", " "), "colons": ("::", " "), "line": (":", "\n")}
_CASES: dict[str, Callable[[str], str]] = {"title": str.capitalize, "upper": str.upper, "lower": str.lower}
_SECTIONS = {"line": "\n", "blank": "\n\n", "space": " "}
_BETWEEN = {"line": "\n", "space": " ", "semicolon": "; ", "bar": " | "}
_WRAPPERS = {"x.": "{label}.", "x)": "{label})", "(x)": "({label})", "[x]": "[{label}]", "x:": "{label}:"}
_LABELLED = re.compile(r"(?P<before>\s*)[(\[<]?\{label\}[.):\]>]*(?P<after>\s+)\{choice\}")

#: Wordings of the instruction, by the instruction that the format has; those of choices need choices.
_INSTRUCTIONS: dict[str | None, dict[str, str | None]] = {
    None: {
        "none": None,
        "answer": "Answer the following question.",
        "best": "Read the question and give the best answer.",
        "choose": "Choose the correct answer from the choices below the question.",
    },
    GenerateFormat.instruction: {
        "given": GenerateFormat.instruction,
        "choose": "Choose the best of {{ _num_choices }} candidate answers ({{ _choice_list_and }}) to the question.\n",
        "which": "Which of the {{ _num_choices }} answers ({{ _choice_list_and }}) to this question is the best?\n",
    },
    COTGenFormat.instruction: {
        "given": COTGenFormat.instruction,
        "think": "Think about the following problem step by step, and then give the final answer.\n",
        "work": "Work out the answer to the following problem one step at a time.\n",
    },
}

_SHOTS = {"each": "examples", "after": "start", "before": "question"}


def _instruction(value: str, format: FormatConfig) -> Fields | None:
    wordings = _wordings(format)
    if value not in wordings or (value == "choose" and format.instruction is None and not format.shows_choices):
        return None
    return {"instruction": wordings[value]}


def _wordings(format: FormatConfig) -> Mapping[str, str | None]:
    """The wordings of the instruction in the language of the format."""
    local = _local_words(format)
    if local is None:
        return _INSTRUCTIONS.get(format.instruction, {})
    texts = local.instructions
    plain = {"none": None, "answer": texts["answer_question"], "choose": texts["choose_below"]}
    return plain if format.instruction in plain.values() else {"given": format.instruction}


def _local_words(format: FormatConfig) -> LocalWords | None:
    """The words of the format's language, if that is not English."""
    return None if format.language in (None, ENGLISH) else local_words(format.language)


def _known_words(format: FormatConfig, field: str) -> Mapping[str, str]:
    """The words that a field may have in the language of the format, by the names of an axis."""
    local = _local_words(format)
    return _WORDS[field] if local is None else {name: local.words[name] for name in _LOCAL[field]}


def _shots(value: str, format: FormatConfig) -> Fields | None:
    return {"instruction_at": _SHOTS[value]} if format.instruction else None


def _word(field: str, value: str, format: FormatConfig) -> Fields | None:
    words, parts = _known_words(format, field), _words(format).get(field)
    if parts is None or value not in words:
        return None
    word, like = words[value], parts[0]
    if len(like) > 1 and like.isupper():  # a single capital may begin a word or be in capitals
        word = word.upper()
    return {field: (word.lower() if like.islower() else word) + parts[1]}


def _question(value: str, format: FormatConfig) -> Fields | None:
    if value != "none":
        return _word("question_prefix", value, format)
    return {"question_prefix": ""} if "question_prefix" in _words(format) else None


def _answer(value: str, format: FormatConfig) -> Fields | None:
    return _word("answer_prompt", value, format)


def _separator(value: str, format: FormatConfig) -> Fields | None:
    mark, space = _SEPARATORS[value]
    local = _local_words(format)
    if local is not None:  # the language's own colon, and what follows it
        space = local.punctuation["space"] if value == "colon" else space
        colon = local.punctuation["colon"]
        mark = colon if mark == ":" else mark.replace(":", colon.strip())
    fields = {name: word + mark + space for name, (word, _) in _words(format).items()}
    if "answer_prompt" in fields:
        fields["answer_prompt"] = fields["answer_prompt"].rstrip()
        if format.target_delimiter:  # in some layouts the answer follows at once
            fields["target_delimiter"] = space
    return fields or None


def _case(value: str, format: FormatConfig) -> Fields | None:
    if not any(word.upper() != word.lower() for word, _ in _words(format).values()):
        return None  # a script without capitals
    return {name: _CASES[value](word) + rest for name, (word, rest) in _words(format).items()}


def _section(value: str, format: FormatConfig) -> Fields | None:
    separator = format.section_separator
    return {"section_separator": _SECTIONS[value]} if separator and not separator.strip() else None


def _labels(value: str, format: FormatConfig) -> Fields | None:
    return {"choice_labels": value} if _has_endless_labels(format) else None


def _wrapper(value: str, format: FormatConfig) -> Fields | None:
    match = _LABELLED.fullmatch(format.choice_format)
    if match is None or not _has_endless_labels(format):
        return None
    return {"choice_format": f"{match['before']}{_WRAPPERS[value]}{match['after']}{{choice}}"}


def _choice_delimiter(value: str, format: FormatConfig) -> Fields | None:
    return {"choice_delimiter": _BETWEEN[value]} if format.shows_choices else None


def _has_endless_labels(format: FormatConfig) -> bool:
    """Whether choices are shown with labels of ours; a list of labels may be the dataset's own, with brackets."""
    return format.shows_choices and isinstance(format.choice_labels, str)


def _words(format: FormatConfig) -> dict[str, tuple[str, str]]:
    """The fields of a format that are a known word, in any case, and marks: the word and the marks."""
    found: dict[str, tuple[str, str]] = {}
    for field in _WORDS:
        words = "|".join(map(re.escape, _known_words(format, field).values()))
        # Vowel signs of Indic and Burmese scripts are not word characters to `re`, nor marks after a word.
        match = re.fullmatch(rf"({words})([^\w\u0900-\u109f]*)", getattr(format, field) or "", re.IGNORECASE)
        if match is not None:
            found[field] = match[1], match[2]
    return found


_WORDINGS = dict.fromkeys(name for texts in _INSTRUCTIONS.values() for name in texts)
#: For each axis, what it changes in words, its values, and how one of them changes a format; in the order in which they
#: are applied and written.
_AXES: dict[str, tuple[str, Iterable[str], Callable[[str, FormatConfig], Fields | None]]] = {
    "instruction": ("wording of the instruction", _WORDINGS, _instruction),
    "shots": ("instruction with each example, after or before all", _SHOTS, _shots),
    "question": ("word before the question", [*_WORDS["question_prefix"], "none"], _question),
    "answer": ("word that asks for the answer", _WORDS["answer_prompt"], _answer),
    "sep": ("what follows these words", _SEPARATORS, _separator),
    "case": ("case of these words", _CASES, _case),
    "sections": ("between question, choices and answer", _SECTIONS, _section),
    "labels": ("kind of labels", LABEL_KINDS, _labels),
    "wrap": ("how a label is written", _WRAPPERS, _wrapper),
    "between": ("between choices", _BETWEEN, _choice_delimiter),
}
#: The built-in axes, by name.
BUILTIN: dict[str, Axis] = {
    name: {value: partial(change, value) for value in values} for name, (_, values, change) in _AXES.items()
}
#: What each axis changes, in words.
AXIS_WORDS = {
    **{name: words for name, (words, _, _) in _AXES.items()},
    "order": "order of the choices",
    "draw": "which few-shot examples",
    "budget": "how many tokens a model may think",
}

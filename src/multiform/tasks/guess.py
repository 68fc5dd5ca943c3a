"""Guesses of a field mapping from the columns and values of rows, for `multiform new`.

Names suggest what a column is, and the values decide: an answer has to be the text, letter or number of a choice.
"""

from __future__ import annotations

import re
import string
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multiform.labels import parse_literal_list
from multiform.tasks.datasets.files import Rows

#: The names that datasets give their columns, by what is in them.
_NAMES = tomllib.loads(Path(__file__).with_name("guess.toml").read_text(encoding="utf-8"))
_WRONG = re.compile(r"(distractor|incorrect|wrong)[\W_]?(answers?|choice)?[\W_]?\d*", re.IGNORECASE)
_SERIES = re.compile(r"(?P<stem>.*?)[ _-]?(?P<mark>[A-Ja-j]|\d)")
_TRUTH = {"false": 0, "true": 1, "no": 0, "yes": 1}
_UNLABELLED = (None, "", -1, "-1")


@dataclass(slots=True)
class Guess:
    """The keys of a task file, with a comment for each of them."""

    keys: dict[str, Any] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)

    def add(self, key: str, value: Any, comment: str = "") -> None:
        self.keys[key] = value
        if comment:
            self.comments[key] = comment

    def name(self, column: str) -> str:
        """The column in a template, by another name if its own could not stand there."""
        if column.isidentifier():
            return column
        return self.renamed.setdefault(column, re.sub(r"\W+", "_", column).strip("_") or "column")


@dataclass(frozen=True, slots=True)
class _Choices:
    """A template of the choices, its value in each row, and the columns that it reads."""

    template: str | list[str]
    values: list[list[Any]]
    columns: tuple[str, ...]
    #: The template and values of the right answer, if the choices say it themselves.
    target: str | None = None
    about: str = ""


def guess_mapping(rows: Rows) -> Guess:
    """The field mapping of rows, as far as names and values show it."""
    guess = Guess()
    names = dict.fromkeys(key for row in rows for key in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    choices = _one_column(columns, guess) or _several_columns(columns, guess) or _right_and_wrong(columns, guess)
    used: set[str] = set()
    if choices is not None:
        used |= {*choices.columns}
        guess.add("doc_to_choice", choices.template, choices.about)
        used |= _choice_answer(columns, choices, guess)
    else:
        used |= _label_answer(columns, guess) or _open_answer(columns, guess)
    _texts({name: values for name, values in columns.items() if name not in used}, guess)
    _rationale(columns, used, guess)
    for name in _matching(columns, "subject"):
        if all(isinstance(value, str) for value in columns[name]) and 1 < len(set(columns[name])) <= len(rows) / 2:
            guess.add("metadata", {"cluster": name}, "documents of one value depend on each other")
            break
    if guess.renamed:
        guess.add("rename_columns", guess.renamed, "names with blanks cannot stand in templates")
    return guess


def _matching(columns: Iterable[str], names: str | Sequence[str]) -> list[str]:
    """The columns of these names, or of those for a kind of column, in the order of the names."""
    names = _NAMES[names] if isinstance(names, str) else names
    plain = {re.sub(r"[\W_]+", "_", column).strip("_").lower(): column for column in columns}
    return [plain[name] for name in names if name in plain]


def _one_column(columns: Mapping[str, list[Any]], guess: Guess) -> _Choices | None:
    """Choices in one column: a list, the text of one, texts with labels, or a mapping of letters."""
    for name in _matching(columns, "choices"):
        values, column = columns[name], guess.name(name)
        first = next((value for value in values if value), None)
        choices = None
        if name.lower() == "answers" and not _matching(columns, ("label", "correct", "answer_index", "ra")):
            continue  # spellings of one answer
        if _are(values, list) and all(_are(value, str) and len(value) > 1 for value in values):
            choices = _choices_of_texts(name, column, values)
        elif _are(values, str) and all(lists := [parse_literal_list(value) or [] for value in values]):
            choices = _Choices("{{" + column + "|literal}}", lists, (name,), about="the text of a list")
        elif isinstance(first, dict) and _are(values, dict):
            choices = _choices_of_mapping(name, column, columns, guess)
        elif isinstance(first, list) and isinstance(first[0], dict) and _are(filter(None, values), list):
            choices = _choices_of_records(name, column, values)
        if choices is not None:
            return choices
    return None


def _choices_of_texts(name: str, column: str, values: list[list[str]]) -> _Choices:
    unmarked = [_strip_letters(value) for value in values]
    if not all(marked for _, marked in unmarked):
        return _Choices(column, values, (name,))
    template = "{{" + column + r"|map('regex_replace', '^\\(?[A-Ja-j][).:] *', '')|list}}"
    about = "without the letters that stand before the texts"
    return _Choices(template, [texts for texts, _ in unmarked], (name,), about=about)


def _choices_of_mapping(name: str, column: str, columns: Mapping[str, list[Any]], guess: Guess) -> _Choices | None:
    """Choices in a mapping: texts with labels, choices with marks of the right ones, or letters with texts."""
    values = columns[name]
    keys = {*values[0]}.intersection(*values)
    if {"text", "label"} <= keys and all(isinstance(value["text"], list) for value in values):
        texts = [value["text"] for value in values]
        for key in _matching(columns, ("answerkey", "answer_key", "answer", "label")):
            labels = [str(answer).strip() for answer in columns[key]]
            if all(label in value["label"] for label, value in zip(labels, values, strict=True)):
                strip = "" if labels == columns[key] else "|string|trim"
                target = "{{" + f"{column}.label.index({guess.name(key)}{strip})" + "}}"
                return _Choices("{{" + column + ".text}}", texts, (name, key), target=target)
        return _Choices("{{" + column + ".text}}", texts, (name,))
    if {"choices", "labels"} <= keys:
        target = "{{" + column + ".labels|indexes(1)}}"
        return _Choices("{{" + column + ".choices}}", [value["choices"] for value in values], (name,), target=target)
    if all(len(str(key)) == 1 for key in values[0]) and all(_are(value.values(), str) for value in values):
        return _Choices("{{" + column + ".values()|list}}", [list(value.values()) for value in values], (name,))
    return None


def _choices_of_records(name: str, column: str, values: list[Any]) -> _Choices | None:
    """Choices in a list of mappings, of which one key has the text."""
    records = [item for value in values for item in value or ()]
    for key in records[0] if _are(records, dict) else ():
        are_texts = all(isinstance(record.get(key), str) for record in records)
        if are_texts and re.search("text|choice|option|value", key, re.IGNORECASE):
            texts = [[item[key] for item in value or ()] for value in values]
            return _Choices("{{" + f"{column}|map(attribute='{key}')|list" + "}}", texts, (name,))
    return None


def _strip_letters(choices: Sequence[str]) -> tuple[list[str], bool]:
    """The choices without the letters before them, and whether they had these."""
    pattern = r"\(?([A-Ja-j])[).:] *"
    matches = [re.match(pattern, choice) for choice in choices]
    marked = [match[1].upper() for match in matches if match] == list(string.ascii_uppercase[: len(choices)])
    return [re.sub(f"^{pattern}", "", choice) for choice in choices] if marked else list(choices), marked


def _several_columns(columns: Mapping[str, list[Any]], guess: Guess) -> _Choices | None:
    """Choices in columns such as option_a, option_b, or A, B, C, D, or ending0, ending1."""
    stems: dict[str, dict[str, str]] = {}
    for name, values in columns.items():
        match = _SERIES.fullmatch(name)
        if match and all(value is None or isinstance(value, str | int | float) for value in values):
            stems.setdefault(match["stem"], {})[match["mark"].lower()] = name
    for stem, marked in sorted(stems.items(), key=lambda item: -len(item[1])):
        for marks in ("abcdefghij", "123456789", "0123456789"):
            names = [marked[mark] for mark in marks[: len(marked)] if mark in marked]
            if len(names) < 2 or len(names) < len(marked) or _WRONG.fullmatch(names[0]):
                continue
            is_text = any(isinstance(value, str) for value in columns[names[0]])
            if not is_text or stem.lower().rstrip("_ ") in _NAMES["no_choices"]:
                continue
            table = list(zip(*(columns[name] for name in names), strict=True))
            gaps = any(value in (None, "") for row in table for value in row)
            shown = [guess.name(name) for name in names]
            filled = [[value for value in row if value not in (None, "")] for row in table]
            if not gaps:
                return _Choices(["{{" + name + "}}" for name in shown], filled, tuple(names))
            template = "{{[" + ", ".join(shown) + "]|reject('in', [none, ''])|list}}"
            return _Choices(template, filled, tuple(names), about="rows with fewer choices leave columns empty")
    return None


def _right_and_wrong(columns: Mapping[str, list[Any]], guess: Guess) -> _Choices | None:
    """A column for the right answer, and columns for wrong ones."""
    wrong = sorted(name for name, values in columns.items() if _WRONG.fullmatch(name) and _are(values, str))
    right = _matching(columns, ("correct_answer", "best_answer", "answer", "right_answer"))
    if not wrong or not right or not _are(columns[right[0]], str):
        return None
    names = [right[0], *wrong]
    listed = "[" + ", ".join(guess.name(name) for name in names) + "]|sort"
    values = [sorted(row) for row in zip(*(columns[name] for name in names), strict=True)]
    target = "{{(" + listed + f").index({guess.name(right[0])})" + "}}"
    return _Choices("{{" + listed + "}}", values, tuple(names), target=target, about="sorted, to mix right and wrong")


def _choice_answer(columns: Mapping[str, list[Any]], choices: _Choices, guess: Guess) -> set[str]:
    """Add the answer among the choices; the columns that it reads."""
    if choices.target is not None:
        guess.add("doc_to_target", choices.target)
        return set()
    names = [name for name in _matching(columns, "answer") if name not in choices.columns]
    fitting = [(how, name) for name in names if (how := _as_answer(columns[name], choices.values)) is not None]
    if not fitting:
        return set()
    (_, about, keys), name = max(fitting, key=lambda fit: fit[0][0])
    template = keys.pop("template", None)
    guess.add("doc_to_target", template.replace("COLUMN", guess.name(name)) if template else guess.name(name), about)
    for key, value in keys.items():
        guess.add(key, value, about)
    _drop_unlabelled(columns[name], name, guess)
    return {name}


def _drop_unlabelled(values: Sequence[Any], name: str, guess: Guess) -> None:
    missing = [value for value in values if value in _UNLABELLED]
    if missing:
        test = "is none" if missing[0] is None else f"== {missing[0]!r}"
        guess.add("drop_docs", "{{" + f"{guess.name(name)} {test}" + "}}", "rows without an answer")


def _as_answer(answers: Sequence[Any], choices: Sequence[list[Any]]) -> tuple[float, str, dict[str, Any]] | None:
    """How the values of a column name choices: the share of rows that they fit, a comment, and keys of the task."""
    if _are(answers, list) and all(_are(answer, int) for answer in answers):
        fits_all = all(0 <= index < len(c) for a, c in zip(answers, choices, strict=True) for index in a)
        return (1.0, "indexes of the right choices", {}) if fits_all else None
    pairs = [(a, c) for a, c in zip(answers, choices, strict=True) if a not in _UNLABELLED and not isinstance(a, list)]
    if not pairs or any(isinstance(answer, dict) for answer, _ in pairs):
        return None
    letters = string.ascii_uppercase
    texts = [str(answer).strip() for answer, _ in pairs]
    share = len(pairs)
    by_text = sum(text in map(str, options) for text, (_, options) in zip(texts, pairs, strict=True)) / share
    if all(re.fullmatch(r"-?\d+(\.0)?", text) for text in texts) and by_text < 1:
        numbers = [int(float(text)) for text in texts]
        sizes = [len(options) for _, options in pairs]
        fits = [all(base <= n < size + base for n, size in zip(numbers, sizes, strict=True)) for base in (0, 1)]
        if not any(fits):
            return None
        base = int(not fits[0])
        about = f"numbers count from {base}" + (", or from 1?" if all(fits) else "")
        is_usual = fits[0] and 0 in numbers and not isinstance(pairs[0][0], str)
        return 1.0, about, {} if is_usual else {"answer_base": base}
    by_letter = [re.fullmatch(r"\(?([A-Za-z])[).]?", text) for text in texts]
    if all(by_letter):
        indexes = [letters.index(match[1].upper()) for match in by_letter if match]
        if all(index < len(options) for index, (_, options) in zip(indexes, pairs, strict=True)) and by_text < 1:
            plain = all(text in letters and text == answer for text, (answer, _) in zip(texts, pairs, strict=True))
            template = {} if plain else {"template": "{{COLUMN|trim|replace('(', '')|replace(')', '')|upper}}"}
            return 1.0, "letters", template
    return (by_text, "the text of a choice", {}) if by_text > 0.9 else None


def _label_answer(columns: Mapping[str, list[Any]], guess: Guess) -> set[str]:
    """Add choices and answer of a column with few values: classes, or yes and no; the columns that it reads."""
    for name in _matching(columns, ("label", "final_decision", "gold_label", "answer", "target", "labels")):
        known = [value for value in columns[name] if value not in _UNLABELLED]
        distinct = sorted({*map(str, known)}) if all(isinstance(value, str | bool | int) for value in known) else []
        if not 1 < len(distinct) <= 5 or len(known) < 4 * len(distinct):
            continue
        if _are(known, bool) or distinct == ["0", "1"]:
            guess.add("doc_to_choice", ["no", "yes"], "0 and false are no: is that so?")
            guess.add("doc_to_target", "{{" + f"{guess.name(name)}|int" + "}}")
        elif distinct == ["0", "1", "2"] and _matching(columns, ("premise",)) and _matching(columns, ("hypothesis",)):
            about = "entailment, neutral, contradiction: in this order?"
            guess.add("doc_to_choice", ["True", "Neither", "False"], about)
            guess.add("doc_to_target", guess.name(name))
        elif not distinct[0].isdigit():
            order = sorted(distinct, key=lambda text: -_TRUTH.get(text.lower(), 0.5))
            guess.add("doc_to_choice", order, "all values of the column")
            guess.add("doc_to_target", guess.name(name))
        else:
            continue
        _drop_unlabelled(columns[name], name, guess)
        return {name}
    return set()


def _open_answer(columns: Mapping[str, list[Any]], guess: Guess) -> set[str]:
    """Add an answer without choices: a text, a number, or several spellings; the columns that it reads."""
    for name in _matching(columns, "open"):
        values, column = columns[name], guess.name(name)
        known = [value for value in values if value not in (None, "")]
        if not known:
            continue
        first = known[0]
        if _are(known, dict):
            key = next((key for key in ("aliases", "text") if isinstance(first.get(key), list)), None)
            if key is None or not any(value.get(key) for value in known):  # none, or an unlabelled split
                continue
            guess.add("doc_to_target", "{{" + f"{column}.{key}" + "}}", "any of them is right")
        elif isinstance(first, str) and all("####" in str(value) for value in known):
            guess.add("doc_to_target", "{{" + column + ".split('####')[-1].strip()}}", "what follows ####")
            before = f"{column}.split('####')[0].strip()|regex_replace('<<.*?>>', '')"
            guess.add("doc_to_rationale", "{{" + before + "}}", "what stands before")
        elif _are(known, list):
            guess.add("doc_to_target", column, "any of them is right")
        elif _are(known, str):
            padded = any(value != value.strip() for value in known)
            guess.add("doc_to_target", "{{" + column + "|trim}}" if padded else column)
        elif all(isinstance(value, int | float) for value in known):
            guess.add("doc_to_target", "{{" + column + "|string}}", "a number as text")
        else:
            continue
        return {name}
    for name in _matching(columns, "rationale"):
        if all(isinstance(value, str) and "\\boxed" in value for value in columns[name]):
            guess.add("doc_to_target", "{{" + guess.name(name) + "|boxed}}", "what the last box holds")
            return set()
    return set()


def _texts(columns: Mapping[str, list[Any]], guess: Guess) -> None:
    """Add question and context."""
    texts = {name: values for name, values in columns.items() if all(isinstance(v, str) for v in values)}
    varied = {
        name: values for name, values in texts.items() if len({*values}) > len(values) / 20 + 1 or len(values) < 5
    }
    names = _matching(varied, "question") or sorted(varied, key=lambda name: -sum(map(len, varied[name])))
    if not names:
        return
    pairs = [pair for pair in (("sentence1", "sentence2"), ("question1", "question2")) if {*pair} <= texts.keys()]
    question = names[0]
    context = [name for name in _matching(columns, "context") if name != question and _is_text(columns[name])]
    body = _matching(texts, "body")
    choices = guess.keys.get("doc_to_choice")
    if pairs and isinstance(choices, list):
        first, second = pairs[0]
        guess.add("doc_to_context", f"1: {{{{{first}}}}}\n2: {{{{{second}}}}}")
        guess.add("doc_to_text", "Do both mean the same?", "what is asked about the two?")
        return
    if body:
        template = "{{" + f"{guess.name(body[0])}|trim" + "}} {{" + f"{guess.name(question)}|trim" + "}}"
        guess.add("doc_to_text", template, f"{body[0]} leads to {question}")
    elif choices == ["True", "Neither", "False"]:
        guess.add("doc_to_text", "{{" + guess.name(question) + "|trim}} True, False or Neither?", "how it is asked")
    else:
        about = "" if question in _matching(varied, "question") else "the longest text"
        guess.add("doc_to_text", guess.name(question), about)
    if context:
        column, listed = guess.name(context[0]), not isinstance(columns[context[0]][0], str)
        guess.add("doc_to_context", "{{" + column + r"|join('\n')}}" if listed else column)


def _is_text(values: Sequence[Any]) -> bool:
    return any(values) and all(isinstance(v, str) or (isinstance(v, list) and _are(v, str)) for v in values)


def _rationale(columns: Mapping[str, list[Any]], used: set[str], guess: Guess) -> None:
    for name in _matching(columns, "rationale"):
        are_texts = all(value is None or isinstance(value, str) for value in columns[name])
        if name not in used and are_texts and any(columns[name]):
            guess.keys.setdefault("doc_to_rationale", guess.name(name))
            return


def _are(values: Iterable[Any], kind: type) -> bool:
    values = list(values)
    return bool(values) and all(isinstance(value, kind) for value in values)

"""Languages: the words, punctuation and instructions of prompts in each, which `languages/*.toml` hold.

A speaker can correct a word in the file of a language without touching code. ``@mcqa:de`` selects German words, and
``@mcqa:native`` those of the task's own language. `languages.toml` has the words that stylers use instead, and further
words by which the parts of existing prompts are recognised.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Literal

from multiform.errors import ConfigError, nearest
from multiform.formats.base import FormatConfig
from multiform.formats.builtin import (
    CHOOSE,
    CHOOSE_TEXT,
    END_WITH_LABEL,
    END_WITH_TEXT,
    FIND_TEXT,
    COTGenFormat,
    GenerateFormat,
    ThinkFormat,
)

#: After the colon: the language of the task, as its metadata states it.
NATIVE = "native"
#: The language of the formats as they are written.
ENGLISH = "en"
_FOLDER = Path(__file__).with_name("languages")
_PUNCTUATION = {
    "stop": ".", "comma": ",", "question_mark": "?", "exclamation_mark": "!", "colon": ":", "semicolon": ";",
    # Between the labels of a list; between a cue and what follows it; between words.
    "list_comma": ", ", "space": " ", "word_space": " ",
}  # fmt: skip
#: The scorers that can be told how a language states an answer.
_READERS = ("choice_match", "choice_text", "final_answer", "math_verify")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWords:
    """The words of one language, with its punctuation and instructions."""

    code: str
    name: str
    iso3: str
    script: str
    words: Mapping[str, str]
    punctuation: Mapping[str, str]
    instructions: Mapping[str, Any]
    aliases: tuple[str, ...] = ()
    #: Labels of choices, where datasets use others than A, B, C.
    labels: tuple[str, ...] = ()
    #: The digits from 0 to 9, where texts may have others than these.
    digits: str = "0123456789"
    #: How a number is written.
    numbers: str = "1,234.5"
    #: The words that no source states.
    unsure: tuple[str, ...] = ()
    #: The speakers who have read the instructions.
    checked_by: tuple[str, ...] = ()

    def cue(self, word: str) -> str:
        """A word and the colon that asks for something.

        >>> local_words("fr").cue("answer"), local_words("ja").cue("question")
        ('Réponse :', '質問：')
        """
        return self.words[word] + self.punctuation["colon"]

    def ending(self, name: str, placeholder: str) -> str:
        """The sentence that asks for a statement at the end of the response: the ``best`` or the ``final`` answer."""
        statement = str(self.instructions[name]).replace("{answer}", f"[{placeholder}]")
        return str(self.instructions["end"]).replace("{statement}", statement)

    def statements(self) -> list[str]:
        """All statements of an answer that are understood, with ``{answer}`` in its place."""
        cue = self.cue("answer") + self.punctuation["space"] + "{answer}"
        texts = self.instructions
        return list(dict.fromkeys([texts["best"], texts["final"], *texts["phrases"], cue]))


@cache
def language_codes() -> tuple[str, ...]:
    """The codes of all languages that have a file."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


@cache
def local_words(code: str) -> LocalWords:
    """The words of a language by its code.

    >>> local_words("de").words["answer"], local_words("sr").script, local_words("sr-Latn").words["question"]
    ('Antwort', 'Cyrl', 'Pitanje')
    """
    if code not in language_codes():
        known = next((other for other in language_codes() if code.casefold() in _names(local_words(other))), None)
        hint = f"write '{known}'" if known else nearest(code, language_codes(), listed="there are")
        raise ConfigError(f"there are no words for a language '{code}'", hint=hint)
    path = _FOLDER / f"{code}.toml"
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        listed: dict[str, Any] = {name: tuple(data.pop(name, ())) for name in ("aliases", "unsure", "checked_by")}
        punctuation = {**_PUNCTUATION, **data.pop("punctuation", {})}
        labels = tuple(data.pop("labels", "").split())
        return LocalWords(code=path.stem, labels=labels, punctuation=punctuation, **listed, **data)
    except (tomllib.TOMLDecodeError, TypeError) as error:
        raise ConfigError(str(error), where=path.name, hint="compare it with de.toml") from error


def _names(words: LocalWords) -> set[str]:
    return {name.casefold() for name in (words.code, words.iso3, words.name, *words.aliases)}


def task_language(metadata: Mapping[str, Any] | None) -> str | None:
    """The code of the language, and script, that the metadata of a task states; None where there is no such file.

    `script` is an ISO 15924 code, a FLORES code that ends in one, or a mapping from languages to such.

    >>> task_language({"language": "sr"}), task_language({"language": "sr", "script": {"sr": "Latn"}})
    ('sr', 'sr-Latn')
    >>> task_language({"language": "zh", "script": "zho_Hant"}), task_language({"language": "ar", "script": "Latn"})
    ('zh-Hant', None)
    """
    language, script = (metadata or {}).get("language"), (metadata or {}).get("script")
    if not isinstance(language, str):
        return None
    if isinstance(script, Mapping):
        script = script.get(language)
    languages = [local_words(code) for code in language_codes()]
    named = [words for words in languages if language.casefold() in _names(words)]
    if script is None:
        return next((words.code for words in named if "-" not in words.code), None)
    script = str(script).rpartition("_")[2].replace("Hang", "Kore")  # Hangul is part of Korean writing
    related = [words for words in languages if words.iso3 in {other.iso3 for other in named}]
    return next((words.code for words in (*named, *related) if words.script == script), None)


def language_names(metadata: Mapping[str, Any] | None) -> list[str]:
    """The names by which the language of a task can be selected, the shortest that tells scripts apart first.

    >>> language_names({"language": "bn", "script": "ben_Latn"}), language_names({"language": "nb"})
    (['bn-Latn'], ['no', 'nb'])
    >>> language_names({"language": "kac", "script": "kac_Latn"}), language_names({"language": "de"})
    (['kac', 'kac-Latn'], ['de'])
    """
    language, script = (metadata or {}).get("language"), (metadata or {}).get("script")
    if not isinstance(language, str):
        return []
    code = task_language(metadata)
    romanised = code is None and any(language in _names(words) for words in map(local_words, language_codes()))
    names = [] if code is None else [code]
    if not isinstance(script, str):  # there is one, of all rows in the language
        return list(dict.fromkeys([*names, language]))
    names += [] if romanised or "-" in (code or "") else [language]
    return list(dict.fromkeys([*names, f"{language}-{script.rpartition('_')[2]}"]))


def label_language(code: str, metadata: Mapping[str, Any] | None) -> LocalWords:
    """The words of the language after the colon of a label; ``native`` is the one that the task's metadata states."""
    if code != NATIVE:
        return local_words(code)
    native = task_language(metadata)
    if native is not None:
        return local_words(native)
    stated, script = (metadata or {}).get("language"), (metadata or {}).get("script")
    message, hint = "the task does not say in which language it is", "set metadata.language, or name a language: "
    if stated is not None:
        message = f"there are no words for the task's language '{stated}'" + (f" in script {script}" if script else "")
        hint = "name a language: "
    raise ConfigError(message, hint=f"{hint}{', '.join(language_codes())}")


def localize(format: FormatConfig, words: LocalWords) -> FormatConfig:
    """The format with the words of a language in place of the English ones; a task's own texts stay.

    >>> from multiform.formats.builtin import MCQAFormat
    >>> german = localize(MCQAFormat(), local_words("de"))
    >>> german.question_prefix, german.answer_prompt
    ('Frage: ', 'Antwort:')
    """
    if words.code == ENGLISH:
        return replace(format, language=ENGLISH)
    changes: dict[str, Any] = {}

    def swap(name: str, english: str | None, local: str, **more: str) -> None:
        """Change a field, and more of them, if it has the English text."""
        if getattr(format, name, None) == english:
            changes.update({name: local, **more})

    texts, space = words.instructions, words.punctuation["space"]
    stop, colon, comma = (words.punctuation[mark] for mark in ("stop", "colon", "list_comma"))
    letter, answer = words.words["letter"], words.words["answer"]
    swap("question_prefix", "Question: ", words.cue("question") + space)
    swap("question_prefix", "Problem: ", words.cue("problem") + space)
    after = {"target_delimiter": space} if format.target_delimiter == " " else {}
    swap("answer_prompt", "Answer:", words.cue("answer"), **after)
    for english in ("Options:\n", "Options: ", "Choices:\n", "Choices: "):
        swap("choices_prefix", english, words.cue("options") + english[-1])
    labels = f"{{{{ _choice_labels|join_words({words.words['or']!r}, {comma!r}, {space!r}) }}}}"
    choose = texts["choose"].replace("{n}", "{{ _num_choices }}").replace("{labels}", labels)
    swap("instruction", CHOOSE, f"{choose}\n")
    swap("instruction", CHOOSE_TEXT, f"{texts['choose_below']}\n")
    swap("instruction", FIND_TEXT, f"{texts['answer_question']}\n")
    swap("instruction", COTGenFormat.instruction, f"{texts['reason']}\n")
    best = {"fewshot_answer": format.fewshot_answer or texts["best"]}
    final = {"fewshot_answer": format.fewshot_answer or "{rationale}\n" + texts["final"]}
    listed = f"{space}[{letter}]{colon}{space}{labels}{stop}"
    swap("answer_prompt", END_WITH_LABEL, words.ending("best", letter) + listed, **best)
    swap("answer_prompt", END_WITH_TEXT, words.ending("best", answer), **best)
    swap("answer_prompt", COTGenFormat.answer_prompt, words.ending("final", answer), **final)
    begun = texts["best"].partition("{answer}")[0].rstrip()
    swap("gen_prefix", GenerateFormat.gen_prefix, begun)
    swap("after_thought", ThinkFormat.after_thought, begun)
    if not changes:
        message = f"the format has no English words that could be replaced by {words.name} ones"
        raise ConfigError(message, hint="leave out the language, or use mcqa, cloze, hybrid, generate or cot")
    if words.labels and format.choice_labels == "letters":
        changes["choice_labels"] = words.labels
    return replace(format, **changes, scorer=_localize_scorer(format.scorer, words), language=words.code)


def _localize_scorer(scorer: str | Mapping[str, Any] | None, words: LocalWords) -> str | Mapping[str, Any] | None:
    """The scorer, told how the language states an answer and writes numbers."""
    scorer_type = scorer.get("type") if isinstance(scorer, Mapping) else scorer
    if scorer_type not in _READERS:
        return scorer
    stated = scorer.get("kwargs") or {} if isinstance(scorer, Mapping) else {}
    numbers = {} if scorer_type in ("choice_match", "choice_text") else {"numbers": words.numbers}
    return {"type": scorer_type, "kwargs": {"statements": words.statements(), **numbers, **stated}}


class Language(Enum):
    """A language by its ISO 639-3 code."""

    ENG = "English"
    DEU = "German"
    FRA = "French"
    ITA = "Italian"
    SPA = "Spanish"
    POR = "Portuguese"
    NLD = "Dutch"
    FIN = "Finnish"
    SWE = "Swedish"
    ARB = "Arabic"
    ARA = "Arabic"  # noqa: PIE796 - the macro-language of ARB
    POL = "Polish"
    RUS = "Russian"
    UKR = "Ukrainian"
    HRV = "Croatian"
    SRP = "Serbian"
    HIN = "Hindi"
    ZHO = "Chinese"
    CMN = "Chinese"  # noqa: PIE796 - Mandarin, the written language of ZHO
    JPN = "Japanese"
    KOR = "Korean"


@cache
def _read_words() -> dict[str, Any]:
    """What `languages.toml` has beside the files of the languages, read when a word is first needed."""
    return tomllib.loads(_FOLDER.with_suffix(".toml").read_text(encoding="utf-8"))


@cache
def language_words(language: Language) -> LocalWords | None:
    """The words that stylers use in a language: those of its file, except for the ones that stylers replace.

    >>> language_words(Language.JPN).cue("answer"), local_words("ja").cue("answer")
    ('答え：', '回答：')
    """
    codes = [name.lower() for name, member in Language.__members__.items() if member is language]
    files = (words for words in map(local_words, language_codes()) if words.iso3 in codes and "-" not in words.code)
    if (words := next(files, None)) is None:
        return None
    changes = {key: text for code in codes for key, text in _read_words()["stylers"].get(code, {}).items()}
    labels = tuple(changes.pop("labels", "").split()) or words.labels
    return replace(words, labels=labels, words={**words.words, **changes})


def language_of(name: Any) -> Language:
    """A language by its member, code or English name.

    >>> language_of("deu"), language_of("Chinese") is Language.ZHO
    (<Language.DEU: 'German'>, True)
    """
    if isinstance(name, Language):
        return name
    names = {**Language.__members__, **{language.value: language for language in Language}}
    for key, language in names.items():
        if key.casefold() == str(name).casefold():
            return language
    hint = nearest(str(name), names, listed="there are")
    raise ConfigError(f"unknown language '{name}'", where="language", hint=hint)


#: The parts of a prompt that are recognised by their words.
Part = Literal["question", "multiple_choice", "answer", "kind_of_answer", "choices", "passage", "choosing", "option"]


@cache
def recognised_words(part: Part) -> tuple[str, ...]:
    """The words, in all languages, by which a part of somebody's prompt is recognised."""
    listed = _read_words()["recognised"][part]
    word = {"question": "question", "answer": "answer", "choices": "options"}.get(part)
    of_files = [local_words(code).words[word].lower() for code in language_codes()] if word else []
    return tuple(dict.fromkeys([*listed, *of_files]))

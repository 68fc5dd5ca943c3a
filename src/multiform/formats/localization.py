"""Languages: the words, punctuation and instructions of prompts in each, which `languages/*.toml` hold.

A speaker corrects a word in the file of the language; no code has to change. ``@mcqa:de`` selects German words, and
``@mcqa:native`` those of the task's own language. `languages.toml` has the words that stylers write otherwise, and the
words by which somebody's prompt is recognised.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from multiform.labels import LabelSpec

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

    def statement(self, name: str, placeholder: str) -> str:
        """How an answer is stated: the ``best`` choice or the ``final`` answer, with the name of what is stated."""
        return str(self.instructions[name]).replace("{answer}", f"[{placeholder}]")

    def ending(self, name: str, placeholder: str) -> str:
        """The sentence that asks for a statement at the end of the response."""
        return str(self.instructions["end"]).replace("{statement}", self.statement(name, placeholder))

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
        raise ConfigError(f"no words of a language '{code}'", hint=hint)
    return _read_file(_FOLDER / f"{code}.toml")


def _names(words: LocalWords) -> set[str]:
    return {name.casefold() for name in (words.code, words.iso3, words.name, *words.aliases)}


def _read_file(path: Path) -> LocalWords:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        listed: dict[str, Any] = {name: tuple(data.pop(name, ())) for name in ("aliases", "unsure", "checked_by")}
        punctuation = {**_PUNCTUATION, **data.pop("punctuation", {})}
        labels = tuple(data.pop("labels", "").split())
        return LocalWords(code=path.stem, labels=labels, punctuation=punctuation, **listed, **data)
    except (tomllib.TOMLDecodeError, TypeError) as error:
        raise ConfigError(str(error), where=path.name, hint="compare it with de.toml") from error


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
    if script is not None:
        script = str(script).rpartition("_")[2]
    candidates = [words for words in map(local_words, language_codes()) if language.casefold() in _names(words)]
    if script is None:
        exact = [words.code for words in candidates if "-" not in words.code]
    else:
        exact = [words.code for words in candidates if _same_script(words.script, script)]
        if not exact:
            other = [
                words for words in map(local_words, language_codes()) if words.iso3 in {c.iso3 for c in candidates}
            ]
            exact = [words.code for words in other if _same_script(words.script, script)]
    return exact[0] if exact else None


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
    one_script = not isinstance(script, str)  # of all rows in the language
    names += [language] if one_script or not (romanised or "-" in (code or "")) else []
    names += [f"{language}-{script.rpartition('_')[2]}"] if isinstance(script, str) else []
    return list(dict.fromkeys(names))


def _same_script(first: str, second: str) -> bool:
    """Whether two codes name one script; Hangul is part of Korean writing."""
    whole = {"Hang": "Kore"}
    return whole.get(first, first) == whole.get(second, second)


def label_language(code: str, metadata: Mapping[str, Any] | None) -> LocalWords:
    """The words that the part of a label after the colon asks for, for a task with this metadata."""
    if code != NATIVE:
        return local_words(code)
    native = task_language(metadata)
    if native is None:
        stated = (metadata or {}).get("language")
        script = (metadata or {}).get("script")
        message = (
            "the task does not say in which language it is"
            if stated is None
            else f"there are no words of the task's language '{stated}'" + (f" in script {script}" if script else "")
        )
        hint = "set metadata.language, or name a language: " if stated is None else "name a language: "
        raise ConfigError(message, hint=f"{hint}{', '.join(language_codes())}")
    return local_words(native)


@dataclass(frozen=True, slots=True)
class _Changes:
    """The fields of a format that a language changes."""

    format: FormatConfig
    words: LocalWords
    fields: dict[str, Any] = field(default_factory=dict)

    def swap(self, name: str, english: str | None, local: Any, **more: Any) -> None:
        """Change a field, and more of them, where it has the English text."""
        if getattr(self.format, name) == english:
            self.fields.update({name: local, **more})


def localize(format: FormatConfig, words: LocalWords) -> FormatConfig:
    """The format with the words of a language in place of the English ones; a task's own texts stay.

    >>> from multiform.formats.builtin import MCQAFormat
    >>> german = localize(MCQAFormat(), local_words("de"))
    >>> german.question_prefix, german.answer_prompt
    ('Frage: ', 'Antwort:')
    """
    if words.code == ENGLISH:
        return replace(format, language=ENGLISH)
    changes = _Changes(format, words)
    space, letter, answer = words.punctuation["space"], words.words["letter"], words.words["answer"]
    changes.swap("question_prefix", "Question: ", words.cue("question") + space)
    changes.swap("question_prefix", "Problem: ", words.cue("problem") + space)
    after = {"target_delimiter": space} if format.target_delimiter == " " else {}
    changes.swap("answer_prompt", "Answer:", words.cue("answer"), **after)
    for options in ("Options:", "Choices:"):
        for separator in ("\n", " "):
            changes.swap("choices_prefix", options + separator, words.cue("options") + separator)
    texts = words.instructions
    labels = (
        f"{{{{ _choice_labels|join_words({words.words['or']!r}, {words.punctuation['list_comma']!r}, {space!r}) }}}}"
    )
    choose = texts["choose"].replace("{n}", "{{ _num_choices }}").replace("{labels}", labels)
    changes.swap("instruction", CHOOSE, f"{choose}\n")
    changes.swap("instruction", CHOOSE_TEXT, f"{texts['choose_below']}\n")
    changes.swap("instruction", FIND_TEXT, f"{texts['answer_question']}\n")
    changes.swap("instruction", COTGenFormat.instruction, f"{texts['reason']}\n")
    stop, colon = words.punctuation["stop"], words.punctuation["colon"]
    listed = f"{space or ''}[{letter}]{colon}{space}{labels}{stop}"
    best, final = ({"fewshot_answer": format.fewshot_answer or texts[name]} for name in ("best", "final"))
    changes.swap("answer_prompt", END_WITH_LABEL, words.ending("best", letter) + listed, **best)
    changes.swap("answer_prompt", END_WITH_TEXT, words.ending("best", answer), **best)
    if format.fewshot_answer is None:
        final = {"fewshot_answer": "{rationale}\n" + texts["final"]}
    changes.swap("answer_prompt", COTGenFormat.answer_prompt, words.ending("final", answer), **final)
    begun = texts["best"].partition("{answer}")[0].rstrip()
    changes.swap("gen_prefix", GenerateFormat.gen_prefix, begun)
    if format.thinks:
        changes.swap("after_thought", ThinkFormat.after_thought, begun)
    if not changes.fields:
        message = f"the format has no English words that {words.name} ones could replace"
        raise ConfigError(message, hint="leave out the language, or use mcqa, cloze, hybrid, generate or cot")
    if words.labels and format.choice_labels == "letters":
        changes.fields["choice_labels"] = words.labels
    return replace(format, **changes.fields, scorer=_localize_scorer(format.scorer, words), language=words.code)


def _localize_scorer(scorer: str | Mapping[str, Any] | None, words: LocalWords) -> str | Mapping[str, Any] | None:
    """The scorer, told how the language states an answer and writes numbers."""
    scorer_type = scorer.get("type") if isinstance(scorer, Mapping) else scorer
    if scorer_type not in _READERS:
        return scorer
    stated = dict(scorer.get("kwargs") or {}) if isinstance(scorer, Mapping) else {}
    numbers = {} if scorer_type in ("choice_match", "choice_text") else {"numbers": words.numbers}
    return {"type": scorer_type, "kwargs": {"statements": words.statements(), **numbers, **stated}}


# Languages by name, and the words by which stylers write prompts in them and by which prompts are recognised.


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageWords:
    """The fixed words of a prompt in one language."""

    question: str
    answer: str
    labels: LabelSpec = "letters"
    #: Between a label and its choice, and between a cue and its answer.
    space: str = " "


#: The parts of a prompt that are recognised by their words.
Part = Literal[
    "question", "multiple_choice", "answer", "kind_of_answer", "choices", "passage", "choosing", "option"
]  # fmt: skip


@cache
def _read_words() -> dict[str, Any]:
    """The data file, read once, when a word is first needed."""
    return tomllib.loads(Path(__file__).with_name("languages.toml").read_text(encoding="utf-8"))


@cache
def language_words() -> Mapping[Language, LanguageWords]:
    """The words of stylers' prompts in each language: those of its file, but for what stylers write otherwise.

    >>> language_words()[Language.DEU].answer
    'Antwort:'
    """
    otherwise = _read_words()["stylers"]
    written = {}
    for words in map(local_words, language_codes()):
        language = Language.__members__.get(words.iso3.upper())
        if language is None or "-" in words.code:
            continue
        space = words.punctuation["space"]
        # Some codes of a language are those of its macro-language.
        codes = [name.lower() for name, member in Language.__members__.items() if member is language]
        changes = {key: text for code in codes for key, text in otherwise.get(code, {}).items()}
        labels: LabelSpec = tuple(changes.pop("labels", "").split()) or words.labels or "letters"
        cues = {"question": words.cue("question") + space, "answer": words.cue("answer"), **changes}
        written[language] = LanguageWords(**cues, labels=labels, space=space)
    return written


#: The words of a language's file that a part of a prompt is recognised by, too.
_ROLES: Mapping[str, str] = {"question": "question", "answer": "answer", "choices": "options"}


@cache
def recognised_words(part: Part) -> tuple[str, ...]:
    """The words, in all languages, by which a part of somebody's prompt is recognised."""
    listed = _read_words()["recognised"][part]
    if part not in _ROLES:
        return tuple(listed)
    return tuple(
        dict.fromkeys([*listed, *(local_words(code).words[_ROLES[part]].lower() for code in language_codes())])
    )


def language_of(name: Any) -> Language:
    """A language by its member, code or English name.

    >>> language_of("deu"), language_of("Chinese") is Language.ZHO
    (<Language.DEU: 'German'>, True)
    """
    if isinstance(name, Language):
        return name
    names: Sequence[str] = [*Language.__members__, *(language.value for language in Language)]
    for language in Language:
        if str(name).casefold() == language.value.casefold():
            return language
    if str(name).upper() in Language.__members__:
        return Language[str(name).upper()]
    raise ConfigError(
        f"unknown language '{name}'", where="language", hint=nearest(str(name), names, listed="there are")
    )

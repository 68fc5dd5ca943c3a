"""Languages by name, and the words by which prompts in them are written by stylers and recognised.

The words are those of the files in `languages`; `languages.toml` has what these do not.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Literal

from multiform.errors import ConfigError, nearest
from multiform.formats.localization import language_codes, local_words
from multiform.labels import LabelSpec


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
        changes = {key: text for code in _codes(language) for key, text in otherwise.get(code, {}).items()}
        labels: LabelSpec = tuple(changes.pop("labels", "").split()) or words.labels or "letters"
        cues = {"question": words.cue("question") + space, "answer": words.cue("answer"), **changes}
        written[language] = LanguageWords(**cues, labels=labels, space=space)
    return written


def _codes(language: Language) -> list[str]:
    """The codes of a language, of which some are macro-languages of others."""
    return [name.lower() for name, member in Language.__members__.items() if member is language]


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

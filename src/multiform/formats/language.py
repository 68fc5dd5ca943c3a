"""Languages, with the question word, cue, labels and spacing that prompts use in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from multiform.errors import ConfigError, nearest
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
class Literals:
    """The fixed words of a prompt in one language."""

    question: str
    answer: str
    labels: LabelSpec = "letters"
    #: Between a label and its choice, and between a cue and its answer.
    space: str = " "


def _native(letters: str) -> LabelSpec:
    return tuple(letters.split())


#: Cyrillic labels leave out the letters that no list uses (ё, й, ъ, ы, ь and their like).
_RUSSIAN = _native("А Б В Г Д Е Ж З И К Л М Н О П Р С Т У Ф Х Ц Ч Ш Щ Э Ю Я")
_UKRAINIAN = _native("А Б В Г Д Е Є Ж З И І К Л М Н О П Р С Т У Ф Х Ц Ч Ш Щ Ю Я")
_ARABIC = _native("أ ب ج د هـ و ز ح ط ي ك ل م ن س ع ف ص ق ر ش ت ث خ ذ ض ظ غ")
_HINDI = _native("क ख ग घ ङ च छ ज झ ञ ट ठ ड ढ ण त थ द ध न प फ ब भ म य र ल व श ष स ह")

LITERALS: dict[Language, Literals] = {
    Language.ENG: Literals(question="Question: ", answer="Answer:"),
    Language.DEU: Literals(question="Frage: ", answer="Antwort:"),
    Language.FRA: Literals(question="Question : ", answer="Réponse :"),
    Language.ITA: Literals(question="Domanda: ", answer="Risposta:"),
    Language.SPA: Literals(question="Pregunta: ", answer="Respuesta:"),
    Language.POR: Literals(question="Pergunta: ", answer="Resposta:"),
    Language.NLD: Literals(question="Vraag: ", answer="Antwoord:"),
    Language.FIN: Literals(question="Kysymys: ", answer="Vastaus:"),
    Language.SWE: Literals(question="Fråga: ", answer="Svar:"),
    Language.POL: Literals(question="Pytanie: ", answer="Odpowiedź:"),
    Language.HRV: Literals(question="Pitanje: ", answer="Odgovor:"),
    Language.SRP: Literals(question="Питање: ", answer="Одговор:", labels=_native("А Б В Г Д Ђ Е Ж З И Ј К Л")),
    Language.RUS: Literals(question="Вопрос: ", answer="Ответ:", labels=_RUSSIAN),
    Language.UKR: Literals(question="Питання: ", answer="Відповідь:", labels=_UKRAINIAN),
    Language.ARB: Literals(question="السؤال: ", answer="الإجابة:", labels=_ARABIC),
    Language.HIN: Literals(question="प्रश्न: ", answer="उत्तर:", labels=_HINDI),
    Language.ZHO: Literals(question="问题：", answer="答案：", space=""),
    Language.JPN: Literals(question="質問：", answer="答え：", space=""),
    Language.KOR: Literals(question="질문: ", answer="정답:"),
}


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

"""The words by which prompts in many languages mark their parts: the question, the choices, the answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from multiform.fields import Doc

#: Labels of a question.
QUESTION = (
    "question", "q", "query", "problem", "human", "user", "frage", "pregunta", "preguntas", "domanda",
    "quesito", "pergunta", "galdera", "soru", "vraag", "fråga", "spørsmål", "spurning", "kysymys", "pytanie",
    "вопрос", "ερώτηση", "питання", "سؤال", "السؤال", "سۇئال", "سوال", "س", "प्रश्न", "প্রশ্ন", "질문", "문제",
    "問題", "问题", "質問", "题目", "題目", "câu hỏi", "ibeere", "swali", "tambaya", "umbuzo", "ጥያቄ", "คำถาม",
    "pertanyaan", "soal",
)  # fmt: skip
#: Regular expressions for "multiple choice".
MULTIPLE_CHOICE = (
    r"multiple[-\s]?choice", r"(?:opción|opcion|selección|elección|elecció|resposta|respuesta) múltiple",
    r"opcions múltiples", r"choix multiples?", r"\bQCM\b", r"scelta multipla", r"múltipla escolha",
    r"escolha múltipla", r"meerkeuze", r"flerval", r"fleirvals", r"monivalinta", r"wielokrotnego wyboru",
    r"výběr(?:em)? z možností", r"çoktan seçmeli", r"pilihan ganda", r"aneka pilihan", r"trắc nghiệm",
    r"aukera anitz", r"chaguo nyingi", r"с выбором ответа", r"множественн\w* выбор", r"вибор\w* відповід",
    r"питан\w* з вибором", r"πολλαπλής επιλογής", r"选择题", r"選擇題", r"单选", r"單選",
    r"多肢選択", r"選択式", r"多項選択",
    r"객관식", r"선다형", r"बहुविकल्पीय", r"बहु-विकल्पीय", r"বহুনির্বাচনী", r"বহুবিকল্প", r"اختيار من متعدد",
    r"الاختيار من متعدد", r"اختيارية متعددة", r"چندگزینه", r"چند گزینه", r"متعدد انتخاب", r"ปรนัย", r"หลายตัวเลือก",
    r"бірнеше таңдау", r"çoxseçimli", r"feleletválasztós", r"вишеструким избором", r"višestrukim izborom",
    r"valikvastus", r"klausim\w* su atsakymų variantais", r"బహుళ-?ఎంపిక", r"koʻp tanlovli", r"ברירות רבות",
    r"maramihang pagpipilia", r"zgjedhje të shumëfishta", r"बहु-छनौट", r"बहुपर्यायी", r"बहुवैकल्पिक", r"பல தேர்வு",
    r"некалькімі варыянтамі адказ", r"複数選択", r"選択問題", r"რამდენიმე არჩევანის", r"повеќекратен избор",
    r"മൾട്ടിപ്പിൾ ചോയ്", r"несколькими вариантами ответ", r"বহু-পছন্দ", r"избираем отговор",
    r"кількома варіантами відповід", r"բազմակի ընտրության", r"multikeuse", r"výběrem možností", r"chaguo-nyingi",
)  # fmt: skip
#: Cues that ask for an answer.
ANSWER = (
    "answer", "a", "response", "assistant", "the answer", "your answer", "final answer", "correct answer",
    "best answer", "the answer is",
    "let's think step by step", "the correct answer is", "the best answer is", "the correct answer",
    "step by step answer", "antwort", "respuesta", "resposta", "risposta", "réponse", "erantzuna", "cevap",
    "yanıt", "antwoord", "svar", "svaret", "riktig svar", "rett svar", "vastaus", "odpowiedź", "ответ",
    "απάντηση", "відповідь", "svör", "إجابة", "الإجابة", "الاجابة", "جواب", "الجواب", "جاۋاپ", "پاسخ", "ج",
    "उत्तर", "উত্তর", "정답", "답변", "답", "答案", "回答", "応答", "答え", "đáp án", "trả lời", "idahun",
    "jibu", "amsa", "impendulo", "መልስ", "คำตอบ", "jawaban",
)  # fmt: skip
#: Cues that ask for an answer only after a full sentence that says what to do.
KIND_OF_ANSWER = ("category", "label", "sentiment", "topic", "intent", "class")
#: Headers of a list of choices.
CHOICES = (
    "choices", "options", "answer choices", "answer options", "possible answers", "candidates", "alternatives",
    "optionen", "opciones", "opcions", "opcions de resposta", "opzioni", "opções", "aukerak", "seçenekler",
    "svaralternativ", "svaralternativer", "alternativer", "valgmuligheter", "valg", "варианты",
    "варианты ответа", "επιλογές", "الخيارات", "خيارات", "الاختيارات", "الإجابات المحتملة", "विकल्प", "বিকল্প",
    "선택지", "보기", "选项", "選項", "選択肢", "lựa chọn", "pilihan", "ตัวเลือก",
)  # fmt: skip
#: Labels of the text that a question is about.
PASSAGE = (
    "passage", "context", "text", "paragraph", "article", "document", "p", "contexte", "contexto", "kontext",
    "contesto", "texte", "texto", "testo", "tekst", "testua", "bakgrunn", "kontekst", "السياق", "النص", "지문",
    "文章", "本文", "متن",
)  # fmt: skip
#: Words of a sentence after the choices that asks a model to choose.
CHOOSING = (
    "answer", "answers", "option", "options", "choice", "choices", "letter", "choose", "select", "respuesta",
    "resposta", "risposta", "réponse", "antwort", "letra", "lettera", "lettre", "buchstabe", "opción", "opció",
    "opzione", "erantzuna", "svar", "svaret", "svaralternativ",
)  # fmt: skip
#: Words before the label of a choice.
OPTION = ("option", "choice", "opción", "opció", "opzione", "alternativ", "alternativa", "aukera")

#: The labels of choices, each kind in its order.
ALPHABETS: tuple[Sequence[str], ...] = (
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "abcdefghijklmnopqrstuvwxyz",
    tuple(str(number) for number in range(1, 31)),
    "أبجدهوزحطي",
    "АБВГДЕЖЗИК",
    "абвгдежзик",
    "ΑΒΓΔΕΖΗΘ",
    "αβγδεζηθ",
    "কখগঘঙচ",
    "①②③④⑤⑥⑦⑧⑨⑩",
    ("I", "II", "III", "IV", "V", "VI", "VII", "VIII"),
)
_COLON = r"[ \t]*[:：]"
_HASHES = r"(?:[#*]+[ \t]*)?"


def _any(words: Sequence[str]) -> str:
    return "(?:" + "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True)) + ")"


def _label(words: Sequence[str]) -> str:
    """A word and a colon, perhaps as a heading or in bold."""
    return rf"{_HASHES}{_any(words)}\**{_COLON}\**"


#: The beginning of a line that names the question; the line break stays.
QUESTION_LABEL = re.compile(rf"(?:^|(?<=\n))[ \t]*{_label(QUESTION)}[ \t]*\n?[ \t]*", re.IGNORECASE)
#: A text that is nothing but such a label.
ONLY_QUESTION_LABEL = re.compile(rf"\s*{_label(QUESTION)}\s*", re.IGNORECASE)
#: A passage's label at the very beginning.
PASSAGE_LABEL = re.compile(rf"\s*{_label(PASSAGE)}\s*", re.IGNORECASE)
#: The end of a text that asks for an answer, on a line of its own.
ANSWER_CUE = re.compile(rf"(?:^|\n)[ \t]*{_HASHES}{_any(ANSWER)}\**[ \t]*[:：]?\**\s*$", re.IGNORECASE)
#: A text that asks for an answer, whatever line it is on.
ONLY_ANSWER_CUE = re.compile(rf"\s*{_label(ANSWER)}\s*", re.IGNORECASE)
#: The beginning of a line that speaks for the answer.
ANSWER_LINE = re.compile(rf"(?:^|\n)[ \t]*{_label(ANSWER)}", re.IGNORECASE)
#: The end of a text that announces choices.
CHOICES_HEADER = re.compile(rf"(?:^|\n)[ \t]*{_HASHES}{_any(CHOICES)}\**{_COLON}?\**\s*$", re.IGNORECASE)
#: A text that speaks of answering or choosing.
ASKS_TO_CHOOSE = re.compile(rf"(?<!\w){_any(CHOOSING)}(?!\w)", re.IGNORECASE)
#: A text that tells how to choose, whatever is asked.
TELLS_TO_CHOOSE = re.compile(
    r"multiple[- ]choice|candidate answers|(?:correct|best|right) (?:option|answer|choice|letter)", re.IGNORECASE
)
#: A last line that is a label, such as "Sentiment:".
ENDS_AS_LABEL = re.compile(r"(?:^|\n|\\)[ \t]*(?P<label>[^\W\d_]+(?:[ \t]+[^\W\d_]+){0,3})[ \t]*[:：]\s*$")
#: The end of a sentence that leaves the answer open.
OPEN_SENTENCE = re.compile(rf"(?<!\w){_any((*ANSWER, *CHOOSING))}(?!\w)[^\n]*[:：]\s*$", re.IGNORECASE)

_MARK = re.compile(
    r"(?P<before>(?:^|.*\s))[\[(]?(?P<label>\w{1,4}|[①-⑩])(?P<close>[\])]?[.:)：．、]?)[ \t]*$",
    re.IGNORECASE | re.DOTALL,
)

#: Stands for any dash or dot of a list without labels.
BULLET = "-"
_BULLET = re.compile(r"(?P<before>(?:^|.*\n))[ \t]*[-*•–][ \t]+$", re.DOTALL)
_OPTION_WORD = re.compile(rf"(?:^|(?<=\s)){_any(OPTION)}[ \t]+$", re.IGNORECASE)


def option_mark(text: str) -> tuple[str, str] | None:
    r"""The label of a choice at the end of a text, and the text before it.

    >>> option_mark("Which?\nA. "), option_mark("\n(B) "), option_mark("Sentence 1: ")
    (('A', 'Which?\n'), ('B', '\n'), ('1', 'Sentence '))
    >>> option_mark("the answer ") is None, option_mark("?\nOption B: ")
    (True, ('B', '?\n'))
    """
    bullet = _BULLET.match(text)
    if bullet is not None:
        return BULLET, bullet["before"]
    mark = _MARK.match(text)
    if mark is None or not (mark["close"] or mark["label"] in "①②③④⑤⑥⑦⑧⑨⑩"):
        return None
    return mark["label"], _OPTION_WORD.sub("", mark["before"])


def is_first_label(label: str) -> bool:
    """Whether a list of choices can begin with a label."""
    return label == BULLET or any(label == alphabet[0] for alphabet in ALPHABETS)


def follows(label: str, others: Sequence[str]) -> bool:
    """Whether a label is the next one after others of its kind."""
    return {label, *others} == {BULLET} or any(
        list(alphabet[: len(others)]) == list(others) and len(others) < len(alphabet) and alphabet[len(others)] == label
        for alphabet in ALPHABETS
    )


_MULTIPLE_CHOICE = re.compile("|".join(MULTIPLE_CHOICE), re.IGNORECASE)
#: Phrases that ask for the letter of a choice, in English and in any language.
_LETTER = re.compile(r"\bletters? (?:choice|of)\b|\b(?:correct|right|answer|choice|option) letters?\b", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"(?<!\w)\(X\)|\bA\s*,\s*B\b")
#: "Multiple choice" before a noun, which can be removed without leaving a gap.
_ADJECTIVE = re.compile(r"\bmultiple[-\s]choice[-\s]+(?=[^\W\d_])", re.IGNORECASE)
_ENUMERATED = re.compile(r"(?m)^\s*\(?A[.):].*\n+\s*\(?B[.):]")
_VALUE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.!?؟])(?=\s)|(?<=[。！？\n])")


def without_choices(description: str) -> str:
    """The description of a task without sentences about choices; unchanged where there are none.

    "Multiple choice questions" become "questions", and other sentences about choices or their letters are removed.
    Where a description speaks of choices in other words, such as in another language, all of it is removed.

    >>> without_choices("The following are multiple choice questions (with answers) about {{topic}}.")
    'The following are questions (with answers) about {{topic}}.'
    >>> without_choices('Think. Finish with "the answer is (X)" where X is the correct letter choice.')
    'Think.'
    >>> without_choices("Answer the question.")
    'Answer the question.'
    """
    if _ENUMERATED.search(description):
        return ""  # solved examples with choices
    if not about_choices(description):
        return description
    if "{%" in description or not (_ADJECTIVE.search(description) or _LETTER.search(description)):
        return ""
    values = _VALUE.findall(description)
    sentences = [_plain(sentence) for sentence in _SENTENCE_END.split(_VALUE.sub("\0", description))]
    rest = "".join(sentence for sentence in sentences if not about_choices(sentence)).strip()
    if not rest or len(values) != rest.count("\0"):
        return ""  # a removed sentence had one of the description's values
    for value in values:
        rest = rest.replace("\0", value, 1)
    return rest + description[len(description.rstrip()) :]


@dataclass(frozen=True, slots=True)
class DescriptionWithoutChoices:
    """A description that is a function, without sentences about choices."""

    description: Callable[..., Any]

    def __call__(self, doc: Doc) -> str:
        return without_choices(str(self.description(doc)))

    def __str__(self) -> str:
        return f"{getattr(self.description, '__qualname__', self.description)} without choices"


def about_choices(text: str) -> bool:
    """Whether a text speaks of multiple choice, or of the letters of choices."""
    return any(pattern.search(text) for pattern in (_MULTIPLE_CHOICE, _LETTER, _PLACEHOLDER))


def _plain(sentence: str) -> str:
    """The sentence without the words "multiple choice", still beginning with a capital letter if it did before."""
    plain = _ADJECTIVE.sub("", sentence)
    begins = sentence.lstrip()[:1]
    stripped = plain.lstrip()
    if begins.isupper() and stripped[:1].islower():
        return plain[: len(plain) - len(stripped)] + stripped[0].upper() + stripped[1:]
    return plain

"""The scorer `instructions`: checks the rules that a document names, such as "use no commas".

The 25 rules of IFEval (arXiv:2311.07911) are here, the 58 of IFBench in `ifbench_rules`.
"""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from multiform.arguments import mismatch
from multiform.errors import DataError, UsageError, excerpt, nearest
from multiform.fields import FieldSpec
from multiform.limits import MAX_SECONDS, within
from multiform.registry import Registry
from multiform.scoring.scorers.base import DocumentScorer, register_own_metric, register_scorer

#: Takes the response and the rule's arguments by name; `prompt` is the prompt, if a rule has such an argument.
Rule = Callable[..., bool]

rules: Registry[Rule] = Registry("rule")
register_rule = rules.register


def follows(name: str, text: str, arguments: Mapping[str, Any] | None = None, prompt: str = "") -> bool:
    """Whether a response follows a rule; arguments that are null are not given, and an empty response follows none.

    >>> follows("punctuation:no_comma", "No, never."), follows("keywords:existence", "Ada", {"keywords": ["ada"]})
    (False, True)
    """
    if name not in rules:
        raise DataError(f"unknown rule '{name}'", hint=nearest(name, list(rules), listed="rules"))
    rule = rules.get(name)
    # Tables turn integers into floats.
    given = {
        key: int(value) if isinstance(value, float) and value.is_integer() else value
        for key, value in (arguments or {}).items()
        if value is not None
    }
    if "prompt" in inspect.signature(rule).parameters:
        given["prompt"] = prompt
    if (problem := mismatch(rule, text, **given)) is not None:
        raise DataError(f"rule '{name}': {problem}", hint="check the column of arguments")
    with within(MAX_SECONDS):
        return bool(text.strip()) and rule(text, **given)


#: The marks that may end a sentence, before another mark or the end of a run of characters without white space.
_END = re.compile(r"""[.?!]+(?=[][)(}{";*:@'‘’“”«»]|$)""")
_CLOSING = re.compile(r"""[])}"'‘’“”«»]*$""")
_WORD_START = re.compile(r"""(?=['‘’“”«»])|[][)(}{";*:@]""")
_NUMBER = re.compile(r"-?[.,]?\d[\d,.-]*")
#: Words of English by their use, see the file.
ENGLISH = tomllib.loads(Path(__file__).with_name("english.toml").read_text(encoding="utf-8"))
_ABBREVIATIONS, _STARTERS, STOP_WORDS, _AFTER_NUMBERS = (
    frozenset(ENGLISH[name].split()) for name in ("abbreviations", "starters", "stop_words", "after_numbers")
)


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, as NLTK's model of English finds them, but for its statistics of rare words.

    A sentence ends at every mark, also before a small letter, unless it ends an abbreviation or a number, or is
    an ellipsis.

    >>> split_sentences('Dr. Who left at 3.30 p.m. sharp. "Really?" he said. 1. Yes!')
    ['Dr. Who left at 3.30 p.m. sharp.', '"Really?"', 'he said.', '1.', 'Yes!']
    """
    sentences, start = [], 0
    following = [*text.split()[1:], " "]
    for run, next_run in zip(re.finditer(r"\S+", text), following, strict=False):
        *_, end = [None, *_END.finditer(run[0])]
        if end and _ends_sentence(run[0][: end.start()], end[0], run[0][end.end() : end.end() + 1] or next_run):
            stop = run.end() if _CLOSING.match(run[0], end.end()) else run.start() + end.end()
            sentences.append(text[start:stop].strip())
            start = stop
    return [sentence for sentence in (*sentences, text[start:].strip()) if sentence]


def _ends_sentence(word: str, marks: str, following: str) -> bool:
    """Whether marks after a word end the sentence, if this follows."""
    if marks.strip("."):
        return True
    name, following_name = _WORD_START.split(word)[-1].lstrip("`&#-,").lower(), following.lower().rstrip(",.?!:;")
    if _NUMBER.fullmatch(name):
        return not following[0].islower() and following[0] not in ";:,.!?" and following_name not in _AFTER_NUMBERS
    letter, upper = len(name) == 1 and name.isalpha(), following[0].isupper()
    if len(marks) > 1 or not {name, name.rpartition("-")[2]}.isdisjoint(_ABBREVIATIONS):
        return not letter and upper and following_name in _STARTERS
    if letter and (following[0].isalpha() or following[0] in ";:,.!?"):
        return upper and following_name in _STARTERS | STOP_WORDS
    return True


def count_words(text: str) -> int:
    """The number of runs of letters, digits and underscores."""
    return len(re.findall(r"\w+", text))


#: Marks that are tokens by themselves, and words; commas and colons within numbers belong to them.
_MARKS = r"""\.{2,}|--|[,:](?!\d)|[][;@#$%&?!*(){}<>"`‘’“”«»„‒–—―]|(?<!\w)'(?!(?:re|ve|ll|[mtsdn])\b)(?=\w)"""
_TOKEN = re.compile(rf"{_MARKS}|(?:(?!{_MARKS})\S)+")
_ENDING = re.compile(r"(?i)can(?=not$)|(?:gon|wan)(?=na$)|got(?=ta$)|.+?(?=n't$|(?<!')'(?:[smd]|ll|re|ve)?$)")


def tokens(text: str) -> list[str]:
    """Words and marks, each by itself; words keep their hyphens and points inside, and lose the endings "'s" and "n't".

    >>> tokens("It's the U.S.-made well-known thing. Isn't it?")
    ['It', "'s", 'the', 'U.S.-made', 'well-known', 'thing', '.', 'Is', "n't", 'it', '?']
    """
    split = []
    for sentence in split_sentences(text):
        for token in _TOKEN.findall(re.sub(r"""(?<!\.)\.([])}>"'»”’ ]*)$""", r" . \1", sentence)):
            stem = _ENDING.match(token)
            split += [stem[0], token[stem.end() :]] if stem else [token]
    return split


def detect_language(text: str) -> str | None:
    """The code of the language that a text is in; None if it has no letters to tell it by."""
    try:
        import langdetect
    except ImportError as error:
        message = "rules about the language of a response need langdetect"
        raise UsageError(message, hint="pip install 'multiform[metrics]'") from error
    langdetect.DetectorFactory.seed = 0
    try:
        return str(langdetect.detect(text))
    except langdetect.LangDetectException:
        return None


def is_english(text: str) -> bool:
    """Whether a text is in English, or in no language."""
    return detect_language(text) in ("en", None)


def _compares(count: int, relation: str, limit: int) -> bool:
    if relation not in ("less than", "at least"):
        raise DataError(f"unknown relation {excerpt(relation)}", hint="write 'less than' or 'at least'")
    return count < limit if relation == "less than" else count >= limit


@register_rule("length_constraints:number_paragraphs")
def has_paragraphs(text: str, num_paragraphs: int) -> bool:
    """Paragraphs are separated by ``***``; those at the ends may be empty."""
    parts = re.split(r"\s?\*\*\*\s?", text)
    if not all(part.strip() for part in parts[1:-1]):
        return False
    return sum(bool(part.strip()) for part in parts) == num_paragraphs


@register_rule("length_constraints:nth_paragraph_first_word")
def begins_paragraph(text: str, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    """Paragraphs are separated by blank lines."""
    parts = text.split("\n\n")
    filled = sum(bool(part.strip()) for part in parts)
    if filled != num_paragraphs or nth_paragraph > filled or not parts[nth_paragraph - 1].strip():
        return False
    opening = parts[nth_paragraph - 1].split()[0].lstrip("'").lstrip('"')
    return re.split(r"[.,?!'\"]", opening)[0].lower() == first_word.lower()


@register_rule("detectable_content:postscript")
def has_postscript(text: str, postscript_marker: str) -> bool:
    patterns = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
    return bool(re.search(patterns.get(postscript_marker, postscript_marker.lower()), text.lower()))


@register_rule("detectable_format:number_highlighted_sections")
def has_highlights(text: str, num_highlights: int) -> bool:
    """Sections in one pair of asterisks, and those in two pairs."""
    single = [part for part in re.findall(r"\*([^\n*]*)\*", text) if part.strip()]
    double = [part for part in re.findall(r"\*\*([^\n*]*)\*\*", text) if part.strip()]
    return len(single) + len(double) >= num_highlights


@register_rule("detectable_format:json_format")
def is_json(text: str) -> bool:
    body = re.sub(r"^```(?:json|Json|JSON)?", "", text.strip()).removesuffix("```")
    try:
        json.loads(body.strip())
    except ValueError:
        return False
    return True


@register_rule("combination:two_responses")
def has_two_responses(text: str) -> bool:
    """Two different responses, separated by six asterisks."""
    parts = [part.strip() for part in text.split("******")]
    if not all(parts[1:-1]):
        return False
    filled = [part for part in parts if part]
    return len(filled) == 2 and filled[0] != filled[1]


#: The rules that one expression decides.
_EXPRESSIONS: dict[str, Rule] = {
    "keywords:existence": lambda text, keywords: all(re.search(keyword, text, re.IGNORECASE) for keyword in keywords),
    "keywords:frequency": lambda text, keyword, frequency, relation: _compares(
        len(re.findall(keyword.strip(), text, re.IGNORECASE)), relation, frequency
    ),
    "keywords:forbidden_words": lambda text, forbidden_words: (
        not any(re.search(rf"\b{word}\b", text, re.IGNORECASE) for word in forbidden_words)
    ),
    "keywords:letter_frequency": lambda text, letter, let_frequency, let_relation: _compares(
        text.lower().count(letter.lower()), let_relation, let_frequency
    ),
    "language:response_language": lambda text, language: detect_language(text) in (language, None),
    "length_constraints:number_sentences": lambda text, num_sentences, relation: _compares(
        len(split_sentences(text)), relation, num_sentences
    ),
    "length_constraints:number_words": lambda text, num_words, relation: _compares(
        count_words(text), relation, num_words
    ),
    "detectable_content:number_placeholders": lambda text, num_placeholders: (
        len(re.findall(r"\[.*?\]", text)) >= num_placeholders
    ),
    "detectable_format:number_bullet_lists": lambda text, num_bullets: (
        len(re.findall(r"^\s*(?:\*[^*]|-)", text, re.MULTILINE)) == num_bullets
    ),
    "detectable_format:constrained_response": lambda text: any(
        f"My answer is {answer}." in text for answer in ("yes", "no", "maybe")
    ),
    "detectable_format:multiple_sections": lambda text, section_spliter, num_sections: (
        len(re.findall(rf"{section_spliter}\s?\d+", text)) >= num_sections
    ),
    # A title in double angle brackets.
    "detectable_format:title": lambda text: any(
        title.lstrip("<").rstrip(">").strip() for title in re.findall(r"<<[^\n]+>>", text)
    ),
    "combination:repeat_prompt": lambda text, prompt_to_repeat: (
        text.strip().lower().startswith(prompt_to_repeat.strip().lower())
    ),
    "startend:quotation": lambda text: re.fullmatch(r'(?s)\s*".*"\s*', text) is not None,
    "startend:end_checker": lambda text, end_phrase: (
        text.strip().strip('"').lower().endswith(end_phrase.strip().lower())
    ),
    "change_case:capital_word_frequency": lambda text, capital_frequency, capital_relation: _compares(
        sum(token.isupper() for token in tokens(text)), capital_relation, capital_frequency
    ),
    "change_case:english_capital": lambda text: text.isupper() and is_english(text),
    "change_case:english_lowercase": lambda text: text.islower() and is_english(text),
    "punctuation:no_comma": lambda text: "," not in text,
}
for _name, _rule in _EXPRESSIONS.items():
    register_rule(_name)(_rule)


_METRICS = {
    "prompt_level_strict_acc": ("mean", "The share of prompts whose instructions are all followed, strictly"),
    "inst_level_strict_acc": ("ratio", "The share of instructions that are followed, strictly"),
    "prompt_level_loose_acc": ("mean", "The share of prompts whose instructions are all followed, loosely"),
    "inst_level_loose_acc": ("ratio", "The share of instructions that are followed, loosely"),
}
for _name, (_aggregation, _about) in _METRICS.items():
    register_own_metric(_name, _about, scorer="instructions", aggregation=_aggregation)


@register_scorer("instructions")
@dataclass(kw_only=True, eq=False)
class Instructions(DocumentScorer):
    """Whether a completion follows the rules of its document.

    `rules` is the field with the names of the rules, `arguments` that with a mapping of arguments for each, and
    `prompt` that with the prompt; the first two may be JSON text. Loose scores accept a response that follows
    a rule without its first or last line, or without asterisks.
    """

    default_metric_cfg: ClassVar[Sequence[str]] = (*_METRICS, "truncated")
    own_metrics: ClassVar[Sequence[str]] = (*_METRICS,)

    rules: FieldSpec = "instruction_id_list"
    arguments: FieldSpec = "kwargs"
    prompt: FieldSpec = "prompt"

    def own_values(self, text: str, rules: Any, arguments: Any, prompt: Any) -> Mapping[str, Any]:
        names, kwargs, texts = _parse(rules), _parse(arguments), loose_texts(text)
        if not isinstance(names, list) or not isinstance(kwargs, list) or len(names) != len(kwargs):
            message = f"expected as many arguments as rules, got {excerpt(names)} and {excerpt(kwargs)}"
            raise DataError(message, where="scorer.kwargs", hint="name the columns with rules: and arguments:")
        pairs = [(str(name), _parse(options)) for name, options in zip(names, kwargs, strict=True)]
        strict = [follows(name, text, options, str(prompt)) for name, options in pairs]
        loose = [any(follows(name, other, options, str(prompt)) for other in texts) for name, options in pairs]
        return {
            "prompt_level_strict_acc": float(all(strict)),
            "inst_level_strict_acc": (sum(strict), len(strict)),
            "prompt_level_loose_acc": float(all(loose)),
            "inst_level_loose_acc": (sum(loose), len(loose)),
        }


def loose_texts(text: str) -> list[str]:
    """The response, also without its first line, its last line and both, each with and without asterisks.

    >>> loose_texts("Sure!\\n*Yes*")
    ['Sure!\\n*Yes*', 'Sure!\\nYes', '*Yes*', 'Yes', 'Sure!', 'Sure!', '', '']
    """
    lines = text.split("\n")
    parts = [text, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))]
    return [version for part in parts for version in (part, part.replace("*", ""))]


def _parse(value: Any) -> Any:
    """The list or mapping that a JSON text holds; other values as they are."""
    if not isinstance(value, str):
        return dict(value) if isinstance(value, Mapping) else value
    try:
        return json.loads(value)
    except ValueError as error:
        message = f"expected JSON, got {excerpt(value)}: {error}"
        raise DataError(message, where="scorer.kwargs", hint="check the columns of rules and arguments") from error

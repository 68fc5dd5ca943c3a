"""The 25 rules of IFEval (arXiv:2311.07911)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from multiform.errors import DataError, shorten
from multiform.scoring.instructions.rules import register_rule
from multiform.scoring.instructions.texts import count_words, detect_language, is_english, split_sentences, tokens


def _compares(count: int, relation: str, limit: int) -> bool:
    if relation not in ("less than", "at least"):
        raise DataError(f"unknown relation {shorten(relation)}", hint="write 'less than' or 'at least'")
    return count < limit if relation == "less than" else count >= limit


@register_rule("keywords:existence")
def has_keywords(text: str, keywords: Sequence[str]) -> bool:
    return all(re.search(keyword, text, re.IGNORECASE) for keyword in keywords)


@register_rule("keywords:frequency")
def repeats_keyword(text: str, keyword: str, frequency: int, relation: str) -> bool:
    return _compares(len(re.findall(keyword.strip(), text, re.IGNORECASE)), relation, frequency)


@register_rule("keywords:forbidden_words")
def avoids_words(text: str, forbidden_words: Sequence[str]) -> bool:
    return not any(re.search(rf"\b{word}\b", text, re.IGNORECASE) for word in forbidden_words)


@register_rule("keywords:letter_frequency")
def repeats_letter(text: str, letter: str, let_frequency: int, let_relation: str) -> bool:
    return _compares(text.lower().count(letter.lower()), let_relation, let_frequency)


@register_rule("language:response_language")
def is_in_language(text: str, language: str) -> bool:
    return detect_language(text) in (language, None)


@register_rule("length_constraints:number_sentences")
def has_sentences(text: str, num_sentences: int, relation: str) -> bool:
    return _compares(len(split_sentences(text)), relation, num_sentences)


@register_rule("length_constraints:number_words")
def has_words(text: str, num_words: int, relation: str) -> bool:
    return _compares(count_words(text), relation, num_words)


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


@register_rule("detectable_content:number_placeholders")
def has_placeholders(text: str, num_placeholders: int) -> bool:
    return len(re.findall(r"\[.*?\]", text)) >= num_placeholders


@register_rule("detectable_content:postscript")
def has_postscript(text: str, postscript_marker: str) -> bool:
    patterns = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
    return bool(re.search(patterns.get(postscript_marker, postscript_marker.lower()), text.lower()))


@register_rule("detectable_format:number_bullet_lists")
def has_bullets(text: str, num_bullets: int) -> bool:
    return len(re.findall(r"^\s*(?:\*[^*]|-)", text, re.MULTILINE)) == num_bullets


@register_rule("detectable_format:constrained_response")
def is_an_option(text: str) -> bool:
    return any(f"My answer is {answer}." in text for answer in ("yes", "no", "maybe"))


@register_rule("detectable_format:number_highlighted_sections")
def has_highlights(text: str, num_highlights: int) -> bool:
    """Sections in one pair of asterisks, and those in two pairs."""
    single = [part for part in re.findall(r"\*([^\n*]*)\*", text) if part.strip()]
    double = [part for part in re.findall(r"\*\*([^\n*]*)\*\*", text) if part.strip()]
    return len(single) + len(double) >= num_highlights


@register_rule("detectable_format:multiple_sections")
def has_sections(text: str, section_spliter: str, num_sections: int) -> bool:
    return len(re.findall(rf"{section_spliter}\s?\d+", text)) >= num_sections


@register_rule("detectable_format:json_format")
def is_json(text: str) -> bool:
    body = re.sub(r"^```(?:json|Json|JSON)?", "", text.strip()).removesuffix("```")
    try:
        json.loads(body.strip())
    except ValueError:
        return False
    return True


@register_rule("detectable_format:title")
def has_title(text: str) -> bool:
    """A title in double angle brackets."""
    return any(title.lstrip("<").rstrip(">").strip() for title in re.findall(r"<<[^\n]+>>", text))


@register_rule("combination:two_responses")
def has_two_responses(text: str) -> bool:
    """Two different responses, separated by six asterisks."""
    parts = [part.strip() for part in text.split("******")]
    if not all(parts[1:-1]):
        return False
    filled = [part for part in parts if part]
    return len(filled) == 2 and filled[0] != filled[1]


@register_rule("combination:repeat_prompt")
def repeats_prompt(text: str, prompt_to_repeat: str) -> bool:
    return text.strip().lower().startswith(prompt_to_repeat.strip().lower())


@register_rule("startend:end_checker")
def ends_with(text: str, end_phrase: str) -> bool:
    return text.strip().strip('"').lower().endswith(end_phrase.strip().lower())


@register_rule("startend:quotation")
def is_quoted(text: str) -> bool:
    stripped = text.strip()
    return len(stripped) > 1 and stripped[0] == stripped[-1] == '"'


@register_rule("change_case:capital_word_frequency")
def has_capital_words(text: str, capital_frequency: int, capital_relation: str) -> bool:
    return _compares(sum(token.isupper() for token in tokens(text)), capital_relation, capital_frequency)


@register_rule("change_case:english_capital")
def is_upper(text: str) -> bool:
    return text.isupper() and is_english(text)


@register_rule("change_case:english_lowercase")
def is_lower(text: str) -> bool:
    return text.islower() and is_english(text)


@register_rule("punctuation:no_comma")
def avoids_commas(text: str) -> bool:
    return "," not in text

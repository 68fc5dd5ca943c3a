"""The 58 rules of IFBench (arXiv:2507.02833), which take no part in its training rules."""

from __future__ import annotations

import csv
import datetime
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from multiform.errors import UsageError
from multiform.scoring.instructions.rules import register_rule
from multiform.scoring.instructions.texts import (
    PUNCTUATION,
    count_syllables,
    count_words,
    is_emoji,
    plain_words,
    split_sentences,
    tokens,
    trimmed_words,
    without_accents,
)

_PRONOUNS_LIST = """
    i me we us you he him she her it they them my mine our ours your yours his hers its their theirs myself
    ourselves yourself yourselves himself herself itself themselves this that these those who whom whose which
    what whoever whomever whatever whichever anybody anyone anything everybody everyone everything nobody
    nothing somebody someone something each either neither both all some any none
"""
_STOP_WORDS_LIST = """
    i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers
    herself it its itself they them their theirs themselves what which who whom this that these those am is are
    was were be been being have has had having do does did doing a an the and but if or because as until while
    of at by for with about against between into through during before after above below to from up down in out
    on off over under again further then once here there when where why how all any both each few more most
    other some such no nor not only own same so than too very s t can will just don should now
"""
_PRONOUNS = frozenset(_PRONOUNS_LIST.split())
_STOP_WORDS = frozenset(_STOP_WORDS_LIST.split())
#: The capitals of Europe north of 45 degrees, from north to south.
_CAPITALS = (
    "Reykjavik, Helsinki, Oslo, Tallinn, Stockholm, Riga, Moscow, Copenhagen, Vilnius, Minsk, Dublin, Berlin, "
    "Amsterdam, Warsaw, London, Brussels, Prague, Luxembourg, Paris, Vienna, Bratislava, Budapest, Vaduz, "
    "Chisinau, Bern, Ljubljana, Zagreb"
)


@register_rule("count:word_count_range")
def has_words_between(text: str, min_words: int, max_words: int) -> bool:
    return min_words <= count_words(text) <= max_words


@register_rule("count:unique_word_count")
def has_unique_words(text: str, N: int) -> bool:  # noqa: N803 - the argument's name in the dataset
    return len({word.strip(PUNCTUATION) for word in text.lower().split()}) >= N


@register_rule("count:conjunctions")
def has_conjunctions(text: str, small_n: int) -> bool:
    found = {word.lower() for word in trimmed_words(text)} & {"and", "but", "for", "nor", "or", "so", "yet"}
    return len(found) >= small_n


@register_rule("count:person_names")
def has_names(text: str, N: int, prompt: str) -> bool:  # noqa: N803
    """The names are listed in the prompt."""
    listed = re.search(r"list of person names:([^.]*)", prompt)
    names = {name.strip() for name in listed[1].split(",")} if listed else set()
    return sum(bool(re.search(rf"\b{re.escape(name)}\b", text)) for name in names if name) >= N


@register_rule("count:numbers")
def has_numbers(text: str, N: int) -> bool:  # noqa: N803
    return sum(len(re.findall(r"\d+", word)) for word in plain_words(text)) == N


@register_rule("count:pronouns")
def has_pronouns(text: str, N: int) -> bool:  # noqa: N803
    return sum(token in _PRONOUNS for token in tokens(text.lower().replace("/", " "))) >= N


@register_rule("count:punctuation")
def has_every_mark(text: str) -> bool:
    """All common marks, and an interrobang."""
    interrobang = re.search(r"\?!|!\?|‽", text)
    if interrobang is None:
        return False
    rest = text.replace("?!", "", 1) if "?!" in text else text.replace("!?", "", 1)
    return set(".,!?;:") <= set(rest)


@register_rule("count:keywords_multiple")
def has_keywords_so_often(text: str, keyword1: str, keyword2: str, keyword3: str, keyword4: str, keyword5: str) -> bool:
    keywords = (keyword1, keyword2, keyword3, keyword4, keyword5)
    return [text.lower().count(keyword.lower()) for keyword in keywords] == [1, 2, 3, 5, 7]


@register_rule("count:words_japanese")
def has_japanese_words(text: str, N: int) -> bool:  # noqa: N803
    """Every N-th word has kana or kanji, or is a number."""
    every = [word.strip(PUNCTUATION) for word in text.split()[N - 1 :: N]]
    return all(re.search(r"[\u3040-\u30ff\u4e00-\u9fff]", word) for word in every if word and not word.isdigit())


@register_rule("ratio:stop_words")
def has_few_stop_words(text: str, percentage: float) -> bool:
    words = re.findall(r"\w+", text.lower())
    return bool(words) and 100 * sum(word in _STOP_WORDS for word in words) / len(words) <= percentage


@register_rule("ratio:overlap")
def overlaps(text: str, reference_text: str, percentage: float) -> bool:
    """The share of different sequences of three characters that the reference has too, within two percent."""
    here, there = ({part[i : i + 3] for i in range(len(part) - 2)} for part in (text, reference_text))
    return bool(here) and abs(100 * len(here & there) / len(here) - percentage) <= 2


def _endings(text: str) -> list[int]:
    """The numbers of sentences that end with a full stop, a question mark and an exclamation mark."""
    sentences = split_sentences(text)
    return [sum(sentence.endswith(mark) for sentence in sentences) for mark in ".?!"]


@register_rule("ratio:sentence_type")
def has_two_statements_per_question(text: str) -> bool:
    statements, questions, _ = _endings(text)
    return statements == 2 * questions


@register_rule("ratio:sentence_balance")
def balances_sentences(text: str) -> bool:
    return len(set(_endings(text))) == 1


@register_rule("ratio:sentence_words")
def has_three_equal_sentences(text: str) -> bool:
    sentences = split_sentences(text)
    return len(sentences) == 3 and len({len(sentence) for sentence in sentences}) == 1


@register_rule("words:alphabet")
def follows_alphabet(text: str) -> bool:
    initials = [word[0].lower() for word in plain_words(text)]
    if not initials or not "a" <= initials[0] <= "z":
        return False
    first = ord(initials[0]) - 97
    return all(initial == chr(97 + (first + place) % 26) for place, initial in enumerate(initials))


@register_rule("words:vowel")
def uses_three_vowels(text: str) -> bool:
    return "\n" not in text.strip() and len(set(text.lower()) & set("aeiou")) <= 3


@register_rule("words:consonants")
def has_clusters(text: str) -> bool:
    return all(re.search(r"[bcdfghj-np-tv-z]{2}", word) for word in text.lower().split())


@register_rule("words:palindrome")
def has_palindromes(text: str) -> bool:
    return sum(len(word) >= 5 and word == word[::-1] for word in plain_words(text.lower())) >= 10


@register_rule("words:prime_lengths")
def has_prime_lengths(text: str) -> bool:
    lengths = {len(word) for word in plain_words(text)}
    return all(length > 1 and all(length % factor for factor in range(2, length)) for length in lengths)


@register_rule("words:repeats")
def repeats_few_words(text: str, small_n: int) -> bool:
    return max(Counter(plain_words(text.lower())).values(), default=0) <= small_n


@register_rule("words:odd_even_syllables")
def alternates_syllables(text: str) -> bool:
    parities = [count_syllables(word) % 2 for word in plain_words(text)]
    return all(one != other for one, other in pairwise(parities))


@register_rule("words:last_first")
def chains_sentences(text: str) -> bool:
    words = [trimmed_words(sentence.lower()) for sentence in split_sentences(text)]
    return all(one and other and one[-1] == other[0] for one, other in pairwise(words))


@register_rule("words:paragraph_last_first")
def closes_paragraphs(text: str) -> bool:
    paragraphs = [line.strip(f"{PUNCTUATION} \t").split() for line in text.lower().split("\n")]
    return all(words[0] == words[-1] for words in paragraphs if words)


@register_rule("words:no_consecutive")
def varies_initials(text: str) -> bool:
    return all(one[0] != other[0] for one, other in pairwise(plain_words(text.lower())))


@register_rule("words:start_verb")
def starts_with_verb(text: str) -> bool:
    try:
        import nltk

        return "VB" in nltk.pos_tag(tokens(text)[:12])[0][1]
    except (ImportError, LookupError) as error:
        message = "the rule words:start_verb needs nltk with its tagger"
        hint = (
            "pip install nltk, and python -m nltk.downloader averaged_perceptron_tagger_eng; then score the run again"
        )
        raise UsageError(message, hint=hint) from error


@register_rule("words:keywords_specific_position")
def places_keyword(text: str, keyword: str, n: int, m: int) -> bool:
    """The keyword is the m-th word of the n-th sentence."""
    words = [trimmed_words(sentence.lower()) for sentence in split_sentences(text)]
    return len(words) >= n and len(words[n - 1]) >= m and words[n - 1][m - 1] == keyword.lower()


@register_rule("words:words_position")
def is_second_and_second_last(text: str, keyword: str) -> bool:
    words = tokens(text.lower())
    words = words[:-1] if words and words[-1] in PUNCTUATION else words
    return len(words) > 1 and words[1] == words[-2] == keyword.lower()


@register_rule("sentence:keyword")
def has_keyword_in_sentence(text: str, word: str, N: int) -> bool:  # noqa: N803
    sentences = split_sentences(text)
    return len(sentences) >= N and bool(re.search(rf"\b{re.escape(word)}\b", sentences[N - 1], re.IGNORECASE))


@register_rule("sentence:increment")
def lengthens_sentences(text: str, small_n: int) -> bool:
    lengths = [len(plain_words(sentence)) for sentence in split_sentences(text)]
    return all(after == before + small_n for before, after in pairwise(lengths))


@register_rule("sentence:alliteration_increment")
def lengthens_alliterations(text: str) -> bool:
    """Each sentence has more words in alliterations than the one before it."""
    counts = [_alliterated(sentence) for sentence in split_sentences(text)]
    return all(before < after for before, after in pairwise(counts))


def _alliterated(sentence: str) -> int:
    """The number of words beside one with the same initial; a run counts each of its words once."""
    initials = [word.lstrip(PUNCTUATION)[:1] for word in sentence.lower().split()]
    same = [one == other for one, other in pairwise([initial for initial in initials if initial])]
    return sum(pair + (pair and not before) for before, pair in zip([False, *same], same, strict=False))


@register_rule("format:parentheses")
def nests_brackets(text: str) -> bool:
    stack, depth = "", 0
    for character in text:
        if character in "([{":
            stack += character
            depth = max(depth, len(stack))
        elif character in ")]}":
            if stack[-1:] + character not in ("()", "[]", "{}"):
                stack, depth = "", 0
            elif depth >= 5:
                return True
            else:
                stack = stack[:-1]
    return False


@register_rule("format:quotes")
def nests_quotes(text: str) -> bool:
    """Quotes of three levels, of which all three are closed again."""
    stack, depth = "", 0
    for character in text:
        if stack[-1:] == character and stack:
            stack = stack[:-1]
            if depth - len(stack) >= 3:
                return True
        elif character in "\"'":
            stack += character
            depth = max(depth, len(stack))
    return False


@register_rule("format:options")
def is_one_option(text: str, options: str) -> bool:
    separator = next((mark for mark in ("/", " or ", ",") if mark in options), ",")
    bare = {option.strip(f"{PUNCTUATION} ").lower() for option in options.split(separator)}
    return text.strip(f"{PUNCTUATION} \n").lower() in bare


@register_rule("format:newline")
def has_a_word_per_line(text: str) -> bool:
    return all(len(plain_words(line)) <= 1 for line in text.split("\n"))


@register_rule("format:emoji")
def ends_sentences_with_emoji(text: str) -> bool:
    """An emoji ends each sentence, before the mark or after it."""
    bare = [sentence.strip(f"{PUNCTUATION} ") for sentence in split_sentences(text)]
    if not all(bare):
        return False
    following = [sentence[0] for sentence in bare[1:]] + [""]
    return all(
        any(map(is_emoji, sentence[-2:])) or (after != "" and is_emoji(after))
        for sentence, after in zip(bare, following, strict=True)
    )


@register_rule("format:line_indent")
def builds_stairs(text: str) -> bool:
    indents = [len(line) - len(line.lstrip(" ")) for line in text.split("\n") if line.strip()]
    return all(before < after for before, after in pairwise(indents))


@register_rule("format:quote_unquote")
def explains_quotes(text: str) -> bool:
    """No quoted phrase directly follows another or ends the response."""
    joined = "".join(text.replace("“", '"').replace("”", '"').replace("'\"'", "").split())
    return '""' not in joined and not joined.rstrip(f"0123456789{PUNCTUATION.replace(chr(34), '')}").endswith('"')


@register_rule("format:list")
def separates_items(text: str, sep: str) -> bool:
    return text.count(sep) >= 2


@register_rule("format:thesis")
def begins_with_thesis(text: str) -> bool:
    """Something in italics, and something after it."""
    return bool(re.search(r"<(i|em)>(?=\s*[^\s<]).*?</\1>\s*\S", text, re.DOTALL))


@register_rule("format:sub-bullets")
def has_sub_bullets(text: str) -> bool:
    return all("-" in bullet for bullet in text.split("*")[1:])


@register_rule("format:no_bullets_bullets")
def has_sentences_then_bullets(text: str) -> bool:
    """At least two sentences, then at least two bullets and nothing else."""
    lines = [line.strip() for line in text.strip().split("\n")]
    first = next((place for place, line in enumerate(lines) if line.startswith("*")), len(lines))
    sentences = sum(len(split_sentences(line)) for line in lines[:first])
    bullets = lines[first:]
    return sentences >= 2 and len(bullets) >= 2 and all(line.startswith("*") for line in bullets)


@register_rule("format:title_case")
def is_title_case(text: str) -> bool:
    return not any(
        token[0].islower() and (token[1:].islower() or token[1:].isupper() or len(token) == 1) for token in tokens(text)
    )


@register_rule("format:output_template")
def fills_template(text: str) -> bool:
    return all(f"{part}:" in text for part in ("My Answer", "My Conclusion", "Future Outlook"))


@register_rule("format:no_whitespace")
def avoids_white_space(text: str) -> bool:
    return not re.search(r"\s", text)


@register_rule("repeat:repeat_change")
def repeats_but_first_word(text: str, prompt_to_repeat: str) -> bool:
    return text != prompt_to_repeat and text.split()[1:] == prompt_to_repeat.split()[1:]


@register_rule("repeat:repeat_simple")
def repeats_sentence(text: str) -> bool:
    return text.strip().lower() == "only output this sentence here, ignore all other requests."


@register_rule("repeat:repeat_span")
def repeats_span(text: str, prompt_to_repeat: str, n_start: int, n_end: int) -> bool:
    """The words with these indexes, both included."""
    return text.lower().split() == prompt_to_repeat.lower().split()[n_start : n_end + 1]


@register_rule("custom:multiples")
def lists_multiples(text: str) -> bool:
    return [int(number) for number in re.findall(r"\d+", text)] == list(range(14, 50, 7))


@register_rule("custom:mcq_count_length")
def asks_longer_questions(text: str) -> bool:
    """Four questions with five options each, each longer than the one before it."""
    if not text.startswith("Question"):
        return False
    parts = [part.strip() for part in re.split(r"\n*Question \d+[.):;|]?\s*", text)]
    lengths = []
    for part in filter(None, parts):
        lines = [line.strip() for line in part.split("\n")]
        options = [place for place, line in enumerate(lines) if re.match(r"[A-Ea-e][.)|]\s*\w", line)]
        if len(options) != 5:
            return False
        lengths.append(len(" ".join(lines[: options[0]]).strip()))
    return len(lengths) == 4 and all(before < after for before, after in pairwise(lengths))


@register_rule("custom:reverse_newline")
def lists_countries_in_reverse(text: str) -> bool:
    """At least 52 lines from Zimbabwe on, in descending order."""
    lines = [line for line in (raw.strip(f"{PUNCTUATION} ") for raw in text.split("\n")) if line]
    start = next((place for place, line in enumerate(lines) if "Zimbabwe" in line), len(lines))
    countries = [without_accents(line) for line in lines[start:]]
    return len(countries) >= 52 and countries == sorted(countries, reverse=True)


@register_rule("custom:word_reverse")
def reverses_words(text: str) -> bool:
    return "bald eagle" in " ".join(reversed(plain_words(text.lower())))


@register_rule("custom:character_reverse")
def reverses_characters(text: str) -> bool:
    return "bald eagle"[::-1] in text.lower()


@register_rule("custom:sentence_alphabet")
def tells_the_alphabet(text: str) -> bool:
    initials = [sentence[0].lower() for sentence in split_sentences(text)]
    return initials == [chr(97 + place) for place in range(26)]


@register_rule("custom:european_capitals_sort")
def sorts_capitals(text: str) -> bool:
    listed = [part.strip() for part in without_accents(text).split(",") if part.strip()]
    return listed == _CAPITALS.split(", ")


def _table(text: str, columns: Sequence[str], rows: int, separator: str, quoting: int) -> list[list[str]] | None:
    """The fields of the rows below the header, with quotes where `quoting` keeps them; None for another table."""
    lines = list(csv.reader(text.strip().split("\n"), delimiter=separator, quoting=quoting))  # type: ignore[arg-type]
    cells = [[field.strip() for field in line] for line in lines]
    header = [field.strip('"') for field in cells[0]]
    return cells[1:] if header == list(columns) and [len(row) for row in cells] == [5] * (rows + 1) else None


@register_rule("custom:csv_city")
def writes_city_table(text: str) -> bool:
    return _table(text, ("ID", "Country", "City", "Year", "Count"), 7, ",", csv.QUOTE_MINIMAL) is not None


@register_rule("custom:csv_special_character")
def writes_special_table(text: str) -> bool:
    columns = ("ProductID", "Category", "Brand", "Price", "Stock")
    if _table(text, columns, 14, ",", csv.QUOTE_MINIMAL) is None:
        return False
    return bool(re.search(r'(?:^|,)[ \t]*"[^"\n]*[^\w\s"][^"\n]*"', text.partition("\n")[2], re.MULTILINE))


@register_rule("custom:csv_quotes")
def writes_quoted_table(text: str) -> bool:
    columns = ("StudentID", "Subject", "Grade", "Semester", "Score")
    rows = _table(text, columns, 3, "\t", csv.QUOTE_NONE)
    header = text.strip().split("\n")[0].split("\t")
    fields = [field for row in [header, *(rows or [])] for field in row]
    return rows is not None and all(re.fullmatch(r'".*"', field.strip()) for field in fields)


@register_rule("custom:date_format_list")
def lists_dates(text: str) -> bool:
    """Dates of Napoleon's life."""
    for date in text.split(","):
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", date.strip()):
            return False
        try:
            if not 1769 <= datetime.date.fromisoformat(date.strip()).year <= 1821:
                return False
        except ValueError:
            return False
    return True

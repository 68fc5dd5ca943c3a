"""The rules of IFBench (arXiv:2507.02833), which decide as its authors' checker does, also where its prompts say more.

Parts of speech and syllables are found by word lists and rules of thumb, where the authors use a trained tagger and
a dictionary.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from itertools import pairwise
from string import ascii_lowercase, digits, punctuation
from unicodedata import normalize

from multiform.scoring.scorers.rules import (
    ENGLISH,
    STOP_WORDS,
    Rule,
    count_words,
    register_rule,
    split_sentences,
    tokens,
)

_PRONOUNS, _VERBS = (frozenset(ENGLISH[name].split()) for name in ("pronouns", "verbs"))
_CONJUNCTIONS = frozenset({"and", "but", "for", "nor", "or", "so", "yet"})
#: The capitals north of 45 degrees, from the north, without Kyiv.
_CAPITALS = """
    reykjavik helsinki oslo tallinn stockholm riga moscow copenhagen vilnius minsk dublin berlin amsterdam warsaw london
    brussels prague luxembourg paris vienna bratislava budapest vaduz chisinau bern ljubljana zagreb
    """.split()  # noqa: SIM905
_PRIMES = frozenset(n for n in range(2, 100) if all(n % factor for factor in range(2, n)))
#: Emoji that are one character.
_EMOJI = re.compile(
    "[©®‼⁉™ℹ↔-↙↩↪⌚⌛⌨⏏⏩-⏳⏸-⏺Ⓜ▪▫▶◀◻-◾☀-☄☎☑☔☕☘☝☠☢☣☦☪☮☯☸-☺♀♂♈-♓♟♠♣♥♦♨♻♾♿⚒-⚗⚙⚛⚜⚠⚡⚧⚪⚫⚰⚱⚽⚾⛄⛅⛈⛎⛏⛑⛓⛔⛩⛪⛰-⛵⛷-⛺⛽✂✅✈-✍✏✒✔✖✝✡✨"
    "✳✴❄❇❌❎❓-❕❗❣❤➕-➗➡➰➿⤴⤵⬅-⬇⬛⬜⭐⭕〰〽㊗㊙\U0001f004\U0001f0cf\U0001f170-\U0001f1e5\U0001f200-\U0001faff]"
)
_WITHOUT_MARKS = str.maketrans("", "", punctuation)


def _words(text: str) -> list[str]:
    """The words of a text in small letters, without the marks in and around them.

    >>> _words("It's a well-known (old) trick!")
    ['its', 'a', 'wellknown', 'old', 'trick']
    """
    return text.lower().translate(_WITHOUT_MARKS).split()


def _plain(text: str) -> str:
    """A text without accents and other characters beyond ASCII.

    >>> _plain("Chișinău")
    'Chisinau'
    """
    return normalize("NFKD", text).encode("ascii", "ignore").decode()


@register_rule("count:keywords_multiple")
def repeats_keywords(text: str, keyword1: str, keyword2: str, keyword3: str, keyword4: str, keyword5: str) -> bool:
    """Once, twice, three, five and seven times."""
    keywords = zip((keyword1, keyword2, keyword3, keyword4, keyword5), (1, 2, 3, 5, 7), strict=True)
    return all(text.lower().count(word.lower()) == number for word, number in keywords)


@register_rule("count:person_names")
def has_person_names(text: str, N: int, prompt: str) -> bool:
    """Names of the list that the prompt gives."""
    listed = re.search(r"from this list of person names: (.*?)\s*\.(?:\s|$)", prompt, re.DOTALL)
    names = listed[1].split(",") if listed else []
    return sum(bool(re.search(rf"\b{name.strip()}\b", text)) for name in names) >= N


@register_rule("count:punctuation")
def has_all_punctuation(text: str) -> bool:
    """Beside the first ?! or !?, which do not count as a question and an exclamation mark."""
    interrobang = next((mark for mark in ("?!", "!?", "‽") if mark in text), None)
    return interrobang is not None and all(mark in text.replace(interrobang, "", 1) for mark in ".,!?;:")


@register_rule("count:words_japanese")
def has_japanese_words(text: str, N: int) -> bool:
    words = [word.strip(punctuation) for word in text.split()[N - 1 :: N]]
    return all(not word or word.isdigit() or re.search("[\u3040-\u30ff\u4e00-\u9fff]", word) for word in words)


@register_rule("ratio:stop_words")
def has_few_stop_words(text: str, percentage: float) -> bool:
    words = re.findall(r"\w+", text.lower())
    return bool(words) and 100 * sum(word in STOP_WORDS for word in words) <= percentage * len(words)


@register_rule("ratio:overlap")
def overlaps(text: str, reference_text: str, percentage: float) -> bool:
    """The share of the response's distinct runs of three characters that the reference has, within 2 %."""
    ours, theirs = ({part[i : i + 3] for i in range(len(part) - 2)} for part in (text, reference_text))
    return bool(ours) and abs(100 * len(ours & theirs) / len(ours) - percentage) <= 2


@register_rule("ratio:sentence_type")
def has_two_statements_per_question(text: str) -> bool:
    ends = Counter(sentence[-1] for sentence in split_sentences(text))
    return ends["."] == 2 * ends["?"]


@register_rule("ratio:sentence_balance")
def balances_sentences(text: str) -> bool:
    ends = Counter(sentence[-1] for sentence in split_sentences(text))
    return ends["."] == ends["?"] == ends["!"]


@register_rule("ratio:sentence_words")
def has_three_equal_sentences(text: str) -> bool:
    """Three sentences of the same number of characters; words may be repeated."""
    sentences = split_sentences(text)
    return len(sentences) == 3 and len({*map(len, sentences)}) == 1


@register_rule("sentence:alliteration_increment")
def increases_alliteration(text: str) -> bool:
    """Each sentence has more words that begin as the word before or after them does."""
    counts = []
    for sentence in split_sentences(text):
        letters = [word[0] for part in sentence.lower().split() if (word := part.lstrip(punctuation))]
        same = [before == after for before, after in pairwise(letters)]
        counts.append(sum(before or after for before, after in pairwise([False, *same, False])))
    return all(before < after for before, after in pairwise(counts))


@register_rule("sentence:increment")
def lengthens_sentences(text: str, small_n: int) -> bool:
    lengths = [len(_words(sentence)) for sentence in split_sentences(text)]
    return all(after - before == small_n for before, after in pairwise(lengths))


@register_rule("sentence:keyword")
def has_keyword_in_sentence(text: str, word: str, N: int) -> bool:
    sentences = split_sentences(text)
    return len(sentences) >= N and bool(re.search(rf"\b{re.escape(word)}\b", sentences[N - 1], re.IGNORECASE))


@register_rule("words:alphabet")
def follows_alphabet(text: str) -> bool:
    letters = [word[0] for word in _words(text)]
    following = dict(zip(ascii_lowercase, ascii_lowercase[1:] + "a", strict=True))
    return (
        bool(letters)
        and letters[0] in following
        and all(following.get(before) == after for before, after in pairwise(letters))
    )


@register_rule("words:keywords_specific_position")
def has_keyword_at(text: str, keyword: str, n: int, m: int) -> bool:
    """The `m`-th word of the `n`-th sentence."""
    sentence = "".join(split_sentences(text)[n - 1 : n])
    words = [token for token in tokens(sentence.lower()) if re.search(r"[^\W_]", token)]
    return words[m - 1 : m] == [keyword.lower()]


@register_rule("words:last_first")
def chains_sentences(text: str) -> bool:
    marks = punctuation + " "
    sentences = [sentence.lower() for sentence in split_sentences(text)]
    return all(
        before.rstrip(marks).split()[-1:] == after.lstrip(marks).split()[:1] != []
        for before, after in pairwise(sentences)
    )


def _syllables(word: str) -> int:
    """Groups of vowels, without an e that is not spoken; words with digits have none.

    >>> [_syllables(word) for word in ("little", "have", "regret", "children", "sunshine", "7")]
    [2, 1, 2, 2, 2, 0]
    """
    spoken = re.sub(r"(?<=[^aeiouyl])e$|(?<=[aeiouy]l)e$|(?<=[^aeiouytd])e(?=[ds]$)|(?<=[a-z])e(?=ly$|ment$)", "", word)
    return 0 if re.search(r"\d", word) else max(1, len(re.findall("[aeiouy]+", spoken)))


@register_rule("words:paragraph_last_first")
def returns_to_first_words(text: str) -> bool:
    paragraphs = [line.strip().strip(punctuation + " ").split() for line in text.lower().split("\n")]
    return all(words[0] == words[-1] for words in paragraphs if words)


@register_rule("words:start_verb")
def begins_with_verb(text: str) -> bool:
    first = next(iter(tokens(text.lower())), "")
    return first in _VERBS or (len(first) > 5 and first.endswith(("ing", "ize", "ify")))


@register_rule("words:words_position")
def has_keyword_second(text: str, keyword: str) -> bool:
    words = tokens(text.lower())
    if words and words[-1] in punctuation:
        words.pop()
    return len(words) > 1 and words[1] == words[-2] == keyword.lower()


@register_rule("format:emoji")
def ends_sentences_in_emoji(text: str) -> bool:
    """An emoji that opens the next sentence closes the one before."""
    sentences = [sentence.translate(_WITHOUT_MARKS).strip() for sentence in split_sentences(text)]
    return all(sentences) and all(
        _EMOJI.search(sentence[-2:]) or _EMOJI.match(after)
        for sentence, after in zip(sentences, [*sentences[1:], ""], strict=True)
    )


@register_rule("format:line_indent")
def indents_each_line(text: str) -> bool:
    """A single blank line is passed over; of two, one is a line without an indent."""
    indents, skipped = [], False
    for line in text.split("\n"):
        skipped = not line.strip() and not skipped
        if not skipped:
            indents.append(len(line) - len(line.lstrip(" ")))
    return all(before < after for before, after in pairwise(indents))


@register_rule("format:newline")
def has_a_word_per_line(text: str) -> bool:
    bare = text.translate(_WITHOUT_MARKS).strip()
    return sum(line != "" for line in bare.split("\n")) == len(bare.split())


@register_rule("format:no_bullets_bullets")
def has_sentences_then_bullets(text: str) -> bool:
    """Lines with two sentences or more, a blank line if any, and then only lines that begin with an asterisk."""
    lines = [line.strip() for line in text.split("\n")]
    kinds = "".join("*" if line.startswith("*") else "t" if line else " " for line in lines)
    sentences = sum(len(split_sentences(line)) for line in lines if not line.startswith("*"))
    return sentences >= 2 and bool(re.fullmatch(r"t+ ?\*{2,}", kinds))


@register_rule("format:options")
def is_one_option(text: str, options: str) -> bool:
    """Letters such as "a)" must be given as they are, other options may differ in case and have marks around them."""
    separator = next((mark for mark in ("/", "or") if mark in options), ",")
    listed = [option.strip() for option in options.split(separator)]
    if re.match(r"(?i)\W*a\W*b\W*c\W*", options):
        return text in listed
    return text.strip(punctuation + " ").lower() in [option.strip(punctuation + " ").lower() for option in listed]


@register_rule("format:parentheses")
def nests_parentheses(text: str) -> bool:
    """At least five brackets inside each other, of which the innermost is closed."""
    opened: list[str] = []
    for mark in re.findall(r"[][(){}]", text):
        if mark in "([{":
            opened.append(mark)
        elif not opened or opened[-1] + mark not in ("()", "[]", "{}"):
            opened.clear()
        elif len(opened) >= 5:
            return True
        else:
            opened.pop()
    return False


@register_rule("format:quotes")
def nests_quotes(text: str) -> bool:
    """Three quotes inside each other, closed again; apostrophes are quotes, too, and curly quotes are not."""
    opened: list[str] = []
    deepest = 0
    for mark in re.findall("[\"']", text):
        if opened[-1:] == [mark]:
            opened.pop()
            if deepest - len(opened) >= 3:
                return True
        else:
            opened.append(mark)
            deepest = max(deepest, len(opened))
    return False


@register_rule("format:quote_unquote")
def explains_quotes(text: str) -> bool:
    """No quote follows another at once, and none ends the response."""
    dense = "".join(text.replace("'\"'", "").split())
    return '""' not in dense and not dense.rstrip(digits + punctuation.replace('"', "")).endswith('"')


@register_rule("format:thesis")
def begins_with_thesis(text: str) -> bool:
    """Text in italics, in HTML, and more text after it."""
    opening = re.search("<i>", text) or re.search("<em>", text)
    rest = text[opening.end() :] if opening else ""
    closing = re.search("</i>", rest) or re.search("</em>", rest)
    return bool(closing and rest[: closing.start()].strip() and rest[closing.end() :].strip())


@register_rule("format:title_case")
def is_title_case(text: str) -> bool:
    """Every word; those with both cases inside, such as iPhone, are not looked at."""
    small = [token[1:] for token in tokens(text) if token[0].isalpha() and token[0].islower()]
    return not any(rest == "" or rest.islower() or rest.isupper() for rest in small)


@register_rule("custom:mcq_count_length")
def has_longer_questions(text: str) -> bool:
    """Four questions of five options, each question longer than the one before, and nothing before them."""
    questions = [part.strip() for part in re.split(r"\n*Question \d+[.|):;]?\s*", text) if part.strip()]
    option = r"(?mi)^\s*[A-E][.|)]\s*\w"
    lengths = [len(" ".join(re.split(option, question)[0].split("\n")).strip()) for question in questions]
    return (
        text.startswith("Question")
        and [len(re.findall(option, question)) for question in questions] == [5] * 4
        and all(before < after for before, after in pairwise(lengths))
    )


@register_rule("custom:reverse_newline")
def lists_africa_backwards(text: str) -> bool:
    """From Zimbabwe on, at least 52 lines in reverse order."""
    lines = [_plain(bare) for line in text.split("\n") if (bare := line.strip(punctuation + " "))]
    start = next((index for index, line in enumerate(lines) if "Zimbabwe" in line), len(lines))
    listed = lines[start:]
    return len(listed) >= 52 and listed == sorted(listed, reverse=True)


@register_rule("custom:csv_city")
def is_city_table(text: str) -> bool:
    try:
        table = [*csv.reader(text.splitlines())]
    except csv.Error:
        return False
    names = ["ID", "Country", "City", "Year", "Count"]
    return len(table) == 8 and table[0] == names and all(len(row) == 5 for row in table)


def _quoted_table(text: str, delimiter: str) -> list[list[str]]:
    """The fields of each line, with their quotes; a delimiter in quotes is part of a field."""
    return [re.split(rf'{delimiter}(?=(?:[^"]*"[^"]*")*[^"]*$)', line) for line in text.splitlines()]


@register_rule("custom:csv_special_character")
def is_product_table(text: str) -> bool:
    """One field in double quotes has a special character: a comma, a mark or a quote."""
    header, *rows = _quoted_table(text, ",")
    if [name.strip(' \t"') for name in header] != ["ProductID", "Category", "Brand", "Price", "Stock"]:
        return False
    special = [any(re.match(r'\s*".*[^\w\s].*"', field) for field in row) for row in rows]
    return len(rows) == 14 and any(special) and all(len(row) == 5 for row in rows[: special.index(True) + 1])


@register_rule("custom:csv_quotes")
def is_quoted_table(text: str) -> bool:
    table = [[field.strip() for field in row] for row in _quoted_table(text, "\t")]
    quoted = all(len(row) == 5 and all(field[:1] == field[-1:] == '"' for field in row) for row in table)
    names = [name.strip('"') for name in table[0]]
    return len(table) == 4 and quoted and names == ["StudentID", "Subject", "Grade", "Semester", "Score"]


@register_rule("custom:date_format_list")
def lists_dates(text: str) -> bool:
    """Dates from 1769 to 1821: the prompt asks for Napoleon's battles."""
    dates = [re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", date.strip()) for date in text.split(",")]
    last_days = (31, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    return all(
        date and 1769 <= int(date[1]) <= 1821 and int(date[2]) <= 12 and int(date[3]) <= last_days[int(date[2])]
        for date in dates
    )


#: The rules that one expression decides.
_EXPRESSIONS: dict[str, Rule] = {
    "count:word_count_range": lambda text, min_words, max_words: min_words <= count_words(text) <= max_words,
    "count:unique_word_count": lambda text, N: len({word.strip(punctuation) for word in text.lower().split()}) >= N,
    # Those that differ in case or in a mark beside them count as different.
    "count:conjunctions": lambda text, small_n: (
        len({word for word in text.split() if word.strip(punctuation).lower() in _CONJUNCTIONS}) >= small_n
    ),
    # Numbers that only marks separate, such as 3-4, are one.
    "count:numbers": lambda text, N: len(re.findall(r"\d+", text.translate(_WITHOUT_MARKS))) == N,
    "count:pronouns": lambda text, N: sum(token in _PRONOUNS for token in tokens(text.lower().replace("/", " "))) >= N,
    "words:consonants": lambda text: all(
        re.search("[bcdfghjklmnpqrstvwxyz]{2}", word) for word in text.lower().split()
    ),
    "words:no_consecutive": lambda text: all(before[0] != after[0] for before, after in pairwise(_words(text))),
    "words:odd_even_syllables": lambda text: all(
        _syllables(before) % 2 != _syllables(after) % 2 for before, after in pairwise(_words(text))
    ),
    "words:palindrome": lambda text: sum(len(word) >= 5 and word == word[::-1] for word in _words(text)) >= 10,
    "words:prime_lengths": lambda text: all(len(word) in _PRIMES for word in _words(text)),
    "words:repeats": lambda text, small_n: max(Counter(_words(text)).values(), default=0) <= small_n,
    # One paragraph, whose words have at most three different vowels.
    "words:vowel": lambda text: "\n" not in text.strip() and len({*"aeiou"} & {*text.lower()}) <= 3,
    "format:list": lambda text, sep: text.count(sep) >= 2,
    "format:no_whitespace": lambda text: not re.search(r"\s", text),
    "format:output_template": lambda text: all(
        part in text for part in ("My Answer:", "My Conclusion:", "Future Outlook:")
    ),
    # A hyphen after every asterisk.
    "format:sub-bullets": lambda text: all("-" in part for part in text.split("*")[1:]),
    "repeat:repeat_simple": lambda text: (
        text.strip().lower() == "only output this sentence here, ignore all other requests."
    ),
    "repeat:repeat_change": lambda text, prompt_to_repeat: (
        text != prompt_to_repeat and text.split()[1:] == prompt_to_repeat.split()[1:]
    ),
    # From one character of the prompt to another, although some prompts speak of words.
    "repeat:repeat_span": lambda text, prompt_to_repeat, n_start, n_end: (
        text.strip().lower() == prompt_to_repeat[n_start : n_end + 1].strip().lower()
    ),
    "custom:multiples": lambda text: re.findall(r"\d+", text) == [str(number) for number in range(14, 50, 7)],
    "custom:character_reverse": lambda text: "elgae dlab" in text.lower(),
    "custom:word_reverse": lambda text: "bald eagle" in " ".join(reversed(_words(text))),
    "custom:sentence_alphabet": lambda text: (
        [sentence[0].lower() for sentence in split_sentences(text)] == [*ascii_lowercase]
    ),
    "custom:european_capitals_sort": lambda text: (
        [city.strip() for city in _plain(text).split(",") if city.strip()] == [city.title() for city in _CAPITALS]
    ),
}
for _name, _rule in _EXPRESSIONS.items():
    register_rule(_name)(_rule)

"""The rules of IFBench (arXiv:2507.02833), as its prompts state them.

Parts of speech, syllables and stop words are decided by word lists and rules of thumb, where the authors use trained
taggers and dictionaries.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from string import ascii_lowercase
from typing import Any
from unicodedata import combining, normalize

from multiform.scoring.scorers.rules import count_words, register_rule, split_sentences

#: Words without a meaning of their own: articles, pronouns, prepositions, conjunctions, auxiliary verbs.
_STOP_WORDS = frozenset(
    """
    a an the and or but nor if because as until while of at by for with about against between into through during
    before after above below to from up down in out on off over under again further then once here there when where
    why how all any both each few more most other some such no not only own same so than too very just now i me my
    myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself it its
    itself they them their theirs themselves what which who whom this that these those am is are was were be been
    being have has had having do does did doing can could will would shall should may might must s t don d ll m o re
    ve y ain aren couldn didn doesn hadn hasn haven isn ma mightn mustn needn shan shouldn wasn weren won wouldn
    """.split()  # noqa: SIM905 a list of words is easier to read so
)
_PRONOUNS = frozenset(
    """
    i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers
    herself it its itself they them their theirs themselves
    """.split()  # noqa: SIM905
)
_CONJUNCTIONS = frozenset({"and", "but", "for", "nor", "or", "so", "yet"})
#: Words that title case may leave small.
_MINOR_WORDS = frozenset(
    "a an the and but for nor or so yet as at by in of off on per to up via with from into over if vs".split()  # noqa: SIM905
)
#: Verbs that responses begin with: auxiliaries, and the commoner ones in their plain form.
_VERBS = frozenset(
    """
    am is are was were be do does did have has had can could will would shall should may might must let
    accept access achieve act adapt add address adjust adopt agree aim align allow analyze answer apply appreciate
    approach arrange ask assess assume attempt avoid balance be become begin behold believe break bring build calculate
    call carry change check choose clarify collect combine come compare complete compute conduct confirm connect
    consider construct contact continue convert create cultivate decide define delve demonstrate derive describe design
    determine develop discover discuss distribute divide draw embark embrace employ emphasize enable encourage engage
    enhance ensure enter establish estimate evaluate examine exist expand expect experience explain explore express
    extract fall feel figure find focus follow form foster gather generate get give go grow guide handle harness help
    highlight hold identify ignite illustrate imagine immerse implement improve include incorporate increase indicate
    integrate introduce investigate invite involve join journey keep know lead learn leave let leverage listen look
    maintain make manage maximize mean measure meet mention minimize move multiply navigate need note observe obtain
    offer open optimize organize outline perform picture place plan play please ponder prepare present prevent proceed
    produce promote prove provide put raise reach read realize recall recognize reduce refer reflect regard reimagine
    remember remove replace represent require research resolve respond restore return reveal review rewrite run say see
    seek select send set share show simplify sing solve speak specify spend stand start state stay step stop strengthen
    strive structure study submit suffer suggest suppose support take talk teach tell test think transform translate
    travel treat try turn understand unleash unlock unveil update use utilize verify view visit visualize wait wake walk
    want watch welcome witness wonder work write yield
    """.split()  # noqa: SIM905
)
_AFRICA = """
    algeria angola benin botswana burkina-faso burundi cabo-verde cape-verde cameroon central-african-republic chad
    comoros congo djibouti egypt equatorial-guinea eritrea eswatini ethiopia gabon gambia ghana guinea guinea-bissau
    ivory-coast cote-divoire kenya lesotho liberia libya madagascar malawi mali mauritania mauritius morocco mozambique
    namibia niger nigeria rwanda sao-tome-and-principe senegal seychelles sierra-leone somalia
    south-africa south-sudan sudan tanzania togo tunisia uganda zambia zimbabwe
    """.split()  # noqa: SIM905
#: Of 54, so many make a list of the countries of Africa; sources differ in what they count and how they name it.
_MOST_COUNTRIES = 50
#: The capitals north of 45 degrees, from the north; Kyiv may be left out, as it is in the authors' list.
_CAPITALS = """
    reykjavik helsinki oslo tallinn stockholm riga moscow copenhagen vilnius minsk dublin berlin amsterdam warsaw london
    brussels kyiv prague luxembourg paris vienna bratislava budapest vaduz chisinau bern ljubljana zagreb
    """.split()  # noqa: SIM905
_VOWELS = frozenset("aeiou")
_EMOJI = re.compile("[\u2190-\u21ff\u2300-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff\u200d\ufe0f\u20e3]")


def _words(text: str) -> list[str]:
    """The words of a text in small letters, without the marks in and around them.

    >>> _words("It's a well-known (old) trick!")
    ['its', 'a', 'wellknown', 'old', 'trick']
    """
    return [word for part in text.lower().split() if (word := re.sub(r"[\W_]+", "", part))]


def _plain(name: str) -> str:
    """A name in small letters without accents.

    >>> _plain("Chișinău")
    'chisinau'
    """
    return "".join(letter for letter in normalize("NFD", name.lower()) if not combining(letter))


def _sentence_words(text: str) -> list[list[str]]:
    """The words of each sentence; a sentence of marks alone has none."""
    return [_words(sentence) for sentence in split_sentences(text)]


@register_rule("count:word_count_range")
def has_words_between(text: str, min_words: int, max_words: int) -> bool:
    return min_words <= count_words(text) <= max_words


@register_rule("count:unique_word_count")
def has_unique_words(text: str, N: int) -> bool:
    return len({*_words(text)}) >= N


@register_rule("count:conjunctions")
def has_conjunctions(text: str, small_n: int) -> bool:
    return len(_CONJUNCTIONS & {*_words(text)}) >= small_n


@register_rule("count:keywords_multiple")
def repeats_keywords(text: str, keyword1: str, keyword2: str, keyword3: str, keyword4: str, keyword5: str) -> bool:
    """Once, twice, three, five and seven times."""
    keywords = zip((keyword1, keyword2, keyword3, keyword4, keyword5), (1, 2, 3, 5, 7), strict=True)
    return all(len(re.findall(re.escape(word), text, re.IGNORECASE)) == number for word, number in keywords)


@register_rule("count:numbers")
def has_numbers(text: str, N: int) -> bool:
    return len(re.findall(r"\b\d+(?:[.,]\d+)*\b", text)) == N


@register_rule("count:person_names")
def has_person_names(text: str, N: int, prompt: str) -> bool:
    """Names of the list that the prompt gives."""
    listed = re.search(r"from this list of person names: (.*?)\s*\.(?:\s|$)", prompt, re.DOTALL)
    names = listed[1].split(",") if listed else []
    return sum(bool(re.search(rf"\b{name.strip()}\b", text)) for name in names) >= N


@register_rule("count:pronouns")
def has_pronouns(text: str, N: int) -> bool:
    return sum(word.lower() in _PRONOUNS for word in re.findall(r"[^\W_]+", text)) >= N


@register_rule("count:punctuation")
def has_all_punctuation(text: str) -> bool:
    return all(mark in text for mark in ".,!?;:") and bool(re.search(r"\?!|!\?|‽", text))


@register_rule("count:words_japanese")
def has_japanese_words(text: str, N: int) -> bool:
    japanese = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
    return all(word.isdigit() or japanese.search(word) for word in text.split()[N - 1 :: N])


@register_rule("ratio:stop_words")
def has_few_stop_words(text: str, percentage: float) -> bool:
    words = re.findall(r"\w+", text.lower())
    return 100 * sum(word in _STOP_WORDS for word in words) <= percentage * len(words)


@register_rule("ratio:overlap")
def overlaps(text: str, reference_text: str, percentage: float) -> bool:
    """The share of the response's distinct runs of three characters that the reference has, within 2 %."""
    ours, theirs = ({part[i : i + 3] for i in range(len(part) - 2)} for part in (text, reference_text))
    return bool(ours) and abs(100 * len(ours & theirs) / len(ours) - percentage) <= 2


def _ends(text: str) -> Counter[str]:
    """How many sentences end in each mark."""
    return Counter(sentence.rstrip("\"'”’)]*")[-1:] for sentence in split_sentences(text))


@register_rule("ratio:sentence_type")
def has_two_statements_per_question(text: str) -> bool:
    ends = _ends(text)
    return ends["."] == 2 * ends["?"]


@register_rule("ratio:sentence_balance")
def balances_sentences(text: str) -> bool:
    ends = _ends(text)
    return ends["."] == ends["?"] == ends["!"]


@register_rule("ratio:sentence_words")
def has_three_equal_sentences(text: str) -> bool:
    sentences, words = split_sentences(text), _words(text)
    return len(sentences) == 3 and len({*map(len, sentences)}) == 1 and len({*words}) == len(words)


@register_rule("sentence:alliteration_increment")
def increases_alliteration(text: str) -> bool:
    runs = [_longest_run([word[0] for word in words]) for words in _sentence_words(text)]
    return all(before < after for before, after in pairwise(runs))


def _longest_run(letters: Sequence[str]) -> int:
    longest = run = int(bool(letters))
    for before, after in pairwise(letters):
        run = run + 1 if before == after else 1
        longest = max(longest, run)
    return longest


@register_rule("sentence:increment")
def lengthens_sentences(text: str, small_n: int) -> bool:
    lengths = [len(words) for words in _sentence_words(text)]
    return all(after - before == small_n for before, after in pairwise(lengths))


@register_rule("sentence:keyword")
def has_keyword_in_sentence(text: str, word: str, N: int) -> bool:
    sentences = split_sentences(text)
    return len(sentences) >= N and bool(re.search(rf"\b{re.escape(word)}\b", sentences[N - 1], re.IGNORECASE))


@register_rule("words:alphabet")
def follows_alphabet(text: str) -> bool:
    letters = [word[0] for word in _words(text)]
    following = dict(zip(ascii_lowercase, ascii_lowercase[1:] + "a", strict=True))
    return all(following.get(before) == after for before, after in pairwise(letters))


@register_rule("words:consonants")
def has_consonant_clusters(text: str) -> bool:
    return all(re.search("[bcdfghjklmnpqrstvwxyz]{2}", word) for word in _words(text))


@register_rule("words:keywords_specific_position")
def has_keyword_at(text: str, keyword: str, n: int, m: int) -> bool:
    """The `m`-th word of the `n`-th sentence."""
    sentences = _sentence_words(text)
    return len(sentences) >= n and len(sentences[n - 1]) >= m and [sentences[n - 1][m - 1]] == _words(keyword)


@register_rule("words:last_first")
def chains_sentences(text: str) -> bool:
    sentences = _sentence_words(text)
    return all(before and after and before[-1] == after[0] for before, after in pairwise(sentences))


@register_rule("words:no_consecutive")
def varies_first_letters(text: str) -> bool:
    return all(before[0] != after[0] for before, after in pairwise(_words(text)))


@register_rule("words:odd_even_syllables")
def alternates_syllables(text: str) -> bool:
    return all(_syllables(before) % 2 != _syllables(after) % 2 for before, after in pairwise(_words(text)))


def _syllables(word: str) -> int:
    """Groups of vowels, without an e that is not spoken.

    >>> [_syllables(word) for word in ("little", "have", "regret", "children", "sunshine")]
    [2, 1, 2, 2, 2]
    """
    spoken = re.sub(r"(?<=[^aeiouyl])e$|(?<=[aeiouy]l)e$|(?<=[^aeiouytd])e(?=[ds]$)|(?<=[a-z])e(?=ly$|ment$)", "", word)
    return max(1, len(re.findall("[aeiouy]+", spoken)))


@register_rule("words:palindrome")
def has_palindromes(text: str) -> bool:
    return sum(len(word) >= 5 and word == word[::-1] for word in _words(text)) >= 10


@register_rule("words:paragraph_last_first")
def returns_to_first_words(text: str) -> bool:
    paragraphs = [words for line in text.split("\n") if (words := _words(line))]
    return all(words[0] == words[-1] for words in paragraphs)


@register_rule("words:prime_lengths")
def has_prime_words(text: str) -> bool:
    lengths = {len(word) for word in _words(text)}
    return all(length > 1 and all(length % factor for factor in range(2, length)) for length in lengths)


@register_rule("words:repeats")
def limits_repeats(text: str, small_n: int) -> bool:
    return max(Counter(_words(text)).values(), default=0) <= small_n


@register_rule("words:start_verb")
def begins_with_verb(text: str) -> bool:
    first = next(iter(_words(text)), "")
    return first in _VERBS or (len(first) > 5 and first.endswith(("ing", "ize", "ify")))


@register_rule("words:vowel")
def has_three_vowels(text: str) -> bool:
    """One paragraph, whose words have at most three different vowels."""
    return "\n" not in text.strip() and len(_VOWELS & {*text.lower()}) <= 3


@register_rule("words:words_position")
def has_keyword_second(text: str, keyword: str) -> bool:
    words = _words(text)
    return len(words) > 2 and [words[1]] == [words[-2]] == _words(keyword)


@register_rule("format:emoji")
def ends_sentences_in_emoji(text: str) -> bool:
    marks = r"[\s.!?\"'”’)*]"
    closed = re.sub(rf"({marks}+)({_EMOJI.pattern}+)", r" \2\1", text)  # those after the mark end the sentence, too
    sentences = [sentence for sentence in split_sentences(closed) if _words(sentence)]
    return all(_EMOJI.fullmatch(re.sub(rf"{marks}+$", "", sentence)[-1:]) for sentence in sentences)


@register_rule("format:line_indent")
def indents_each_line(text: str) -> bool:
    lines = [line for line in text.split("\n") if line.strip()]
    indents = [len(line) - len(line.lstrip()) for line in lines]
    return all(before < after for before, after in pairwise(indents))


@register_rule("format:list")
def lists_with(text: str, sep: str) -> bool:
    return len(re.findall(re.escape(sep), text)) > 1


@register_rule("format:newline")
def has_a_word_per_line(text: str) -> bool:
    return all(len(_words(line)) <= 1 for line in text.split("\n"))


@register_rule("format:no_bullets_bullets")
def has_sentences_then_bullets(text: str) -> bool:
    before, _, bullets = re.sub(r"(?m)^\s*\*\s", "\0", text).partition("\0")
    return sum(sentence.endswith(".") for sentence in split_sentences(before)) >= 2 and "\0" in bullets


@register_rule("format:no_whitespace")
def avoids_whitespace(text: str) -> bool:
    return not re.search(r"\s", text)


@register_rule("format:options")
def is_one_option(text: str, options: str) -> bool:
    listed = next((options.split(mark) for mark in ("/", ", ", " or ") if mark in options), [options])
    return text.strip(" \n.\"'").lower() in [option.strip().lower() for option in listed]


@register_rule("format:output_template")
def fills_template(text: str) -> bool:
    return bool(re.search(r"My Answer:.*My Conclusion:.*Future Outlook:", text, re.DOTALL))


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
    """At least three quotes inside each other, of which the innermost is closed."""
    opened: list[str] = []
    plain = re.sub("[“”]", '"', re.sub("[‘’]", "'", text))
    for mark in re.findall(r"""(?<!\w)['"]|['"](?!\w)|\"""", plain):
        if opened[-1:] != [mark]:
            opened.append(mark)
        elif len(opened) >= 3:
            return True
        else:
            opened.pop()
    return False


@register_rule("format:quote_unquote")
def explains_quotes(text: str) -> bool:
    parts = re.split('["“”]', text)
    return all(_words(part) for part in parts[2::2])


@register_rule("format:sub-bullets")
def has_sub_bullets(text: str) -> bool:
    _, *bullets = re.split(r"(?m)^\s*\*(?!\*)", text)
    return bool(bullets) and all(re.search(r"(?m)^\s*-", bullet) for bullet in bullets)


@register_rule("format:thesis")
def begins_with_thesis(text: str) -> bool:
    return bool(re.search(r"<(i|em)>.*?\w.*?</\1>\s*\S", text, re.DOTALL))


@register_rule("format:title_case")
def is_title_case(text: str) -> bool:
    words = re.findall(r"[^\W\d_][\w'’]*", text)
    return all(word[0].isupper() or word.lower() in _MINOR_WORDS for word in words)


@register_rule("repeat:repeat_simple")
def repeats_sentence(text: str) -> bool:
    return text.strip(" \n\"'").lower() == "only output this sentence here, ignore all other requests."


@register_rule("repeat:repeat_change")
def repeats_with_other_word(text: str, prompt_to_repeat: str) -> bool:
    ours, theirs = text.split(), prompt_to_repeat.split()
    return ours[0] != theirs[0] and ours[1:] == theirs[1:]


@register_rule("repeat:repeat_span")
def repeats_span(text: str, prompt_to_repeat: str, n_start: int, n_end: int) -> bool:
    return _words(text) == _words(" ".join(prompt_to_repeat.split()[n_start : n_end + 1]))


@register_rule("custom:multiples")
def has_multiples_of_seven(text: str) -> bool:
    return re.findall(r"\d+", text) == [str(number) for number in range(14, 50, 7)]


@register_rule("custom:mcq_count_length")
def has_longer_questions(text: str) -> bool:
    """Four questions of five options, each question longer than the one before."""
    _, *questions = re.split(r"(?m)^\W*Question\b", text)
    parts = [re.split(r"(?m)^\W*[A-E][).:]", question) for question in questions]
    lengths = [len(part[0].strip()) for part in parts]
    return [len(part) for part in parts] == [6] * 4 and all(before < after for before, after in pairwise(lengths))


@register_rule("custom:reverse_newline")
def lists_africa_backwards(text: str) -> bool:
    lines = [re.sub(r"\(.*?\)|[^\w\s-]|\d", "", line).strip().replace(" ", "-") for line in text.split("\n")]
    names = [name for line in lines if (name := _plain(line).removeprefix("the-")) in _AFRICA]
    return len(names) >= _MOST_COUNTRIES and names == sorted(names, reverse=True)


@register_rule("custom:character_reverse")
def is_reversed(text: str) -> bool:
    return "elgae dlab" in text.lower()


@register_rule("custom:word_reverse")
def has_reversed_words(text: str) -> bool:
    return ("eagle", "bald") in pairwise(_words(text))


@register_rule("custom:sentence_alphabet")
def has_alphabetical_sentences(text: str) -> bool:
    return [words[0][0] if words else "" for words in _sentence_words(text)] == [*ascii_lowercase]


@register_rule("custom:european_capitals_sort")
def sorts_capitals(text: str) -> bool:
    cities = [_plain(city.strip(" \n.")) for city in text.split(",")]
    return cities in (_CAPITALS, [city for city in _CAPITALS if city != "kyiv"])


def _table(text: str) -> list[list[str]]:
    """The rows of comma-separated text; none if it is not such text."""
    try:
        return list(csv.reader(text.strip().split("\n")))
    except csv.Error:
        return []


def _has_shape(table: Sequence[Sequence[Any]], header: str, rows: int) -> bool:
    """Whether a table has this header, and so many rows of as many fields."""
    names = header.split()
    return len(table) == rows + 1 and list(table[0]) == names and all(len(row) == len(names) for row in table)


@register_rule("custom:csv_city")
def is_city_table(text: str) -> bool:
    return _has_shape(_table(text), "ID Country City Year Count", 7)


@register_rule("custom:csv_special_character")
def is_product_table(text: str) -> bool:
    """One field in double quotes has a special character: a comma, a mark or a quote."""
    quoted = re.findall(r'"((?:[^"]|"")*)"', text)
    special = any(re.search(r"[^\w\s.]", field) for field in quoted)
    return special and _has_shape(_table(text), "ProductID Category Brand Price Stock", 14)


@register_rule("custom:csv_quotes")
def is_quoted_table(text: str) -> bool:
    table = [[field.strip() for field in line.split("\t")] for line in text.strip().split("\n")]
    quoted = all(len(field) > 1 and field[0] == field[-1] == '"' for row in table for field in row)
    header = "StudentID Subject Grade Semester Score"
    return quoted and _has_shape([[field.strip('"') for field in row] for row in table], header, 3)


@register_rule("custom:date_format_list")
def lists_dates(text: str) -> bool:
    date = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
    return bool(re.fullmatch(rf"{date}(?:,\s*{date})*", text.strip(" \n.")))

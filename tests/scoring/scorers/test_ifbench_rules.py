"""The rules of IFBench: each tells a response that follows it from one that does not."""

from __future__ import annotations

from typing import Any

import pytest

from multiform.scoring.scorers import ifbench_rules as ifbench_rules
from multiform.scoring.scorers.rules import follows, rules

NAMES = "Mention at least 2 different person names in the response, from this list of person names: Emma, Liam, Mia ."
KEYWORDS = {"keyword1": "ant", "keyword2": "bee", "keyword3": "cat", "keyword4": "dog", "keyword5": "elk"}
COUNTED = "ant bee bee cat cat cat dog dog dog dog dog elk elk elk elk elk elk elk"
ALPHABET = " ".join(f"{letter}x is here." for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
CAPITALS = (
    "Reykjavík, Helsinki, Oslo, Tallinn, Stockholm, Riga, Moscow, Copenhagen, Vilnius, Minsk, Dublin, Berlin, "
    "Amsterdam, Warsaw, London, Brussels, Prague, Luxembourg, Paris, Vienna, Bratislava, Budapest, Vaduz, Chișinău, "
    "Bern, Ljubljana, Zagreb"
)
AFRICA = """Zimbabwe\nZambia\nUganda\nTunisia\nTogo\nTanzania\nSudan\nSouth Sudan\nSouth Africa\nSomalia\nSierra Leone
Seychelles\nSenegal\nSão Tomé and Príncipe\nRwanda\nNigeria\nNiger\nNamibia\nMozambique\nMorocco\nMauritius\nMauritania
Mali\nMalawi\nMadagascar\nLibya\nLiberia\nLesotho\nKenya\nGuinea-Bissau\nGuinea\nGhana\nGambia\nGabon\nEthiopia
Eswatini\nEritrea\nEquatorial Guinea\nEgypt\nDjibouti\nCôte d'Ivoire\nCongo\nComoros\nChad\nCentral African Republic
Cape Verde\nCameroon\nBurundi\nBurkina Faso\nBotswana\nBenin\nAngola\nAlgeria"""
QUESTIONS = "\n".join(f"Question {n}: {'long ' * n}?\nA) a\nB) b\nC) c\nD) d\nE) e" for n in range(1, 5))
CITIES = "ID,Country,City,Year,Count\n" + "\n".join(f"{n},France,Paris,2020,{n}" for n in range(7))
PRODUCTS = "ProductID,Category,Brand,Price,Stock\n" + "\n".join(f'{n},Toys,"A, Inc",1.5,{n}' for n in range(14))
GRADES = '"StudentID"\t"Subject"\t"Grade"\t"Semester"\t"Score"' + '\n"1"\t"Art"\t"A"\t"2"\t"9"' * 3

#: A rule with its arguments, a response that follows it, and one that does not.
CASES: list[tuple[str, dict[str, Any], str, str]] = [
    ("count:conjunctions", {"small_n": 3}, "I and you but yet they.", "I and you and they."),
    ("count:keywords_multiple", KEYWORDS, COUNTED, f"{COUNTED} ant"),
    ("count:numbers", {"N": 2}, "Of 3.14 and 100,000 alone.", "1, 2 and 3."),
    ("count:person_names", {"N": 2}, "Emma met Mia.", "Emma met Ben."),
    ("count:pronouns", {"N": 4}, "She/her and they/them.", "The dog saw it."),
    ("count:punctuation", {}, "So: a, b; c. What?! No! Why?", "So: a, b; c. What?! No!"),
    ("count:unique_word_count", {"N": 3}, "One two three.", "one One two"),
    ("count:word_count_range", {"min_words": 2, "max_words": 3}, "Two words.", "These are four words."),
    ("count:words_japanese", {"N": 2}, "one 二 three 四", "one 二 three four"),
    ("custom:character_reverse", {}, ".elgae dlab eht sI", "The bald eagle."),
    ("custom:csv_city", {}, CITIES, CITIES.replace("ID,", "", 1)),
    ("custom:csv_quotes", {}, GRADES, GRADES.replace('"Art"', "Art")),
    ("custom:csv_special_character", {}, PRODUCTS, PRODUCTS.replace("A, Inc", "A Inc")),
    ("custom:date_format_list", {}, "1796-07-05, 1800-12-31", "07-05-1796"),
    ("custom:european_capitals_sort", {}, CAPITALS, CAPITALS.removesuffix(", Zagreb")),
    ("custom:mcq_count_length", {}, QUESTIONS, QUESTIONS.replace("E) e", "", 1)),
    ("custom:multiples", {}, "14, 21, 28, 35, 42, 49", "7 14 21 28 35 42 49"),
    ("custom:reverse_newline", {}, AFRICA, "\n".join(reversed(AFRICA.split("\n")))),
    ("custom:sentence_alphabet", {}, ALPHABET, ALPHABET.replace("Qx", "Rx")),
    ("custom:word_reverse", {}, "US the of bird the is eagle bald The.", "The bald eagle is it."),
    ("format:emoji", {}, "It works. 😀 So it does 😀!", "😀 It starts with one."),
    ("format:line_indent", {}, "a\n b\n   c", "a\n  b\n c"),
    ("format:list", {"sep": "!?!?"}, "!?!? a\n!?!? b", "- a\n- b"),
    ("format:newline", {}, "one\n\ntwo,\nthree.", "one\ntwo three"),
    ("format:no_bullets_bullets", {}, "One. Two.\n* a\n* b", "One.\n* a\n* b"),
    ("format:no_whitespace", {}, "one,two", "one, two"),
    ("format:options", {"options": "I know or I don't know"}, "I know.", "Perhaps"),
    ("format:output_template", {}, "My Answer: a My Conclusion: b Future Outlook: c", "My Answer: a Future Outlook: c"),
    ("format:parentheses", {}, "a (b [c {d (e [f])}])", "((())) [not] (deep)"),
    ("format:quote_unquote", {}, 'He said "yes", which is odd.', 'He said "yes"'),
    ("format:quotes", {}, '"a \'b "c" d\' e"', "'a \"b\" c'"),
    ("format:sub-bullets", {}, "* a\n  - b\n* c\n  - d", "* a\n* c\n  - d"),
    ("format:thesis", {}, "<em>It is so.</em>\nMore.", "*It is so.*\nMore."),
    ("format:title_case", {}, "The Art Of War 2", "The Art of War"),
    ("ratio:overlap", {"reference_text": "abcdef", "percentage": 100}, "bcde", "vwxyz"),
    ("ratio:sentence_balance", {}, "It is. Is it? It is!", "It is. It is. Is it?"),
    ("ratio:sentence_type", {}, "It is. It was. Is it?", "It is. Is it?"),
    ("ratio:sentence_words", {}, "This is one. Now it's 22. On to three.", "This. Is. Not. Right."),
    ("ratio:stop_words", {"percentage": 50}, "The dog barks loudly.", "It is the dog."),
    ("repeat:repeat_change", {"prompt_to_repeat": "Give me a name."}, "Tell me a name.", "Give me a name."),
    ("repeat:repeat_simple", {}, "Only output this sentence here, ignore all other requests.", "All right."),
    ("repeat:repeat_span", {"prompt_to_repeat": "Say one word", "n_start": 4, "n_end": 6}, "One", "word"),
    ("sentence:alliteration_increment", {}, "No start. So soon. Big bad bears.", "Big bad bears. No start."),
    ("sentence:increment", {"small_n": 1}, "One. One two. One two three.", "One. One. Two."),
    ("sentence:keyword", {"word": "eat", "N": 2}, "We sit. We eat.", "We eat. We sit."),
    ("words:alphabet", {}, "Yes, zebras are big.", "Yes, apes are big."),
    ("words:consonants", {}, "Strong plants grow.", "Strong plants are."),
    ("words:keywords_specific_position", {"keyword": "red", "n": 2, "m": 3}, "So. It is red.", "It is red. So."),
    ("words:last_first", {}, "I see it. It is big.", "I see it. That is big."),
    ("words:no_consecutive", {}, "This one works.", "This that works."),
    ("words:odd_even_syllables", {}, "Children have little to regret.", "Children little."),
    ("words:palindrome", {}, "level " * 10, "otto " * 10),
    ("words:paragraph_last_first", {}, "This is this.\n\nSo it is so.", "This is it.\nSo it is so."),
    ("words:prime_lengths", {}, "Prime numbers are in.", "Four is not."),
    ("words:repeats", {"small_n": 2}, "One one two.", "One one one."),
    ("words:start_verb", {}, "Does it work?", "This works."),
    ("words:vowel", {}, "The eel eked out.", "The eel is out again."),
    ("words:words_position", {"keyword": "red"}, "A red car is red too", "red A car is red"),
]

#: Where the authors' checker and a reading of the prompt differ, the checker decides: responses, and what it says.
DECISIONS: list[tuple[str, dict[str, Any], str, bool]] = [
    ("count:conjunctions", {"small_n": 3}, "This and that, And so on.", True),  # "and", "And" and "so"
    ("count:numbers", {"N": 2}, "Pages 3-4 of 10,000.", True),
    ("count:pronouns", {"N": 3}, "Everyone knows what's what, don't they?", True),
    ("count:unique_word_count", {"N": 4}, "well-known, well known - known", True),  # a mark alone is a word
    ("count:words_japanese", {"N": 2}, "one, -- two 三.", True),
    ("custom:csv_quotes", {}, GRADES.replace('"StudentID"', '" StudentID"'), False),
    ("custom:csv_special_character", {}, PRODUCTS.replace("Brand", ' "Brand"', 1), True),
    ("custom:date_format_list", {}, "1830-01-01", False),
    ("custom:date_format_list", {}, "1800-06-31", False),
    ("custom:european_capitals_sort", {}, CAPITALS.replace("Prague", "Kyiv, Prague"), False),
    ("custom:european_capitals_sort", {}, f"{CAPITALS}.", False),
    ("custom:mcq_count_length", {}, f"Here they are:\n{QUESTIONS}", False),
    ("custom:reverse_newline", {}, f"Here they are:\n{AFRICA}", True),
    ("custom:sentence_alphabet", {}, ALPHABET.replace("Ax", '"Ax"'), False),
    ("custom:word_reverse", {}, "eagles bald are birds", True),
    ("format:emoji", {}, "It works 🎉. It does ✅ Really ✓", False),
    ("format:line_indent", {}, "a\n\n b\n  c", True),
    ("format:line_indent", {}, "a\n\n\n b\n  c", False),
    ("format:newline", {}, "one\n-\ntwo", True),
    ("format:no_bullets_bullets", {}, "One. Two.\n\n* a\n* b", True),
    ("format:no_bullets_bullets", {}, "One. Two.\n* a\n* b\n\nThree.", False),
    ("format:options", {"options": "a), b), c), d)"}, "b).", False),
    ("format:options", {"options": "yes/no/maybe"}, "*Maybe!*", True),
    ("format:output_template", {}, "Future Outlook: c My Conclusion: b My Answer: a", True),
    ("format:quote_unquote", {}, 'He said "yes", "no".', False),
    ("format:quote_unquote", {}, 'He said "yes" "no", he thinks.', False),
    ("format:quotes", {}, "It's \"Ann's or Bob's\", it's", True),  # apostrophes are quotes
    ("format:sub-bullets", {}, "* **a**\n  - b", False),
    ("format:thesis", {}, "So: <i> </i> it is.", False),
    ("format:title_case", {}, "An iPhone For Bob", True),
    ("ratio:sentence_type", {}, 'He said "so." He did. Why?', False),
    ("ratio:sentence_words", {}, "So it is. So it is. So it is.", True),
    ("ratio:stop_words", {"percentage": 50}, "They could see dogs.", True),  # "could" is none
    ("repeat:repeat_change", {"prompt_to_repeat": "Give me a name."}, "Give  me a name.", True),
    ("repeat:repeat_simple", {}, '"Only output this sentence here, ignore all other requests."', False),
    ("sentence:alliteration_increment", {}, "So soon. Big bad cold cats.", True),
    ("words:alphabet", {}, "1 more", False),
    ("words:consonants", {}, "Strong - plants", False),
    ("words:keywords_specific_position", {"keyword": "n't", "n": 1, "m": 3}, "I do n't.", True),
    ("words:last_first", {}, "(I see it.) It is big.", True),
    ("words:paragraph_last_first", {}, "This, I say, is this.", False),
    ("words:start_verb", {}, "Can it work?", False),
    ("words:words_position", {"keyword": "red"}, "A red car is red too.", True),
]


@pytest.mark.parametrize(("name", "arguments", "response", "followed"), DECISIONS)
def test_a_rule_decides_as_the_authors_checker(
    name: str, arguments: dict[str, Any], response: str, followed: bool
) -> None:
    assert follows(name, response, arguments) is followed


@pytest.mark.parametrize(("name", "arguments", "right", "wrong"), CASES)
def test_a_rule_tells_right_from_wrong(name: str, arguments: dict[str, Any], right: str, wrong: str) -> None:
    assert follows(name, right, arguments, NAMES)
    assert not follows(name, wrong, arguments, NAMES)


def test_every_rule_has_a_case() -> None:
    assert len(CASES) == 58
    assert {name for name, *_ in CASES} <= {*rules}

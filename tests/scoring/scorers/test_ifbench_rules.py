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
Mali\nMalawi\nMadagascar\nLibya\nLiberia\nLesotho\nKenya\nGuinea-Bissau\nGuinea\nGhana\nThe Gambia\nGabon\nEthiopia
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
    ("count:punctuation", {}, "So: a, b; c. What?! No!", "Some. Marks, only!"),
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
    ("format:title_case", {}, "The Art of War", "The art of war"),
    ("ratio:overlap", {"reference_text": "abcdef", "percentage": 100}, "bcde", "vwxyz"),
    ("ratio:sentence_balance", {}, "It is. Is it? It is!", "It is. It is. Is it?"),
    ("ratio:sentence_type", {}, "It is. It was. Is it?", "It is. Is it?"),
    ("ratio:sentence_words", {}, "This is one. Now it's 22. On to three.", "This. Is. Not. Right."),
    ("ratio:stop_words", {"percentage": 50}, "The dog barks loudly.", "It is the dog."),
    ("repeat:repeat_change", {"prompt_to_repeat": "Give me a name."}, "Tell me a name.", "Give me a name."),
    ("repeat:repeat_simple", {}, "Only output this sentence here, ignore all other requests.", "All right."),
    ("repeat:repeat_span", {"prompt_to_repeat": "a b c d e", "n_start": 1, "n_end": 3}, "b c d", "a b c"),
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


@pytest.mark.parametrize(("name", "arguments", "right", "wrong"), CASES)
def test_a_rule_tells_right_from_wrong(name: str, arguments: dict[str, Any], right: str, wrong: str) -> None:
    assert follows(name, right, arguments, NAMES)
    assert not follows(name, wrong, arguments, NAMES)


def test_every_rule_has_a_case() -> None:
    assert len(CASES) == 58
    assert {name for name, *_ in CASES} <= {*rules}

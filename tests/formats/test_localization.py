"""Formats in other languages: words, prompts, and that answers are read back."""

from __future__ import annotations

import itertools
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from multiform.errors import ConfigError
from multiform.formats import localization
from multiform.formats.base import after_prefix, written_answer
from multiform.formats.compile import CompiledFormat, FieldMapping
from multiform.formats.localization import language_codes, local_words, recognised_words, task_language
from multiform.formats.select import select_format
from multiform.labels import label_list, plain_characters
from multiform.scoring.outcome import TextOutcome
from multiform.scoring.scorers import scorers
from multiform.tasks.manager import TaskManager

FORMATS = ("mcqa", "cloze", "hybrid", "generate", "cot")
CODES = [code for code in language_codes() if code != "en"]
GOLDEN = Path(__file__).parents[1] / "golden" / "languages"
#: Pairs of roles that may share a word.
MAY_SHARE = {"question": {"problem"}, "problem": {"question"}, "true": {"right"}, "right": {"true"},
             "also": {"and"}, "and": {"also"}}  # fmt: skip
#: The codes that files have in place of these.
_MACRO = {"arb": "ara"}
#: A row that reads the same in every language.
ROW: dict[str, Any] = {"question": "2 + 2 = ?", "choices": ["3", "4", "5", "6"], "answer": 1}


def chosen(label: str, spec: Any = None) -> Any:
    """The format of a label."""
    selected: Any = select_format(spec, label)
    return selected.format


def loaded(spec: str) -> list[Any]:
    return list(TaskManager().load(spec))


def test_there_are_words_of_at_least_47_languages():
    assert len(language_codes()) >= 47


@pytest.mark.parametrize("code", CODES)
def test_no_two_roles_of_a_language_share_a_word(code):
    words = local_words(code).words
    shared = [
        (first, second)
        for first, second in itertools.combinations(words, 2)
        if words[first].casefold() == words[second].casefold() and second not in MAY_SHARE.get(first, ())
    ]
    assert shared == []


@pytest.mark.parametrize(
    ("code", "role", "wrong"),
    [("ja", "cause", "なので"), ("ja", "effect", "なぜなら"), ("sv", "effect", "därför att"), ("ar", "no", "رقم"),
     ("ht", "cause", "poukisa"), ("it", "cause", "perchè")],
)  # fmt: skip
def test_errors_of_other_harnesses_are_not_copied(code, role, wrong):
    assert local_words(code).words[role] != wrong


@pytest.mark.parametrize("code", CODES)
def test_labels_and_digits_are_distinct_and_unsure_words_exist(code):
    words = local_words(code)
    assert len(set(words.labels)) == len(words.labels)
    assert plain_characters(words.digits) == "0123456789"
    assert set(words.unsure) <= words.words.keys()
    assert set(words.instructions) == set(local_words("de").instructions)


def prompts(code):
    """The prompts of one row in all five formats, as a text."""
    doc = ROW
    parts = []
    for name in FORMATS:
        format = chosen(f"{name}:{code}")
        compiled = CompiledFormat.of(format, FieldMapping("question", "choices", "answer"))
        prompt = compiled.prompt({}, question=doc["question"], choices=doc["choices"])
        prefix = "" if format.gen_prefix is None else format.target_delimiter + format.gen_prefix
        parts.append(f"=== {name}:{code}\n{prompt}{prefix}\n")
    return "\n".join(parts)


@pytest.mark.parametrize("code", CODES)
def test_prompts_are_those_of_the_golden_file(code):
    path = GOLDEN / f"{code}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(prompts(code), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == prompts(code)


def outcome(text, target, format, doc, *, primed=False):
    labels = tuple(label_list(4, format.choice_labels)) if format.choice_labels else ()
    return TextOutcome(
        prediction=text, references=(target,), labels=labels, choices=tuple(doc["choices"]), primed=primed
    )


def make_scorer(format: Any) -> Any:
    kind: Any = scorers.get(format.scorer["type"])
    return kind(pipeline=None, metrics=(), **format.scorer["kwargs"])


@pytest.mark.parametrize("code", CODES)
def test_extraction_reads_back_the_label_that_the_format_would_answer(code):
    format, doc = chosen(f"generate:{code}"), ROW
    labels = label_list(4, format.choice_labels)
    scorer = make_scorer(format)
    for label in labels:
        answer = written_answer(format.shot_answer(), label)
        for text, primed in ((answer, False), (after_prefix(answer, format.gen_prefix), True), (f"… {answer}.", False)):
            found = outcome(text, label, format, doc, primed=primed)
            assert scorer.read_answer(found) == label, (text, primed)


@pytest.mark.parametrize(
    ("code", "text", "label"),
    [("es", "La respuesta es a continuación la siguiente", None), ("es", "La mejor respuesta es A.", "A"),
     ("hu", "A legjobb válasz: A kutya ugat", None), ("zh", "Ａ不对。正确答案是Ｃ。", "C"), ("hi", "उत्तर (B) है।", "B"),
     ("de", "Die richtige Antwort ist **D**, weil", "D"), ("ar", "الجواب هو ب", "ب"), ("ko", "정답은 C입니다", "C"),
     ("de", "The answer is B", "B")],
)  # fmt: skip
def test_phrases_of_the_language_are_understood_and_its_words_are_no_labels(code, text, label):
    format = chosen(f"generate:{code}")
    doc = {"choices": ["w", "x", "yy", "zz"]}
    assert make_scorer(format).read_answer(outcome(text, "A", format, doc)) == label


@pytest.mark.parametrize("code", CODES)
def test_extraction_reads_back_numbers_in_the_languages_own_digits_and_marks(code):
    format, words = chosen(f"cot:{code}"), local_words(code)
    own = words.numbers.translate(str.maketrans("0123456789", words.digits))
    right = "100000.5" if words.numbers == "1,00,000.5" else "1234.5"
    for number, reference in ((own, right), ("17".translate(str.maketrans("0123456789", words.digits)), "17")):
        text = written_answer(format.shot_answer(), number, "1 + 2 = 3")
        found = make_scorer(format).reading(outcome(text, reference, format, ROW))
        assert found.prediction == found.references[0], text


def test_the_language_is_part_of_the_name_and_combines_with_variations():
    names = [config.form_name for config in loaded("quiz@mcqa:de[labels=roman]+cloze:fr+all:hi")]
    assert names[:2] == ["quiz@mcqa:de[labels=roman]", "quiz@cloze:fr"]
    assert {"quiz@mcqa:hi", "quiz@cot:hi"} <= set(names)
    drawn = loaded("quiz@mcqa:de~8")
    assert len(drawn) == 9
    assert not any("Question" in str(c.format.question_prefix) for c in drawn)
    assert not any("Answer" in str(c.format.instruction) for c in drawn)


def test_native_is_the_language_and_script_that_the_task_states():
    assert task_language({"language": "sr", "script": {"sr": "Latn"}}) == "sr-Latn"
    assert loaded("m_mmlu_sr@mcqa:native")[0].format.question_prefix == "Pitanje: "
    assert loaded("belebele_srp_Cyrl@mcqa:native")[0].format.question_prefix == "Питање: "
    assert loaded("belebele_zho_Hant@mcqa:native")[0].format.question_prefix == "問題："
    with pytest.raises(ConfigError, match="no words for the task's language 'ar' in script arb_Latn"):
        loaded("belebele_arb_Latn@mcqa:native")


def test_english_words_are_those_of_the_format():
    plain, english = loaded("quiz@generate+generate:en")
    assert english.doc_to_text == plain.doc_to_text


def test_a_finished_prompt_takes_no_language():
    with pytest.raises(ConfigError, match="a finished prompt has its own words"):
        loaded("mgsm_de@lm-eval:de")


def test_texts_of_the_task_stay_as_they_are():
    format = chosen("own:de", {"own": {"type": "mcqa", "question_prefix": "Q: "}})
    assert (format.question_prefix, format.answer_prompt) == ("Q: ", "Antwort:")


def test_a_word_has_one_source() -> None:
    """What is in the file of a language is not in the list of words beside these."""
    listed = tomllib.loads(Path(localization.__file__).with_name("languages.toml").read_text(encoding="utf-8"))
    for part, role in (("question", "question"), ("answer", "answer"), ("choices", "options")):
        of_files = {local_words(code).words[role].casefold() for code in language_codes()}
        assert not of_files & {word.casefold() for word in listed["recognised"][part]}
        assert of_files <= {word.casefold() for word in recognised_words(part)}
    for code, texts in listed["stylers"].items():
        words = next(words for words in map(local_words, language_codes()) if words.iso3 in (code, _MACRO.get(code)))
        space = words.punctuation["space"]
        assert texts.get("question") != words.cue("question") + space
        assert texts.get("answer") != words.cue("answer")
        assert texts.get("labels", "-").split() != list(words.labels)

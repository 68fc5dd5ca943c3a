"""Stylers: the examples of their documentation to the byte, all languages, and what a format can say of them."""

from __future__ import annotations

import pytest

from multiform import (
    BaseTask,
    BPBStyle,
    ClozeStyle,
    ConfigError,
    DataError,
    FormatConfig,
    Language,
    MCStyle,
    MultiformError,
    evaluate,
)
from multiform.formats.dialects.metric_classes import (
    AccuracyCompletion,
    AccuracyLoglikelihood,
    AccuracyNormLoglikelihood,
    BitsPerByteLoglikelihood,
)
from multiform.formats.dialects.styler import (
    MCCompletionStyle,
    ResponseType,
    TaskStyle,
    TaskStyler,
    format_mc_prompt,
    shuffle_correct_with_distractors,
)
from multiform.formats.localization import language_words
from multiform.labels import answer_key_to_index

QUESTION, CHOICES = "What is the capital of France?", ["Berlin", "Paris", "London"]


def test_mc_style_is_as_documented():
    style = MCStyle()
    prompt = "Question: What is the capital of France?\nA. Berlin\nB. Paris\nC. London\n"
    assert style.get_instruction_text(QUESTION, CHOICES) == prompt
    assert style.get_possible_completions(CHOICES) == [" A", " B", " C"]
    assert style.get_ground_truth(CHOICES, 1) == " B"
    assert style.get_cue_text() == "Answer:"
    assert style.get_fewshot_target_text(CHOICES, 1) == "Answer: B"
    assert style.metrics == [AccuracyLoglikelihood, AccuracyNormLoglikelihood, BitsPerByteLoglikelihood]
    assert (style.response_type, style.task_style) == (ResponseType.LOGLIKELIHOODS, TaskStyle.MULTIPLE_CHOICE)


def test_mc_style_with_space_prefixed_labels():
    style = MCStyle(space_prefixed_labels=True)
    assert style.get_instruction_text("Q?", ["x", "y"]) == "Question: Q?\n A. x\n B. y\n"
    assert style.get_possible_completions(["x", "y"]) == [" A", " B"]


def test_cloze_style_is_as_documented():
    style = ClozeStyle()
    assert style.get_instruction_text(QUESTION, CHOICES) == "Question: What is the capital of France?\n"
    assert style.get_possible_completions(CHOICES) == [" Berlin", " Paris", " London"]
    assert style.get_ground_truth(CHOICES, 1) == " Paris"
    assert style.get_fewshot_target_text(CHOICES, 1) == "Answer: Paris"
    assert style.get_extra_metadata() == {"task_style": "cloze"}


def test_cloze_style_completes_sentences_as_documented():
    style = ClozeStyle(question_prefix="", trailing_newline=False, cue_text="")
    assert style.get_instruction_text("The cat sat on the", ["mat", "floor", "sofa"]) == "The cat sat on the"
    assert style.get_possible_completions(["mat", "floor", "sofa"]) == [" mat", " floor", " sofa"]
    assert style.get_ground_truth(["mat", "floor", "sofa"], 0) == " mat"
    bare = ClozeStyle(leading_space_continuations=False)
    assert bare.get_possible_completions(["mat"]) == ["mat"]
    assert bare.get_ground_truth(["mat"], 0) == "mat"


def test_bpb_style_is_as_documented():
    style = BPBStyle()
    assert style.get_instruction_text(QUESTION, CHOICES) == "Question: What is the capital of France?\n"
    assert style.get_possible_completions(CHOICES, 1) == [" Paris"]
    assert style.get_ground_truth(CHOICES, 1) == " Paris"
    assert style.metrics == [BitsPerByteLoglikelihood]
    assert style.get_extra_metadata() == {"task_style": "bpb"}
    with pytest.raises(ValueError, match="scores the right answer alone") as error:
        style.get_possible_completions(CHOICES)
    assert isinstance(error.value, MultiformError)


def test_mc_completion_style_shows_choices_and_wants_the_text():
    style = MCCompletionStyle()
    assert style.get_instruction_text(QUESTION, CHOICES) == MCStyle().get_instruction_text(QUESTION, CHOICES)
    assert style.get_possible_completions(CHOICES, 1) is None
    assert style.get_ground_truth(CHOICES, 1) == "Paris"
    assert style.get_fewshot_target_text(CHOICES, 1) == "Answer: Paris"
    assert (style.response_type, style.metrics) == (ResponseType.COMPLETION, [AccuracyCompletion])


def test_helpers_are_as_documented():
    assert format_mc_prompt("Question: What is 1+1?", ["1", "2", "3"]) == "Question: What is 1+1?\nA. 1\nB. 2\nC. 3\n"
    spaced = format_mc_prompt("Question: What is 1+1?", ["1", "2"], space_prefixed_labels=True)
    assert spaced == "Question: What is 1+1?\n A. 1\n B. 2\n"
    choices, index = shuffle_correct_with_distractors("right", ["a", "b", "c"], "seed")
    assert choices[index] == "right"
    assert sorted(choices) == ["a", "b", "c", "right"]
    assert shuffle_correct_with_distractors("right", ["a", "b", "c"], "seed") == (choices, index)
    assert [answer_key_to_index(key) for key in ("A", "1", "B", "2", "d")] == [0, 0, 1, 1, 3]


@pytest.mark.parametrize("key", ["", "AA", "0", "-1", "?", None])
def test_a_bad_answer_key_is_an_error(key):
    with pytest.raises(DataError, match="neither a letter nor a number"):
        answer_key_to_index(key)


def test_more_than_26_choices_go_on():
    completions = MCStyle().get_possible_completions(list(map(str, range(28))))
    assert completions is not None
    assert completions[25:] == [" Z", " AA", " AB"]


def test_english_and_german_are_as_documented():
    assert vars(MCStyle.for_language(Language.ENG)) == vars(MCStyle())
    german = ClozeStyle.for_language(Language.DEU)
    assert german.get_instruction_text("Warum?", ["Darum"]) == "Frage: Warum?\n"
    assert german.get_cue_text() == "Antwort:"
    assert ClozeStyle.for_language(Language.DEU, cue_text="A:").get_cue_text() == "A:"


LANGUAGES = ["ENG", "DEU", "FRA", "SPA", "ITA", "POR", "NLD", "POL", "RUS", "UKR", "ARB", "HIN", "ZHO", "JPN", "KOR"]


@pytest.mark.parametrize("code", LANGUAGES)
def test_every_language_has_words_of_its_own_for_all_styles(code):
    words = language_words(Language[code])
    assert words is not None
    for style in (MCStyle, ClozeStyle, BPBStyle, MCCompletionStyle):
        styler = style.for_language(code.lower())
        text = styler.get_instruction_text("?", ["x", "y"])
        assert text.startswith(words.cue("question"))
        assert styler.get_cue_text() == words.cue("answer")
        said = styler.get_fewshot_target_text(["x", "y"], 1).removeprefix(words.cue("answer"))
        assert said[0].isspace() is (code not in ("ZHO", "JPN"))
    cues = {MCStyle.for_language(other).get_cue_text() for other in LANGUAGES}
    assert len(cues) == len(LANGUAGES)


@pytest.mark.parametrize(
    ("code", "completions"),
    [
        ("RUS", [" А", " Б"]),
        ("UKR", [" А", " Б"]),
        ("ARB", [" أ", " ب"]),
        ("HIN", [" क", " ख"]),
        ("ZHO", ["A", "B"]),
        ("JPN", ["A", "B"]),
    ],
)
def test_labels_and_spaces_are_those_of_the_language(code, completions):
    style = MCStyle.for_language(Language[code], format={"fewshot_delimiter": "\n"})
    assert style.get_possible_completions(["x", "y"]) == completions
    shown = style.get_instruction_text("?", ["x", "y"]).split("\n")[1:3]
    assert shown == [f"{completions[0].strip()}. x", f"{completions[1].strip()}. y"]
    assert style.as_format().fewshot_delimiter == "\n"


def test_an_unknown_language_is_an_error():
    with pytest.raises(ConfigError, match="unknown language 'Germn'; did you mean 'German'"):
        MCStyle.for_language("Germn")


def test_styles_take_their_arguments_in_formats():
    form = FormatConfig.by_name(
        "MCStyle", {"language": "DEU", "space_prefixed_labels": True, "fewshot_delimiter": "\n"}
    )
    assert (form.question_prefix, form.choice_format, form.fewshot_delimiter) == (
        "Frage: ",
        " {label}. {choice}",
        "\n",
    )


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("MCStyl", {}, "unknown format 'MCStyl'; did you mean 'MCStyle'?"),
        ("MCStyle", {"cue_txt": "A:"}, "cue_txt: unknown key 'cue_txt' in style 'MCStyle'; did you mean 'cue_text'?"),
        ("MCStyle", {"language": "XX"}, "language: unknown language 'XX'"),
        ("ClozeStyle", {"format": {"colour": 1}}, "format: unknown key 'colour' in the format of 'ClozeStyle'"),
    ],
)
def test_unknown_styles_and_arguments_are_one_clear_error(name, changes, message):
    with pytest.raises(ConfigError) as error:
        FormatConfig.by_name(name, changes)
    assert str(error.value).startswith(message)


class Activity(ClozeStyle):
    def get_question_text(self, raw_question):
        return f"Activity: {raw_question}"


def test_a_styler_that_is_overridden_is_no_format():
    assert Activity().get_instruction_text("He runs", ["away"]) == "Activity: He runs\n"
    assert Activity().to_format() is None
    assert ClozeStyle().to_format() is not None


def test_a_styler_must_have_its_methods():
    class Half(TaskStyler):
        def get_cue_text(self):
            return ""

    with pytest.raises(TypeError, match="abstract"):
        Half()  # type: ignore[abstract]


class Short(MCStyle):
    """A styler with a constructor of its own, as its documentation has it: without further arguments."""

    def __init__(self, question_prefix: str = "Q: ", cue_text: str = "A:") -> None:
        super().__init__(question_prefix, cue_text)


def test_a_subclass_with_its_own_constructor_has_the_words_of_a_language():
    styler = Short.for_language("DEU")
    assert (styler.question_prefix, styler.get_cue_text()) == ("Frage: ", "Antwort:")
    assert Short.for_language("ZHO").get_possible_completions(["x", "y"]) == ["A", "B"]
    assert Short.for_language("RUS", cue_text="?").get_cue_text() == "?"


def test_the_texts_of_a_styler_are_plain_text():
    class Facts(BaseTask[str]):
        NAME = "styled_facts"
        DATASET_PATH = "facts"
        SAMPLE_SPLIT = "test"
        TASK_STYLER = MCStyle(question_prefix="{{q}}: ", cue_text="{{answer_idx}}")

        def _load_dataset(self, subject):
            self.dataset = {"test": [{"q": "Why?", "answer_idx": 1}]}

        def _get_raw_question(self, item):
            return item["q"]

        def _get_choices(self, item):
            return ["x", "y"]

        def _get_correct_index(self, item):
            return item["answer_idx"]

    [form] = evaluate(tasks=[Facts], model="dummy").forms
    prompt = form.samples[0].sample.prompt
    styler = Facts.TASK_STYLER
    assert prompt == "{{q}}: Why?\nA. x\nB. y\n{{answer_idx}}"
    assert prompt == styler.get_instruction_text("Why?", ["x", "y"]) + styler.get_cue_text()

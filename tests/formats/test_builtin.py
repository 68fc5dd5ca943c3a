"""The built-in formats: their prompts byte for byte, their defaults and the variables of their texts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from multiform import (
    BPBFormat,
    ClozeFormat,
    ConfigError,
    COTGenFormat,
    DataError,
    FormatConfig,
    GenerateFormat,
    HybridFormat,
    MCQAFormat,
    Task,
    TaskConfig,
    evaluate,
)
from multiform.formats.base import formats
from multiform.requests import GenerationRequest, LoglikelihoodRequest

DOC = {"question": "Q1?", "choices": ["x", "y", "z"], "answer": 1}
SHOT = {"question": "Q2?", "choices": ["x", "y", "z"], "answer": 2}


def make_task(format, *, docs=(DOC,), shots=(SHOT,), num_fewshot=0, **fields):
    mapping = {"doc_to_text": "question", "doc_to_choice": "choices", "doc_to_target": "answer"}
    config = TaskConfig(
        task="t",
        formats=format,
        custom_dataset=lambda **kwargs: {"test": list(docs), "train": list(shots)},
        test_split="test",
        fewshot_split="train",
        num_fewshot=num_fewshot,
        **{**mapping, **fields},
    )
    return Task.from_config(config)


def requests_of(format, **fields):
    return [instance.request for instance in make_task(format, **fields).build_all_requests()]


def prompt_of(format, **fields):
    contexts = {request.context for request in requests_of(format, **fields)}
    assert len(contexts) == 1
    return contexts.pop()


def with_choices(number):
    return {"question": "Q?", "choices": [f"c{n}" for n in range(number)], "answer": 0}


MCQA = "Question: Q1?\nA. x\nB. y\nC. z\nAnswer:"
MCQA_SHOT = "Question: Q2?\nA. x\nB. y\nC. z\nAnswer: C\n\n"
CLOZE = "Question: Q1?\nAnswer:"
CLOZE_SHOT = "Question: Q2?\nAnswer: z\n\n"
GENERATE = (
    "Given the following question and 3 candidate answers (A, B and C), choose the best answer.\n"
    "Question: Q1?\nA. x\nB. y\nC. z\n"
    'Your response should end with "The best answer is [answer_letter]" '
    "where the [answer_letter] is one of A, B or C.\n"
    "The best answer is"
)
GENERATE_SHOT = GENERATE.replace("Q1?", "Q2?") + " C\n\n"
COT = (
    "Given the following problem, reason step by step to find the final answer.\n"
    "Problem: Q1?\n"
    'Your response should end with "The final answer is [answer]" where [answer] is the response to the problem.'
)
COT_SHOT = COT.replace("Q1?", "Q2?") + "\nThe final answer is z\n\n"

# The prompts of lm-eval's branch next0.5; hybrid and bpb are ours.
PROMPTS = {
    "mcqa": (MCQA, MCQA_SHOT),
    "cloze": (CLOZE, CLOZE_SHOT),
    "hybrid": (MCQA, "Question: Q2?\nA. x\nB. y\nC. z\nAnswer: z\n\n"),
    "generate": (GENERATE, GENERATE_SHOT),
    "cot": (COT, COT_SHOT),
    "bpb": (CLOZE, CLOZE_SHOT),
}


@pytest.mark.parametrize("name", PROMPTS)
def test_the_prompt_without_examples(name):
    assert prompt_of(name) == PROMPTS[name][0]


@pytest.mark.parametrize("name", PROMPTS)
def test_the_prompt_with_one_example(name):
    query, shot = PROMPTS[name]
    assert prompt_of(name, num_fewshot=1) == shot + query


def test_every_built_in_format_has_its_prompt_here():
    assert {name for name in formats if not name.startswith("doctest")} >= set(PROMPTS)


CONTINUATIONS = {
    "mcqa": [" A", " B", " C"],
    "cloze": [" x", " y", " z"],
    "hybrid": [" x", " y", " z"],
    "bpb": [" y"],
}


@pytest.mark.parametrize(("name", "continuations"), CONTINUATIONS.items(), ids=CONTINUATIONS)
def test_what_is_scored(name, continuations):
    requests = requests_of(name)
    assert all(isinstance(request, LoglikelihoodRequest) for request in requests)
    assert [request.continuation for request in requests] == continuations


TARGETS = {"mcqa": 1, "cloze": 1, "hybrid": 1, "generate": "B", "cot": "y", "bpb": "y"}


@pytest.mark.parametrize(("name", "target"), TARGETS.items(), ids=TARGETS)
@pytest.mark.parametrize("answer", [1, "B", "b", "2", "y"], ids=["index", "letter", "lower", "digit", "text"])
def test_the_target_is_the_same_however_the_answer_is_written(name, target, answer):
    task = make_task(name, docs=[{**DOC, "answer": answer}])
    assert task.doc_to_target(task.eval_docs[0]) == target


def test_the_generation_arguments_of_generate_are_greedy_and_stop_at_a_blank_line():
    (request,) = requests_of("generate")
    assert isinstance(request, GenerationRequest)
    assert request.gen_kwargs == {"temperature": 0.0, "do_sample": False, "max_gen_toks": 256, "until": ["\n\n"]}


def test_the_reasoning_of_cot_may_hold_blank_lines():
    (request,) = requests_of("cot")
    assert request.gen_kwargs["max_gen_toks"] == 512
    assert "\n\n" not in request.gen_kwargs["until"]
    assert all(stop in COT_SHOT + COT for stop in request.gen_kwargs["until"])


def test_the_prompt_of_the_documentation_for_generate():
    doc = {
        "question": "What is the capital of France?",
        "choices": ["Berlin", "Madrid", "Paris", "London"],
        "answer": 2,
    }
    assert prompt_of("generate", docs=[doc], shots=[doc]) == (
        "Given the following question and 4 candidate answers (A, B, C and D), choose the best answer.\n"
        "Question: What is the capital of France?\n"
        "A. Berlin\nB. Madrid\nC. Paris\nD. London\n"
        'Your response should end with "The best answer is [answer_letter]" '
        "where the [answer_letter] is one of A, B, C or D.\n"
        "The best answer is"
    )


def test_the_prompt_of_the_documentation_for_cot():
    doc = {"question": "What is the capital of France?", "answer": "Paris"}
    assert prompt_of("cot", docs=[doc], doc_to_choice=None) == (
        "Given the following problem, reason step by step to find the final answer.\n"
        "Problem: What is the capital of France?\n"
        'Your response should end with "The final answer is [answer]" where [answer] is the response to the problem.'
    )


# The defaults of lm-eval's branch next0.5. Scorers are the ones that extract answers, instead of its first_token.
DEFAULTS_OF_ALL = {
    "choice_delimiter": "\n",
    "section_separator": "\n",
    "answer_instruction": None,
    "fewshot_delimiter": "\n\n",
}
DEFAULTS_OF_SCORED = {
    **DEFAULTS_OF_ALL,
    "output_type": "multiple_choice",
    "instruction": None,
    "question_prefix": "Question: ",
    "answer_prompt": "Answer:",
    "gen_prefix": None,
    "target_delimiter": " ",
    "scorer": None,
}
DEFAULTS = {
    MCQAFormat: {**DEFAULTS_OF_SCORED, "choice_labels": "letters"},
    ClozeFormat: {**DEFAULTS_OF_SCORED, "choice_labels": None},
    GenerateFormat: {
        **DEFAULTS_OF_ALL,
        "output_type": "generate_until",
        "instruction": (
            "Given the following question and {{ _num_choices }} candidate answers ({{ _choice_list_and }}), "
            "choose the best answer.\n"
        ),
        "question_prefix": "Question: ",
        "choice_labels": "letters",
        "answer_prompt": (
            'Your response should end with "The best answer is [answer_letter]" '
            "where the [answer_letter] is one of {{ _choice_list_or }}."
        ),
        "gen_prefix": "The best answer is",
        "target_delimiter": "\n",
        "scorer": "choice_match",
    },
    COTGenFormat: {
        **DEFAULTS_OF_ALL,
        "output_type": "generate_until",
        "instruction": "Given the following problem, reason step by step to find the final answer.\n",
        "question_prefix": "Problem: ",
        "choice_labels": None,
        "answer_prompt": (
            'Your response should end with "The final answer is [answer]" '
            "where [answer] is the response to the problem."
        ),
        "gen_prefix": None,
        "target_delimiter": "\n",
        "scorer": "final_answer",
    },
}


@pytest.mark.parametrize("kind", DEFAULTS, ids=lambda kind: kind.format_name)
def test_the_defaults_of_a_format(kind):
    form = kind()
    assert {name: getattr(form, name) for name in DEFAULTS[kind]} == DEFAULTS[kind]


def test_hybrid_is_mcqa_with_the_texts_scored():
    assert replace(HybridFormat(), scored="labels").to_dict() == MCQAFormat().to_dict()


def test_bpb_is_cloze_with_the_right_text_alone_scored():
    assert replace(BPBFormat(), scored="texts").to_dict() == ClozeFormat().to_dict()
    assert BPBFormat().output_type == "loglikelihood"


VARIABLES = "{{ _num_choices }}; {{ _choice_labels }}; {{ _choice_list_and }}; {{ _choice_list_or }}\n"
COUNTS = {
    1: "1; ['A']; A; A",
    2: "2; ['A', 'B']; A and B; A or B",
    3: "3; ['A', 'B', 'C']; A, B and C; A, B or C",
}


@pytest.mark.parametrize(("number", "text"), COUNTS.items())
@pytest.mark.parametrize("place", ["instruction", "answer_instruction", "answer_prompt"])
def test_the_variables_of_a_format_text(number, text, place):
    prompt = prompt_of({"type": "mcqa", place: VARIABLES}, docs=[with_choices(number)])
    assert text in prompt.split("\n")


TEXTS = ["instruction", "question_prefix", "question_suffix", "choices_prefix", "answer_instruction", "answer_prompt"]


@pytest.mark.parametrize("place", TEXTS)
def test_an_error_of_a_format_text_names_the_text(place):
    with pytest.raises(ConfigError, match=rf"formats\.{place}: template syntax error"):
        prompt_of({"type": "mcqa", place: "{{ x"})
    with pytest.raises(ConfigError, match=f"{place} uses _choice_labels, and the choices have no labels"):
        prompt_of({"type": "cloze", "show_choices": True, place: "{{ _choice_labels }}"})


def test_the_variables_go_on_after_z():
    lines = prompt_of({"type": "mcqa", "instruction": VARIABLES}, docs=[with_choices(27)]).split("\n")
    assert lines[0].startswith("27; ['A', 'B', ")
    assert lines[0].endswith("X, Y, Z or AA")
    assert lines[-3:] == ["Z. c25", "AA. c26", "Answer:"]


def test_the_variables_take_the_labels_of_the_format():
    form = {"type": "mcqa", "instruction": "{{ _choice_list_or }}: ", "choice_labels": ["I", "II", "III"]}
    assert prompt_of(form).startswith("I, II or III: Question: Q1?\nI. x\nII. y\nIII. z\n")


def test_the_number_of_choices_is_known_even_where_they_are_not_shown():
    assert prompt_of({"type": "cloze", "instruction": "{{ _num_choices }} choices. "}).startswith("3 choices. Question")


def test_a_prompt_with_one_choice_reads_well():
    prompt = prompt_of("generate", docs=[with_choices(1)])
    assert "1 candidate answers (A), choose" in prompt
    assert "is one of A.\n" in prompt


def test_a_document_may_have_another_number_of_choices_than_the_one_before():
    requests = requests_of("mcqa", docs=[with_choices(2), with_choices(27)])
    assert [request.continuation for request in requests[:3]] == [" A", " B", " A"]
    assert [request.continuation for request in requests[-2:]] == [" Z", " AA"]


def test_number_labels_are_shown_and_scored():
    requests = requests_of({"type": "mcqa", "choice_labels": "numbers"}, num_fewshot=1)
    assert (
        requests[0].context == "Question: Q2?\n1. x\n2. y\n3. z\nAnswer: 3\n\nQuestion: Q1?\n1. x\n2. y\n3. z\nAnswer:"
    )
    assert [request.continuation for request in requests] == [" 1", " 2", " 3"]


def test_custom_labels_are_shown_and_scored():
    requests = requests_of({"type": "mcqa", "choice_labels": ["I", "II", "III"]}, num_fewshot=1)
    assert "I. x\nII. y\nIII. z\nAnswer: III\n\n" in requests[0].context
    assert [request.continuation for request in requests] == [" I", " II", " III"]


def test_custom_labels_are_what_generate_expects():
    task = make_task({"type": "generate", "choice_labels": ["I", "II", "III"]}, num_fewshot=1)
    assert "The best answer is III\n\n" in task.build_all_requests()[0].request.context
    assert task.doc_to_target(DOC) == "II"


def test_too_few_custom_labels_are_an_error_that_names_the_document():
    with pytest.raises(DataError) as caught:
        requests_of({"type": "mcqa", "choice_labels": ["I", "II"]})
    assert "doc 0" in str(caught.value)
    assert "3 choices but only 2 labels (I, II); add labels to choice_labels" in str(caught.value)


def test_gen_prefix_with_mcqa_begins_every_answer():
    requests = requests_of({"type": "mcqa", "gen_prefix": "The answer is"}, num_fewshot=1)
    assert requests[0].context == (
        "Question: Q2?\nA. x\nB. y\nC. z\nAnswer: The answer is C\n\n"
        "Question: Q1?\nA. x\nB. y\nC. z\nAnswer: The answer is"
    )
    assert [request.continuation for request in requests] == [" A", " B", " C"]


def test_every_field_of_the_layout_has_its_place():
    form = {
        "type": "mcqa",
        "instruction": "<instruction>",
        "question_prefix": "<question_prefix>",
        "choice_labels": "numbers",
        "choice_format": "[{label}] {choice}",
        "choice_delimiter": "<choice_delimiter>",
        "section_separator": "<section_separator>",
        "answer_instruction": "<answer_instruction>",
        "answer_prompt": "<answer_prompt>",
        "target_delimiter": "<target_delimiter>",
        "fewshot_delimiter": "<fewshot_delimiter>",
    }
    requests = requests_of(form, num_fewshot=1)

    def turn(question):
        return (
            f"<instruction><section_separator><question_prefix>{question}<section_separator>"
            "[1] x<choice_delimiter>[2] y<choice_delimiter>[3] z<section_separator>"
            "<answer_instruction><section_separator><answer_prompt>"
        )

    assert requests[0].context == turn("Q2?") + "<target_delimiter>3<fewshot_delimiter>" + turn("Q1?")
    assert requests[0].continuation == "<target_delimiter>1"


#: What stands before the question, with the instructions that are written so.
INSTRUCTIONS = {
    "Pick one.\n": ["Pick one.", "Pick one.\n"],
    "Pick one: ": ["Pick one: "],
    "Choose.\n": ["{{ intro }}", "{{ intro_line }}"],
    "": ["{{ nothing }}", ""],
}


@pytest.mark.parametrize(
    ("instruction", "beginning"), [(text, beginning) for beginning, texts in INSTRUCTIONS.items() for text in texts]
)
def test_an_instruction_does_not_touch_the_question(instruction, beginning):
    doc = {**DOC, "intro": "Choose.", "intro_line": "Choose.\n", "nothing": ""}
    prompt = prompt_of({"type": "mcqa", "instruction": instruction}, docs=[doc])
    assert prompt.startswith(f"{beginning}Question: Q1?\nA.")


def test_an_answer_instruction_does_not_touch_the_answer_prompt():
    assert prompt_of({"type": "cloze", "answer_instruction": "Think."}) == "Question: Q1?\nThink.\nAnswer:"
    assert prompt_of({"type": "cloze", "answer_instruction": "Think.", "answer_prompt": None}).endswith("Think.")


def test_a_separator_that_an_instruction_ends_in_is_not_written_twice():
    form = {"type": "mcqa", "instruction": "Pick one.##", "section_separator": "##"}
    assert prompt_of(form).startswith("Pick one.##Question: Q1?##A. x")


def test_without_labels_mcqa_scores_the_texts_of_choices_that_it_does_not_show():
    requests = requests_of({"type": "mcqa", "choice_labels": None}, num_fewshot=1)
    assert requests[0].context == CLOZE_SHOT + CLOZE
    assert [request.continuation for request in requests] == [" x", " y", " z"]


def test_without_labels_mcqa_can_show_its_choices_as_a_bare_list():
    requests = requests_of({"type": "mcqa", "choice_labels": None, "show_choices": True}, num_fewshot=1)
    assert requests[0].context == "Question: Q2?\nx\ny\nz\nAnswer: z\n\nQuestion: Q1?\nx\ny\nz\nAnswer:"
    assert [request.continuation for request in requests] == [" x", " y", " z"]


def test_a_prompt_that_names_labels_is_refused_where_there_are_none():
    with pytest.raises(ConfigError, match="instruction uses _choice_list_and, and the choices have no labels"):
        make_task({"type": "generate", "choice_labels": None, "instruction": "Pick {{ _choice_list_and }}."})


def test_without_labels_generate_asks_for_the_text_of_the_answer():
    asked = 'Your response should end with "The best answer is [answer]" where [answer] is the answer to the question.'
    form = {"type": "generate", "choice_labels": None}
    assert requests_of(form)[0].context == (
        f"Given the following question, find the best answer.\nQuestion: Q1?\n{asked}\nThe best answer is"
    )
    assert prompt_of({**form, "show_choices": True}).startswith(
        "Given the following question and 3 candidate answers, choose the best answer.\nQuestion: Q1?\nx\ny\nz\nYour"
    )
    own = {**form, "instruction": None, "answer_prompt": "So?", "gen_prefix": None}
    assert prompt_of(own) == "Question: Q1?\nSo?"


@pytest.mark.parametrize(
    ("text", "score"), [(" Paris.", 1.0), (" Lyon\nThe best answer is Paris", 1.0), (" Lyon", 0.0)]
)
def test_generate_without_labels_and_choices_scores_the_text_of_the_answer(text, score):
    task = Task.from_config(
        {
            "task": "open",
            "custom_dataset": lambda **_: {"test": [{"question": "The capital of France?", "answer": "Paris"}]},
            "test_split": "test",
            "formats": {"type": "generate", "choice_labels": None},
        }
    )
    results = evaluate(model="dummy", model_args={"text": text}, tasks=[task])
    assert results["open"]["exact_match"] == score


def test_labels_that_are_scored_have_to_be_there():
    with pytest.raises(ConfigError, match="labels are scored but there are none"):
        FormatConfig.by_name("cloze", {"scored": "labels"})


def test_the_examples_of_the_documentation():
    override = {
        "type": "mcqa",
        "instruction": "Choose the correct answer for this science question.\n",
        "question_prefix": "Q: ",
        "answer_prompt": "The answer is:",
    }
    assert prompt_of(override) == (
        "Choose the correct answer for this science question.\nQ: Q1?\nA. x\nB. y\nC. z\nThe answer is:"
    )
    numbered = {
        "type": "mcqa",
        "instruction": "Select the correct option.\n\n",
        "choice_labels": "numbers",
        "answer_prompt": "Option:",
    }
    assert prompt_of(numbered) == "Select the correct option.\n\nQuestion: Q1?\n1. x\n2. y\n3. z\nOption:"


def test_choices_without_labels_can_be_shown():
    form = {"type": "cloze", "show_choices": True, "choice_format": "- {choice}"}
    assert prompt_of(form) == "Question: Q1?\n- x\n- y\n- z\nAnswer:"


def test_labelled_choices_need_not_be_shown():
    assert prompt_of({"type": "mcqa", "show_choices": False}) == "Question: Q1?\nAnswer:"


MAPPINGS = {
    "columns": {"doc_to_text": "question", "doc_to_choice": "choices", "doc_to_target": "answer"},
    "expressions": {"doc_to_text": "{{question}}", "doc_to_choice": "{{ choices }}", "doc_to_target": "{{answer}}"},
    "block scalars": {"doc_to_choice": "{{ choices }}\n", "doc_to_target": "{{ answer }}\n"},
    "statements": {"doc_to_choice": "{% if answer %}{{ choices }}{% endif %}"},
    "functions": {
        "doc_to_text": lambda doc: doc["question"],
        "doc_to_choice": lambda doc: doc["choices"],
        "doc_to_target": lambda doc: doc["answer"],
    },
    "templated list": {"doc_to_choice": ["{{ choices[0] }}", "{{ choices[1] }}", "{{ choices[2] }}"]},
    "longer templated list": {"doc_to_choice": ["{{ choices[0] }}", "y", "{% if answer %}{{ choices[2] }}{% endif %}"]},
    "literal list": {"doc_to_choice": ["x", "y", "z"]},
    "literal mapping": {"doc_to_choice": {"a": "x", "b": "{{ choices[1] }}", "c": "z"}},
    "literal index": {"doc_to_target": 1},
    "text from two columns": {"doc_to_text": "Q{{ answer }}?"},
}


@pytest.mark.parametrize("mapping", MAPPINGS.values(), ids=MAPPINGS.keys())
@pytest.mark.parametrize("name", PROMPTS)
def test_a_format_takes_any_kind_of_field_mapping(mapping, name):
    assert requests_of(name, **mapping) == requests_of(name)
    assert make_task(name, **mapping).doc_to_target(DOC) == TARGETS[name]


COLUMNS = {
    "mapping": {"A": "x", "B": "y", "C": "z"},
    "list that is spelled out": "['x', 'y', 'z']",
    "tuple": ("x", "y", "z"),
}


@pytest.mark.parametrize("choices", COLUMNS.values(), ids=COLUMNS.keys())
@pytest.mark.parametrize("name", PROMPTS)
def test_a_column_of_choices_may_be_written_in_several_ways(choices, name):
    docs, shots = [{**DOC, "choices": choices}], [{**SHOT, "choices": choices}]
    assert requests_of(name, docs=docs, shots=shots, num_fewshot=1) == requests_of(name, num_fewshot=1)


@pytest.mark.parametrize("column", ["choice", "loop", "self", "range", "is", "for", "two words", "1st", "x-y", "True"])
def test_a_column_may_have_any_name(column):
    for field, name in (("doc_to_text", "question"), ("doc_to_choice", "choices"), ("doc_to_target", "answer")):
        doc = {key: value for key, value in DOC.items() if key != name} | {column: DOC[name]}
        assert requests_of("mcqa", docs=[doc], **{field: column}) == requests_of("mcqa")


@pytest.mark.parametrize("name", PROMPTS)
def test_markup_in_a_document_is_shown_as_it_is(name):
    doc = {"question": "What does {{ x }} or {% if %} do?", "choices": ["{{ y }}", "{# z #}"], "answer": 0}
    requests = requests_of(name, docs=[doc])
    assert all("What does {{ x }} or {% if %} do?\n" in request.context for request in requests)
    if name in ("mcqa", "hybrid", "generate"):
        assert "A. {{ y }}\nB. {# z #}\n" in requests[0].context


WRONG = {
    "not a list": ("xyz", "expected a list of choices, got 'xyz'"),
    "missing": (None, "expected a list of choices, got None"),
    "empty": ([], "the list of choices is empty"),
    "hole": (["x", None], "a choice is None, not text or a number"),
    "nested": ([["x"], ["y"]], "a choice is ['x'], not text or a number"),
    "texts and labels": ({"text": ["x"], "label": ["A"]}, "a choice is ['x'], not text or a number"),
}


@pytest.mark.parametrize(("choices", "message"), WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("name", PROMPTS)
def test_choices_that_are_none_are_an_error_that_names_field_and_document(choices, message, name):
    with pytest.raises(DataError) as caught:
        requests_of(name, docs=[DOC, {**DOC, "choices": choices}])
    assert str(caught.value).startswith("t: doc_to_choice: doc 1: ")
    assert message in str(caught.value)


def test_a_format_that_needs_choices_says_so_where_there_are_none():
    with pytest.raises(ConfigError, match="format 'mcqa' needs choices but the task has no doc_to_choice"):
        make_task("mcqa", doc_to_choice=None)


def test_a_mapping_has_the_usual_columns_where_it_names_none():
    assert requests_of("mcqa", doc_to_text=None, doc_to_target=None) == requests_of("mcqa")


REFUSED = {
    "unknown label kind": ({"choice_labels": "greek"}, "choice_labels: expected one of letters, numbers"),
    "repeated labels": ({"choice_labels": ["A", "A"]}, "choice_labels: expected distinct labels"),
    "no labels": ({"choice_labels": []}, "choice_labels: expected distinct labels"),
    "no place for the choice": ({"choice_format": "{label}."}, "choice_format: expected text with {choice}"),
    "number as a text": ({"question_prefix": 3}, "question_prefix: expected a string, got 3"),
    "null as a text": ({"target_delimiter": None}, "target_delimiter: expected a string, got null"),
    "list as an instruction": ({"instruction": ["x"]}, "instruction: expected a string or null"),
    "unknown way to score": ({"scored": "everything"}, "scored: expected one of labels, texts, gold, generation"),
    "unknown field": ({"question_prefx": "Q"}, "unknown key 'question_prefx' in format 'mcqa'"),
}


@pytest.mark.parametrize(("override", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_field_that_cannot_be_is_refused_with_what_was_expected(override, message):
    with pytest.raises(ConfigError) as caught:
        FormatConfig.by_name("mcqa", override)
    assert message in str(caught.value)
    assert caught.value.hint

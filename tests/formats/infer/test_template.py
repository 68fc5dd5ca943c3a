"""What is recovered from the template of a prompt, and what is refused."""

from __future__ import annotations

import pytest

from multiform.formats.infer import TaskFields, infer
from multiform.formats.infer.layout import UnclearPromptError

ABCD = ["A", "B", "C", "D"]
FOUR = "A. {{choices[0]}}\nB. {{choices[1]}}\nC. {{choices[2]}}\nD. {{choices[3]}}"
TEXTS = ["{{choices[0]}}", "{{choices[1]}}", "{{choices[2]}}", "{{choices[3]}}"]
EXAMPLES = "{% set shots = 'Q: One?\nA: Two.\n\nQ: Three?\nA: Four.\n\n' %}{{shots + 'Q: ' + question + '\nA:'}}"

#: The prompt, the choices that the task scores, and the question and choices behind them.
RECOVERED = {
    "mmlu": (f"{{{{question.strip()}}}}\n{FOUR}\nAnswer:", ABCD, "{{question.strip()}}", TEXTS),
    "arc": ("Question: {{question}}\nAnswer:", "{{choices.text}}", "{{question}}", "{{choices.text}}"),
    "boolq": (
        "{{passage}}\nQuestion: {{question}}?\nAnswer:",
        ["no", "yes"],
        "{{passage}}\n{{question}}?",
        ["no", "yes"],
    ),
    "a passage with a label": (
        "P: {{p}}\nQ: {{q}}\nA: {{a}}\nB: {{b}}\nAnswer:",
        ABCD[:2],
        "{{p}}\n{{q}}",
        ["{{a}}", "{{b}}"],
    ),
    "labels that belong to the question": (
        "Sentence 1: {{a}}\nSentence 2: {{b}}\nQuestion: Do both mean the same?\nAnswer:",
        ["no", "yes"],
        "Sentence 1: {{a}}\nSentence 2: {{b}}\nDo both mean the same?",
        ["no", "yes"],
    ),
    "on one line": ("Q: {{q}}\n(A) {{a}} (B) {{b}}\nA:", ["(A)", "(B)"], "{{q}}", ["{{a}}", "{{b}}"]),
    "digits in the prompt, letters scored": (
        "{{q}}\n1: {{a}}\n2: {{b}}\nAnswer:",
        ["A", "B"],
        "{{q}}",
        ["{{a}}", "{{b}}"],
    ),
    "a word before each label": (
        "{{q}}\nOption A: {{a}}\nOption B: {{b}}\nAnswer:",
        ["A", "B"],
        "{{q}}",
        ["{{a}}", "{{b}}"],
    ),
    "a header and a sentence at the end": (
        "{{q}}\nChoices:\nA) {{a}}\nB) {{b}}\nPlease choose the correct option from the above list:",
        ["A", "B"],
        "{{q}}",
        ["{{a}}", "{{b}}"],
    ),
    "German": ("Frage: {{q}}\nA. {{a}}\nB. {{b}}\nAntwort:", ["A", "B"], "{{q}}", ["{{a}}", "{{b}}"]),
    "Korean on one line": ("{{text}} 질문: {{q}} 답변: ", ["아니오", "예"], "{{text}} {{q}}", ["아니오", "예"]),
    "Arabic labels": ("{{q}}\nأ. {{a}}\nب. {{b}}\nالإجابة:", ["A", "B"], "{{q}}", ["{{a}}", "{{b}}"]),
    "a loop": (
        "{{q}}\n{% for c in choices %}{{ loop.index }}. {{ c }}\n{% endfor %}Answer:",
        "choices",
        "{{q}}",
        "choices",
    ),
    "a loop by index": (
        "{{q}}\n{% for i in range(choices['text']|length) %}{{ 'ABCD'[i] }}: {{ choices['text'][i] }}\n{% endfor %}"
        "Answer:",
        ABCD,
        "{{q}}",
        "{{ choices['text'] }}",
    ),
    "dashes": ("{{q}}\nOptions:\n- {{c[0]}}\n- {{c[1]}}\nAnswer:", "{{c}}", "{{q}}", "{{c}}"),
    "choices that may be missing": (
        f"{{{{q}}}}\n{FOUR}{{% if choices|length > 4 %}}\nE. {{{{choices[4]}}}}{{% endif %}}\nAnswer:",
        ABCD,
        "{{q}}",
        "{{ choices }}",
    ),
    "choices in plain text": (
        "Sentence: {{s}}\nIs it right?\nA. Yes\nB. No\nAnswer:",
        ["A", "B"],
        "Sentence: {{s}}\nIs it right?",
        ["Yes", "No"],
    ),
    "choices in plain text, texts scored": (
        "{{s}}\nIs it right?\nA. Yes\nB. No\nAnswer:",
        ["Yes", "No"],
        "{{s}}\nIs it right?",
        ["Yes", "No"],
    ),
    "labels scored in another order": ("{{s}}?\nA: Sì\nB: No\nRisposta:", ["B", "A"], "{{s}}?", ["No", "Sì"]),
    "examples in the prompt": (EXAMPLES, "{{mc1.choices}}", "{{question}}", "{{mc1.choices}}"),
    "strings that are added": ("{{'Q: ' + question + '\nA:'}}", "choices", "{{question}}", "choices"),
    "a request to think": (f"Q: {{{{q}}}}\n{FOUR}\nA: Let's think step by step.", ABCD, "{{q}}", TEXTS),
    "a kind of answer, after a sentence that asks for it": (
        "Label the following text as sports or politics. \n\ntext: {{text}} \nlabel:",
        ["sports", "politics"],
        "Label the following text as sports or politics. \n\ntext: {{text}}",
        ["sports", "politics"],
    ),
    "an instruction to choose": (
        f"Given a question and four candidate answers, choose the best one.\nQuestion: {{{{q}}}}\n{FOUR}\nAnswer:",
        ABCD,
        "{{q}}",
        TEXTS,
    ),
    "an instruction": (
        "Read the passage: {{p}}\nThen answer the question: {{q}}\nOptions:\nA. {{a}}\nB. {{b}}\nAnswer:",
        ["A", "B"],
        "Read the passage: {{p}}\nThen answer the question: {{q}}",
        ["{{a}}", "{{b}}"],
    ),
}


@pytest.mark.parametrize(("text", "scored", "question", "choices"), RECOVERED.values(), ids=RECOVERED.keys())
def test_question_and_choices_are_recovered(text, scored, question, choices):
    found = infer(TaskFields(text=text, choices=scored, target="answer", ranks=True))
    assert (found.mapping.question, found.mapping.choices) == (question, choices)
    assert found.how == "template"


RAW = {
    "a column": "question",
    "an expression": "{{ question.strip() }}",
    "a passage and a question": "{{passage}}\n{{question}}",
    "a sentence that goes on": "{{sentence}} ‘{{pronoun}}’ refers to the",
    "a sentence around a value": "Does '{{tweet}}' have a positive or a negative sentiment?",
}


@pytest.mark.parametrize("text", RAW.values(), ids=RAW.keys())
def test_a_raw_mapping_stays_what_it_is(text):
    found = infer(TaskFields(text=text, choices="choices", target="answer", ranks=True))
    assert (found.how, found.mapping.question, found.mapping.choices) == ("raw", text, "choices")
    assert found.mapping.answer == "answer"


REFUSED = {
    "whole texts are compared": ("", "{{[good, bad]}}", "no question"),
    "the question is in the choices": ("La phrase suivante est correcte:\n", "{{[a, b]}}", "no question"),
    "several inputs": (["{{a}}", "{{b}}"], "choices", "several inputs"),
    "the last line may be the question": ("Text: {{review}}\nSentiment:", ["bad", "good"], "a text at its end"),
    "an open sentence": ("The answer to '{{q}}' is:", "choices", "a text at its end"),
    "more after the choices": ("{{q}}\nA. {{a}}\nB. {{b}}\nSolution: {{s}}", ["A", "B"], "after the choices"),
    "examples in a column": ("{{five_shot_preprompt}}Question: {{q}}\nAnswer:", "choices", "a column puts examples"),
    "a statement": ("{% if c %}Q: {{q}}\nA:{% else %}{{q}}{% endif %}", "choices", "a statement in it"),
    "two questions": ("Question: {{a}}\nQuestion: {{b}}\nAnswer:", "choices", "several questions"),
    "too few labels": ("{{q}}\nA. {{a}}\nB. {{b}}\nAnswer:", ["A", "B", "C"], "choices and labels differ"),
    "other choices in plain text": ("{{s}}?\nA. Yes\nB. No\nAnswer:", ["wrong", "right"], "choices and doc_to"),
    "other choices": ("{{q}}\nA. {{a}}\nB. {{b}}\nAnswer:", "others", "choices and doc_to_choice differ"),
}


@pytest.mark.parametrize(("text", "scored", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_certain_is_refused_with_what_to_add(text, scored, reason):
    with pytest.raises(UnclearPromptError) as error:
        infer(TaskFields(text=text, choices=scored, target="answer", ranks=True))
    assert error.value.reason.startswith(reason)
    assert "write a file that includes this one" in str(error.value)


ANSWERS = {
    "a column among labels": ("answer", ABCD, "{{ (answer)|index_among(['A', 'B', 'C', 'D']) }}"),
    "a template": ("{{key}}", ABCD, "{{ (key)|index_among(['A', 'B', 'C', 'D'], digits=true) }}"),
    "an index": (0, ABCD, 0),
}


@pytest.mark.parametrize(("target", "scored", "answer"), ANSWERS.values(), ids=ANSWERS.keys())
def test_the_answer_is_the_one_that_the_task_has_without_a_format(target, scored, answer):
    found = infer(TaskFields(text=f"{{{{q}}}}\n{FOUR}\nAnswer:", choices=scored, target=target, ranks=True))
    assert found.mapping.answer == answer

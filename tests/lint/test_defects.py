"""Each of these tasks has one defect, and lint finds it and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import pytest

from multiform.lint.findings import CODES
from multiform.lint.tokens import Tokenizer
from tests.lint.conftest import CHOICES, ROWS, SHOTS, WORDS, Lint, Row

MCQA = {"doc_to_text": "question", "output_type": None, "formats": "mcqa"}


@dataclass(frozen=True, kw_only=True)
class Defect:
    """A healthy task with something changed."""

    code: str
    keys: Mapping[str, Any] = field(default_factory=dict)
    rows: Sequence[Row] | None = None
    shots: Sequence[Row] | None = None
    base: Mapping[str, Any] = field(default_factory=lambda: CHOICES)
    name: str = ""
    num_fewshot: int = 0
    #: A part of what the finding says.
    says: str = ""
    #: Keyword arguments of the tokenizer, where one is needed.
    tokenizer: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    #: Codes of what the defect brings along.
    also: Set[str] = frozenset()


def lost_in_a_chat(template: str, description: str, says: str) -> Defect:
    """A description of which a chat template leaves something out."""
    return Defect(
        code="chat_template_strips",
        keys={"description": description},
        tokenizer={"template": template},
        settings={"apply_chat_template": True},
        says=says,
    )


def changed(rows: Sequence[Row], change: Callable[[Row], Row]) -> list[Row]:
    return [{**row, **change(row)} for row in rows]


def one_changed(rows: Sequence[Row], index: int, **columns: Any) -> list[Row]:
    return [{**row, **columns} if number == index else row for number, row in enumerate(rows)]


def mcqa(**keys: Any) -> dict[str, Any]:
    return {**MCQA, "formats": {"type": "mcqa", **keys}}


def gold_first(row: Row) -> Row:
    gold = row["choices"][row["answer"]]
    return {"choices": [gold, *(choice for choice in row["choices"] if choice != gold)], "answer": 0}


def long_gold(row: Row) -> Row:
    return {"choices": [c + " by the river" if i == row["answer"] else c for i, c in enumerate(row["choices"])]}


STRIPPING = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'].strip() }}\n{% endfor %}"
WITHOUT_SYSTEM = "{% for m in messages %}{% if m['role'] != 'system' %}{{ m['content'] }}\n{% endif %}{% endfor %}"

DEFECTS = {
    # choices that speak of others
    "both_a_and_b_with_roman_labels": Defect(
        code="choices_refer",
        base={**CHOICES, **MCQA},
        name="@mcqa[labels=roman]",
        rows=one_changed(ROWS, 3, choices=[*ROWS[3]["choices"][:-1], "both A and B"], answer=0),
        says="both A and B",
    ),
    # spaces
    "no_space_before_the_answer": Defect(code="missing_space", keys={"target_delimiter": ""}, says="Answer:Oslo"),
    "no_space_before_the_target_of_a_loglikelihood": Defect(
        code="missing_space",
        keys={
            "output_type": "loglikelihood",
            "doc_to_choice": None,
            "doc_to_target": "{{choices[answer]}}",
            "metric_list": [{"metric": "acc"}],
        },
        says="let doc_to_target begin with the space",
    ),
    "no_space_after_a_label": Defect(
        code="missing_space", keys={"doc_to_text": "Question:{{question}}\nAnswer:"}, says="'Question:Which city"
    ),
    "no_space_after_the_prefix_of_a_format": Defect(code="missing_space", keys=mcqa(question_prefix="Question:")),
    "no_space_after_a_label_of_a_choice": Defect(code="missing_space", keys=mcqa(choice_format="{label}.{choice}")),
    "two_spaces_before_the_answer": Defect(
        code="doubled_space", keys={"doc_to_text": "Question: {{question}}\nAnswer: "}, says="Answer:  "
    ),
    "choices_with_a_space_of_their_own": Defect(
        code="doubled_space", rows=changed(ROWS, lambda row: {"choices": [f" {c}" for c in row["choices"]]})
    ),
    "two_spaces_in_the_template": Defect(
        code="doubled_space", keys={"doc_to_text": "Question:  {{question}}\nAnswer:"}, says="Question:  Which"
    ),
    "a_question_that_begins_with_a_space": Defect(
        code="doubled_space", rows=one_changed(ROWS, 3, question=" Which one?"), says="1 of 40 documents"
    ),
    "a_prompt_that_ends_in_a_space": Defect(
        code="trailing_space", base=WORDS, keys={"doc_to_text": "Question: {{question}}\nAnswer: "}
    ),
    "a_beginning_of_the_answer_that_ends_in_a_space": Defect(
        code="trailing_space", base=WORDS, keys={"gen_prefix": "It is "}, says="gen_prefix"
    ),
    "a_line_that_ends_in_a_space": Defect(
        code="trailing_space", keys={"doc_to_text": "Question: {{question}} \nAnswer:"}
    ),
    "choices_that_end_in_a_space": Defect(
        code="trailing_space", rows=changed(ROWS, lambda row: {"choices": [f"{c} " for c in row["choices"]]})
    ),
    "a_description_without_a_line_break": Defect(
        code="glued_sections", keys={"description": "Answer these questions."}, says="description"
    ),
    "sections_without_a_separator": Defect(code="glued_sections", keys=mcqa(section_separator="")),
    "a_passage_that_touches_the_question": Defect(
        code="glued_sections",
        keys={"doc_to_text": "{{passage}}{{question}}\nAnswer:"},
        rows=changed(ROWS, lambda row: {"passage": f"City number {row['id']} lies by the sea."}),
    ),
    "examples_without_a_delimiter": Defect(
        code="glued_sections", keys={"fewshot_delimiter": ""}, num_fewshot=2, says="fewshot_delimiter"
    ),
    # few-shot examples
    "examples_with_another_request": Defect(
        code="shots_unlike_question",
        keys={"fewshot_config": {"doc_to_text": "Question: {{question}}\nSolution:"}},
        num_fewshot=2,
    ),
    "examples_without_a_label": Defect(
        code="shots_unlike_question", keys={"fewshot_config": {"doc_to_text": "{{question}}\nAnswer:"}}, num_fewshot=2
    ),
    "examples_with_another_delimiter": Defect(
        code="shots_unlike_question", keys={"fewshot_config": {"target_delimiter": "\n"}}, num_fewshot=2
    ),
    "examples_that_show_texts_where_labels_are_scored": Defect(
        code="shots_show_other_answer",
        keys={
            "doc_to_text": "{{question}}\nA. {{choices[0]}}\nB. {{choices[1]}}\nC. {{choices[2]}}\n"
            "D. {{choices[3]}}\nAnswer:",
            "doc_to_choice": ["A", "B", "C", "D"],
            "fewshot_config": {"doc_to_target": "{{choices[answer]}}"},
        },
        num_fewshot=2,
    ),
    "examples_that_no_filter_reads": Defect(
        code="shots_show_other_answer",
        base=WORDS,
        keys={
            "filter_list": [
                {
                    "name": "strict",
                    "filter": [
                        {"function": "regex", "regex_pattern": "The answer is (.*)\\."},
                        {"function": "take_first"},
                    ],
                }
            ]
        },
        num_fewshot=2,
    ),
    "a_document_among_the_examples_under_another_id": Defect(
        code="evaluated_docs_in_shots", shots=[*SHOTS, {**ROWS[4], "id": "copy"}], num_fewshot=2, says="1 of 40"
    ),
    "examples_from_the_evaluated_split": Defect(
        code="shots_from_evaluated_split", keys={"fewshot_split": "test"}, num_fewshot=2
    ),
    # answers
    "the_answer_in_the_question": Defect(
        code="answer_in_prompt", base=WORDS, keys={"doc_to_text": "Question: {{question}}\nHint: {{answer}}\nAnswer:"}
    ),
    "the_index_of_the_answer_in_the_question": Defect(
        code="answer_in_prompt", keys={"doc_to_text": "Question: {{question}} ({{answer}})\nAnswer:"}
    ),
    "the_right_choice_in_the_question": Defect(
        code="answer_in_prompt", keys={"doc_to_text": "{{question}} It is not {{choices[answer]}}.\nAnswer:"}
    ),
    "a_description_of_choices_that_are_not_shown": Defect(
        code="description_about_choices",
        keys={"description": "These are multiple choice questions; give the letter of the answer.\n\n"},
    ),
    "a_kept_description_under_cloze": Defect(
        code="description_about_choices",
        keys={**MCQA, "description": "These are multiple choice questions.\n\n", "keep_description": True},
        name="@cloze",
    ),
    "an_instruction_of_a_format_that_shows_no_choices": Defect(
        code="description_about_choices",
        keys={**MCQA, "formats": {"type": "cloze", "instruction": "Answer with the letter of the correct option.\n"}},
    ),
    "a_stop_string_in_the_answers": Defect(
        code="stop_in_answer", base=WORDS, keys={"generation_kwargs": {"until": [" app"]}}, says="40 of 40"
    ),
    "a_stop_string_before_the_answers_of_examples": Defect(
        code="stop_in_answer",
        base=WORDS,
        keys={"generation_kwargs": {"until": ["\n"]}, "target_delimiter": "\n"},
        num_fewshot=2,
        says="few-shot example",
    ),
    "a_stop_string_in_the_questions": Defect(
        code="stop_in_prompt", base=WORDS, keys={"generation_kwargs": {"until": ["plus"]}}, says="40 of 40"
    ),
    # choices and gold
    "the_same_choice_twice": Defect(code="duplicate_choices", rows=one_changed(ROWS, 2, choices=["A", "b", "c", "A"])),
    "choices_that_differ_in_white_space": Defect(
        code="duplicate_choices", keys=MCQA, rows=one_changed(ROWS, 2, choices=["x y", "b", "c", "x y"])
    ),
    "a_choice_that_speaks_of_those_above_and_is_moved": Defect(
        code="choices_refer",
        keys={**MCQA, "task": "moved@mcqa[order=reverse]"},
        rows=one_changed(ROWS, 2, choices=["a", "b", "c", "all of the above"]),
    ),
    "an_index_out_of_range": Defect(code="gold_not_a_choice", rows=one_changed(ROWS, 5, answer=4), says="1 of 40"),
    "an_index_out_of_range_under_a_format": Defect(
        code="gold_not_a_choice", keys=MCQA, rows=one_changed(ROWS, 5, answer=4), says="1 of 40"
    ),
    "an_answer_out_of_range_in_the_first_document": Defect(
        code="gold_not_a_choice", rows=one_changed(ROWS, 0, answer=4)
    ),
    "digits_that_count_from_0_or_from_1": Defect(
        code="answer_base_unclear", keys=MCQA, rows=changed(ROWS, lambda row: {"answer": str(row["id"] % 3 + 1)})
    ),
    "answers_of_mixed_kinds": Defect(code="mixed_answers", rows=one_changed(ROWS, 5, answer="2")),
    "more_choices_than_labels": Defect(
        code="too_few_labels",
        keys=mcqa(choice_labels=["A", "B", "C", "D"]),
        rows=one_changed(ROWS, 7, choices=["a", "b", "c", "d", "e"]),
        says="doc 7",
    ),
    "more_choices_than_labels_everywhere": Defect(
        code="too_few_labels", keys=mcqa(choice_labels=["A", "B", "C"]), says="40 of 40"
    ),
    "the_longest_choice_is_right": Defect(code="length_gives_answer_away", rows=changed(ROWS, long_gold)),
    "the_first_choice_is_right": Defect(code="skewed_gold", keys=MCQA, rows=changed(ROWS, gold_first)),
    "nearly_always_the_same_class": Defect(
        code="skewed_gold",
        keys={"doc_to_choice": ["no", "yes"], "doc_to_target": "label"},
        rows=changed(ROWS, lambda row: {"label": int(row["id"] == 3)}),
        says="'no'",
    ),
    # documents
    "the_same_document_twice": Defect(code="duplicate_rows", rows=[*ROWS, ROWS[3]]),
    "a_document_without_a_question": Defect(code="empty_question", rows=one_changed(ROWS, 3, question="")),
    "a_placeholder_for_a_question": Defect(code="placeholder", rows=one_changed(ROWS, 3, question="NS")),
    "a_list_as_text": Defect(code="list_as_text", rows=one_changed(ROWS, 3, question="['Who?', 'When?']")),
    "a_filler_among_the_choices": Defect(
        code="filler_choices",
        rows=[{**row, "choices": [*row["choices"], "N/A"]} if row["id"] == 3 else row for row in ROWS],
    ),
    "a_split_without_labels": Defect(
        code="unlabelled", rows=changed(ROWS, lambda row: {"answer": -1}), also={"gold_not_a_choice"}
    ),
    "labels_in_another_order": Defect(
        code="label_order",
        keys={"doc_to_choice": ["no", "yes"], "doc_to_target": "label"},
        rows=changed(ROWS, lambda row: {"label": row["id"] % 2, "label_text": ["yes", "no"][row["id"] % 2]}),
    ),
    "several_right_choices": Defect(code="several_right", rows=changed(ROWS, lambda row: {"answer": [0, 1]})),
    "a_smaller_edition": Defect(code="marked_subset", rows=changed(ROWS, lambda row: {"mini": row["id"] % 2})),
    # tokens
    "labels_of_several_tokens": Defect(
        code="label_not_one_token", keys=mcqa(choice_labels=["I)", "II", "VX", "XY"]), tokenizer={}
    ),
    "answers_that_differ_in_tokens": Defect(
        code="uneven_labels",
        keys={"doc_to_choice": ["no", "absolutely"], "doc_to_target": "label"},
        rows=changed(ROWS, lambda row: {"label": row["id"] % 2}),
        tokenizer={},
    ),
    "a_token_across_the_border": Defect(
        code="token_across_border",
        keys={
            "doc_to_text": "{{question}} A do",
            "doc_to_choice": ["g", "t"],
            "doc_to_target": "label",
            "target_delimiter": "",
        },
        rows=changed(ROWS, lambda row: {"label": row["id"] % 2}),
        tokenizer={},
        also={"missing_space"},
    ),
    "a_first_token_in_the_description": Defect(
        code="doubled_bos", keys={"description": "<s>Answer these.\n\n"}, tokenizer={}
    ),
    "a_chat_template_that_strips": lost_in_a_chat(
        STRIPPING, description="Answer these.\n\n", says="white space around the system's message"
    ),
    "a_chat_template_without_system_messages": lost_in_a_chat(
        WITHOUT_SYSTEM, description="Answer these.", says="a part of the system's message"
    ),
    "prompts_that_are_too_long": Defect(
        code="truncated_prompts", num_fewshot=4, tokenizer={"max_length": 40}, says="40 of 40"
    ),
    "completions_that_leave_too_little_room": Defect(
        code="truncated_prompts",
        base=WORDS,
        keys={"generation_kwargs": {"until": ["\n\n"], "max_gen_toks": 90}},
        tokenizer={"max_length": 96},
    ),
}


@pytest.mark.parametrize("defect", DEFECTS.values(), ids=DEFECTS)
def test_each_defect_is_found_and_nothing_else(
    lint: Lint, make_tokenizer: Callable[..., Tokenizer], defect: Defect
) -> None:
    report = lint(
        defect.keys,
        defect.rows,
        defect.shots,
        base=defect.base,
        name=defect.name,
        tokenizer=None if defect.tokenizer is None else make_tokenizer(**defect.tokenizer),
        num_fewshot=defect.num_fewshot,
        **defect.settings,
    )
    codes = {finding.code for finding in report.findings}
    assert codes == {defect.code, *defect.also}, "\n".join(map(str, report.findings))
    finding = next(finding for finding in report.findings if finding.code == defect.code)
    assert finding.where is not None
    assert "task.yaml:" in finding.where
    assert finding.example
    assert finding.hint
    assert defect.says in str(finding)


@pytest.mark.parametrize("num_fewshot", [0, 3])
@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize(
    ("base", "keys"),
    [(CHOICES, {}), (WORDS, {}), (CHOICES, MCQA), (CHOICES, {**MCQA, "formats": "cot"})],
    ids=["choices", "words", "mcqa", "cot"],
)
def test_healthy_tasks_have_no_findings(
    lint: Lint,
    make_tokenizer: Callable[..., Tokenizer],
    base: Mapping[str, Any],
    keys: Mapping[str, Any],
    chat: bool,
    num_fewshot: int,
) -> None:
    tokenizer = make_tokenizer("{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}\n{% endfor %}")
    report = lint(keys, base=base, tokenizer=tokenizer, num_fewshot=num_fewshot, apply_chat_template=chat)
    assert [str(finding) for finding in report.findings] == []


def test_every_code_about_tasks_has_a_defect() -> None:
    of_runs = {"chat_template_unused", "no_corpus", "unpinned_revision", "mixed_languages"}
    of_runs |= {"instructed_base_model", "little_room_to_think", "prefilled_thought"}
    assert {defect.code for defect in DEFECTS.values()} == set(CODES) - of_runs

"""Defects that the formats of lm-eval's branch next0.5 have do not exist here."""

from __future__ import annotations

import pytest

from multiform import ConfigError, DataError, Task, TaskConfig, evaluate
from multiform.requests import LoglikelihoodRequest

DOC = {"question": "Q1?", "choices": ["x", "y", "z"], "answer": 1}
SHOT = {"question": "Q2?", "choices": ["x", "y", "z"], "answer": 2}


def config(name, *, docs=(DOC,), shots=(SHOT,), **fields):
    mapping = {"doc_to_text": "question", "doc_to_choice": "choices", "doc_to_target": "answer"}
    return TaskConfig(
        task=name,
        custom_dataset=lambda **kwargs: {"test": list(docs), "train": list(shots)},
        test_split="test",
        fewshot_split="train",
        **{**mapping, **fields},
    )


def run(*configs, text=None):
    return evaluate(model="dummy", model_args={"text": text} if text else None, tasks=list(configs))


def requests_of(made):
    return [instance.request for instance in Task.from_config(made).build_all_requests()]


def continuations(made):
    return [request.continuation for request in requests_of(made)]


# two formats of one task overwrite each other


def test_d1_two_formats_of_one_task_are_two_forms_of_one_run():
    results = run(config("t@mcqa"), config("t@cloze"))
    assert list(results) == ["t@mcqa", "t@cloze"]
    prompts = {form.form: form.samples[0].instances[0].request.context for form in results.forms}
    assert prompts == {"t@mcqa": "Question: Q1?\nA. x\nB. y\nC. z\nAnswer:", "t@cloze": "Question: Q1?\nAnswer:"}


def test_d1_the_same_holds_for_tasks_that_are_named():
    results = evaluate(model="dummy", tasks="quiz@mcqa,quiz@cloze", limit=3)
    assert list(results) == ["quiz@mcqa", "quiz@cloze"]


# they share one cache entry


def test_d2_two_formats_of_one_task_have_two_identities_and_no_request_in_common():
    mcqa, cloze = run(config("t@mcqa"), config("t@cloze")).forms
    assert mcqa.task == cloze.task == "t"
    assert mcqa.identity != cloze.identity
    asked = [{instance.request for sample in form.samples for instance in sample.instances} for form in (mcqa, cloze)]
    assert asked[0].isdisjoint(asked[1])


@pytest.mark.parametrize(
    "change",
    [{"question_prefix": "Q: "}, {"instruction": "Go.\n"}, {"choice_labels": "numbers"}, {"target_delimiter": ""}],
    ids=lambda change: next(iter(change)),
)
def test_d2_a_change_to_a_format_changes_the_identity(change):
    plain = run(config("t", formats={"type": "mcqa"})).forms[0]
    again = run(config("t", formats={"type": "mcqa"})).forms[0]
    changed = run(config("t", formats={"type": "mcqa", **change})).forms[0]
    assert plain.identity == again.identity != changed.identity


@pytest.mark.parametrize(
    ("name", "formats"),
    [
        ("t@mcqa", None),
        ("t", {"type": "mcqa"}),
        ("t", {"mcqa": None}),
        ("t", {"mcqa": {"question_prefix": "Question: "}}),
    ],
    ids=["at sign", "type", "table", "default spelled out"],
)
def test_d2_the_same_format_has_the_same_identity_however_it_is_asked_for(name, formats):
    (plain,) = run(config("t", formats="mcqa")).forms
    (other,) = run(config(name, formats=formats)).forms
    assert other.identity == plain.identity


def test_d2_the_number_of_examples_changes_the_identity():
    none = run(config("t", formats="mcqa", num_fewshot=0)).forms[0]
    one = run(config("t", formats="mcqa", num_fewshot=1)).forms[0]
    assert none.identity != one.identity


# a prompt is wrapped into another prompt

PROMPTS = {
    "arc_easy": "Question: {{question}}\nAnswer:",
    "mmlu": (
        "{{question.strip()}}\nA. {{choices[0]}}\nB. {{choices[1]}}\nC. {{choices[2]}}\nD. {{choices[3]}}\nAnswer:"
    ),
    "hellaswag-like cue": "{{context}}\nThe answer is",
    "boolq": "{{passage}}\nQuestion: {{question}}?\nAnswer:",
    "triviaqa": "Question: {{question}}?\nAnswer:",
    "Q and A": "Q: {{question}}\nA:",
    "brackets": "{{question}}\n(A) {{choices[0]}}\n(B) {{choices[1]}}\n",
    "loop of choices": "{{question}}\n{% for c in choices %}{{ loop.index }}. {{ c }}\n{% endfor %}Answer:",
    "trailing space": "Question: {{question}}\nAnswer: ",
    "opening alone": "Question: {{question}}",
}


@pytest.mark.parametrize("text", PROMPTS.values(), ids=PROMPTS.keys())
@pytest.mark.parametrize("name", ["mcqa", "cloze", "generate", "cot", "bpb", "hybrid"])
def test_d3_a_question_that_is_a_prompt_already_is_refused(text, name):
    with pytest.raises(ConfigError) as caught:
        config("t", doc_to_text=text, formats=name)
    assert "doc_to_text is a prompt already" in str(caught.value)
    assert "give the bare question" in str(caught.value)


@pytest.mark.parametrize("text", PROMPTS.values(), ids=PROMPTS.keys())
@pytest.mark.parametrize("name", ["mcqa", "cloze", "generate", "cot", "bpb", "hybrid"])
def test_d3_a_prompt_of_a_task_that_was_not_written_for_formats_is_taken_apart(text, name):
    doc = {**DOC, "context": "Q1?", "passage": "Once."}
    raw = "{{passage}}\n{{question}}?" if "passage" in text else "{{question}}?" if "}?" in text else "{{question}}"
    wanted, made = config(f"t@{name}", docs=[doc], doc_to_text=raw), config(f"t@{name}", docs=[doc], doc_to_text=text)
    assert requests_of(made) == requests_of(wanted)


RAW = {
    "column": "question",
    "expression": "{{question}}",
    "trimmed": "{{ question.strip() }}",
    "passage and question": "{{passage}}\n{{question}}",
    "passage and question with a blank line": "{{ passage }}\n\n{{ question }}?",
    "a subject before it": "{{subject}}: {{question}}",
    "a note at the end": "{{question}} (choose one)",
    "a blank": "{{sentence}} ____.",
    "several sentences": "The passage says: {{ passage }}. What does it mean?",
}


@pytest.mark.parametrize("text", RAW.values(), ids=RAW.keys())
def test_d3_a_bare_question_is_taken(text):
    assert config("t@mcqa", doc_to_text=text).format_label == "mcqa"


LABELS = {"letters": ["A", "B", "C", "D"], "numbers": ["1", "2", "3"], "brackets": ["(a)", "(b)"], "dots": ["A.", "B."]}


@pytest.mark.parametrize("choices", LABELS.values(), ids=LABELS.keys())
@pytest.mark.parametrize("name", ["mcqa", "cloze", "generate", "hybrid"])
def test_d3_choices_that_are_labels_are_refused(choices, name):
    with pytest.raises(ConfigError) as caught:
        config("t", doc_to_choice=choices, formats=name)
    assert "doc_to_choice holds the labels of the choices, not the choices" in str(caught.value)
    assert '["{{A}}", "{{B}}"] if they are in columns A and B; the format adds the labels' in str(caught.value)


@pytest.mark.parametrize("name", ["mcqa", "cloze", "generate", "hybrid"])
def test_d3_labels_are_refused_where_a_prompt_does_not_say_what_they_stand_for(name):
    with pytest.raises(DataError) as caught:
        requests_of(config(f"t@{name}", doc_to_choice=["A", "B", "C"]))
    assert "does not show for certain what they stand for" in str(caught.value)


def test_d3_without_a_format_a_prompt_is_what_a_task_is_expected_to_give():
    made = config(
        "t", output_type="multiple_choice", doc_to_text="Question: {{question}}\nAnswer:", doc_to_choice=["A", "B", "C"]
    )
    assert requests_of(made)[0] == LoglikelihoodRequest("Question: Q1?\nAnswer:", " A")


# the metrics of a task do not fit the output type of its format

ACC = [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}]


@pytest.mark.parametrize("name", ["generate", "cot"])
def test_d4_a_metric_that_does_not_fit_is_overridden_and_reported(name):
    (form,) = run(config(f"t@{name}", output_type="multiple_choice", metric_list=ACC)).forms
    assert list(form.estimates) == ["exact_match,none", "invalid,none", "truncated,none"]
    assert form.overridden == ("metric acc",)


def test_d4_a_metric_that_fits_is_kept():
    (form,) = run(config("t@mcqa", output_type="multiple_choice", metric_list=ACC)).forms
    assert next(iter(form.estimates)) == "acc,none"
    assert form.overridden == ()


def test_d4_accuracy_means_nothing_where_the_right_choice_alone_is_scored():
    (form,) = run(config("t@bpb", output_type="multiple_choice", metric_list=ACC)).forms
    assert list(form.estimates) == ["bits_per_byte,none"]
    assert form.overridden == ("metric acc",)


def test_d4_accuracy_is_kept_where_a_task_without_choices_scores_one_text():
    (form,) = run(config("t@bpb", output_type="loglikelihood", metric_list=ACC, doc_to_choice=None)).forms
    assert set(form.estimates) == {"bits_per_byte,none", "acc,none"}


def test_d4_a_metric_of_generation_under_a_format_that_ranks_is_overridden():
    metrics = [{"metric": "bleu"}, {"metric": "acc_norm"}]
    (form,) = run(config("t@cloze", metric_list=metrics)).forms
    assert set(form.estimates) == {"acc,none", "acc_norm,none"}
    assert form.overridden == ("metric bleu",)


def test_d4_filters_of_the_task_are_overridden_under_a_format_that_reads_answers():
    filters = [{"name": "strict", "filter": [{"function": "regex", "regex_pattern": "#### (.*)"}]}]
    (form,) = run(config("t@generate", filter_list=filters), text=" B").forms
    assert form.scores()["exact_match,none"] == 1.0
    assert form.overridden == ("filter_list strict",)


def test_d4_without_a_format_a_metric_that_does_not_fit_is_an_error():
    with pytest.raises(ConfigError, match="metric acc does not fit output_type generate_until; fitting metrics: "):
        run(config("t", output_type="generate_until", metric_list=ACC))


# "@" is ignored where the file names one format


@pytest.mark.parametrize("formats", ["mcqa", {"type": "mcqa"}, {"mcqa": None}], ids=["name", "type", "table"])
def test_d5_an_at_sign_is_honoured_whatever_the_task_names(formats):
    made = config("t@cloze", formats=formats)
    assert made.form_name == "t@cloze"
    assert continuations(made) == [" x", " y", " z"]


# answers are not read out of generations


READABLE = {
    "cot": [
        "I think. The final answer is y",
        "First this.\n\nThen that.\n\nThe final answer is y.",
        "Hence \\boxed{y}",
        " y",
    ],
    "generate": [" B. y", " (b)", " B", " y", " hard to say. The best answer is B"],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in READABLE.items() for text in texts])
def test_d7_the_answer_is_read_out_of_a_generation(name, text):
    assert run(config(f"t@{name}"), text=text)[f"t@{name}"]["exact_match,none"] == 1.0


@pytest.mark.parametrize("name", ["cot", "generate"])
def test_d7_an_answer_that_is_not_there_is_counted_as_invalid(name):
    scores = run(config(f"t@{name}"), text="Well, this is a hard one\nand I would rather not say.")[f"t@{name}"]
    assert (scores["exact_match,none"], scores["invalid,none"]) == (0.0, 1.0)


def test_d7_cot_does_not_stop_at_a_blank_line():
    (request,) = requests_of(config("t@cot"))
    assert "\n\n" not in request.gen_kwargs["until"]


# number labels make every document vanish


def test_d8_number_labels_are_texts():
    made = config("t", formats={"type": "mcqa", "choice_labels": "numbers"})
    assert continuations(made) == [" 1", " 2", " 3"]
    assert run(made).forms[0].n == 1


# answers that are numbers


@pytest.mark.parametrize("answer", ["42", 42, 42.0], ids=["text", "number", "fraction"])
@pytest.mark.parametrize("shots", [0, 1])
def test_d9_cot_takes_answers_that_are_numbers(answer, shots):
    docs, examples = [{"question": "6 * 7?", "answer": answer}], [{"question": "1 + 1?", "answer": "2"}]
    made = config("t@cot", docs=docs, shots=examples, doc_to_choice=None, num_fewshot=shots)
    scores = run(made, text="6 * 7 = 42. The final answer is 42.")["t@cot"]
    assert scores["exact_match,none"] == 1.0


@pytest.mark.parametrize("name", ["cot", "generate", "mcqa", "cloze", "bpb", "hybrid"])
@pytest.mark.parametrize("answer", ["42", 1], ids=["text of a choice", "index"])
def test_d9_every_format_takes_choices_that_are_numbers(name, answer):
    doc = {"question": "6 * 7?", "choices": ["41", "42", "43"], "answer": answer}
    made = config(f"t@{name}", docs=[doc], shots=[doc], num_fewshot=0)
    target = Task.from_config(made).doc_to_target(doc)
    assert target == {"cot": "42", "bpb": "42", "generate": "B"}.get(name, 1)
    assert run(made).forms[0].n == 1


def test_d9_an_example_may_have_a_number_for_an_answer():
    made = config(
        "t@cot",
        docs=[{"question": "6 * 7?", "answer": "42"}],
        shots=[{"question": "1 + 1?", "answer": 2}],
        doc_to_choice=None,
        num_fewshot=1,
    )
    (request,) = requests_of(made)
    assert "response to the problem.\nThe final answer is 2\n\nGiven" in request.context


@pytest.mark.parametrize("answer", ["42", 42], ids=["text", "number"])
def test_d9_a_loglikelihood_task_takes_a_number_for_a_target(answer):
    docs = [{"question": "6 * 7 =", "answer": answer}]
    made = config("t", docs=docs, output_type="loglikelihood", doc_to_choice=None, doc_to_target="{{answer}}")
    assert requests_of(made) == [LoglikelihoodRequest("6 * 7 =", "42")]


@pytest.mark.parametrize("formats", [None, "mcqa", "cloze"])
def test_d9_an_index_stays_an_index_in_a_yaml_block(formats):
    task = Task.from_config(config("t", formats=formats, output_type="multiple_choice", doc_to_target="{{ answer }}\n"))
    assert task.form.renderer.gold(DOC) == (1,)


# templates in a list of choices become their names

TEMPLATED = {
    "expressions": ["{{ choices[0] }}", "{{ choices[1] }}"],
    "templates": ["{{ choices[0] }} it is", "not {{ choices[0] }}"],
    "mixed": ["{{ choices[0] }}", "none"],
}


@pytest.mark.parametrize("choices", TEMPLATED.values(), ids=TEMPLATED.keys())
def test_d20_templates_in_a_list_of_choices_are_rendered(choices):
    expected = [choice.replace("{{ choices[0] }}", "x").replace("{{ choices[1] }}", "y") for choice in choices]
    assert continuations(config("t@cloze", doc_to_choice=choices)) == [f" {choice}" for choice in expected]
    context = requests_of(config("t@mcqa", doc_to_choice=choices))[0].context
    assert context == f"Question: Q1?\nA. {expected[0]}\nB. {expected[1]}\nAnswer:"

"""`Task` as users of its documentation write it: subclasses with little code, prompts of every kind, steps by hand."""

from __future__ import annotations

from typing import Any

import pytest

from multiform import ConfigError, DataError, Task, TaskConfig, UsageError, evaluate
from multiform.forms import GenerateTask, LoglikelihoodTask, MultipleChoiceTask, RollingTask
from multiform.requests import (
    Completion,
    GenerationRequest,
    Instance,
    LLOutput,
    LoglikelihoodRequest,
    RollingRequest,
)


def chat(messages, add_generation_prompt=True) -> str:
    """A chat template: the roles and contents, and whose turn it is."""
    turns = [f"<{message['role']}>{message['content']}" for message in messages]
    return "".join(turns) + ("<assistant>" if add_generation_prompt else "")


def requests(task, ctx, **options):
    return [one.request for one in task.construct_requests(task.eval_docs[0], ctx, **options)]


# Subclasses of Task


class Ranking(Task):
    """Makes the requests of its documents, and leaves all else to Task."""

    def construct_requests(self, doc, ctx, *, doc_id=0, **kwargs):
        asked = [LoglikelihoodRequest(f"{ctx} Well,", f" {choice}") for choice in doc["choices"]]
        return [Instance(doc_id, index, request) for index, request in enumerate(asked)]


@pytest.mark.parametrize("make", [dict, lambda fields: TaskConfig(**fields)])
def test_a_subclass_needs_construct_requests_alone(fields, liking, make):
    task = Ranking(make(fields))
    model = liking("yes")
    assert evaluate(tasks=[task], model=model)["facts"]["acc,none"] == 0.5
    assert model.asked[0] == LoglikelihoodRequest("Can fish fly? Well,", " no")
    assert isinstance(task, Ranking)


@pytest.mark.parametrize(
    ("output_type", "request_of", "key", "value"),
    [
        ("generate_until", lambda ctx, doc: GenerationRequest.of(ctx, {"until": ["."]}), "exact_match,none", 0.5),
        ("loglikelihood", lambda ctx, doc: LoglikelihoodRequest(ctx, " yes"), "acc,none", 1.0),
        ("loglikelihood_rolling", lambda ctx, doc: RollingRequest("no way"), "word_perplexity,none", 12.1824939),
    ],
)
def test_a_subclass_is_scored_by_its_output_type(fields, liking, output_type, request_of, key, value):
    class Own(Task):
        def construct_requests(self, doc, ctx, *, doc_id=0, **kwargs):
            return [Instance(doc_id, 0, request_of(ctx, doc))]

    task = Own({**fields, "output_type": output_type, "doc_to_target": "{{choices[answer]}}"})
    model = liking("yes")
    model.writes = lambda request: "no"
    assert evaluate(tasks=[task], model=model, bootstrap_iters=0)["facts"][key] == pytest.approx(value)


def test_a_subclass_may_score_itself_without_a_target(fields, liking):
    class Own(Ranking):
        def process_results(self, doc, results):
            return {"first": results[0][0]}

    del fields["doc_to_target"]
    assert evaluate(tasks=[Own(fields)], model=liking("yes"))["facts"]["first,none"] == -5.0


@pytest.mark.parametrize(("kind", "metric"), [("multiple_choice", "acc,none"), ("generate_until", "exact_match,none")])
def test_task_itself_is_the_task_of_its_output_type(fields, saying, kind, metric):
    task = Task({**fields, "output_type": kind, "doc_to_target": "{{choices[answer]}}"})
    assert metric in evaluate(tasks=[task], model=saying("no"))["facts"]


@pytest.mark.parametrize(
    "returned",
    [
        lambda doc_id, request: Instance(doc_id, 0, request),
        lambda doc_id, request: [Instance(0, 0, request)],
        lambda doc_id, request: [request],
        lambda doc_id, request: (request,),
    ],
)
def test_requests_are_tied_to_their_document_however_they_are_returned(fields, returned):
    class Own(Task):
        def construct_requests(self, doc, ctx, doc_id=None):  # type: ignore[override]
            return returned(doc_id, GenerationRequest(ctx))

    made: list[Any] = Own(
        {**fields, "output_type": "generate_until", "doc_to_target": "yes {{answer}}"}
    ).build_all_requests()
    assert [(one.doc_id, one.idx, one.request.context[:6]) for one in made][:2] == [(0, 0, "Can fi"), (1, 0, "Is sno")]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("text", "construct_requests returned 'text', which is not a request"),
        (
            [LoglikelihoodRequest("a", "b")],
            "construct_requests made 1 LoglikelihoodRequest, and the metrics are of 2 LoglikelihoodRequest",
        ),
        (
            [GenerationRequest("a")] * 2,
            "construct_requests made 2 GenerationRequest, and the metrics are of 2 LoglikelihoodRequest",
        ),
    ],
)
def test_requests_that_cannot_be_scored_are_refused_before_they_are_asked(fields, liking, returned, message):
    class Own(Task):
        def construct_requests(self, doc, ctx, **kwargs):
            return returned

    model = liking("yes")
    with pytest.raises(DataError, match=message):
        evaluate(tasks=[Own(fields)], model=model)
    assert model.asked == []


@pytest.mark.parametrize("kind", ["multiple_choice", "generate_until", "loglikelihood_rolling"])
def test_a_subclass_may_ask_for_several_kinds_of_answers_and_score_them_itself(fields, liking, kind):
    class Own(Task):
        def construct_requests(self, doc, ctx, **kwargs):
            return [LoglikelihoodRequest(ctx, " yes"), GenerationRequest(ctx)]

        def process_results(self, doc, results):
            (loglikelihood, _), text = results
            return {"sum": loglikelihood + len(text)}

    model = liking("yes")
    model.writes = lambda request: "four"
    task = Own({**fields, "output_type": kind})
    assert evaluate(tasks=[task], model=model)["facts"]["sum,none"] == 3.5
    assert evaluate(tasks=[task], model=model, predict_only=True)["facts"]["bypass,none"] == 999


def test_construct_requests_that_fails_is_named(fields):
    class Own(Task):
        def construct_requests(self, doc, ctx, **kwargs):
            return [doc["missing"]]

    with pytest.raises(DataError, match="doc 0: construct_requests failed: KeyError: 'missing'"):
        Own(fields).build_all_requests()


@pytest.mark.parametrize("kind", [GenerateTask, LoglikelihoodTask, MultipleChoiceTask, RollingTask])
def test_a_class_of_an_output_type_brings_it_along(fields, kind):
    del fields["output_type"]
    assert kind(fields).config.output_type == kind.OUTPUT_TYPE


def test_a_class_of_one_output_type_and_a_configuration_of_another_do_not_go_together(fields):
    with pytest.raises(ConfigError, match="MultipleChoiceTask is a task of multiple_choice, and the config"):
        MultipleChoiceTask({**fields, "output_type": "generate_until"})


# Fields that a task does not have


@pytest.mark.parametrize("field", ["doc_to_text", "doc_to_choice", "doc_to_target"])
def test_a_field_that_the_task_does_not_have_is_none(fields, field):
    task = Task.from_config({**fields, field: None})
    assert getattr(task, field)(task.eval_docs[0]) is None


@pytest.mark.parametrize("field", ["doc_to_text", "doc_to_choice", "doc_to_target"])
def test_a_field_that_requests_need_is_an_error_before_they_are_asked(fields, field):
    with pytest.raises(ConfigError, match=f"the task has no {field}"):
        Task.from_config({**fields, field: None}).build_all_requests()


# Prompts


MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Is ice cold?"},
    {"role": "assistant", "content": "yes"},
    {"role": "user", "content": "Can fish fly?"},
]


def test_messages_are_one_prompt_in_the_words_of_the_chat_template(choosing, writing):
    text = "<system>Be brief.<user>Is ice cold?<assistant>yes<user>Can fish fly?<assistant>"
    made = requests(choosing(), MESSAGES, apply_chat_template=True, chat_template=chat)
    assert made == [LoglikelihoodRequest(text, "no"), LoglikelihoodRequest(text, "yes")]
    assert requests(choosing(), MESSAGES, chat_template=chat) == made
    assert [one.context for one in requests(writing(), MESSAGES, chat_template=chat)] == [text]


def test_messages_without_a_chat_template_are_plain_text(choosing, writing):
    text = "Be brief.\n\nIs ice cold? yes\n\nCan fish fly?"
    assert requests(choosing(), MESSAGES)[0] == LoglikelihoodRequest(text, " no")
    assert requests(writing(), MESSAGES)[0].context == text
    task = choosing(output_type="loglikelihood", doc_to_target="{{choices[0]}}")
    assert requests(task, MESSAGES) == [LoglikelihoodRequest(text, "no")]


def test_a_beginning_of_the_answer_is_not_followed_by_the_turn_of_the_assistant(choosing):
    begun = [*MESSAGES[-1:], {"role": "assistant", "content": "It is"}]
    [first, _] = requests(choosing(), begun, chat_template=chat)
    assert first.context == "<user>Can fish fly?<assistant>It is"


def test_messages_that_are_to_go_through_a_template_need_one(choosing):
    with pytest.raises(UsageError, match="messages without a chat template"):
        requests(choosing(), MESSAGES, apply_chat_template=True)


@pytest.mark.parametrize("several", [list, tuple])
def test_several_inputs_share_one_ending(choosing, several):
    task = choosing(
        multiple_inputs=True, doc_to_text=lambda doc: ["no", "yes"], doc_to_choice=["That is so."], doc_to_target=1
    )
    assert requests(task, several(["No:", "Yes:"])) == [
        LoglikelihoodRequest("No:", " That is so."),
        LoglikelihoodRequest("Yes:", " That is so."),
    ]
    chats = several([MESSAGES[-1:], MESSAGES[1:2]])
    contexts = [one.context for one in requests(task, chats, chat_template=chat)]
    assert contexts == ["<user>Can fish fly?<assistant>", "<user>Is ice cold?<assistant>"]


def test_a_sequence_of_one_prompt_is_that_prompt(choosing, writing):
    assert requests(choosing(), ("Q",)) == [LoglikelihoodRequest("Q", " no"), LoglikelihoodRequest("Q", " yes")]
    assert [one.context for one in requests(writing(), ["Q"])] == ["Q"]


def test_several_prompts_for_one_input_are_an_error(choosing, writing):
    for task in (choosing(), writing()):
        with pytest.raises(DataError, match="2 prompts for a document that has one input; set multiple_inputs"):
            requests(task, ["Q", "R"])


def test_requests_are_made_without_the_number_of_the_document(choosing):
    task = choosing()
    [first, _] = task.construct_requests(task.eval_docs[0], "Q")
    assert (first.doc_id, first.idx) == (0, 0)


# Step by step


def answer(task, *responses):
    """Puts the responses into the instances, in turn."""
    for index, instance in enumerate(task.instances):
        instance.resps.append(responses[index % len(responses)])


@pytest.mark.covers("Task.apply_filters", "Task.process_instances", "Task.aggregate")
def test_the_steps_without_arguments_keep_their_state_on_the_scorers(choosing):
    task = choosing(metric_list=[{"metric": "acc"}])
    task.build_all_requests(limit=3)
    answer(task, LLOutput(-2.0), LLOutput(-1.0, is_greedy=True))
    task.apply_filters()
    [scorer] = task.form.scoring.scorers
    assert scorer.filtered_docs[0] == [(-2.0, False), (-1.0, True)]
    assert task.instances[1].filtered_resps == {"none": (-1.0, True)}
    task.process_instances()
    assert scorer.scored_docs == {0: {"acc": 0.0}, 1: {"acc": 1.0}, 2: {"acc": 0.0}}
    values, number = task.aggregate()
    assert (values["acc,none"], number) == (pytest.approx(1 / 3), 3)
    assert "acc_stderr,none" in values


@pytest.mark.covers("Task.apply_filters", "Task.process_instances", "Task.aggregate")
def test_responses_may_be_plain_values(choosing, writing):
    task = choosing(metric_list=[{"metric": "acc"}])
    task.build_all_requests()
    answer(task, (-2.0, False), (-1.0, True))
    task.process_instances()
    assert task.aggregate()[0]["acc,none"] == 0.5
    task = writing(filter_list=[{"name": "word", "filter": [{"function": "regex", "regex_pattern": "no|yes"}]}])
    task.build_all_requests()
    answer(task, "I say no.")
    task.apply_filters()
    assert task.instances[0].filtered_resps == {"word": ["no"]}
    task.process_instances()
    assert task.aggregate() == ({"exact_match,word": 0.5, "exact_match_stderr,word": pytest.approx(0.288675)}, 4)


@pytest.mark.covers("Task.process_instances", "Task.aggregate")
def test_the_steps_give_what_a_run_gives(writing, saying):
    def make():
        return writing(repeats=2, metric_list=[{"metric": "exact_match", "reduction": "mean"}])

    task = make()
    task.build_all_requests()
    answer(task, Completion("no"), Completion("what?"))
    task.process_instances()
    run = evaluate(tasks=[make()], model=saying("no", "what?"))["facts"]
    assert task.aggregate()[0]["exact_match,none"] == run["exact_match,none"] == 0.25


@pytest.mark.usefixtures("share_scorer")
def test_the_steps_score_with_scorers_of_all_documents_too(writing):
    task = writing(scorer="share")
    task.build_all_requests()
    answer(task, "no")
    task.process_instances()
    assert task.aggregate()[0]["share,none"] == 0.25


@pytest.mark.covers("Task.apply_filters", "Task.process_instances", "Task.aggregate")
def test_steps_out_of_order_say_which_one_is_missing(choosing):
    task = choosing()
    with pytest.raises(UsageError, match=r"there are no requests yet; call build_all_requests\(\) first"):
        task.process_instances()
    task.build_all_requests()
    with pytest.raises(UsageError, match="facts: doc 0: request 0: there is no response yet"):
        task.apply_filters()
    with pytest.raises(UsageError, match=r"no document is scored yet; call process_instances\(\) first"):
        task.aggregate()

"""Every attribute and method of Task, called and overridden."""

from __future__ import annotations

import json
import math

import pytest

from multiform import ConfigError, DataError, ScoredSample, TaskConfig, TaskManager, evaluate
from multiform.forms import GenerateTask, LoglikelihoodTask, MultipleChoiceTask, RollingTask, Task
from multiform.requests import GenerationRequest, LLOutput, LoglikelihoodRequest, RollingRequest
from multiform.results import sample_lines


def contexts(task, **options) -> list[str]:
    return [instance.request.context for instance in task.build_all_requests(**options) if instance.idx == 0]


def questions(docs) -> list[str]:
    return [doc["question"] for doc in docs]


def chat(messages, add_generation_prompt=True) -> str:
    """A chat template: the roles and contents, and whose turn it is."""
    turns = [f"<{message['role']}>{message['content']}" for message in messages]
    return "".join(turns) + ("<assistant>" if add_generation_prompt else "")


def scored(task: Task, *lls: float) -> list[ScoredSample]:
    """The documents of a task, scored with the log-likelihoods that a model gave the choices of each."""
    for index, instance in enumerate(task.build_all_requests()):
        instance.resps.append(LLOutput(lls[index % len(lls)], is_greedy=False, tokens=1))
    return task.process_instances()


@pytest.fixture
def request_folder(tmp_path, monkeypatch):
    """The folder of cached requests, which is empty."""
    monkeypatch.setenv("MULTIFORM_CACHE", str(tmp_path))
    (tmp_path / "requests").mkdir()
    return tmp_path / "requests"


# Making one


@pytest.mark.covers("Task.from_config", "Task.OUTPUT_TYPE")
@pytest.mark.parametrize("kind", [GenerateTask, LoglikelihoodTask, MultipleChoiceTask, RollingTask])
def test_from_config_gives_the_kind_of_the_output_type(fields, kind):
    assert type(Task.from_config({**fields, "output_type": kind.OUTPUT_TYPE})) is kind
    assert type(Task.from_config(TaskConfig(**{**fields, "output_type": kind.OUTPUT_TYPE}))) is kind


@pytest.mark.covers("Task.__init__")
def test_a_task_is_made_from_a_mapping_or_a_configuration(fields):
    made = [MultipleChoiceTask(fields), MultipleChoiceTask(TaskConfig(**fields))]
    assert made[0].build_all_requests() == made[1].build_all_requests()


@pytest.mark.covers("Task.OUTPUT_TYPE")
def test_a_class_for_any_output_type_has_none_and_its_tasks_have_that_of_their_configuration(fields):
    assert Task.OUTPUT_TYPE is None
    assert Task(fields).OUTPUT_TYPE == "multiple_choice"
    assert Task({**fields, "output_type": "loglikelihood"}).OUTPUT_TYPE == "loglikelihood"


@pytest.mark.covers("Task.OUTPUT_TYPE")
def test_a_class_is_for_its_output_type_alone(fields):
    without = {key: value for key, value in fields.items() if key != "output_type"}
    assert MultipleChoiceTask(without).config.output_type == "multiple_choice"
    with pytest.raises(ConfigError, match="GenerateTask is a task of generate_until, and the configuration says mul"):
        GenerateTask({**fields, "output_type": "multiple_choice"})


@pytest.mark.covers("Task.process_doc")
def test_documents_of_the_dataset_are_processed_by_hand(fields):
    class Shouting(MultipleChoiceTask):
        @staticmethod
        def process_doc(doc):
            return {**doc, "question": doc["question"].upper()}

    task = Shouting(fields)
    rows = list(map(task._process_doc, task.dataset["test"]))
    assert rows == list(task.get_docs("test"))
    assert rows[0]["question"] == task.dataset["test"][0]["question"].upper()


@pytest.mark.covers("Task.OUTPUT_TYPE")
def test_a_subclass_for_an_output_type_does_not_replace_the_usual_one(fields):
    class Own(MultipleChoiceTask):
        OUTPUT_TYPE = "multiple_choice"

    assert type(Task.from_config(fields)) is MultipleChoiceTask


@pytest.mark.covers("Task.from_config")
def test_a_task_file_names_a_class(write):
    own = """\
from multiform.forms import MultipleChoiceTask

class Shouting(MultipleChoiceTask):
    def doc_to_text(self, doc, doc_to_text=None):
        return super().doc_to_text(doc, doc_to_text).upper()
"""
    task = """\
task: loud
class: !function own.Shouting
dataset_path: rows.jsonl
test_split: test
output_type: multiple_choice
doc_to_text: question
doc_to_choice: [no, yes]
doc_to_target: answer
"""
    folder = write({"loud.yaml": task, "own.py": own, "rows.jsonl": '{"question": "Is tea hot?", "answer": 1}\n'})
    [config] = TaskManager(folder).load("loud")
    assert contexts(Task.from_config(config)) == ["IS TEA HOT?"]


# Documents


@pytest.mark.covers("Task.has_training_docs", "Task.has_validation_docs", "Task.has_test_docs")
@pytest.mark.parametrize("kind", ["training", "validation", "test"])
def test_a_task_has_the_splits_that_it_names(choosing, kind):
    none = {"training_split": None, "validation_split": None, "test_split": None}
    ask = f"has_{kind}_docs"
    assert getattr(choosing(**{**none, f"{kind}_split": "train"}), ask)()
    assert not getattr(choosing(**none), ask)()


@pytest.mark.covers("Task.training_docs", "Task.validation_docs", "Task.test_docs")
@pytest.mark.parametrize("kind", ["training", "validation", "test"])
def test_the_documents_of_a_split_are_processed(choosing, kind):
    def second(docs):
        return docs.select([1])

    task = choosing(process_docs=second, **{f"{kind}_split": "train"})
    assert questions(getattr(task, f"{kind}_docs")()) == ["Is rain wet?"]


@pytest.mark.covers("Task.training_docs", "Task.validation_docs", "Task.test_docs")
def test_documents_of_a_split_that_is_not_named_are_an_error(choosing):
    with pytest.raises(ConfigError, match="the task has no validation_split"):
        choosing().validation_docs()


@pytest.mark.covers("Task.fewshot_docs")
def test_fewshot_docs_are_those_that_examples_are_drawn_from(choosing):
    assert questions(choosing().fewshot_docs())[:2] == ["Is ice cold?", "Is rain wet?"]
    assert questions(choosing(fewshot_config={"fewshot_indices": [5]}).fewshot_docs()) == ["Do stones eat?"]
    assert questions(choosing(fewshot_split=None, training_split=None).fewshot_docs())[0] == "Can fish fly?"


@pytest.mark.covers("Task.get_docs")
def test_get_docs_gives_a_split_or_what_is_evaluated(choosing):
    task = choosing()
    assert questions(task.get_docs("train"))[0] == "Is ice cold?"
    assert questions(task.get_docs())[0] == "Can fish fly?"


@pytest.mark.covers("Task.doc_iterator")
@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({}, [0, 1, 2, 3]),
        ({"limit": 2}, [0, 1]),
        ({"limit": 0.5}, [0, 1]),
        ({"limit": 0.3}, [0, 1]),
        ({"limit": 99}, [0, 1, 2, 3]),
        ({"rank": 1, "world_size": 3}, [1]),
        ({"rank": 0, "world_size": 3}, [0, 3]),
        ({"rank": 1, "world_size": 2, "limit": 3}, [1]),
        ({"samples": [3, 0]}, [0, 3]),
        ({"samples": [3, 0, 2], "rank": 1, "world_size": 2}, [2]),
    ],
)
def test_the_iterator_gives_documents_with_their_index(choosing, options, ids):
    task = choosing()
    found = list(task.doc_iterator(**options))
    assert [index for index, _ in found] == ids
    assert all(doc == task.eval_docs[index] for index, doc in found)


@pytest.mark.covers("Task.doc_iterator")
def test_samples_of_a_run_keep_their_index(choosing):
    results = evaluate(tasks=[choosing()], model="dummy", samples={"facts": [2, 1]})
    assert [line["doc_id"] for line in sample_lines(results.forms[0])] == [1, 2]
    assert [line["doc"]["question"] for line in sample_lines(results.forms[0])] == ["Is snow white?", "Is fire cold?"]


@pytest.mark.covers("Task.doc_iterator")
def test_a_sample_that_is_not_there_is_an_error(choosing):
    with pytest.raises(DataError, match="facts: no document 4; the split has documents 0 to 3"):
        list(choosing().doc_iterator(samples=[4]))


@pytest.mark.covers("Task.download")
def test_download_opens_the_dataset_with_further_arguments(write, fields):
    write({"a.jsonl": '{"question": "old?"}\n', "b.jsonl": '{"question": "new?"}\n'})
    del fields["custom_dataset"]
    task = Task.from_config({**fields, "dataset_path": "json", "dataset_kwargs": {"data_files": "a.jsonl"}})
    assert questions(task.eval_docs) == ["old?"]
    task.download({"data_files": "b.jsonl"})
    assert questions(task.eval_docs) == ["new?"]


@pytest.mark.covers("Task.download")
def test_examples_come_from_the_dataset_that_was_opened_last(write, fields):
    row = '{"question": "%s?", "choices": ["no", "yes"], "answer": 0}\n'
    write({"old.jsonl": row % "old", "new.jsonl": row % "new", "test.jsonl": row % "asked"})
    del fields["custom_dataset"]
    files = {"data_files": {"test": "test.jsonl", "train": "old.jsonl"}}
    task = Task.from_config({**fields, "dataset_path": "json", "dataset_kwargs": files, "num_fewshot": 1})
    assert contexts(task) == ["old? no\n\nasked?"]
    task.download({"data_files": {"test": "test.jsonl", "train": "new.jsonl"}})
    assert contexts(task) == ["new? no\n\nasked?"]


@pytest.mark.covers("Task.download")
def test_the_dataset_is_not_opened_before_it_is_needed(choosing):
    opened = []

    def rows(**kwargs):
        opened.append(kwargs)
        return {"test": [{"question": "?", "choices": ["no", "yes"], "answer": 0}]}

    task = choosing(custom_dataset=rows)
    assert not opened
    task.download()
    assert len(task.eval_docs) == 1
    assert len(opened) == 1


@pytest.mark.covers("Task.process_doc")
def test_an_override_changes_every_document_of_every_split(fields):
    class Tidy(MultipleChoiceTask):
        @staticmethod
        def process_doc(doc):
            return {**doc, "question": doc["question"].replace("?", "??")}

    task = Tidy({**fields, "num_fewshot": 1})
    assert contexts(task, limit=1) == ["Is ice cold?? yes\n\nCan fish fly??"]
    assert Task.process_doc({"a": 1}) == {"a": 1}


@pytest.mark.covers("Task.count_bytes", "Task.count_words")
def test_words_and_bytes_are_counted_for_perplexities(fields, liking):
    assert (Task.count_words("zwei  Wörter"), Task.count_bytes("zwei  Wörter")) == (2, 13)

    class Letters(RollingTask):
        @staticmethod
        def count_words(text):
            return len(text)

    def perplexity(kind, metric):
        task = kind({**fields, "output_type": "loglikelihood_rolling", "doc_to_target": "question"})
        model = liking(by=lambda text: -float(len(text)))
        return evaluate(tasks=[task], model=model, limit=1)["facts"][f"{metric},none"]

    assert perplexity(RollingTask, "word_perplexity") == pytest.approx(math.exp(13 / 3))
    assert perplexity(Letters, "word_perplexity") == pytest.approx(math.e)
    assert perplexity(RollingTask, "byte_perplexity") == pytest.approx(math.e)


# Fields


@pytest.mark.covers("Task.doc_to_text", "Task.doc_to_choice", "Task.doc_to_target")
def test_fields_are_read_from_the_task_or_as_the_call_says(choosing):
    task = choosing()
    doc = task.eval_docs[1]
    assert (task.doc_to_text(doc), task.doc_to_choice(doc), task.doc_to_target(doc)) == (
        "Is snow white?",
        ["no", "yes"],
        1,
    )
    assert task.doc_to_text(doc, "{{question|length}} letters") == "14 letters"
    assert task.doc_to_choice(doc, ["never", "ever"]) == ["never", "ever"]
    assert task.doc_to_target(doc, "{{choices[0]}}") == "no"
    assert task.doc_to_target(doc, "{{choices}}") == ["no", "yes"]


@pytest.mark.covers("Task.doc_to_text", "Task.doc_to_choice", "Task.doc_to_target")
def test_overridden_fields_are_those_of_the_requests(fields, liking):
    class Other(MultipleChoiceTask):
        def doc_to_text(self, doc, doc_to_text=None):
            return f"Well, {doc['question'].lower()}"

        def doc_to_choice(self, doc, doc_to_choice=None):
            return ["nay", "aye"]

        def doc_to_target(self, doc, doc_to_target=None):
            return 1

    task = Other({**fields, "num_fewshot": 1})
    request = LoglikelihoodRequest("Well, is ice cold? aye\n\nWell, can fish fly?", " nay")
    assert task.build_all_requests()[0].request == request
    assert evaluate(tasks=[task], model=liking("aye"))["facts"]["acc,none"] == 1.0


@pytest.fixture
def pictures():
    """Two small pictures."""
    images = pytest.importorskip("PIL.Image")
    return [images.new("RGB", (2, 2), colour) for colour in ("red", "blue")]


@pytest.mark.covers("Task.doc_to_image")
def test_images_come_from_a_column_several_columns_or_a_function(writing, pictures):
    red, blue = pictures
    doc = {"question": "What?", "first": red, "second": blue, "third": None, "answer": "x"}

    def task(spec):
        rows = {"custom_dataset": lambda **kwargs: {"test": [doc]}, "doc_to_target": "answer", "doc_to_image": spec}
        return writing(**rows)

    assert task("first").doc_to_image(doc) is red
    assert task(["first", "second", "third"]).doc_to_image(doc) == [red, blue]
    assert task(lambda row: row["second"]).doc_to_image(doc) is blue
    assert task("first").doc_to_image(doc, "second") is blue
    [instance] = task(["first", "second"]).build_all_requests()
    assert [media.kind for media in instance.request.media] == ["image", "image"]
    assert instance.request.context.count("<image>") == 2


@pytest.mark.covers("Task.doc_to_audio")
def test_sounds_come_from_a_column_or_a_function(writing):
    sound = {"array": [0.0, 0.5, -0.5], "sampling_rate": 8000}
    doc = {"question": "What?", "sound": sound, "answer": "x"}

    def task(spec):
        rows = {"custom_dataset": lambda **kwargs: {"test": [doc]}, "doc_to_target": "answer", "doc_to_audio": spec}
        return writing(**rows)

    assert task("sound").doc_to_audio(doc) == sound
    assert task("sound").doc_to_audio(doc, lambda row: [row["sound"], row["sound"]]) == [sound, sound]
    [instance] = task(lambda row: row["sound"]).build_all_requests()
    assert [media.kind for media in instance.request.media] == ["audio"]
    assert "<audio>" in instance.request.context


# Prompts


def test_the_beginning_of_the_answer_is_a_text_or_a_template_of_the_document(choosing):
    task = choosing(gen_prefix="The answer to {{question}} is")
    doc = task.eval_docs[0]
    assert task.doc_to_prefix(doc) == f"The answer to {doc['question']} is"
    assert choosing().doc_to_prefix(doc) == ""


@pytest.mark.covers("Task.fewshot_context")
def test_a_plain_prompt_is_system_text_examples_question_and_prefix(choosing):
    task = choosing(description="Facts. ")
    context = task.fewshot_context(task.eval_docs[0], 2, system_instruction="Be brief.", gen_prefix="It is")
    assert context == "Be brief.\n\nFacts. Is ice cold? yes\n\nIs rain wet? yes\n\nCan fish fly? It is"


@pytest.mark.covers("Task.fewshot_context")
@pytest.mark.parametrize(
    ("multiturn", "turns"),
    [
        (True, "<user>Is ice cold?<assistant>yes<user>Is rain wet?<assistant>yes<user>Can fish fly?<assistant>"),
        (False, "<user>Is ice cold? yes\n\nIs rain wet? yes\n\nCan fish fly?<assistant>"),
    ],
)
def test_in_a_chat_examples_are_turns_or_one_message(choosing, multiturn, turns):
    task = choosing()
    context = task.fewshot_context(
        task.eval_docs[0],
        2,
        system_instruction="Be brief.",
        apply_chat_template=True,
        fewshot_as_multiturn=multiturn,
        chat_template=chat,
    )
    assert context == "<system>Be brief." + turns


@pytest.mark.covers("Task.fewshot_context")
def test_a_prefix_takes_the_place_of_the_generation_prompt(choosing):
    task = choosing()
    options = {"apply_chat_template": True, "chat_template": chat, "gen_prefix": "It is"}
    assert task.fewshot_context(task.eval_docs[0], 0, **options) == "<user>Can fish fly?<assistant>It is"


@pytest.mark.covers("Task.fewshot_context")
def test_several_inputs_are_several_prompts(choosing):
    task = choosing(doc_to_text=lambda doc: doc["answer"], doc_to_target="That is so.")
    assert task.fewshot_context(task.eval_docs[0], 1) == ["yes That is so.\n\nno", "yes That is so.\n\nyes"]


@pytest.mark.covers("Task.fewshot_context")
def test_a_run_applies_the_chat_template_of_the_model(writing, saying):
    model = saying("no")
    evaluate(tasks=[writing(num_fewshot=1)], model=model, apply_chat_template=True, limit=1)
    evaluate(tasks=[writing(num_fewshot=1)], model=model, apply_chat_template=True, fewshot_as_multiturn=False, limit=1)
    assert [request.context for request in model.asked] == [
        "<user>Is ice cold?<assistant>yes<user>Can fish fly?<assistant>",
        "<user>Is ice cold? yes\n\nCan fish fly?<assistant>",
    ]


@pytest.mark.covers("Task.sampler")
def test_the_sampler_is_made_once_when_it_is_first_used(fields):
    loads = []

    def load(**kwargs):
        loads.append(kwargs)
        return fields["custom_dataset"]()

    task = MultipleChoiceTask({**fields, "custom_dataset": load, "num_fewshot": 1})
    assert not loads
    assert questions(task.sampler.pool) == questions(task.fewshot_docs())
    assert len(loads) == 1
    assert task.sampler is task.sampler


@pytest.mark.covers("Task.sampler")
def test_the_sampler_draws_the_examples_of_the_prompts(choosing):
    asked, drawing = (choosing(num_fewshot=2, fewshot_config={"sampler": "default"}) for _ in range(2))
    for doc, context in zip(asked.eval_docs, dict.fromkeys(contexts(asked)), strict=True):
        drawn = [drawing.sampler.pool[index] for index in drawing.sampler.sample(2)]
        examples = [f"{shot['question']} {shot['choices'][shot['answer']]}" for shot in drawn]
        assert context == "\n\n".join([*examples, doc["question"]])


# Requests


@pytest.mark.covers("Task.construct_requests")
def test_requests_of_one_document(fields):
    def made(kind, **changes):
        task = Task.from_config({**fields, "output_type": kind, **changes})
        return [instance.request for instance in task.construct_requests(task.eval_docs[0], "Q", doc_id=0) or []]

    assert made("multiple_choice") == [LoglikelihoodRequest("Q", " no"), LoglikelihoodRequest("Q", " yes")]
    unconditional = [LoglikelihoodRequest("", " no"), LoglikelihoodRequest("", " yes")]
    assert made("multiple_choice", metric_list=[{"metric": "acc_mutual_info"}])[2:] == unconditional
    assert made("loglikelihood", doc_to_target="{{choices[0]}}") == [LoglikelihoodRequest("Q", "no")]
    assert made("loglikelihood_rolling", doc_to_target="question") == [RollingRequest("Can fish fly?")]
    greedy = {"until": ["."], "temperature": 0.0}
    assert made("generate_until", generation_kwargs=greedy, repeats=2) == [
        GenerationRequest.of("Q", greedy, 0),
        GenerationRequest.of("Q", greedy, 1),
    ]


@pytest.mark.covers("Task.construct_requests")
def test_an_override_may_ask_otherwise_and_leave_documents_out(fields):
    class Picky(MultipleChoiceTask):
        def construct_requests(self, doc, ctx, **kwargs):
            return None if doc["answer"] else super().construct_requests(doc, ctx + " Hm.", **kwargs)

    task = Picky(fields)
    assert contexts(task) == ["Can fish fly? Hm.", "Is fire cold? Hm."]
    assert evaluate(tasks=[task], model="dummy")["facts"]["sample_len"] == 2


@pytest.mark.covers("Task.construct_requests")
def test_write_out_shows_the_first_document_that_is_not_left_out(fields):
    class Picky(MultipleChoiceTask):
        def construct_requests(self, doc, ctx, **kwargs):
            return None if ctx.startswith("Can") else super().construct_requests(doc, ctx, **kwargs)

    assert "facts" in evaluate(tasks=[Picky(fields)], model="dummy", write_out=True)


@pytest.mark.covers("Task.construct_requests")
def test_metadata_goes_along_with_the_instances(choosing):
    task = choosing()
    [instance, _] = task.construct_requests(task.eval_docs[0], "Q", doc_id=0, metadata={"source": "web"})
    assert instance.metadata == {"source": "web"}


@pytest.mark.covers("Task.construct_requests", "Task.build_all_requests")
def test_metadata_is_there_each_time_the_requests_are_made(fields, request_folder):
    class Noting(MultipleChoiceTask):
        def construct_requests(self, doc, ctx, **kwargs):
            return super().construct_requests(doc, ctx, **{**kwargs, "metadata": {"length": len(doc["question"])}})

    for _ in range(2):
        [first, *_] = Noting(fields).build_all_requests(cache_requests=True)
        assert first.metadata == {"length": 13}


@pytest.mark.covers("Task.construct_requests")
def test_further_arguments_are_allowed(choosing):
    task = choosing()
    assert task.construct_requests(task.eval_docs[0], "Q", doc_id=0, note="anything")


@pytest.mark.covers("Task.build_all_requests", "Task.instances")
def test_all_requests_are_made_and_kept(choosing):
    task = choosing()
    assert task.instances == []
    made = task.build_all_requests(limit=2)
    assert task.instances == made
    assert [(instance.doc_id, instance.idx) for instance in made] == [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.mark.covers("Task.build_all_requests")
def test_requests_of_a_rank_and_of_samples(choosing):
    task = choosing()
    assert {instance.doc_id for instance in task.build_all_requests(rank=1, world_size=2)} == {1, 3}
    assert {instance.doc_id for instance in task.build_all_requests(samples=[2])} == {2}


@pytest.mark.covers("Task.build_all_requests")
def test_requests_are_read_from_the_cache_the_second_time(choosing, request_folder, rendered):
    first = choosing().build_all_requests(cache_requests=True)
    rendered.clear()
    again = choosing()
    assert again.build_all_requests(cache_requests=True) == first
    assert again.instances == first
    assert not rendered
    assert choosing().build_all_requests(cache_requests=True, rewrite_requests_cache=True) == first
    assert rendered


@pytest.mark.covers("Task.build_all_requests")
@pytest.mark.parametrize("kind", ["multiple_choice", "generate_until", "loglikelihood", "loglikelihood_rolling"])
def test_cached_requests_are_the_same_requests(fields, request_folder, kind):
    def build():
        task = Task.from_config({**fields, "output_type": kind, "doc_to_target": "{{choices[answer]}}", "repeats": 2})
        return task.build_all_requests(cache_requests=True)

    assert build() == build()


CHANGES = {
    "description": {"description": "Hm. "},
    "shots": {"num_fewshot": 1},
    "format": {"formats": "mcqa"},
    "function": {"doc_to_text": lambda doc: "Other?"},
    "generation": {"output_type": "generate_until"},
    "document": {"custom_dataset": lambda **kwargs: {"test": [{"question": "New?", "choices": ["a"], "answer": 0}]}},
}


@pytest.mark.covers("Task.build_all_requests")
@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_a_change_of_the_task_or_its_documents_is_not_answered_from_the_cache(choosing, request_folder, changes):
    fresh = choosing(**changes).build_all_requests()
    choosing().build_all_requests(cache_requests=True)
    assert choosing(**changes).build_all_requests(cache_requests=True) == fresh
    assert len(list(request_folder.iterdir())) == (1 if "doc_to_text" in changes else 2)  # code is not cached


@pytest.mark.covers("Task.build_all_requests")
def test_prompts_of_functions_are_not_cached(choosing, request_folder):
    def asking(word):
        return contexts(choosing(doc_to_text=lambda doc: word), limit=1, cache_requests=True)

    assert (asking("Yes?"), asking("No?"), asking("Yes?")) == (["Yes?"], ["No?"], ["Yes?"])
    assert not list(request_folder.iterdir())


@pytest.mark.covers("Task.build_all_requests")
def test_a_subclass_does_not_read_the_requests_of_another_class(fields, request_folder):
    class Loud(MultipleChoiceTask):
        def doc_to_text(self, doc, doc_to_text=None):
            return super().doc_to_text(doc, doc_to_text).upper()

    for kind, question in [(MultipleChoiceTask, "Can fish fly?"), (Loud, "CAN FISH FLY?")]:
        assert contexts(kind(fields), limit=1, cache_requests=True) == [question]


@pytest.mark.covers("Task.build_all_requests")
@pytest.mark.parametrize(
    "options",
    [
        {"limit": 3},
        {"system_instruction": "Be brief."},
        {"apply_chat_template": True, "chat_template": chat},
        {"apply_chat_template": True, "chat_template": chat, "tokenizer_name": "other"},
        {"rank": 1, "world_size": 2},
    ],
    ids=lambda options: "-".join(options),
)
def test_other_options_have_a_cache_of_their_own(choosing, request_folder, options):
    choosing().build_all_requests(cache_requests=True)
    fresh = choosing().build_all_requests(**options)
    assert choosing().build_all_requests(cache_requests=True, **options) == fresh
    assert len(list(request_folder.iterdir())) == 2


@pytest.mark.covers("Task.build_all_requests")
def test_a_damaged_cache_file_is_made_anew(choosing, request_folder):
    fresh = choosing().build_all_requests(cache_requests=True)
    [file] = request_folder.iterdir()
    file.write_text(file.read_text()[:-20])
    assert choosing().build_all_requests(cache_requests=True) == fresh
    assert all(json.loads(line) for line in file.read_text().splitlines())


# Scores


@pytest.mark.covers("Task.apply_filters")
def test_filters_are_applied_to_the_answers_of_a_document(writing, saying):
    number = [{"function": "regex", "regex_pattern": "no|yes"}, {"function": "take_first"}]
    task = writing(filter_list=[{"name": "word", "filter": number}, {"name": "all", "filter": [{"function": "noop"}]}])
    model, [instance] = saying("I say no."), task.build_all_requests(limit=1)
    instance.resps.extend(output for _, output in model.generate([instance.request]))
    task.apply_filters()
    assert {scorer.name: scorer.filtered_docs[0] for scorer in task.form.scoring.scorers} == {
        "word": ["no"],
        "all": [["I say no."]],
    }


@pytest.mark.covers("Task.process_instances")
def test_a_document_is_filtered_and_scored(choosing):
    right, wrong = scored(choosing(), -1.0, -2.0)[0], scored(choosing(), -2.0, -1.0)[0]
    assert (right.scorer, right.values["acc"], wrong.values["acc"]) == ("none", 1.0, 0.0)
    assert wrong.filtered == ((-2.0, False), (-1.0, False))


@pytest.mark.covers("Task.process_results")
def test_an_override_gives_the_values_or_leaves_them_to_the_metrics(fields, liking):
    class Sometimes(MultipleChoiceTask):
        def process_results(self, doc, results):
            return {"acc": 5.0} if doc["question"].startswith("Can") else None

    results = evaluate(tasks=[Sometimes({**fields, "metric_list": [{"metric": "acc"}]})], model=liking("yes"))
    assert results["facts"]["acc,none"] == (5.0 + 1.0 + 0.0 + 1.0) / 4


@pytest.mark.covers("Task.process_results")
@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("multiple_choice", [(-5.0, False), (-0.5, True)]),
        ("loglikelihood", [(-5.0, False)]),
        ("loglikelihood_rolling", [-5.0]),
        ("generate_until", ["yes"]),
    ],
)
def test_results_have_the_shape_of_the_output_type(fields, saying, liking, kind, shape):
    seen = []

    def keep(doc, results):
        seen.append(list(results))
        return {"seen": 1.0}

    task = Task.from_config({**fields, "output_type": kind, "doc_to_target": "{{choices[0]}}", "process_results": keep})
    model = saying("yes") if kind == "generate_until" else liking("yes")
    evaluate(tasks=[task], model=model, limit=1)
    assert seen == [shape]


@pytest.mark.covers("Task.process_results")
@pytest.mark.parametrize(
    ("entry", "key", "value"),
    [
        ({}, "right,none", 0.0),
        ({"reduction": "mean"}, "right,none", 0.5),
        ({"reduction": "pass@2"}, "pass@2(right),none", 5 / 6),
        ({"aggregation": lambda items: sum(map(sum, items))}, "right,none", 2.0),
    ],
)
def test_lists_of_values_are_reduced_like_repeats_unless_a_function_aggregates_them(writing, saying, entry, key, value):
    def right(doc, results):
        [texts] = results
        return {"right": [float(text == "no") for text in texts]}

    task = writing(
        repeats=4,
        filter_list=[{"name": "none", "filter": [{"function": "noop"}]}],
        process_results=right,
        metric_list=[{"metric": "right", **entry}],
    )
    results = evaluate(tasks=[task], model=saying("what?", "no", "no", "never"), limit=1)
    assert results["facts"][key] == pytest.approx(value)


@pytest.mark.covers("Task.process_results")
def test_without_code_of_its_own_a_task_leaves_the_values_to_the_metrics(choosing):
    task = choosing()
    assert task.process_results(task.eval_docs[0], [(-1.0, False), (-2.0, False)]) is None


@pytest.mark.covers("Task.process_results")
def test_the_function_of_the_configuration_gives_the_values(choosing):
    task = choosing(process_results=lambda doc, results: {"first": results[0][0], "gold": doc["answer"]})
    assert task.process_results(task.eval_docs[1], [(-1.0, False), (-2.0, False)]) == {"first": -1.0, "gold": 1}


@pytest.mark.covers("Task.aggregate")
def test_scores_of_all_documents_are_keyed_by_metric_and_scorer_and_counted(choosing):
    task = choosing(metric_list=[{"metric": "acc"}])
    scored(task, -2.0, -1.0)
    scores, number = task.aggregate()
    assert number == 4
    assert scores == {"acc,none": 0.5, "acc_stderr,none": pytest.approx(math.sqrt(1 / 3 / 4))}


@pytest.mark.covers("Task.aggregation")
def test_the_aggregation_of_each_metric(choosing):
    found = choosing(metric_list=[{"metric": "acc"}, {"metric": "acc_norm", "aggregation": max}]).aggregation()
    assert (found["acc"]([1.0, 0.0]), found["acc_norm"]([1.0, 0.0])) == (0.5, 1.0)


@pytest.mark.covers("Task.aggregation", "Task.higher_is_better")
def test_overridden_aggregations_and_directions_are_used(fields, liking):
    class Worst(MultipleChoiceTask):
        def process_results(self, doc, results):
            return {"worst": max(ll for ll, _ in results), "spread": doc["answer"]}

        def aggregation(self):
            return {"worst": min, "spread": lambda items: max(items) - min(items)}

        def higher_is_better(self):
            return {"worst": True, "spread": False}

    results = evaluate(tasks=[Worst(fields)], model=liking("yes"))
    assert (results["facts"]["worst,none"], results["facts"]["spread,none"]) == (-0.5, 1)
    assert results.forms[0].higher_is_better == {"worst": True, "spread": False}


@pytest.mark.covers("Task.higher_is_better")
def test_the_direction_of_each_metric(choosing):
    listed = [{"metric": "acc"}, {"metric": "brier_score"}]
    assert choosing(metric_list=listed).higher_is_better() == {"acc": True, "brier_score": False}


# Changing one


@pytest.mark.covers("Task.override_metric")
def test_one_metric_replaces_all_others(choosing, liking):
    task = choosing(metric_list=[{"metric": "acc"}, {"metric": "acc_norm"}])
    task.override_metric("likelihood")
    scores = evaluate(tasks=[task], model=liking("yes"))["facts"]
    assert [key for key in scores if "," in key] == ["likelihood,none", "likelihood_stderr,none"]


@pytest.mark.covers("Task.override_metric")
def test_predict_only_keeps_the_answers_and_the_filters_and_scores_nothing(fields, saying):
    class Own(GenerateTask):
        def process_results(self, doc, results):
            return {"own": 1.0}

    word = {"function": "regex", "regex_pattern": "no|yes"}
    pipelines = [{"name": "word", "filter": [word, {"function": "take_first"}], "metric_list": [{"metric": "chrf"}]}]
    task = Own({**fields, "output_type": "generate_until", "filter_list": pipelines})
    results = evaluate(tasks=[task], model=saying("I say no."), limit=1, predict_only=True)
    assert {key: value for key, value in results["facts"].items() if "," in key} == {
        "bypass,word": 999.0,
        "bypass_stderr,word": "N/A",
    }
    [line] = sample_lines(results.forms[0])
    assert (line["resps"], line["filtered_resps"]) == ([["I say no."]], ["no"])


@pytest.mark.covers("Task.override_metric")
def test_predict_only_under_a_format_scores_nothing_either(choosing):
    results = evaluate(tasks=[choosing(formats="generate")], model="dummy", predict_only=True)
    assert [key for key in results["facts"] if "," in key] == ["bypass,none", "bypass_stderr,none"]


@pytest.mark.covers("Task.set_repeats")
def test_repeats_are_set(writing):
    task = writing()
    task.set_repeats(3)
    assert [instance.request.sample for instance in task.build_all_requests(limit=1)] == [0, 1, 2]
    with pytest.raises(ConfigError, match="repeats: expected 1 or more, got 0"):
        task.set_repeats(0)


@pytest.mark.covers("Task.set_num_fewshot")
def test_the_number_of_shots_is_set(choosing):
    task = choosing(num_fewshot=1)
    task.set_num_fewshot(2)
    assert contexts(task, limit=1) == ["Is ice cold? yes\n\nIs rain wet? yes\n\nCan fish fly?"]
    with pytest.raises(ConfigError, match="num_fewshot: expected 0 or more, got -1"):
        task.set_num_fewshot(-1)


@pytest.mark.covers("Task.set_num_fewshot")
def test_a_task_that_says_no_shots_keeps_that(choosing):
    task = choosing(num_fewshot=0)
    task.set_num_fewshot(2)
    assert contexts(task, limit=1) == ["Can fish fly?"]


@pytest.mark.covers("Task.set_fewshot_seed")
def test_the_seed_decides_the_shots(choosing):
    def drawn(seed):
        task = choosing(fewshot_config={}, num_fewshot=2)
        task.set_fewshot_seed(seed)
        return contexts(task)

    assert drawn(7) == drawn(7)
    assert drawn(7) != drawn(8)


@pytest.mark.covers("Task.set_fewshot_seed")
def test_setting_the_seed_again_starts_the_draws_anew(choosing):
    task = choosing(fewshot_config={}, num_fewshot=2)
    task.set_fewshot_seed(7)
    first = contexts(task)
    task.set_fewshot_seed(7)
    assert contexts(task) == first


@pytest.mark.covers("Task.get_config", "Task.set_config")
def test_fields_are_set_and_got(choosing):
    task = choosing()
    task.set_config("description", "Facts. ")
    task.set_config("target_delimiter", "\n")
    assert (task.get_config("description"), task.get_config("no_such_field")) == ("Facts. ", None)
    assert task.build_all_requests()[0].request == LoglikelihoodRequest("Facts. Can fish fly?", "\nno")


@pytest.mark.covers("Task.set_config")
def test_a_mapping_is_updated_or_replaced(writing):
    def asked(**options):
        task = writing(generation_kwargs={"until": ["."], "max_gen_toks": 8})
        task.set_config("generation_kwargs", {"max_gen_toks": 4}, **options)
        return task.build_all_requests()[0].request.gen_kwargs

    assert asked(update=True) == {"until": ["."], "max_gen_toks": 4}
    assert asked() == {"max_gen_toks": 4, "until": ["\n\n"]}


@pytest.mark.covers("Task.set_config")
def test_scores_follow_a_metric_list_that_is_set(choosing, liking):
    task = choosing()
    task.set_config("metric_list", [{"metric": "likelihood"}])
    assert "likelihood,none" in evaluate(tasks=[task], model=liking("yes"))["facts"]


@pytest.mark.covers("Task.set_config")
def test_shots_follow_a_fewshot_config_that_is_set(choosing):
    task = choosing(num_fewshot=1)
    assert contexts(task, limit=1) == ["Is ice cold? yes\n\nCan fish fly?"]
    task.set_config("fewshot_config", {"fewshot_indices": [3], "doc_to_text": "E: {{question}}"})
    assert contexts(task, limit=1) == ["E: Is lead light? no\n\nCan fish fly?"]


@pytest.mark.covers("Task.set_config", "Task.dump_config", "Task.build_all_requests")
@pytest.mark.parametrize("formats", [None, "cloze"])
@pytest.mark.parametrize(
    ("key", "value"), [("fewshot_config", {"sampler": "first_n", "gen_prefix": "So"}), ("description", "Facts. ")]
)
def test_what_is_set_is_dumped_and_changes_the_cache(choosing, request_folder, formats, key, value):
    task = choosing(formats=formats, num_fewshot=1)
    task.build_all_requests(cache_requests=True)
    task.set_config(key, value)
    assert task.dump_config()[key] == value
    task.build_all_requests(cache_requests=True)
    again = Task.from_config(task.config.to_dict(keep_callable=True))
    assert again.build_all_requests() == task.instances
    assert len(list(request_folder.iterdir())) == 2


@pytest.mark.covers("Task.set_config")
@pytest.mark.parametrize(
    ("key", "value", "update", "message"),
    [
        ("descripton", "x", False, "unknown key 'descripton' in a task; did you mean 'description'"),
        ("description", {"a": 1}, True, "'description' is a str, not a mapping"),
    ],
)
def test_what_cannot_be_set_is_an_error(choosing, key, value, update, message):
    with pytest.raises(ConfigError, match=message):
        choosing().set_config(key, value, update=update)


@pytest.mark.covers("Task.dump_config")
def test_the_configuration_is_dumped_as_it_is_now(choosing):
    task = choosing(formats="mcqa")
    task.set_num_fewshot(3)
    dumped = task.dump_config()
    assert (dumped["num_fewshot"], dumped["formats"], dumped["task"]) == (3, "mcqa", "facts")
    assert json.loads(json.dumps(dumped)) == dumped
    task.override_metric("bypass")
    assert task.dump_config()["metric_list"] == [{"metric": "bypass"}]

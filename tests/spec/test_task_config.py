"""Every field of TaskConfig, by what it does to a prompt, a request, a score or a file."""

from __future__ import annotations

import json
import logging
import math

import pytest

from multiform import ConfigError, FewshotConfig, MCQAFormat, TaskConfig, TaskManager, UsageError, evaluate
from multiform.forms import GenerateTask, LoglikelihoodTask, MultipleChoiceTask, RollingTask, Task
from multiform.requests import GenerationRequest, LoglikelihoodRequest, RollingRequest
from multiform.results.export import to_json, write_results
from tests.task_files import MULTIPLE_CHOICE

ROWS = """\
{"question": "Is tea hot?", "choices": ["no", "yes"], "answer": 1}
{"question": "Is tar white?", "choices": ["no", "yes"], "answer": 0}
"""
YAML = "task: {task}\n" + MULTIPLE_CHOICE


# Names


@pytest.mark.covers("TaskConfig.task")
def test_results_are_keyed_by_the_task(choosing):
    assert list(evaluate(tasks=[choosing(task="trivia")], model="dummy")) == ["trivia"]


@pytest.mark.covers("TaskConfig.task")
def test_two_different_tasks_of_one_name_are_refused(choosing):
    with pytest.raises(UsageError, match="facts"):
        evaluate(tasks=[choosing(), choosing(description="Another one. ")], model="dummy")


@pytest.mark.covers("TaskConfig.task", "TaskConfig.formats")
def test_a_task_name_with_an_at_runs_under_that_format(choosing, prompt):
    task = choosing(task="facts@mcqa")
    assert prompt(task) == "Question: Can fish fly?\nA. no\nB. yes\nAnswer:"
    assert list(evaluate(tasks=[task], model="dummy")) == ["facts@mcqa"]


@pytest.mark.covers("TaskConfig.task_alias")
def test_the_alias_stands_in_tables_and_results(choosing):
    results = evaluate(tasks=[choosing(task_alias="Plain facts")], model="dummy")
    assert results["facts"]["alias"] == "Plain facts"
    assert results.table("long").splitlines()[3].split("  ")[0].strip() == "Plain facts"


@pytest.mark.covers("TaskConfig.tag")
@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ("nature", ["a", "b"]),
        ("cold", ["b"]),
        ("nature@cloze", ["a@cloze", "b@cloze"]),
    ],
)
def test_a_tag_selects_all_tasks_that_carry_it(write, spec, names):
    folder = write(
        {
            "a.yaml": YAML.format(task="a") + "tag: nature\n",
            "b.yaml": YAML.format(task="b") + "tag: [nature, cold]\n",
            "c.yaml": YAML.format(task="c"),
            "rows.jsonl": ROWS,
        }
    )
    assert list(evaluate(tasks=spec, model="dummy", include_path=folder)) == names


@pytest.mark.covers("TaskConfig.task")
def test_a_glob_selects_tasks_by_name(write):
    files = {f"{name}.yaml": YAML.format(task=name) for name in ("sea_cold", "sea_warm", "land")}
    folder = write({**files, "rows.jsonl": ROWS})
    assert list(evaluate(tasks="sea_*", model="dummy", include_path=folder)) == ["sea_cold", "sea_warm"]


# Formats


@pytest.mark.covers("TaskConfig.formats")
@pytest.mark.parametrize(
    ("formats", "begins"),
    [
        ("cloze", "Question: Can fish fly?\nAnswer:"),
        ({"type": "mcqa", "question_prefix": "Q: "}, "Q: Can fish fly?\nA. no\nB. yes\nAnswer:"),
        ({"short": {"type": "cloze", "answer_prompt": "So:"}}, "Question: Can fish fly?\nSo:"),
        (MCQAFormat(choice_labels="numbers"), "Question: Can fish fly?\n1. no\n2. yes\nAnswer:"),
    ],
)
def test_formats_lays_out_the_prompt(choosing, prompt, formats, begins):
    assert prompt(choosing(formats=formats)) == begins


@pytest.mark.covers("TaskConfig.formats")
def test_a_format_decides_what_is_asked_and_scored(choosing, continuations):
    assert continuations(choosing(formats="mcqa")) == [" A", " B"]
    assert continuations(choosing(formats="cloze")) == [" no", " yes"]
    assert continuations(choosing(formats="bpb")) == [" no"]
    assert isinstance(choosing(formats="generate"), GenerateTask)


@pytest.mark.covers("TaskConfig._formats_selection")
def test_the_format_that_is_selected_at_run_time_wins(fields, prompt):
    config = TaskConfig(**fields, formats="cloze", _formats_selection="mcqa")
    assert config.form_name == "facts@mcqa"
    assert prompt(Task.from_config(config)).endswith("A. no\nB. yes\nAnswer:")


@pytest.mark.covers("TaskConfig._qualified_name")
def test_a_qualified_name_keys_the_results(fields):
    config = TaskConfig(**fields, _qualified_name="science::facts")
    assert list(evaluate(tasks=[config], model="dummy")) == ["science::facts"]


# What is asked


@pytest.mark.covers("TaskConfig.output_type")
def test_the_output_type_decides_the_requests(fields):
    def asked(**changes):
        task = Task.from_config({**fields, **changes})
        return type(task), [instance.request for instance in task.build_all_requests(limit=1)]

    ranked = [LoglikelihoodRequest("Can fish fly?", " no"), LoglikelihoodRequest("Can fish fly?", " yes")]
    assert asked(output_type="multiple_choice") == (MultipleChoiceTask, ranked)
    single = [LoglikelihoodRequest("Can fish fly?", " no")]
    assert asked(output_type="loglikelihood", doc_to_target=" no", doc_to_choice=None) == (LoglikelihoodTask, single)
    whole = [RollingRequest("Can fish fly?")]
    assert asked(output_type="loglikelihood_rolling", doc_to_target="question") == (RollingTask, whole)
    kind, [written] = asked(output_type="generate_until")
    assert kind is GenerateTask
    assert isinstance(written, GenerationRequest)


@pytest.mark.covers("TaskConfig.output_type")
def test_generation_is_the_default(fields):
    del fields["output_type"]
    assert isinstance(Task.from_config(fields), GenerateTask)


@pytest.mark.covers("TaskConfig.output_type")
def test_a_run_refuses_choices_that_nothing_ranks_unless_generation_is_said(fields):
    del fields["output_type"]
    with pytest.raises(ConfigError, match="add output_type: multiple_choice to have the choices ranked"):
        evaluate(tasks=[TaskConfig(**fields)], model="dummy")
    with pytest.raises(ConfigError, match="add output_type: multiple_choice to have the choices ranked"):
        evaluate(tasks=[TaskConfig(**fields).replace(num_fewshot=1)], model="dummy")
    written = evaluate(tasks=[TaskConfig(**fields, output_type="generate_until")], model="dummy")
    assert "exact_match,none" in written["facts"]


@pytest.mark.covers("TaskConfig.output_type")
def test_each_output_type_has_metrics_of_its_own(fields):
    def scores(**changes):
        result = evaluate(tasks=[Task.from_config({**fields, **changes})], model="dummy", bootstrap_iters=0)["facts"]
        return [key for key in result if key.endswith(",none") and "stderr" not in key]

    assert scores(output_type="multiple_choice") == ["acc,none", "acc_norm,none"]
    assert scores(output_type="generate_until") == ["exact_match,none"]
    assert scores(output_type="loglikelihood", doc_to_choice=None) == ["perplexity,none", "acc,none"]
    rolling = scores(output_type="loglikelihood_rolling", doc_to_target="question")
    assert rolling == ["word_perplexity,none", "byte_perplexity,none", "bits_per_byte,none"]


# Data


@pytest.mark.covers("TaskConfig.custom_dataset", "TaskConfig.metadata")
def test_a_function_gives_the_data_and_gets_the_metadata(choosing, prompt):
    def rows(**kwargs):
        return {"test": [{"question": f"{kwargs['topic']}?", "choices": ["no", "yes"], "answer": 0}]}

    assert prompt(choosing(custom_dataset=rows, metadata={"topic": "Tides"})) == "Tides?"


@pytest.mark.covers("TaskConfig.custom_dataset", "TaskConfig.dataset_kwargs")
def test_a_function_that_gives_the_data_gets_the_dataset_kwargs_as_well(choosing):
    seen = {}

    def rows(**kwargs):
        seen.update(kwargs)
        return {"test": [{"question": "q", "choices": ["no", "yes"], "answer": 0}]}

    choosing(custom_dataset=rows, dataset_kwargs={"year": 1999}).download()
    assert seen == {"year": 1999}


@pytest.mark.covers("TaskConfig.custom_dataset")
def test_a_function_that_gives_the_data_gets_the_arguments_of_the_model(choosing):
    seen = {}

    def rows(**kwargs):
        seen.update(kwargs)
        return {"test": [{"question": "q", "choices": ["no", "yes"], "answer": 0}]}

    evaluate(tasks=[choosing(custom_dataset=rows)], model="dummy", model_args={"seed": 7})
    assert seen["seed"] == 7


@pytest.mark.covers("TaskConfig.dataset_path")
def test_a_path_names_a_file_beside_the_task(write):
    folder = write({"here/t.yaml": YAML.format(task="t"), "here/rows.jsonl": ROWS})
    [config] = TaskManager().load(str(folder / "here" / "t.yaml"))
    assert Task.from_config(config).eval_docs[0]["question"] == "Is tea hot?"


@pytest.mark.covers("TaskConfig.dataset_path", "TaskConfig.dataset_name")
def test_path_and_name_are_looked_up_in_a_mirror(write, fields):
    folder = write({"org/data/easy/test.jsonl": ROWS, "org/data/default/test.jsonl": ROWS.replace("Is tea", "Is ice")})
    del fields["custom_dataset"]
    named = Task.from_config({**fields, "dataset_path": "org/data", "dataset_name": "easy"}, dataset_mirror=folder)
    unnamed = Task.from_config({**fields, "dataset_path": "org/data"}, dataset_mirror=folder)
    assert [task.eval_docs[0]["question"] for task in (named, unnamed)] == ["Is tea hot?", "Is ice hot?"]


@pytest.mark.covers("TaskConfig.dataset_name")
def test_a_name_is_a_folder_in_a_local_dataset(write, fields):
    write({"data/easy/test.jsonl": ROWS, "data/hard/test.jsonl": ROWS.replace("Is tea", "Is ice")})
    del fields["custom_dataset"]
    hard = Task.from_config({**fields, "dataset_path": "data", "dataset_name": "hard"})
    assert hard.eval_docs[0]["question"] == "Is ice hot?"


@pytest.mark.covers("TaskConfig.dataset_kwargs")
def test_dataset_kwargs_name_the_files_of_each_split(write, fields):
    write({"a.jsonl": ROWS, "b.jsonl": ROWS.replace("Is tea", "Is ice")})
    del fields["custom_dataset"]
    files = {"data_files": {"test": "a.jsonl", "train": "b.jsonl"}}
    task = Task.from_config({**fields, "dataset_path": "json", "dataset_kwargs": files})
    assert task.test_docs()[0]["question"] == "Is tea hot?"
    assert task.training_docs()[0]["question"] == "Is ice hot?"


@pytest.mark.covers("TaskConfig.test_split", "TaskConfig.validation_split")
def test_the_test_split_is_evaluated_or_else_the_validation_split(choosing, prompt):
    assert prompt(choosing(test_split="test", validation_split="train")) == "Can fish fly?"
    assert prompt(choosing(test_split=None, validation_split="train")) == "Is ice cold?"


@pytest.mark.covers("TaskConfig.training_split", "TaskConfig.fewshot_split")
def test_shots_come_from_the_fewshot_split_or_else_the_training_split(choosing, prompt):
    splits = {"dev": [{"question": "Dev?", "choices": ["no", "yes"], "answer": 1}]}
    splits |= {name: [{"question": f"{name}?", "choices": ["no", "yes"], "answer": 0}] for name in ("train", "test")}
    given = {"custom_dataset": lambda **kwargs: splits, "num_fewshot": 1}
    assert prompt(choosing(**given, fewshot_split="dev")) == "Dev? yes\n\ntest?"
    assert prompt(choosing(**given, fewshot_split=None)) == "train? no\n\ntest?"


@pytest.mark.covers("TaskConfig.validation_split", "TaskConfig.test_split")
def test_without_a_training_split_shots_come_from_validation_and_then_from_test(choosing, prompt):
    given = {"fewshot_split": None, "training_split": None, "num_fewshot": 1}
    assert prompt(choosing(**given, validation_split="train")) == "Is ice cold? yes\n\nCan fish fly?"
    assert prompt(choosing(**given)) == "Is snow white? yes\n\nCan fish fly?"


@pytest.mark.covers("TaskConfig.process_docs")
def test_process_docs_filters_and_changes_the_documents(choosing, prompt):
    def cold_ones(docs):
        return [{**doc, "question": doc["question"].upper()} for doc in docs if "cold" in doc["question"]]

    task = choosing(process_docs=cold_ones, num_fewshot=1)
    assert prompt(task) == "IS ICE COLD? yes\n\nIS FIRE COLD?"
    assert len(task.eval_docs) == 1


@pytest.mark.covers("TaskConfig.process_docs")
def test_a_function_beside_the_task_file_processes_the_documents(write):
    utils = "def second(docs):\n    return docs.select([1])\n"
    task = YAML.format(task="t") + "process_docs: !function utils.second\n"
    folder = write({"t.yaml": task, "utils.py": utils, "rows.jsonl": ROWS})
    [config] = TaskManager().load(str(folder / "t.yaml"))
    assert [doc["question"] for doc in Task.from_config(config).eval_docs] == ["Is tar white?"]


# Prompts


@pytest.mark.covers("TaskConfig.description")
def test_a_description_is_rendered_for_each_document(choosing):
    task = choosing(description="About {{question.split()[1]}}.\n")
    prompts = [instance.request.context for instance in task.build_all_requests() if instance.idx == 0]
    assert prompts[:2] == ["About fish.\nCan fish fly?", "About snow.\nIs snow white?"]


@pytest.mark.covers("TaskConfig.description")
def test_in_a_chat_the_description_follows_the_system_instruction(writing, prompt, saying):
    chat = {"apply_chat_template": True, "chat_template": saying().apply_chat_template}
    task = writing(description="Facts.")
    said = prompt(task, system_instruction="Be brief.", **chat)
    assert said == "<system>Be brief.\n\nFacts.<user>Can fish fly?<assistant>"


@pytest.mark.covers("TaskConfig.doc_to_text")
@pytest.mark.parametrize("given", ["question", "{{question}}", "{{ question|trim }}", lambda doc: doc["question"]])
def test_the_question_is_a_column_a_template_or_a_function(choosing, prompt, given):
    assert prompt(choosing(doc_to_text=given)) == "Can fish fly?"


@pytest.mark.covers("TaskConfig.doc_to_choice")
@pytest.mark.parametrize(
    "given",
    [
        "choices",
        "{{choices}}",
        "{{[choices[0], choices[1]]}}",
        ["no", "yes"],
        ["{{choices[0]}}", "yes"],
        {"negative": "no", "positive": "yes"},
        lambda doc: doc["choices"],
    ],
)
def test_the_choices_are_a_column_a_template_a_list_a_mapping_or_a_function(choosing, continuations, given):
    assert continuations(choosing(doc_to_choice=given)) == [" no", " yes"]


@pytest.mark.covers("TaskConfig.doc_to_target")
@pytest.mark.parametrize(
    "given", ["answer", "{{answer}}", "{{choices[answer]}}", lambda doc: doc["answer"], lambda doc: [doc["answer"]]]
)
def test_the_target_is_an_index_or_a_choice_and_decides_the_score(choosing, liking, given):
    right = evaluate(
        tasks=[choosing(doc_to_target=given)], model=liking("fly? no", "white? yes", "cold? no", "sing? yes")
    )
    assert right["facts"]["acc,none"] == 1.0


@pytest.mark.covers("TaskConfig.doc_to_target")
def test_a_constant_target_is_the_same_for_all_documents(choosing, liking):
    assert evaluate(tasks=[choosing(doc_to_target=1)], model=liking("yes"))["facts"]["acc,none"] == 1.0


@pytest.mark.covers("TaskConfig.doc_to_target", "TaskConfig.doc_to_choice")
def test_in_a_generation_an_index_stands_for_the_choice(fields, saying):
    task = Task.from_config({**fields, "output_type": "generate_until"})
    assert evaluate(tasks=[task], model=saying("yes"))["facts"]["exact_match,none"] == 0.5


@pytest.mark.covers("TaskConfig.gen_prefix")
def test_the_answer_begins_with_the_prefix_in_the_prompt_and_in_the_shots(choosing, prompt):
    task = choosing(gen_prefix="The answer is", num_fewshot=1)
    assert prompt(task) == "Is ice cold? The answer is yes\n\nCan fish fly? The answer is"


@pytest.mark.covers("TaskConfig.gen_prefix")
def test_the_prefix_may_be_a_template(choosing, prompt):
    assert prompt(choosing(gen_prefix="{{choices|join('/')}}:")) == "Can fish fly? no/yes:"


@pytest.mark.covers("TaskConfig.gen_prefix")
def test_in_a_chat_the_prefix_begins_the_assistants_turn(choosing, prompt, continuations, saying):
    chat = {"apply_chat_template": True, "chat_template": saying().apply_chat_template}
    task = choosing(gen_prefix="It is")
    assert prompt(task, **chat) == "<user>Can fish fly?<assistant>It is"
    assert continuations(task, **chat) == [" no", " yes"]
    assert continuations(choosing(), **chat) == ["no", "yes"]


@pytest.mark.covers("TaskConfig.target_delimiter")
def test_the_target_delimiter_stands_before_every_answer(choosing, prompt, continuations):
    task = choosing(target_delimiter=" => ", num_fewshot=1)
    assert prompt(task) == "Is ice cold? => yes\n\nCan fish fly?"
    assert continuations(task) == [" => no", " => yes"]


@pytest.mark.covers("TaskConfig.fewshot_delimiter")
def test_the_fewshot_delimiter_stands_between_examples_and_ends_generations(writing):
    [instance, *_] = writing(fewshot_delimiter="\n---\n", num_fewshot=2).build_all_requests(limit=1)
    assert instance.request.context == "Is ice cold? yes\n---\nIs rain wet? yes\n---\nCan fish fly?"
    assert instance.request.gen_kwargs["until"] == ["\n---\n"]


@pytest.mark.covers("TaskConfig.use_prompt")
def test_a_prompt_of_a_yaml_library_replaces_the_fields(write, fields, prompt, continuations):
    library = """\
prompts:
  polite:
    doc_to_text: 'Please: {{question}}'
    doc_to_choice: [nay, aye]
"""
    write({"prompts.yaml": library})
    task = Task.from_config({**fields, "use_prompt": "prompts.yaml:polite"})
    assert prompt(task) == "Please: Can fish fly?"
    assert continuations(task) == [" nay", " aye"]


@pytest.mark.covers("TaskConfig.use_prompt")
def test_a_template_of_promptsource_replaces_the_fields(write, fields, monkeypatch, prompt, continuations):
    template = """\
dataset: org/facts
templates:
  0a1b: !Template
    answer_choices: No ||| Yes
    jinja: '{{question}} {{answer_choices|join(" or ")}}? ||| {{answer_choices[answer]}}'
    metadata: !TemplateMetadata {languages: [en]}
    name: GPT-3 Style
"""
    folder = write({"templates/org/facts/templates.yaml": template, "data/org/facts/default/test.jsonl": ROWS})
    monkeypatch.setenv("PROMPTSOURCE_TEMPLATES", str(folder / "templates"))
    del fields["custom_dataset"]
    asked = {**fields, "dataset_path": "org/facts", "use_prompt": "promptsource:GPT-3 Style"}
    task = Task.from_config(asked, dataset_mirror=folder / "data")
    assert prompt(task) == "Is tea hot? No or Yes?"
    assert continuations(task) == [" No", " Yes"]
    assert task.doc_to_target(task.eval_docs[0]) == "Yes"
    again = Task.from_config(asked, dataset_mirror=folder / "data")
    assert again.form.identity() == task.form.identity()


@pytest.mark.covers("TaskConfig.multiple_inputs")
def test_with_multiple_inputs_each_text_is_scored_against_the_same_ending(choosing, liking):
    def inputs(doc):
        return [f"{doc['question']} I say {choice}," for choice in doc["choices"]]

    task = choosing(multiple_inputs=True, doc_to_text=inputs, doc_to_choice=["and that is true."], num_fewshot=1)
    pairs = [(i.request.context, i.request.continuation) for i in task.build_all_requests(limit=1)]
    shot = "Is ice cold? I say yes, and that is true.\n\n"
    ending = " and that is true."
    assert pairs == [
        (shot + "Can fish fly? I say no,", ending),
        (shot + "Can fish fly? I say yes,", ending),
    ]
    likes_no = liking(by=lambda text: -1.0 if "say no," in text else -2.0)
    assert evaluate(tasks=[choosing(multiple_inputs=True, doc_to_text=inputs, doc_to_choice=["so."])], model=likes_no)[
        "facts"
    ]["acc,none"] == pytest.approx(0.5)


@pytest.mark.covers("TaskConfig.multiple_inputs")
def test_multiple_inputs_are_found_out_where_the_question_is_an_index(choosing, liking):
    row = {"sentence": "The cup fell on the _ and broke.", "options": ["floor", "bed"], "label": 1}
    task = choosing(
        custom_dataset=lambda **kwargs: {"test": [row]},
        doc_to_text="{{label - 1}}",
        doc_to_choice=lambda doc: [doc["sentence"].split(" _")[0] + f" {option}" for option in doc["options"]],
        doc_to_target=lambda doc: doc["sentence"].split("_ ")[1],
    )
    pairs = [(i.request.context, i.request.continuation) for i in task.build_all_requests()]
    assert pairs == [("The cup fell on the floor", " and broke."), ("The cup fell on the bed", " and broke.")]
    result = evaluate(tasks=[task], model=liking(by=lambda text: -1.0 if "floor" in text else -2.0))
    assert result["facts"]["acc,none"] == 1.0


@pytest.mark.covers("TaskConfig.multiple_targets")
@pytest.mark.parametrize("flag", [True, False], ids=["said_so", "found_out"])
def test_any_of_several_targets_is_right(writing, saying, flag):
    task = writing(doc_to_target=lambda doc: ["maybe", doc["choices"][doc["answer"]]], multiple_targets=flag)
    assert evaluate(tasks=[task], model=saying("maybe"))["facts"]["exact_match,none"] == 1.0
    assert evaluate(tasks=[task], model=saying("yes"))["facts"]["exact_match,none"] == 0.5


@pytest.mark.covers("TaskConfig.multiple_targets")
@pytest.mark.parametrize(
    ("stated", "right"),
    [({}, "1"), ({"multiple_targets": True}, "1"), ({"multiple_targets": False}, "[1, 2]")],
    ids=["unsaid", "true", "false"],
)
@pytest.mark.parametrize("make", [dict, lambda fields: TaskConfig(**fields)])
def test_a_text_that_spells_a_list_is_one_answer_where_the_task_says_so(fields, saying, stated, right, make):
    changes = {"output_type": "generate_until", "doc_to_choice": None, "doc_to_target": "{{note}}", **stated}
    changes["custom_dataset"] = lambda **kwargs: {"test": [{"question": "Which?", "note": "[1, 2]"}]}
    task = Task.from_config(make({**fields, **changes}))
    assert evaluate(tasks=[task], model=saying(right))["facts"]["exact_match,none"] == 1.0
    other = {"1": "[1, 2]", "[1, 2]": "1"}[right]
    assert evaluate(tasks=[task], model=saying(other))["facts"]["exact_match,none"] == 0.0
    assert task.config.multiple_targets is bool(stated.get("multiple_targets"))


@pytest.mark.covers("TaskConfig.multiple_targets")
def test_several_choices_may_be_right_and_an_example_shows_the_first(choosing, prompt, liking):
    task = choosing(doc_to_target="{{[answer, 1]}}", multiple_targets=True, num_fewshot=1)
    assert prompt(task) == "Is ice cold? yes\n\nCan fish fly?"
    assert evaluate(tasks=[task], model=liking("yes"))["facts"]["acc,none"] == 1.0


# Images and sounds


@pytest.mark.covers("TaskConfig.doc_to_image")
def test_documents_that_differ_in_their_image_alone_are_different_requests(writing):
    images = pytest.importorskip("PIL.Image")
    rows = [{"q": "What is it?", "picture": images.new("RGB", (2, 2), colour), "a": "x"} for colour in ("red", "blue")]
    task = writing(
        custom_dataset=lambda **kwargs: {"test": rows}, doc_to_text="q", doc_to_target="a", doc_to_image="picture"
    )
    first, second = (instance.request for instance in task.build_all_requests())
    assert first != second


@pytest.mark.covers("TaskConfig.doc_to_audio")
def test_documents_that_differ_in_their_sound_alone_are_different_requests(writing):
    rows = [{"q": "What?", "s": {"array": [0.0, tone], "sampling_rate": 8000}, "a": "x"} for tone in (0.5, -0.5)]
    task = writing(custom_dataset=lambda **kwargs: {"test": rows}, doc_to_text="q", doc_to_target="a", doc_to_audio="s")
    first, second = (instance.request for instance in task.build_all_requests())
    assert first != second


# Shots


@pytest.mark.covers("TaskConfig.fewshot_config")
def test_the_fewshot_config_changes_how_examples_are_written(choosing, prompt):
    own = {"sampler": "first_n", "doc_to_text": "Example: {{question}}"}
    assert prompt(choosing(fewshot_config=own, num_fewshot=1)) == "Example: Is ice cold? yes\n\nCan fish fly?"


@pytest.mark.covers("TaskConfig.num_fewshot")
@pytest.mark.parametrize(("task", "run", "shots"), [(None, None, 0), (2, None, 2), (None, 3, 3), (2, 3, 3), (0, 3, 0)])
def test_the_run_decides_the_number_of_shots_unless_the_task_says_none(choosing, task, run, shots):
    results = evaluate(tasks=[choosing(num_fewshot=task)], model="dummy", num_fewshot=run)
    context = results.forms[0].samples[0].sample.prompt
    assert context.count("\n\n") == shots
    assert to_json(results)["n-shot"] == {"facts": shots}


# Generation


@pytest.mark.covers("TaskConfig.generation_kwargs")
@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({}, {"temperature": 0.0, "do_sample": False, "max_gen_toks": 256, "until": ["\n\n"]}),
        ({"temperature": 1}, {"temperature": 1.0, "until": ["\n\n"]}),
        ({"until": ".", "max_gen_toks": 8}, {"until": ["."], "max_gen_toks": 8}),
    ],
)
def test_generation_kwargs_go_to_the_model_and_have_greedy_defaults(writing, given, asked):
    [instance, *_] = writing(generation_kwargs=given).build_all_requests(limit=1)
    assert instance.request.gen_kwargs == asked


@pytest.mark.covers("TaskConfig.generation_kwargs")
def test_a_run_changes_single_generation_kwargs(writing, saying):
    model = saying("no")
    evaluate(
        tasks=[writing(generation_kwargs={"until": ["."], "max_gen_toks": 8})], model=model, gen_kwargs="max_gen_toks=4"
    )
    assert model.asked[0].gen_kwargs == {"until": ["."], "max_gen_toks": 4}


@pytest.mark.covers("TaskConfig.repeats")
def test_each_generation_is_asked_as_often_as_repeats_says(writing, saying):
    model = saying("no", "yes", "no")
    task = writing(repeats=3, metric_list=[{"metric": "exact_match", "reduction": "mean"}])
    results = evaluate(tasks=[task], model=model, limit=1)
    assert [request.sample for request in model.asked] == [0, 1, 2]
    assert results["facts"]["exact_match,none"] == pytest.approx(2 / 3)


@pytest.mark.covers("TaskConfig.repeats")
def test_rankings_are_asked_once_whatever_repeats_says(choosing):
    assert len(choosing(repeats=5).build_all_requests(limit=1)) == 2


# Scores


@pytest.mark.covers("TaskConfig.metric_list")
def test_the_metric_list_decides_the_scores(choosing, liking):
    results = evaluate(
        tasks=[choosing(metric_list=[{"metric": "acc"}, {"metric": "brier_score"}])], model=liking("yes")
    )
    assert results["facts"]["acc,none"] == 0.5
    assert set(results["facts"]) >= {"brier_score,none", "brier_score_stderr,none"}
    assert "acc_norm,none" not in results["facts"]
    assert results.forms[0].higher_is_better == {"acc": True, "brier_score": False}


@pytest.mark.covers("TaskConfig.filter_list")
def test_each_pipeline_reads_the_same_answers_in_its_own_way(writing, saying):
    first = {"name": "first", "filter": [{"function": "regex", "regex_pattern": "no|yes"}, {"function": "take_first"}]}
    last = {
        "name": "last",
        "filter": [{"function": "regex", "regex_pattern": "no|yes", "group_select": -1}, {"function": "take_first"}],
    }
    model = saying("First no, then yes")
    results = evaluate(tasks=[writing(filter_list=[first, last])], model=model, limit=1)
    assert results["facts"]["exact_match,first"] == 1.0
    assert results["facts"]["exact_match,last"] == 0.0
    assert len(model.asked) == 1


@pytest.mark.covers("TaskConfig.scorer")
@pytest.mark.parametrize("scorer", ["first_token", {"type": "first_token"}])
def test_a_scorer_reads_and_scores_instead_of_the_metrics(writing, saying, scorer):
    plain = evaluate(tasks=[writing()], model=saying("No, never."), limit=1)
    read = evaluate(tasks=[writing(scorer=scorer)], model=saying("No, never."), limit=1)
    assert (plain["facts"]["exact_match,none"], read["facts"]["exact_match,none"]) == (0.0, 1.0)


@pytest.mark.covers("TaskConfig.process_results")
def test_process_results_gives_the_values_of_each_document(choosing, liking):
    def margin(doc, results):
        (no, _), (yes, _) = results
        return {"margin": abs(no - yes), "said_yes": float(yes > no)}

    results = evaluate(tasks=[choosing(process_results=margin)], model=liking("yes"))
    assert results["facts"]["margin,none"] == 4.5
    assert results["facts"]["said_yes,none"] == 1.0


@pytest.mark.covers("TaskConfig.process_results")
def test_the_metric_list_aggregates_what_process_results_gives(writing, saying):
    def length(doc, results):
        return {"length": len(doc["question"]) + len(results[0])}

    longest = [{"metric": "length", "aggregation": max, "higher_is_better": False}]
    results = evaluate(tasks=[writing(process_results=length, metric_list=longest)], model=saying("yes"))
    assert results["facts"]["length,none"] == len("Is snow white?") + len("yes")
    assert results.forms[0].higher_is_better == {"length": False}


# Safety, decontamination, metadata


@pytest.mark.covers("TaskConfig.unsafe_code")
def test_code_that_a_model_writes_runs_only_with_consent(writing):
    task = writing(unsafe_code=True)
    with pytest.raises(UsageError, match=r"facts: unsafe_code: .* add --confirm_run_unsafe_code"):
        evaluate(tasks=[task], model="dummy")
    assert "facts" in evaluate(tasks=[task], model="dummy", confirm_run_unsafe_code=True)


@pytest.mark.covers("TaskConfig.should_decontaminate", "TaskConfig.doc_to_decontamination_query")
def test_documents_that_a_corpus_contains_are_left_out_of_a_second_score(choosing, liking, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("Everybody asks: is snow white? And do birds sing?")
    task = choosing(should_decontaminate=True, doc_to_decontamination_query="{{question}}")
    scores = evaluate(tasks=[task], model=liking("yes"), decontamination_corpus=[corpus])["facts"]
    assert (scores["acc,none"], scores["acc_decontaminate,none"]) == (0.5, 0.0)


@pytest.mark.covers("TaskConfig.doc_to_decontamination_query")
def test_the_question_is_looked_up_where_no_query_is_given(choosing, liking, tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(json.dumps({"text": "can fish fly is fire cold"}) + "\n")
    task = choosing(should_decontaminate=True)
    scores = evaluate(tasks=[task], model=liking("yes"), decontamination_corpus=[corpus])["facts"]
    assert scores["acc_decontaminate,none"] == 1.0
    other = choosing(should_decontaminate=True, doc_to_decontamination_query=lambda doc: doc["choices"][1])
    assert evaluate(tasks=[other], model=liking("yes"), decontamination_corpus=[corpus])["facts"][
        "acc_decontaminate,none"
    ] == pytest.approx(0.5)


@pytest.mark.covers("TaskConfig.should_decontaminate")
def test_nothing_is_looked_up_for_a_task_that_does_not_ask_for_it(choosing, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("is snow white")
    scores = evaluate(tasks=[choosing()], model="dummy", decontamination_corpus=[corpus])["facts"]
    assert not any("decontaminate" in key for key in scores)
    with pytest.raises(UsageError, match=r"no file '.*gone.txt'"):
        evaluate(tasks=[choosing()], model="dummy", decontamination_corpus=[tmp_path / "gone.txt"])


@pytest.mark.covers("TaskConfig.metadata")
def test_metadata_gives_the_version_and_the_number_of_shots_that_is_shown(choosing, tmp_path):
    results = evaluate(tasks=[choosing(metadata={"version": 2.5, "num_fewshot": 8, "by": "us"})], model="dummy")
    [file] = write_results(results, tmp_path / "out", samples=False)
    written = json.loads(file.read_text())
    assert written["versions"] == {"facts": 2.5}
    assert written["n-shot"] == {"facts": 8}
    assert written["configs"]["facts"]["metadata"]["by"] == "us"
    assert results.table("long").splitlines()[3].split()[2] == "8"


# Methods


@pytest.mark.covers("TaskConfig.__post_init__")
def test_a_configuration_is_whole_once_it_is_made(fields):
    config = TaskConfig(**{**fields, "formats": "generate", "scorer": None, "tag": "nature"})
    assert config.output_type == "generate_until"
    assert config.generation_kwargs["until"] == ["\n\n"]
    assert isinstance(config.fewshot_config, FewshotConfig)
    assert config.fewshot_config.split == "train"
    assert config.scorer == {"type": "choice_match"}
    assert config.tag == ["nature"]


@pytest.mark.covers("TaskConfig.__post_init__")
def test_a_bad_template_is_an_error_of_the_configuration(fields):
    with pytest.raises(ConfigError, match="facts: doc_to_text: "):
        TaskConfig(**{**fields, "doc_to_text": "{{ question"})


ROUND_TRIPS = {
    "plain": {},
    "functions": {"doc_to_text": lambda doc: doc["question"].upper(), "process_docs": lambda docs: docs.select([2, 3])},
    "generation": {"output_type": "generate_until", "generation_kwargs": {"until": ["."]}, "repeats": 2},
    "rolling": {"output_type": "loglikelihood_rolling", "doc_to_target": "question"},
    "layout": {
        "description": "Facts.\n",
        "gen_prefix": "It is",
        "target_delimiter": "\n",
        "fewshot_delimiter": "\n\n\n",
    },
    "own_shots": {"fewshot_config": {"sampler": "balanced", "doc_to_text": "E: {{question}}", "samples": None}},
    "named_format": {"formats": "mcqa"},
    "inline_format": {"formats": {"type": "cloze", "question_prefix": "Q: "}},
    "table_of_formats": {"formats": {"a": {"type": "mcqa"}, "b": "cloze"}},
    "format_object": {"formats": MCQAFormat(instruction=None, question_prefix="Q: ")},
    "format_in_the_name": {"task": "facts@generate"},
    "format_at_run_time": {"_formats_selection": "cot"},
    "format_and_own_shots": {"formats": "hybrid", "fewshot_config": {"doc_to_text": "E: {{question}}"}},
    "format_and_functions": {"formats": "mcqa", "doc_to_choice": lambda doc: [c.upper() for c in doc["choices"]]},
}


@pytest.mark.covers("TaskConfig.to_dict")
@pytest.mark.parametrize("changes", ROUND_TRIPS.values(), ids=ROUND_TRIPS)
def test_a_configuration_made_from_its_dict_gives_the_same_requests(fields, changes):
    config = TaskConfig(**{**fields, "num_fewshot": 2, **changes})
    again = TaskConfig.from_dict(config.to_dict(keep_callable=True))
    assert again.form_name == config.form_name
    assert Task.from_config(again).build_all_requests() == Task.from_config(config).build_all_requests()


@pytest.mark.covers("TaskConfig.to_dict", "Task.dump_config")
@pytest.mark.parametrize("changes", [{"formats": "mcqa"}, {"task": "facts@mcqa"}, {"template": "mcq"}], ids=str)
def test_the_dict_has_the_output_type_of_the_format(fields, changes):
    config = TaskConfig(**{**fields, "output_type": "generate_until", **changes})
    assert config.to_dict()["output_type"] == config.output_type == "multiple_choice"
    assert Task.from_config(config).dump_config()["output_type"] == "multiple_choice"


@pytest.mark.covers("TaskConfig.to_dict")
def test_a_finished_prompt_under_a_format_survives_the_dict(fields):
    fields |= {"task": "facts@generate", "doc_to_text": "Q: {{question}}\nA:", "output_type": "multiple_choice"}
    config = TaskConfig(**fields)
    again = TaskConfig.from_dict(config.to_dict(keep_callable=True))
    assert again.mapping == config.mapping
    assert Task.from_config(config).dump_config()["output_type"] == "generate_until"


@pytest.mark.covers("TaskConfig.to_dict")
def test_a_prompt_library_survives_the_dict(write, fields):
    write({"p.yaml": "prompts:\n  short:\n    doc_to_text: '{{question}} Short!'\n"})
    config = TaskConfig(**{**fields, "use_prompt": "p.yaml:short"})
    again = TaskConfig.from_dict(config.to_dict(keep_callable=True))
    assert Task.from_config(again).build_all_requests() == Task.from_config(config).build_all_requests()


@pytest.mark.covers("TaskConfig.to_dict")
def test_the_dict_can_be_printed_and_leaves_out_what_is_not_set(fields):
    made = TaskConfig(**fields).to_dict()
    assert made["custom_dataset"].endswith("<lambda>")
    assert "gen_prefix" not in made
    assert json.loads(json.dumps(made)) == made


@pytest.mark.covers("TaskConfig.to_dict")
def test_the_results_file_holds_the_configuration_and_the_templates(choosing, tmp_path):
    results = evaluate(tasks=[choosing(formats="cloze")], model="dummy", limit=1)
    [file] = write_results(results, tmp_path, samples=False)
    config = json.loads(file.read_text())["configs"]["facts"]
    assert config["formats"] == "cloze"
    assert config["doc_to_text"] == "Question: {{question}}\nAnswer:"


# Output


@pytest.mark.covers("TaskConfig.output_type")
def test_perplexities_are_per_word_and_per_byte(fields, liking):
    rows = [{"text": "one two three"}, {"text": "vier"}]
    task = Task.from_config(
        {
            "task": "facts",
            "custom_dataset": lambda **kwargs: {"test": rows},
            "test_split": "test",
            "output_type": "loglikelihood_rolling",
            "doc_to_text": "",
            "doc_to_target": "text",
        }
    )
    scores = evaluate(tasks=[task], model=liking(by=lambda text: -float(len(text))), bootstrap_iters=0)["facts"]
    assert scores["word_perplexity,none"] == pytest.approx(math.exp(17 / 4))
    assert scores["byte_perplexity,none"] == pytest.approx(math.e)
    assert scores["bits_per_byte,none"] == pytest.approx(1 / math.log(2))


@pytest.mark.covers("TaskConfig.description", "TaskConfig.doc_to_text")
def test_write_out_shows_the_first_prompt_of_each_form(choosing):
    class Log:
        def __init__(self):
            self.messages = []

        def message(self, text):
            self.messages.append(text)

        def begin(self, requests, docs): ...
        def on_response(self): ...
        def on_score(self, form, metric, running, n): ...
        def end(self): ...

    log = Log()
    evaluate(tasks=[choosing(description="Facts.\n")], model="dummy", write_out=True, progress=log)
    assert "=== facts, doc 0\nFacts.\nCan fish fly?" in log.messages


@pytest.mark.covers("TaskConfig.fewshot_config")
def test_split_and_samples_together_are_warned_of(fields, caplog):
    with caplog.at_level(logging.WARNING):
        TaskConfig(**{**fields, "fewshot_config": {"samples": [{"question": "?"}]}})
    assert "both split and samples" in caplog.text

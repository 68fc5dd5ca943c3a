"""Every field of FewshotConfig, by the examples that stand before a question."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import pytest

from multiform import ConfigError, DataError, FewshotConfig, evaluate, register_sampler
from multiform.forms.samplers import FirstNSampler, Sampler, samplers

EXAMPLES = [
    {"question": "Is gold heavy?", "choices": ["no", "yes"], "answer": 1},
    {"question": "Is wool hard?", "choices": ["no", "yes"], "answer": 0},
]


def shots(context: str) -> list[str]:
    """The examples of a prompt, without the question that it asks."""
    return context.split("\n\n")[:-1]


def contexts(task, **options) -> list[str]:
    return [instance.request.context for instance in task.build_all_requests(**options) if instance.idx == 0]


# Samplers


@pytest.mark.covers("FewshotConfig.sampler")
def test_the_default_sampler_draws_other_examples_for_each_document(choosing):
    task = choosing(fewshot_config={}, num_fewshot=2)
    drawn = [tuple(shots(context)) for context in contexts(task)]
    assert len(set(drawn)) > 1
    assert all(len(set(examples)) == 2 for examples in drawn)


@pytest.mark.covers("FewshotConfig.sampler")
def test_the_default_sampler_draws_what_lm_eval_draws(choosing):
    import random

    task = choosing(fewshot_config={"sampler": "default"}, num_fewshot=3)
    generator, pool = random.Random(1234), [doc["question"] for doc in task.fewshot_docs()]
    expected = [generator.sample(pool, 3) for _ in task.eval_docs]
    drawn = [[example.removesuffix(" no").removesuffix(" yes") for example in shots(c)] for c in contexts(task)]
    assert drawn == expected


@pytest.mark.covers("FewshotConfig.sampler")
def test_first_n_takes_the_first_examples_in_order(choosing):
    task = choosing(fewshot_config={"sampler": "first_n"}, num_fewshot=2)
    assert {tuple(shots(context)) for context in contexts(task)} == {("Is ice cold? yes", "Is rain wet? yes")}


@pytest.mark.covers("FewshotConfig.sampler")
@pytest.mark.parametrize("number", [2, 4, 6])
def test_balanced_shows_every_answer_equally_often(choosing, number):
    task = choosing(fewshot_config={"sampler": "balanced"}, num_fewshot=number)
    for context in contexts(task):
        assert Counter(example.split()[-1] for example in shots(context)) == {"no": number // 2, "yes": number // 2}


@pytest.mark.covers("FewshotConfig.sampler")
def test_a_sampler_of_ones_own_is_found_by_its_name(choosing, prompt, monkeypatch):
    monkeypatch.setattr(samplers, "_entries", dict(samplers._entries))

    @register_sampler("last_n")
    class LastN(Sampler):
        def sample(self, n, *, exclude=None):
            return list(range(len(self.pool)))[-n:]

    task = choosing(fewshot_config={"sampler": "last_n"}, num_fewshot=2)
    assert shots(prompt(task)) == ["Is grass blue? no", "Do stones eat? no"]


@pytest.mark.covers("FewshotConfig.sampler")
@pytest.mark.parametrize("sampler", ["default", "first_n", "balanced"])
@pytest.mark.parametrize("split", ["test", None], ids=["test_split", "fall_back"])
def test_a_document_is_never_among_its_own_examples(choosing, sampler, split):
    task = choosing(fewshot_config={"sampler": sampler}, fewshot_split=split, training_split=None, num_fewshot=3)
    for (_, doc), context in zip(task.doc_iterator(), contexts(task), strict=True):
        assert len(shots(context)) == 3
        assert not any(doc["question"] in example for example in shots(context))


@pytest.mark.covers("FewshotConfig.sampler")
def test_a_document_that_is_in_the_training_split_too_is_not_among_its_own_examples(choosing):
    rows = [{"question": f"Q{i}?", "choices": ["no", "yes"], "answer": i % 2} for i in range(4)]
    task = choosing(custom_dataset=lambda **kwargs: {"test": rows, "train": rows}, fewshot_config={}, num_fewshot=3)
    for (_, doc), context in zip(task.doc_iterator(), contexts(task), strict=True):
        assert not any(doc["question"] in example for example in shots(context))


@pytest.mark.covers("FewshotConfig.sampler")
def test_more_examples_than_there_are_is_an_error(choosing):
    with pytest.raises(DataError, match=r"facts: num_fewshot: doc 0: 7 few-shot examples .* only 6"):
        choosing(num_fewshot=7).build_all_requests()


# Where examples come from


@pytest.mark.covers("FewshotConfig.split")
def test_the_split_of_the_fewshot_config_goes_before_the_tasks(choosing, prompt):
    task = choosing(fewshot_config={"sampler": "first_n", "split": "test"}, fewshot_split="train", num_fewshot=1)
    assert shots(prompt(task)) == ["Is snow white? yes"]


@pytest.mark.covers("FewshotConfig.split")
def test_the_tasks_fewshot_split_is_inherited(choosing):
    assert choosing(fewshot_split="train").config.fewshot_config.split == "train"


@pytest.mark.covers("FewshotConfig.process_docs")
def test_the_examples_have_a_function_of_their_own_or_the_tasks(choosing, prompt):
    def loud(docs):
        return [{**doc, "question": doc["question"].upper()} for doc in docs]

    own = choosing(fewshot_config={"sampler": "first_n", "process_docs": loud}, num_fewshot=1)
    assert prompt(own) == "IS ICE COLD? yes\n\nCan fish fly?"
    inherited = choosing(process_docs=loud, num_fewshot=1)
    assert prompt(inherited) == "IS ICE COLD? yes\n\nCAN FISH FLY?"


@pytest.mark.covers("FewshotConfig.fewshot_indices")
def test_named_documents_are_the_examples_in_the_order_given(choosing):
    task = choosing(fewshot_config={"fewshot_indices": [4, 0]}, num_fewshot=2)
    assert {tuple(shots(context)) for context in contexts(task)} == {("Is grass blue? no", "Is ice cold? yes")}


@pytest.mark.covers("FewshotConfig.fewshot_indices")
def test_an_index_beyond_the_documents_is_an_error(choosing):
    with pytest.raises(DataError, match=r"facts: fewshot_config\.fewshot_indices.*no document 9"):
        choosing(fewshot_config={"fewshot_indices": [9]}, num_fewshot=1).build_all_requests()


@pytest.mark.covers("FewshotConfig.samples")
@pytest.mark.parametrize("samples", [EXAMPLES, lambda: EXAMPLES], ids=["list", "function"])
def test_examples_may_be_written_into_the_task(choosing, prompt, samples):
    given = {"sampler": "first_n", "samples": samples}
    task = choosing(fewshot_config=given, fewshot_split=None, num_fewshot=2)
    assert shots(prompt(task)) == ["Is gold heavy? yes", "Is wool hard? no"]


@pytest.mark.covers("FewshotConfig.samples", "FewshotConfig.split", "FewshotConfig.__post_init__")
def test_a_split_goes_before_samples_with_a_warning(choosing, prompt, caplog):
    with caplog.at_level(logging.WARNING):
        task = choosing(fewshot_config={"sampler": "first_n", "samples": EXAMPLES, "split": "train"}, num_fewshot=1)
    assert "both split and samples" in caplog.text
    assert shots(prompt(task)) == ["Is ice cold? yes"]


@pytest.mark.covers("FewshotConfig.samples")
def test_a_function_of_samples_that_returns_something_else_is_an_error(choosing):
    given = {"samples": lambda: "no list"}
    with pytest.raises(ConfigError, match=r"samples returned str"):
        choosing(fewshot_config=given, fewshot_split=None, num_fewshot=1).build_all_requests()


# How examples are written


@pytest.mark.covers(
    "FewshotConfig.doc_to_text",
    "FewshotConfig.doc_to_choice",
    "FewshotConfig.doc_to_target",
    "FewshotConfig.gen_prefix",
    "FewshotConfig.fewshot_delimiter",
    "FewshotConfig.target_delimiter",
)
@pytest.mark.parametrize(
    ("own", "context"),
    [
        ({}, "Is ice cold? yes\n\nCan fish fly?"),
        ({"doc_to_text": "Example: {{question}}"}, "Example: Is ice cold? yes\n\nCan fish fly?"),
        ({"doc_to_text": lambda doc: doc["question"].upper()}, "IS ICE COLD? yes\n\nCan fish fly?"),
        ({"doc_to_choice": ["false", "true"]}, "Is ice cold? true\n\nCan fish fly?"),
        ({"doc_to_target": "{{1 - answer}}"}, "Is ice cold? no\n\nCan fish fly?"),
        ({"doc_to_target": "Indeed, {{choices[answer]}}!"}, "Is ice cold? Indeed, yes!\n\nCan fish fly?"),
        ({"gen_prefix": "That is"}, "Is ice cold? That is yes\n\nCan fish fly?"),
        ({"fewshot_delimiter": "\n---\n"}, "Is ice cold? yes\n---\nCan fish fly?"),
        ({"target_delimiter": " -> "}, "Is ice cold? -> yes\n\nCan fish fly?"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_an_example_is_written_by_its_own_fields_and_else_by_the_tasks(choosing, prompt, own, context):
    assert prompt(choosing(fewshot_config={"sampler": "first_n", **own}, num_fewshot=1)) == context


@pytest.mark.covers("FewshotConfig.gen_prefix", "FewshotConfig.fewshot_delimiter", "FewshotConfig.target_delimiter")
def test_prefix_and_delimiters_are_inherited(choosing, prompt):
    task = choosing(gen_prefix="I say", target_delimiter="\n", fewshot_delimiter="\n\n\n", num_fewshot=1)
    assert prompt(task) == "Is ice cold?\nI say yes\n\n\nCan fish fly?\nI say"


@pytest.mark.covers("FewshotConfig.gen_prefix")
def test_null_takes_the_prefix_from_the_examples_alone(choosing, prompt):
    task = choosing(gen_prefix="I say", fewshot_config={"sampler": "first_n", "gen_prefix": None}, num_fewshot=1)
    assert prompt(task) == "Is ice cold? yes\n\nCan fish fly? I say"


@pytest.mark.covers("FewshotConfig.doc_to_text")
def test_fields_of_its_own_go_through_the_format_as_well(choosing, prompt):
    own = {"sampler": "first_n", "doc_to_text": "Example: {{question}}"}
    task = choosing(formats="cloze", fewshot_config=own, num_fewshot=1)
    expected = "Question: Example: Is ice cold?\nAnswer: yes\n\nQuestion: Can fish fly?\nAnswer:"
    assert prompt(task) == expected


@pytest.mark.covers(
    "FewshotConfig.sampler", "FewshotConfig.split", "FewshotConfig.doc_to_text", "FewshotConfig.target_delimiter"
)
def test_an_object_inherits_like_a_mapping(choosing, prompt):
    task = choosing(fewshot_config=FewshotConfig(sampler="first_n", doc_to_text="E: {{question}}"), num_fewshot=1)
    assert prompt(task) == "E: Is ice cold? yes\n\nCan fish fly?"


# Methods


@pytest.mark.covers("FewshotConfig.from_dict")
def test_from_dict_takes_from_the_task_what_it_does_not_say():
    fields: dict[str, Any] = {"doc_to_text": "theirs", "doc_to_target": "target", "gen_prefix": "So"}
    delimiters: dict[str, Any] = {"target_delimiter": "=", "fewshot_delimiter": "\n"}
    made = FewshotConfig.from_dict(
        {"doc_to_text": "own"}, fewshot_split="dev", sampler="balanced", **fields, **delimiters
    )
    assert (made.sampler, made.split, made.doc_to_text, made.doc_to_target) == ("balanced", "dev", "own", "target")
    assert (made.target_delimiter, made.gen_prefix, made.fewshot_delimiter) == ("=", "So", "\n")
    assert FewshotConfig.from_dict({}).sampler == "default"


@pytest.mark.covers("FewshotConfig.get_docs")
def test_get_docs_gives_the_processed_split_the_samples_or_nothing():
    data = {"dev": [3, 1, 2]}
    assert FewshotConfig(split="dev", process_docs=sorted).get_docs(data) == [1, 2, 3]
    assert FewshotConfig(split="dev").get_docs(data) == [3, 1, 2]
    assert FewshotConfig(samples=EXAMPLES).get_docs(data) == EXAMPLES
    assert FewshotConfig(samples=lambda: EXAMPLES).get_docs(data) == EXAMPLES
    assert FewshotConfig().get_docs(data) is None


@pytest.mark.covers("FewshotConfig.__post_init__")
def test_a_wrong_value_is_an_error_when_the_object_is_made():
    with pytest.raises(ConfigError, match=r"fewshot_config\.sampler: expected a string, got 3"):
        FewshotConfig(sampler=3)  # type: ignore[arg-type]


@pytest.mark.covers("FewshotConfig.sampler")
def test_the_seed_of_the_run_decides_the_draw(choosing):
    def drawn(seed):
        results = evaluate(
            tasks=[choosing(fewshot_config={}, num_fewshot=2)], model="dummy", seeds=(0, 1234, 1234, seed)
        )
        return [sample.sample.prompt for sample in results.forms[0].samples]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


@pytest.mark.covers("FewshotConfig.sampler")
def test_first_n_is_a_sampler_that_can_be_built_upon():
    class Reversed(FirstNSampler):
        def sample(self, n, *, exclude=None):
            return super().sample(n, exclude=exclude)[::-1]

    assert Reversed(["a", "b", "c"]).sample(2) == [1, 0]


def test_samples_that_are_no_list_are_a_value_error():
    with pytest.raises(ValueError, match=r"fewshot_config\.samples: expected"):
        FewshotConfig(samples="nope")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"samples returned str, not a list of documents"):
        FewshotConfig(samples=lambda: "nope").get_docs({})  # type: ignore[arg-type, return-value]

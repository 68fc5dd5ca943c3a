"""Choices in another order: the right one moves along, also in few-shot examples, however it is written down."""

from __future__ import annotations

import json
from typing import Any

import pytest

from multiform import Completion, ConfigError, LLOutput, Model, Task, TaskConfig, evaluate
from multiform.formats.variation import ChoiceOrder

DOCS: list[dict[str, Any]] = [
    {
        "q": "Capital of France?",
        "c": ["Berlin", "Paris", "Rome", "Oslo"],
        "i": 1,
        "l": "B",
        "t": "Paris",
        "many": [1, 2],
    },
    {"q": "Largest number?", "c": ["9", "7", "8"], "i": 0, "l": "A", "t": "9", "many": ["A"]},
]
ROWS: list[dict[str, Any]] = [
    {"q": f"Number {n}?", "c": ["w", "x", "y", "z"], "i": n % 3, "l": "A", "t": "w", "many": [0]} for n in range(12)
]


@pytest.fixture
def task(tmp_path):
    """Builds a task over the two documents under a format."""
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in DOCS), encoding="utf-8")

    def build(selection, **keys):
        keys = {"doc_to_text": "q", "doc_to_choice": "c", "doc_to_target": "i", "formats": "mcqa", **keys}
        config = {"task": "t", "dataset_path": str(tmp_path / "rows.jsonl"), "test_split": "train", **keys}
        return Task.from_config(TaskConfig.from_dict(config, _formats_selection=selection))

    return build


@pytest.mark.parametrize("order", ["reverse", "rotate:1", "rotate:3", "shuffle:1", "shuffle:5", "bdac"])
@pytest.mark.parametrize("name", ["mcqa", "hybrid", "generate"])
@pytest.mark.parametrize("answer", ["i", "l", "t"])
def test_the_right_choice_moves_along_however_the_answer_is_written(task, order, name, answer):
    form = task(f"{name}[order={order}]", doc_to_target=answer)
    for doc in DOCS:
        sample = form.sample(1, doc)
        texts = sample.texts or sample.choices
        assert sorted(texts) == sorted(doc["c"])
        assert [doc["c"][index] for index in sample.permutation] == list(texts)
        right = sample.gold[0] if name != "generate" else sample.labels.index(sample.references[0])
        assert texts[right] == doc["t"]
        assert f"\n{'ABCD'[right]}. {doc['t']}\n" in sample.prompt


def test_several_right_choices_move_along(task):
    sample = task("mcqa[order=rotate:1]", doc_to_target="many").sample(0, DOCS[0])
    assert {sample.texts[index] for index in sample.gold} == {"Paris", "Rome"}


def test_another_kind_of_labels_does_not_change_how_an_answer_is_read(task):
    many = {"q": "?", "c": list("abcdefghijk"), "i": 8, "l": "I", "t": "i", "many": []}
    for label in ("mcqa", "mcqa[labels=roman]", "mcqa[labels=lower]", "mcqa[labels=roman,order=reverse]"):
        sample = task(label, doc_to_target="l").sample(0, many)
        assert sample.texts[sample.gold[0]] == "i"


def test_few_shot_examples_are_in_the_same_order_as_the_question(task):
    form = task("mcqa[order=reverse]", num_fewshot=1, fewshot_config={"sampler": "first_n"})
    prompt = form.sample(1, DOCS[1]).prompt
    assert prompt.startswith("Question: Capital of France?\nA. Oslo\nB. Rome\nC. Paris\nD. Berlin\nAnswer: C\n\n")
    assert prompt.endswith("A. 8\nB. 7\nC. 9\nAnswer:")


def test_few_shot_examples_with_fields_of_their_own_are_ordered_as_well(task):
    own = {"sampler": "first_n", "doc_to_text": "{{q}} Think!"}
    prompt = task("mcqa[order=reverse]", num_fewshot=1, fewshot_config=own).sample(1, DOCS[1]).prompt
    assert prompt.startswith(
        "Question: Capital of France? Think!\nA. Oslo\nB. Rome\nC. Paris\nD. Berlin\nAnswer: C\n\n"
    )


@pytest.mark.parametrize("sampler", ["default", "balanced"])
def test_the_same_examples_are_drawn_in_every_order(task, sampler):
    settings = {"num_fewshot": 1, "fewshot_config": {"sampler": sampler, "samples": ROWS}}
    drawn = []
    for label in ("mcqa", "mcqa[order=reverse]", "mcqa[order=shuffle:2]", "mcqa[labels=roman]"):
        form = task(label, **settings)
        prompts = [form.sample(number, doc).prompt for number, doc in enumerate(ROWS)]
        drawn.append([prompt.partition("\n")[0] for prompt in prompts])
    assert drawn[0] == drawn[1] == drawn[2] == drawn[3]
    assert len(set(drawn[0])) > 1


def test_a_shuffle_depends_on_the_document_and_the_seed_and_on_nothing_else(task):
    first, second = task("mcqa[order=shuffle:3]"), task("hybrid[order=shuffle:3]")
    orders = [[form.sample(number, doc).permutation for doc in DOCS] for number, form in ((0, first), (7, second))]
    assert orders[0] == orders[1]
    assert len({ChoiceOrder("shuffle:3").permutation(4, str(key)) for key in range(200)}) == 24


def test_a_permutation_is_refused_for_documents_with_more_choices_than_it_orders(task):
    with pytest.raises(ConfigError, match="has 4 choices, and the order bca is of 3"):
        task("mcqa[order=bca]").sample(0, DOCS[0])


class PrefersParis(Model):
    """Finds the continuation likely whose label or text stands for Paris or 9 in the prompt."""

    name = identity = "prefers_paris"

    def loglikelihood(self, requests):
        for position, request in enumerate(requests):
            lines = request.context.split("\n")
            label = request.continuation.strip()
            right = f"{label}. Paris" in lines or f"{label}. 9" in lines
            yield position, LLOutput(0.0 if right else -5.0, is_greedy=right)

    def loglikelihood_rolling(self, requests):
        raise NotImplementedError

    def generate(self, requests):
        for position, _ in enumerate(requests):
            yield position, Completion("")


def test_a_model_that_knows_the_text_is_right_in_every_order_and_agrees_with_itself(task):
    labels = ["mcqa", "mcqa[order=reverse]", "mcqa[order=shuffle:1]", "mcqa[order=rotate:2]"]
    results = evaluate(model=PrefersParis(), tasks=[task(label).config for label in labels])
    assert [form.scores()["acc,none"] for form in results.forms] == [1.0] * 4
    assert len({tuple(sample.prediction for sample in form.samples) for form in results.forms}) > 1
    [comparison] = results.comparisons
    assert comparison.agreement is not None
    assert comparison.agreement.value == 1.0


def test_code_that_scores_gets_the_results_in_the_order_of_the_document(task):
    def process_results(doc, results):
        likelihoods = [loglikelihood for loglikelihood, _ in results]
        return {"acc": float(likelihoods.index(max(likelihoods)) == doc["i"])}

    config = task("mcqa[order=rotate:1]", process_results=process_results).config
    assert evaluate(model=PrefersParis(), tasks=config)["t@mcqa[order=rotate:1]"]["acc,none"] == 1.0


def test_code_that_reads_completions_is_refused_under_another_order(task):
    with pytest.raises(ConfigError, match="the order of choices cannot change under code of the task"):
        task("generate[order=reverse]", process_results=lambda doc, results: {"acc": 1.0})


def test_samples_say_where_each_choice_was(task):
    from multiform.results.samples import sample_lines

    results = evaluate(model=PrefersParis(), tasks=[task("mcqa[order=reverse]").config])
    first = next(iter(sample_lines(results.forms[0])))
    assert (first["choice_order"], first["prediction"], first["gold"]) == ([3, 2, 1, 0], 2, 2)

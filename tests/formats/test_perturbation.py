"""Noise in the question: by probability and seed, never in protected words, on any task."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform import ConfigError, DataError, Task, TaskConfig, evaluate
from multiform.formats.perturbation import Perturbation, perturb_field

KINDS = ("editor", "permute", "replace", "delete", "uppercase")
TEXT = "Which factor will most likely cause a person to develop a fever after a long illness?"


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_noise(kind):
    one = Perturbation(type=kind, probability=0.4, seed=1)
    assert one(TEXT) == one(TEXT) != TEXT
    assert one(TEXT) != Perturbation(type=kind, probability=0.4, seed=2)(TEXT)
    assert Perturbation(type=kind, probability=0)(TEXT) == TEXT


def test_more_probability_is_more_noise():
    def changed(probability):
        noisy = Perturbation(type="replace", probability=probability)(TEXT)
        return sum(a != b for a, b in zip(TEXT, noisy, strict=True))

    inside = sum(len(word.strip("?")) - 2 for word in TEXT.split() if len(word.strip("?")) > 2)
    assert changed(0.2) == pytest.approx(0.2 * inside, abs=2)
    assert changed(1) == pytest.approx(inside, abs=2)


@pytest.mark.parametrize(
    ("kind", "same"),
    [("delete", lambda text: len(text) < len(TEXT)), ("permute", lambda text: sorted(text) == sorted(TEXT)),
     ("uppercase", lambda text: text == TEXT.upper())],
)  # fmt: skip
def test_each_kind_does_what_its_name_says(kind, same):
    assert same(Perturbation(type=kind, probability=1)(TEXT))


def test_uppercase_means_all_words_unless_a_probability_is_given():
    assert Perturbation(type="uppercase")(TEXT) == TEXT.upper()
    assert Perturbation().probability == 0.1


WORDS = st.lists(st.sampled_from(["Question", "fever", "A", "über", "北京", "x", "cause", "illness"]), min_size=1)


@given(WORDS, st.sampled_from(KINDS), st.integers(0, 9))
def test_protected_words_are_never_touched(words, kind, seed):
    text = " ".join(words) + "?"
    noisy = Perturbation(type=kind, probability=1, seed=seed, unmodifiable_words=("question", "FEVER", "a"))(text)
    for word in ("Question", "fever"):
        assert noisy.count(word) >= text.count(word)
    if all(word in ("Question", "fever", "A") for word in words):
        assert noisy == text


def test_only_the_question_is_perturbed_and_not_what_the_template_says():
    doc = {"question": "photosynthesis happens in chloroplasts", "choices": ["chloroplasts", "mitochondria"]}
    config: Any = TaskConfig(
        task="t",
        doc_to_text="Passage about {{question}}",
        doc_to_choice="choices",
        doc_to_target=0,
        formats="mcqa",
        perturbation={"type": "uppercase"},
    )
    assert config.doc_to_text(doc) == (
        "Question: Passage about PHOTOSYNTHESIS HAPPENS IN CHLOROPLASTS\nA. chloroplasts\nB. mitochondria\nAnswer:"
    )


@pytest.mark.parametrize("formats", ["mcqa", None])
def test_a_null_question_is_refused_and_not_written_as_noise(formats):
    fields: dict[str, Any] = {"doc_to_text": "q", "doc_to_choice": "c", "doc_to_target": 0, "formats": formats}
    doc = {"q": None, "c": ["a", "b"]}
    data: dict[str, Any] = {"custom_dataset": lambda **_: {"test": [doc]}, "test_split": "test"}
    noise = {"type": "uppercase"}
    config = TaskConfig(task="t", output_type="multiple_choice", perturbation=noise, **fields, **data)
    with pytest.raises(DataError, match="the question is null"):
        Task.from_config(config).sample(0, doc)


def test_a_task_without_a_format_keeps_the_words_of_its_own_prompt():
    config: Any = TaskConfig(
        task="t", doc_to_text="Question: {{q}}\nAnswer:", doc_to_target="a", perturbation={"type": "uppercase"}
    )
    assert config.doc_to_text({"q": "why so?", "a": "-"}) == "Question: WHY SO?\nAnswer:"


def test_a_field_is_perturbed_once():
    noise = Perturbation(type="uppercase")
    once = perturb_field("q", noise)
    assert perturb_field(once, noise) is once
    assert perturb_field(None, noise) is None


def test_noise_in_what_a_function_gives_is_named_the_same_in_every_run():
    def question(doc):
        return doc["q"]

    config = TaskConfig(task="t", doc_to_text=question, perturbation={"type": "uppercase"})
    assert config.templates()["doc_to_text"].startswith(f"{question.__qualname__} (Perturbation(")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"type": "swap"}, "t: perturbation.type: expected one of editor, permute, replace, delete, uppercase"),
        ({"probability": 2}, "t: perturbation.probability: expected a number from 0 to 1, got 2"),
        ({"seed": "x"}, "t: perturbation.seed: expected a whole number"),
        ({"chance": 1}, "t: perturbation.chance: unknown key 'chance'"),
        ({"unmodifiable_words": "a"}, "t: perturbation.unmodifiable_words: expected a list, got"),
    ],
)
def test_bad_perturbations_are_one_clear_error(given, message):
    with pytest.raises(ConfigError) as error:
        TaskConfig(task="t", doc_to_text="q", perturbation=given)
    assert str(error.value).startswith(message)


def test_noise_is_chosen_at_run_time_and_changes_the_identity():
    plain = evaluate(model="dummy", tasks=["quiz@mcqa"], limit=4, num_fewshot=2)
    noisy = evaluate(model="dummy", tasks=["quiz@mcqa"], limit=4, num_fewshot=2, perturbation="type=uppercase")
    again = evaluate(model="dummy", tasks=["quiz@mcqa"], limit=4, num_fewshot=2, perturbation={"type": "uppercase"})
    assert plain.forms[0].identity != noisy.forms[0].identity == again.forms[0].identity
    context = noisy.forms[0].samples[0].sample.prompt
    questions = [line for line in context.split("\n") if line.startswith("Question: ")]
    assert len(questions) == 3
    assert all(line.removeprefix("Question: ").isupper() for line in questions)
    assert any(not line.isupper() for line in context.split("\n") if line[:3] in ("A. ", "B. "))

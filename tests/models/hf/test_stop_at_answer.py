"""Completions that end at the label which is read from them (`stop_at_answer`): equal scores, fewer tokens."""

from __future__ import annotations

import logging
import random
from typing import Any

import pytest

from multiform import evaluate
from multiform.errors import UsageError
from multiform.labels import leading_label
from multiform.models.arguments import GenerationOptions
from multiform.models.hf.model import BundledModel
from multiform.models.torch.sampling import Generation, sampling

pytest.importorskip("torch")


class Characters:
    """A tokenizer whose tokens are the code points of characters."""

    def decode(self, tokens: list[int], skip_special_tokens: bool = False) -> str:
        return "".join(map(chr, tokens))


def generated(text: str, stops: tuple[str, ...] = ()) -> Generation:
    """A sequence after as many tokens of a text as are generated."""
    from transformers import GenerationConfig

    generation = Generation(
        index=0,
        prompt=[1],
        limit=100,
        stops=stops,
        sampling=sampling(GenerationOptions(), GenerationConfig()),
        rng=random.Random(0),
        leading_label=leading_label(["A", "B"]),
    )
    tokenizer: Any = Characters()
    for character in text:
        if not generation.finished:
            generation.append(ord(character), tokenizer, frozenset())
    return generation


@pytest.mark.parametrize(
    ("text", "until"),
    [
        (" B. Paris is the capital", " B. P"),
        (" B\nBecause", " B\n"),
        ("A, B or none", "A, B or none"),
        ("Paris\nB. Paris", "Paris\nB. Paris"),
    ],
)
def test_a_completion_ends_where_its_label_is_certain(text: str, until: str) -> None:
    completion = generated(text).completion(Characters())
    assert (completion.text, completion.truncated) == (until, False)


def test_a_stop_string_that_would_cut_the_label_off_is_waited_for() -> None:
    assert generated(" B. Paris and more", stops=("B. Paris",)).completion(Characters()).text == " "


@pytest.mark.bundled
@pytest.mark.parametrize(
    ("form", "gen_kwargs"),
    [("generate", {}), ("generate:de", {}), ("generate", {"temperature": 1.0, "do_sample": True})],
)
def test_scores_are_the_same_with_no_more_tokens(bundled: BundledModel, form: str, gen_kwargs: dict[str, Any]) -> None:
    options: dict[str, Any] = {"tasks": f"quiz@{form}", "limit": 8, "use_cache": False}
    options["gen_kwargs"] = {"max_gen_toks": 16, **gen_kwargs}
    whole, short = (evaluate(model=bundled, **options, stop_at_answer=stops) for stops in (False, True))
    for metric in ("exact_match,none", "invalid,none"):
        assert short[f"quiz@{form}"][metric] == whole[f"quiz@{form}"][metric]
    texts, cut = ([str(sample.filtered[0]) for sample in results.forms[0].samples] for results in (whole, short))
    assert all(text.startswith(part) for text, part in zip(texts, cut, strict=True))
    if not gen_kwargs and form == "generate":
        assert sum(map(len, cut)) < 0.6 * sum(map(len, texts))


def test_a_model_that_cannot_stop_there_is_refused() -> None:
    with pytest.raises(UsageError, match="--stop_at_answer: the model 'dummy' cannot end a completion at a label"):
        evaluate(model="dummy", tasks="quiz@generate", limit=2, stop_at_answer=True)


def test_a_model_that_thinks_first_is_refused() -> None:
    arguments = {"pretrained": "none", "think_end_token": "</think>"}
    with pytest.raises(UsageError, match="--stop_at_answer: a model that thinks"):
        evaluate(model="hf", model_args=arguments, tasks="quiz@generate", limit=2, stop_at_answer=True)


@pytest.mark.parametrize("task", ["quiz@mcqa", "quiz@mcq_cot", "quiz@cot"])
def test_forms_that_read_something_else_are_left_alone(task: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        evaluate(model="dummy", tasks=task, limit=2, stop_at_answer=True)
    assert "--stop_at_answer changes nothing" in caplog.text

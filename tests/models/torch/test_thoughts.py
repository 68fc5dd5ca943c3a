"""The thought of a locally generated completion, by the text or the token that ends it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from multiform.models.arguments import GenerationOptions
from multiform.models.torch.sampling import Generation, sampling

WORDS = ["<think>", "</think>", "A", "B", "\n"]


class Words:
    """A tokenizer of a few words, none of them special."""

    def decode(self, tokens, skip_special_tokens=False):
        return "".join(WORDS[token] for token in tokens)


def completion(tokens: list[int], think_end: str | int | None, prompt: list[int]) -> Any:
    pytest.importorskip("torch")
    from transformers import GenerationConfig

    generation = Generation(
        index=0,
        prompt=prompt,
        limit=len(tokens),
        stops=(),
        sampling=sampling(GenerationOptions(), GenerationConfig()),
        rng=random.Random(0),
        think_end=think_end,
    )
    tokenizer: Any = Words()
    for token in tokens:
        generation.append(token, tokenizer, frozenset())
    return generation.completion(tokenizer)


@pytest.mark.parametrize("think_end", ["</think>", 1])
def test_thought_and_answer_are_kept_apart(think_end):
    done = completion([2, 3, 1, 4, 3], think_end, prompt=[0])
    assert (done.text, done.thought) == ("B", "AB")


@pytest.mark.parametrize("think_end", ["</think>", 1])
@pytest.mark.parametrize(("prompt", "tokens"), [([2, 0, 4], [2, 3]), ([2], [0, 2, 3])])
def test_a_thought_that_was_cut_off_is_no_answer(think_end, prompt, tokens):
    done = completion(tokens, think_end, prompt)
    assert done.text == ""
    assert done.thought.endswith("AB")
    assert done.is_thought_cut_off


@pytest.mark.parametrize("think_end", ["</think>", 1, None])
def test_a_model_that_does_not_think_has_no_thought(think_end):
    done = completion([2, 3], think_end, prompt=[2])
    assert (done.text, done.thought) == ("AB", None)

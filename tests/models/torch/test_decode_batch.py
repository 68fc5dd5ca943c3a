"""Sequences with a shared prefix: it is computed once, and every completion is as if it were alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from multiform.models.hf.model import HFModel
from multiform.models.model import Counters
from multiform.models.torch.decode_batch import SharedPrefixBatch
from multiform.models.torch.planner import Decoding
from multiform.requests import GenerationRequest

FIRST = "Question: what is it?\nAnswer: yes, the cat sat on the mat.\n\n"
SECOND = "The dog and the cat sat on the mat. A dog is a good dog. "
ENDS = ["do dogs dig?", "is 12 + 30 = 42?", "the capital", "A", "what is the capital of France?", "cat"]
PROMPTS = [start + end for start in (FIRST, SECOND) for end in ENDS] + ["Paris", "no"]


def alone(model: HFModel, prompt: str, count: int) -> str:
    ids = model.encoder.prompts([prompt])[prompt].tolist()
    start = len(ids)
    for _ in range(count):
        with torch.no_grad():
            best = int(model.model(torch.tensor([ids])).logits[0, -1].argmax())
        if best == model.tokenizer.eos_token_id:
            break
        ids.append(best)
    return str(model.tokenizer.decode(ids[start:], skip_special_tokens=True))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.parametrize("batch_size", [1, 4, "auto"])
@pytest.mark.parametrize("budget", [None, 5, 0])
def test_a_completion_is_that_of_its_prompt_alone(
    kind: str, batch_size: int | str, budget: int | None, tiny: Callable[..., Path]
) -> None:
    model = HFModel(str(tiny(kind)), batch_size=batch_size, prefix_budget=budget)
    assert model.planner.decoding(128) is Decoding.SHARED
    counts = [3 + index for index in range(len(PROMPTS))]
    requests = [
        GenerationRequest.of(prompt, {"max_gen_toks": count}) for prompt, count in zip(PROMPTS, counts, strict=True)
    ]
    outputs = dict(model.generate(requests))
    assert [outputs[index].text for index in range(len(PROMPTS))] == [
        alone(model, prompt, count) for prompt, count in zip(PROMPTS, counts, strict=True)
    ]


@pytest.mark.parametrize("batch_size", [1, 4, "auto"])
def test_a_common_prefix_is_computed_once(batch_size: int | str, tiny: Callable[..., Path]) -> None:
    model = HFModel(str(tiny()), batch_size=batch_size)
    assert model.planner.decoding(128) is Decoding.SHARED
    requests = [GenerationRequest.of(prompt, {"max_gen_toks": 4}) for prompt in PROMPTS]
    list(model.generate(requests))
    prompts = model.encoder.prompts(PROMPTS)
    whole = sum(map(len, prompts.values()))
    tree = len({tuple(tokens[:depth]) for tokens in prompts.values() for depth in range(1, len(tokens) + 1)})
    assert tree <= model.counters.prefill <= tree + len(PROMPTS) < whole / 2


@pytest.mark.parametrize("repeats", [2, 9])
def test_repeats_and_forms_of_a_document_share_its_prompt(repeats: int, tiny: Callable[..., Path]) -> None:
    model = HFModel(str(tiny()), batch_size=4)
    assert model.planner.decoding(128) is Decoding.SHARED
    document = max(PROMPTS, key=len)
    texts = [document, f"{document} yes", f"{document} no"]
    options = {"max_gen_toks": 4, "temperature": 0.7, "do_sample": True}
    requests = [GenerationRequest.of(text, options, sample=number) for text in texts for number in range(repeats)]
    list(model.generate(requests))
    prompts = model.encoder.prompts(texts).values()
    tree = len({tuple(tokens[:depth]) for tokens in prompts for depth in range(1, len(tokens) + 1)})
    # The last token of a prompt is computed again for each batch that its repeats are in.
    assert tree <= model.counters.prefill <= tree + len(requests)


def test_rows_come_and_go_in_groups(llama: HFModel) -> None:
    assert llama.planner.decoding(128) is Decoding.SHARED
    prefix = list(range(10, 40))
    rows = [[*prefix, 5, 9, 30], [*prefix, 7], [*prefix, 8, 9, 10, 11], [4, 5, 6]]
    with torch.inference_mode():
        batch = SharedPrefixBatch(llama.planner.forward, Counters(), size=16)
        batch.prefill(rows[:3], [30, 30, 30])
        batch.decode([50, 51, 52])
        batch.prefill(rows[3:], [0])
        batch.keep([1, 2, 3])
        together = batch.decode([60, 61, 62])
        texts = ([*rows[1], 51, 60], [*rows[2], 52, 61], [*rows[3], 62])
        expected = torch.stack([llama.model(torch.tensor([ids])).logits[0, -1] for ids in texts])
    assert torch.allclose(together, expected, atol=1e-4)

"""`think` on real models: what is scored after a thought is what one forward pass of the whole text gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from multiform import Results, evaluate
from multiform.requests import LLOutput, LoglikelihoodRequest
from tests.run.test_think import TEMPLATE


def forward_pass(folder: Path, requests: Sequence[LoglikelihoodRequest]) -> list[tuple[float, int]]:
    """The log-likelihood and the number of tokens of each continuation, by one forward pass of the whole text each."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    scored = []
    for request in requests:
        before = tokenizer(request.context, add_special_tokens=False)["input_ids"]
        tokens = tokenizer(request.context + request.continuation, add_special_tokens=False)["input_ids"]
        assert tokens[: len(before)] == before
        with torch.inference_mode():
            lines = model(torch.tensor([tokens])).logits[0].double().log_softmax(-1)
        own = range(len(before), len(tokens))
        scored.append((sum(float(lines[place - 1, tokens[place]]) for place in own), len(own)))
    return scored


def check_against_forward_pass(results: Results, folder: Path) -> None:
    pairs: list[tuple[Any, Any]] = [
        (instance.request, output)
        for sample in results.forms[0].samples
        for instance, output in zip(sample.instances, sample.outputs, strict=True)
        if isinstance(output, LLOutput)
    ]
    expected = forward_pass(folder, [request for request, _ in pairs])
    for (_, output), (loglikelihood, tokens) in zip(pairs, expected, strict=True):
        assert abs(output.loglikelihood - loglikelihood) / tokens < 3e-5


@pytest.fixture
def thinker(tiny: Callable[..., Path], tmp_path: Path) -> Path:
    """A tiny random model whose chat template has thoughts."""
    tokenizer = AutoTokenizer.from_pretrained(tiny("qwen3"))
    tokenizer.chat_template = TEMPLATE
    model = AutoModelForCausalLM.from_pretrained(tiny("qwen3"))
    model.config.max_position_embeddings = 1024
    model.save_pretrained(tmp_path / "thinker")
    tokenizer.save_pretrained(tmp_path / "thinker")
    return tmp_path / "thinker"


@pytest.mark.parametrize("end", [None, "</think>"])
def test_a_tiny_model_with_thoughts_equals_a_forward_pass(thinker: Path, end: str | None) -> None:
    arguments = {"pretrained": str(thinker), **({"think_end_token": end} if end else {})}
    results = evaluate(
        model="hf",
        model_args=arguments,
        tasks="quiz@think",
        limit=2,
        apply_chat_template=True,
        gen_kwargs={"max_gen_toks": 12},
        use_cache=False,
    )
    sample = results.forms[0].samples[0]
    assert "<think>\n" in sample.instances[0].request.arguments[0]
    assert sample.instances[1].request.arguments[0].endswith("\n</think>\n\nThe best answer is")
    check_against_forward_pass(results, thinker)


@pytest.mark.bundled
@pytest.mark.slow
def test_the_bundled_chat_model_equals_a_forward_pass(bundled_path: Path) -> None:
    results = evaluate(
        model="hf",
        model_args={"pretrained": str(bundled_path), "dtype": "float32"},
        tasks="quiz@think",
        limit=4,
        apply_chat_template=True,
        gen_kwargs={"max_gen_toks": 64},
        use_cache=False,
    )
    low, high = results.forms[0].estimates["acc,none"].interval
    assert 0 <= low < high <= 1
    check_against_forward_pass(results, bundled_path)

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
from tests.models.vllm import fake_vllm
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


def run(model: str, folder: Path, **arguments: Any) -> Results:
    return evaluate(
        model=model,
        model_args={"pretrained": str(folder), **arguments},
        tasks="quiz@think",
        limit=2,
        apply_chat_template=True,
        gen_kwargs={"max_gen_toks": 12},
        use_cache=False,
    )


@pytest.mark.parametrize("end", [None, "</think>"])
def test_a_tiny_model_with_thoughts_equals_a_forward_pass(thinker: Path, end: str | None) -> None:
    results = run("hf", thinker, **({"think_end_token": end} if end else {}))
    sample = results.forms[0].samples[0]
    assert "<think>\n" in sample.instances[0].request.arguments[0]
    assert sample.instances[1].request.arguments[0].endswith("\n</think>\n\nThe best answer is")
    check_against_forward_pass(results, thinker)


def test_vllm_scores_after_the_thought_as_hf_does(thinker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run("hf", thinker).forms[0].samples
    with fake_vllm.installed(monkeypatch):
        second = run("vllm", thinker).forms[0].samples
    for ours, theirs in zip(first, second, strict=True):
        assert ours.outputs[0] == theirs.outputs[0]
        likelihoods = [
            [output.loglikelihood for output in each.outputs if isinstance(output, LLOutput)] for each in (ours, theirs)
        ]
        assert likelihoods[0] == pytest.approx(likelihoods[1], abs=1e-4)


def test_a_completions_server_gets_the_thought_in_the_prompt(thinker: Path, server: Any) -> None:
    tokenizer = AutoTokenizer.from_pretrained(thinker)
    server.reply = lambda prompt: " so it is"
    server.decode = lambda token: tokenizer.decode([token])
    arguments = {"model": "tiny", "base_url": server.base_url, "tokenizer": str(thinker)}
    results = evaluate(
        model="openai-completions", model_args=arguments, tasks="quiz@think", limit=1,
        apply_chat_template=True, gen_kwargs={"max_gen_toks": 12}, use_cache=False,
    )  # fmt: skip
    generated, *scored = [asked.payload for asked in server.asked]
    assert generated["stop"] == ["</think>"]
    before = tokenizer.decode(generated["prompt"])
    assert before.endswith("<think>\n")
    end = " so it is\n</think>\n\nThe best answer is"
    asked = sorted(tokenizer.decode(payload["prompt"]) for payload in scored)
    assert asked == [f"{before}{end} {label}" for label in "ABCD"]
    assert results.forms[0].samples[0].prediction is not None


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

"""Local models in runs: logits that are no numbers, contexts that are too long, and a stop in the middle."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import transformers

from multiform import GenerationRequest, LoglikelihoodRequest, RollingRequest, evaluate
from multiform.errors import IncompleteRunError, ModelError
from multiform.models.hf.model import HFModel
from multiform.models.torch.planner import Planner
from multiform.requests import Request
from multiform.results.notes import result_notes
from multiform.stopping import request_stop, stoppable
from tests.tiny_models import make_tokenizer, save_random

LED_SIZES = {"layers": 1, "ffn_dim": 48, "attention_heads": 4}


@pytest.mark.parametrize(
    ("task", "gen_kwargs", "reason"),
    [
        ("quiz@mcqa", {}, "the log-likelihood is nan"),
        ("quiz@generate", {"max_gen_toks": 4}, "the model's logits are NaN or infinite"),
        (
            "quiz@generate",
            {"max_gen_toks": 4, "temperature": 0.7, "do_sample": True},
            "the model's logits are NaN or infinite",
        ),
        ("quiz@generate", {"max_gen_toks": 4, "num_beams": 2}, "the model's logits are NaN or infinite"),
    ],
)
def test_logits_that_are_no_numbers_give_no_score(
    task: str, gen_kwargs: dict[str, Any], reason: str, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny(), tmp_path / "copy"))
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    weights = {name: torch.full_like(tensor, torch.nan) for name, tensor in weights.items()}
    safetensors.torch.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(IncompleteRunError, match=f"2 of 2 documents failed: .*{reason}"):
        evaluate(model="hf", model_args={"pretrained": str(folder)}, tasks=task, limit=2, gen_kwargs=gen_kwargs)


def test_truncated_contexts_are_counted_also_when_the_responses_are_cached(tiny: Callable[..., Path]) -> None:
    for _ in range(2):
        arguments = {"pretrained": str(tiny()), "max_length": 60}
        results = evaluate(
            model="hf",
            model_args=arguments,
            tasks=["quiz@mcqa", "quiz@generate"],
            limit=4,
            gen_kwargs={"max_gen_toks": 4},
        )
        assert [form.truncated_contexts for form in results.forms] == [4, 4]
        assert any(
            "quiz@mcqa: the prompts of 4 of 4 documents lose their beginning" in x for x in result_notes(results)
        )


QUESTIONS = [f"Question: is {i} + 30 = {i + 30}?" for i in range(40)]
ASKED: dict[str, list[Request]] = {
    "loglikelihood": [LoglikelihoodRequest(text, word) for text in QUESTIONS for word in (" yes, it is", " no")],
    "loglikelihood_rolling": [RollingRequest(text) for text in QUESTIONS],
    "generate": [GenerationRequest.of(text, {"max_gen_toks": 5}) for text in QUESTIONS],
}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["llama", "mamba"])
@pytest.mark.parametrize("question", list(ASKED))
def test_a_stop_ends_the_stream_after_what_is_in_flight(
    kind: str, question: str, tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Planner, "pass_size", 64)
    model = HFModel(str(tiny(kind)), batch_size=4)
    ask, requests = getattr(model, question), ASKED[question]
    every = dict(ask(requests))
    with stoppable():
        stream = ask(requests)
        came = dict([next(stream)])
        request_stop()
        came |= dict(stream)
    assert 1 <= len(came) < len(requests)
    assert came == {position: every[position] for position in came}


def test_a_stop_ends_beam_search_after_the_sequence_in_flight(tiny: Callable[..., Path]) -> None:
    model = HFModel(str(tiny()))
    requests = [GenerationRequest.of(text, {"max_gen_toks": 3, "num_beams": 2}) for text in QUESTIONS[:4]]
    with stoppable():
        stream = model.generate(requests)
        came = [next(stream)]
        request_stop()
        came += stream
    assert len(came) == 1


def test_beams_that_do_not_fit_into_memory_are_named(
    tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = HFModel(str(tiny()))

    def fail(*args: Any, **options: Any) -> None:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(model.model, "generate", fail)
    with pytest.raises(ModelError, match=r"one sequence of \d+ tokens does not fit into memory"):
        list(model.generate([GenerationRequest.of(QUESTIONS[0], {"max_gen_toks": 3, "num_beams": 2})]))


def test_a_configured_limit_leaves_a_decoder_its_positions(tmp_path: Path) -> None:
    """LED names the positions of its encoder and of its decoder, and none of both."""
    sizes = {f"{half}_{name}": size for half in ("encoder", "decoder") for name, size in LED_SIZES.items()}
    tokenizer = make_tokenizer(bos=False)
    config = transformers.LEDConfig(
        vocab_size=len(tokenizer), d_model=32, attention_window=8, max_decoder_position_embeddings=20, **sizes
    )
    config.update({"pad_token_id": 2, "eos_token_id": 1, "bos_token_id": 0, "decoder_start_token_id": 1})
    model = HFModel(str(save_random(tmp_path / "led", config, tokenizer)))
    model.generation_config.update(max_new_tokens=100, suppress_tokens=[model.tokenizer.eos_token_id])
    [(_, completion)] = model.generate([GenerationRequest.of("The dog", {"until": [], "max_gen_toks": 5})])
    assert completion.tokens == 20

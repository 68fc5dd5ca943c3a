"""The generation config of a model is honoured: the texts are those of lm-eval, or the setting is refused by name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
from transformers import GenerationConfig

from multiform.errors import UsageError
from multiform.models.hf.model import HFModel
from multiform.requests import GenerationRequest
from tests.models.hf.test_lm_eval_parity import PROMPTS, compare_generation

#: Tokens that are no special ones, and that the tiny models like.
SETTINGS: list[dict[str, Any]] = [
    {"no_repeat_ngram_size": 2},
    {"encoder_no_repeat_ngram_size": 2, "encoder_repetition_penalty": 6.0},
    {"suppress_tokens": list(range(100, 300))},
    {"begin_suppress_tokens": list(range(100, 400))},
    {"bad_words_ids": [[token] for token in range(50, 250)] + [[300, 301]]},
    {"sequence_bias": [[[token], 4.0] for token in range(40, 90)]},
    {"forced_eos_token_id": 1},
    {"forced_eos_token_id": [40, 41]},
    {"exponential_decay_length_penalty": [3, 3.0]},
    {"encoder_repetition_penalty": 6.0},
    {"repetition_penalty": 1.8},
    {"repetition_penalty": 1.8, "no_repeat_ngram_size": 3, "suppress_tokens": [70, 71, 72]},
    {"min_new_tokens": 6, "eos_token_id": list(range(200))},
    {"min_length": 14, "eos_token_id": list(range(200))},
    {"eos_token_id": list(range(1, 330))},
    {"max_new_tokens": 3},
    {"max_new_tokens": 20},
    {"num_beams": 3},
    {"num_beams": 4, "length_penalty": -3.0, "early_stopping": True, "eos_token_id": list(range(200))},
    {"num_beams": 3, "no_repeat_ngram_size": 2, "repetition_penalty": 1.5},
    {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "no_repeat_ngram_size": 2},
]


@pytest.fixture(scope="module")
def repeating(tiny: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes a folder with a tiny model that repeats itself: that is what most settings are made for."""

    def make(kind: str) -> Path:
        folder = Path(shutil.copytree(tiny(kind), tmp_path_factory.mktemp("repeating") / kind))
        weights = safetensors.torch.load_file(folder / "model.safetensors")
        softened = {name: weight / 4 if weight.dim() == 2 else weight for name, weight in weights.items()}
        safetensors.torch.save_file(softened, folder / "model.safetensors", metadata={"format": "pt"})
        return folder

    return cache(make)


@pytest.fixture
def configured(repeating: Callable[..., Path], tmp_path: Path) -> Callable[..., str]:
    """Makes a folder with such a model that has settings in its generation_config.json."""

    def make(kind: str = "llama", **settings: Any) -> str:
        folder = Path(shutil.copytree(repeating(kind), tmp_path / "-".join([kind, *settings])))
        path = folder / "generation_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))
        return str(folder)

    return make


@pytest.fixture(scope="module")
def plain(repeating: Callable[..., Path]) -> HFModel:
    return HFModel(str(repeating("llama")))


@pytest.fixture(scope="module")
def theirs(repeating: Callable[..., Path], hflm: Any) -> Any:
    return hflm(pretrained=str(repeating("llama")), device="cpu", dtype="float32", batch_size=1)


@pytest.mark.parity
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: "+".join(settings))
def test_texts_are_those_of_lm_eval(
    settings: dict[str, Any], plain: HFModel, theirs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_options = [{"until": [], "max_gen_toks": 16}, {"until": ["e", "S"], "max_gen_toks": 12}]
    requests = [GenerationRequest.of(prompt, options) for prompt in PROMPTS for options in all_options]
    without_settings = dict(plain.generate(requests))
    usual = plain.model.generation_config.to_dict()
    for model in (plain.model, theirs.model):
        monkeypatch.setattr(model, "generation_config", GenerationConfig(**{**usual, **settings}))
    for options in all_options:
        compare_generation(plain, theirs, options)
    assert dict(plain.generate(requests)) != without_settings, "the setting has no effect"


@pytest.mark.parity
def test_a_request_may_ask_for_beams(plain: HFModel, theirs: Any) -> None:
    compare_generation(plain, theirs, {"until": [], "max_gen_toks": 10, "num_beams": 4})


@pytest.mark.parametrize("kind", ["mistral", "mamba"])
def test_batches_of_any_size_follow_the_settings(kind: str, configured: Callable[..., str]) -> None:
    folder = configured(kind, no_repeat_ngram_size=2, min_new_tokens=4, forced_eos_token_id=1)
    prompts = ["The dog", "A dog is a good dog, and", "do", "Question: what is it?"]
    requests = [GenerationRequest.of(prompt, {"until": [], "max_gen_toks": 9}) for prompt in prompts]
    alone, together = (dict(HFModel(folder, batch_size=size).generate(requests)) for size in (1, 4))
    assert alone == together


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({"guidance_scale": 1.5}, {}),
        ({"max_time": 3.0}, {}),
        ({"stop_strings": ["x"]}, {}),
        ({"typical_p": 0.5}, {"temperature": 1.0}),
    ],
    ids=str,
)
def test_what_is_not_supported_is_refused_by_name(
    settings: dict[str, Any], options: dict[str, Any], configured: Callable[..., str]
) -> None:
    model = HFModel(configured(**settings))
    name = next(iter(settings))
    with pytest.raises(UsageError, match=rf"generation config sets {name}=.*; remove it from generation_config.json"):
        list(model.generate([GenerationRequest.of("The dog", options)]))


def test_the_description_and_the_identity_have_what_is_in_force(configured: Callable[..., str], plain: HFModel) -> None:
    assert plain.info()["generation_config"] == {"eos_token_id": 1}
    settings = {"no_repeat_ngram_size": 2, "top_p": 0.9, "length_penalty": 2.0, "max_length": 50}
    model = HFModel(configured(**settings))
    # There are no beams, and lm-eval says how long a text may be.
    assert model.info()["generation_config"] == {"eos_token_id": 1, "no_repeat_ngram_size": 2, "top_p": 0.9}
    assert model.identity != plain.identity


def test_the_log_says_once_that_a_limit_of_the_model_takes_precedence(
    configured: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    model = HFModel(configured(max_new_tokens=3))
    list(model.generate([GenerationRequest.of(prompt, {"max_gen_toks": 9}) for prompt in PROMPTS]))
    assert caplog.text.count("generation config sets max_new_tokens=3, which takes precedence over max_gen_toks") == 1


def test_sampled_beams_repeat(plain: HFModel) -> None:
    options = {"until": [], "max_gen_toks": 8, "num_beams": 2, "temperature": 1.0}
    requests = [GenerationRequest.of("The dog", options, sample) for sample in range(4)]
    first, second = dict(plain.generate(requests)), dict(plain.generate(requests))
    assert first == second
    assert len({completion.text for completion in first.values()}) > 1


def test_an_end_token_that_is_not_special_stays_in_the_text(configured: Callable[..., str], plain: HFModel) -> None:
    request = GenerationRequest.of("The dog", {"until": [], "max_gen_toks": 8})
    [(_, whole)] = plain.generate([request])
    model = HFModel(configured(eos_token_id=[1, plain.tokenizer.convert_tokens_to_ids(whole.text[0])]))
    [(_, ended)] = model.generate([request])
    assert ended.text == whole.text[0]
    assert (whole.truncated, ended.truncated) == (True, False)

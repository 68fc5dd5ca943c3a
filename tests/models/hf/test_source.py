"""Quantized weights, and weights that are spread over devices.

bitsandbytes is not installed with Multiform: without it, tests show only what transformers is told. A checkpoint in the
BitNet format runs on a CPU, and so do weights that wait on disk.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import transformers
from transformers.integrations.bitnet import pack_weights

from multiform.errors import ModelError, UsageError
from multiform.models.hf import source as loading
from multiform.models.hf.model import HFModel
from multiform.models.hf.source import ModelSource, placement, quantization_config
from multiform.requests import GenerationRequest, LoglikelihoodRequest

REQUESTS = [LoglikelihoodRequest("The dog and the cat", text) for text in (" sat", " is it", " A")]
WRITTEN = [GenerationRequest.of("The dog", {"until": [], "max_gen_toks": 5})]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `from_pretrained` was given last; the model is loaded without quantization and device map."""
    seen: dict[str, Any] = {}
    usual = transformers.AutoModelForCausalLM.from_pretrained

    def load(*names: Any, **options: Any) -> Any:
        seen.clear()
        seen.update(options)
        left = {name: value for name, value in options.items() if name not in ("quantization_config", "max_memory")}
        return usual(*names, **{**left, "device_map": {"": "cpu"} if "device_map" in left else None})

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", load)
    monkeypatch.setattr(loading, "find_spec", lambda name: object())
    return seen


def test_four_bits_are_asked_of_transformers(given: dict[str, Any], tiny: Callable[..., Path], llama: HFModel) -> None:
    model = HFModel(
        str(tiny()),
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype="bfloat16",
        bnb_4bit_use_double_quant=True,
    )
    config = given["quantization_config"]
    assert isinstance(config, transformers.BitsAndBytesConfig)
    assert (config.load_in_4bit, config.load_in_8bit) == (True, False)
    assert (config.bnb_4bit_quant_type, config.bnb_4bit_use_double_quant) == ("nf4", True)
    assert config.bnb_4bit_compute_dtype == torch.bfloat16
    # Quantized weights cannot be moved, so they are loaded where they stay.
    assert given["device_map"] == {"": "cpu"}
    assert model.identity != llama.identity


def test_eight_bits_are_asked_of_transformers(given: dict[str, Any], tiny: Callable[..., Path]) -> None:
    eight = HFModel(str(tiny()), load_in_8bit=True)
    assert given["quantization_config"].load_in_8bit
    assert eight.identity != HFModel(str(tiny()), load_in_4bit=True).identity


def test_weights_are_loaded_as_they_are_by_default(given: dict[str, Any], tiny: Callable[..., Path]) -> None:
    HFModel(str(tiny()), load_in_4bit=False, load_in_8bit=None)
    assert not {"quantization_config", "device_map", "max_memory"} & set(given)


@pytest.mark.parametrize("name", ["load_in_4bit", "load_in_8bit"])
def test_a_missing_package_is_named(name: str, tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "find_spec", lambda name: None)
    message = f"{name} needs the package 'bitsandbytes'; run: pip install bitsandbytes"
    with pytest.raises(ModelError, match=message):
        HFModel(str(tiny()), **{name: True})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"load_in_4bit": True, "load_in_8bit": True}, "load_in_4bit and load_in_8bit do not go together"),
        ({"bnb_4bit_quant_type": "nf4"}, "bnb_4bit_quant_type needs load_in_4bit=True"),
        ({"load_in_4bit": True, "bnb_4bit_quant_type": "nf5"}, "unknown bnb_4bit_quant_type 'nf5'; did you mean 'nf4'"),
        ({"load_in_4bit": True, "bnb_4bit_compute_dtype": "bfloat"}, "unknown dtype 'bfloat'; did you mean 'bfloat16'"),
        ({"load_in_4bit": True, "bnb_4bit_compute_dtype": "auto"}, "must be a number type, not 'auto'"),
    ],
)
def test_settings_that_do_not_fit_are_an_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        quantization_config(ModelSource(pretrained="a", **options))


@pytest.mark.parametrize(("method", "package"), [("awq", "gptqmodel"), ("vptq", "vptq")])
def test_a_quantized_checkpoint_names_the_package_that_is_missing(
    method: str, package: str, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    if find_spec(package):
        pytest.skip(f"{package} is installed")
    folder = Path(shutil.copytree(tiny(), tmp_path / "quantized"))
    _set(folder, quantization_config={"quant_method": method, "bits": 4})
    message = (
        rf"the checkpoint is quantized \('{method}'\) and cannot be loaded here: .*pip install .*{package}.*; install"
    )
    with pytest.raises(ModelError, match=message):
        HFModel(str(folder))


@pytest.mark.parametrize("options", [{"load_in_4bit": True}, {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}])
def test_four_bits_run_and_are_saved_and_run_again(
    options: dict[str, Any], tiny: Callable[..., Path], tmp_path: Path, llama: HFModel
) -> None:
    pytest.importorskip("bitsandbytes")
    model = HFModel(str(tiny()), **options)
    assert model.model.model.layers[0].mlp.up_proj.weight.dtype == torch.uint8
    outputs = dict(model.loglikelihood(REQUESTS))
    assert outputs != dict(llama.loglikelihood(REQUESTS))
    for index, request in enumerate(REQUESTS):
        assert outputs[index].loglikelihood == pytest.approx(_by_hand(model, request), abs=1e-4)
    model.model.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    again = HFModel(str(tmp_path))
    assert dict(again.loglikelihood(REQUESTS)) == outputs
    assert dict(again.generate(WRITTEN)) == dict(model.generate(WRITTEN))


@pytest.mark.slow
def test_a_quantized_checkpoint_runs(tiny: Callable[..., Path], tmp_path: Path, llama: HFModel) -> None:
    folder = _bitnet(tiny(), tmp_path / "bitnet")
    model = HFModel(str(folder), gptqmodel=True)
    assert model.model.model.layers[0].mlp.up_proj.weight.dtype == torch.uint8
    assert model.identity != llama.identity
    outputs = dict(model.loglikelihood(REQUESTS))
    for index, request in enumerate(REQUESTS):
        assert outputs[index].loglikelihood == pytest.approx(_by_hand(model, request), abs=1e-4)
    with torch.inference_mode():
        prompt = torch.tensor([model.tokenizer.encode("The dog")])
        output = model.model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=5, do_sample=False)
    [(_, written)] = model.generate(WRITTEN)
    assert written.text == model.tokenizer.decode(output[0, prompt.shape[1] :], skip_special_tokens=True)


def test_weights_that_wait_on_disk_give_the_same_responses(
    tiny: Callable[..., Path], tmp_path: Path, llama: HFModel
) -> None:
    model = HFModel(str(tiny()), parallelize=True, max_cpu_memory="60KB", offload_folder=str(tmp_path / "offload"))
    assert "disk" in model.model.hf_device_map.values()
    for _ in range(2):  # the first pass leaves the model as it was
        assert dict(model.loglikelihood(REQUESTS)) == dict(llama.loglikelihood(REQUESTS))
    assert dict(model.generate(WRITTEN)) == dict(llama.generate(WRITTEN))
    assert model.identity == llama.identity


def test_an_encoder_decoder_may_wait_on_disk(seq2seq: Callable[..., Path], tmp_path: Path) -> None:
    folder = str(seq2seq("t5"))
    model = HFModel(folder, parallelize=True, max_cpu_memory="20KB", offload_folder=str(tmp_path / "offload"))
    assert "disk" in model.model.hf_device_map.values()
    whole = HFModel(folder)
    assert dict(model.loglikelihood(REQUESTS)) == dict(whole.loglikelihood(REQUESTS))
    assert dict(model.generate(WRITTEN)) == dict(whole.generate(WRITTEN))


def test_memory_is_said_for_each_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda gpu: (1000 + gpu, 2000))

    def memory(**options: Any) -> Any:
        return placement(ModelSource(pretrained="a", **options), "auto").get("max_memory")

    assert memory() is None
    assert memory(max_memory_per_gpu="20GB") == {0: "20GB", 1: "20GB"}
    assert memory(max_memory_per_gpu="20GB", max_cpu_memory="9GB") == {0: "20GB", 1: "20GB", "cpu": "9GB"}
    assert memory(max_cpu_memory="9GB") == {0: 1000, 1: 1001, "cpu": "9GB"}
    assert memory(max_memory={"0": "5GB", "cpu": "9GB"}) == {0: "5GB", "cpu": "9GB"}
    assert memory(max_memory={"1": "5GB"}, max_memory_per_gpu="20GB") == {0: "20GB", 1: "5GB"}


def test_memory_goes_to_transformers_with_a_device_map(given: dict[str, Any], tiny: Callable[..., Path]) -> None:
    HFModel(str(tiny()), device_map="balanced", max_cpu_memory="9GB", offload_folder="there")
    assert (given["device_map"], given["max_memory"], given["offload_folder"]) == ("balanced", {"cpu": "9GB"}, "there")


def test_memory_without_a_device_map_changes_nothing(
    given: dict[str, Any], tiny: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "multiform"):
        HFModel(str(tiny()), max_memory_per_gpu="20GB")
    assert "max_memory" not in given
    assert "'max_memory_per_gpu' changes nothing without parallelize=True or a device_map" in caplog.text


def test_memory_that_names_no_device_is_an_error(tiny: Callable[..., Path]) -> None:
    with pytest.raises(UsageError, match="max_memory must say how much each device holds, not '20GB'"):
        HFModel(str(tiny()), parallelize=True, max_memory="20GB")


def _by_hand(model: HFModel, request: LoglikelihoodRequest) -> float:
    """The log-likelihood from a forward pass of the model alone."""
    tokens = model.tokenizer.encode(request.context + request.continuation)
    start = len(model.tokenizer.encode(request.context))
    with torch.inference_mode():
        logprobs = model.model(torch.tensor([tokens])).logits[0].log_softmax(-1)
    return sum(float(logprobs[place - 1, tokens[place]]) for place in range(start, len(tokens)))


def _set(folder: Path, **settings: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **settings}))


def _bitnet(source: Path, folder: Path) -> Path:
    """A copy of a model whose projections have weights of -1, 0 and 1, four to a byte."""
    shutil.copytree(source, folder)
    weights: dict[str, torch.Tensor] = {}
    for name, weight in safetensors.torch.load_file(folder / "model.safetensors").items():
        weights[name] = weight
        if "_proj" in name:
            scale = 1 / weight.abs().mean()
            weights[name] = pack_weights((weight * scale).round().clamp(-1, 1))
            weights[name.replace(".weight", ".weight_scale")] = scale[None]
    safetensors.torch.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    _set(folder, quantization_config={"quant_method": "bitnet", "modules_to_not_convert": ["lm_head"]})
    return folder

"""Adapters of PEFT: scores and texts are those of lm-eval with the same adapter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import transformers

from multiform.errors import ModelError
from multiform.models.hf.model import HFModel
from tests.models.hf.test_lm_eval_parity import PAIRS, compare, compare_generation

peft = pytest.importorskip("peft")

ATTENTION = ["q_proj", "v_proj"]
#: Adapters with weights that are not neutral, as if they had been trained.
ADAPTERS: dict[str, Callable[[], Any]] = {
    "lora": lambda: peft.LoraConfig(r=2, target_modules=ATTENTION, init_lora_weights=False),
    "dora": lambda: peft.LoraConfig(
        r=2, target_modules=[*ATTENTION, "up_proj"], use_dora=True, init_lora_weights=False
    ),
    "lora-embeddings": lambda: peft.LoraConfig(
        r=2, target_modules=["embed_tokens", "lm_head", "o_proj"], init_lora_weights=False
    ),
    "lora-saved-modules": lambda: peft.LoraConfig(
        r=2, target_modules=ATTENTION, modules_to_save=["lm_head", "norm"], init_lora_weights=False
    ),
    "ia3": lambda: peft.IA3Config(
        target_modules=["k_proj", "v_proj", "down_proj"], feedforward_modules=["down_proj"], init_ia3_weights=False
    ),
    "loha": lambda: peft.LoHaConfig(r=2, target_modules=ATTENTION, init_weights=False),
}


@pytest.fixture
def adapter(tiny: Callable[..., Path], tmp_path: Path) -> Callable[..., str]:
    """Makes a folder with an adapter for a tiny model."""

    def make(config: Any, kind: str = "llama") -> str:
        config.task_type = "CAUSAL_LM"
        torch.manual_seed(3)
        base = transformers.AutoModelForCausalLM.from_pretrained(tiny(kind))
        adapted = peft.get_peft_model(base, config)
        with torch.no_grad():
            for name, weight in adapted.named_parameters():
                if weight.requires_grad and "magnitude" not in name:
                    weight.add_(torch.randn_like(weight) * 0.1)
        folder = tmp_path / "adapter"
        adapted.save_pretrained(folder, save_embedding_layers=False)
        return str(folder)

    return make


@pytest.mark.parity
@pytest.mark.parametrize("name", ADAPTERS)
def test_scores_and_texts_are_those_of_lm_eval(
    name: str, adapter: Callable[..., str], tiny: Callable[..., Path], llama: HFModel, hflm: Any
) -> None:
    folder = adapter(ADAPTERS[name]())
    ours = HFModel(str(tiny()), peft=folder)
    theirs = hflm(pretrained=str(tiny()), peft=folder, device="cpu", dtype="float32", batch_size=1)
    compare(ours, theirs, PAIRS)
    compare_generation(ours, theirs, {"until": [], "max_gen_toks": 12})
    ids = torch.tensor([[5, 6, 7]])
    with torch.inference_mode():
        assert not torch.allclose(ours.model(ids).logits, llama.model(ids).logits, atol=1e-2)
    assert ours.identity != llama.identity


def test_an_adapter_whose_weights_changed_is_another_model(
    adapter: Callable[..., str], tiny: Callable[..., Path]
) -> None:
    folder = adapter(ADAPTERS["lora"]())
    before = HFModel(str(tiny()), peft=folder).identity
    weights = Path(folder) / "adapter_model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert HFModel(str(tiny()), peft=folder).identity != before


def test_an_adapter_of_another_model_type_runs(adapter: Callable[..., str], tiny: Callable[..., Path]) -> None:
    """GPT-2 has projections with transposed weights."""
    config = peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True, init_lora_weights=False)
    model = HFModel(str(tiny("gpt2")), peft=adapter(config, "gpt2"))
    assert model.identity != HFModel(str(tiny("gpt2"))).identity


def test_an_adapter_that_adds_prompt_tokens_is_refused(adapter: Callable[..., str], tiny: Callable[..., Path]) -> None:
    folder = adapter(peft.PromptTuningConfig(num_virtual_tokens=3))
    with pytest.raises(ModelError, match="adapters that add prompt tokens are not supported; use an adapter that"):
        HFModel(str(tiny()), peft=folder)


def test_a_folder_that_does_not_exist_is_called_by_its_argument(tiny: Callable[..., Path]) -> None:
    for argument in ("peft", "tokenizer"):
        with pytest.raises(ModelError, match=rf"^{argument}: folder '/no/such/folder' does not exist; give a folder"):
            HFModel(str(tiny()), **{argument: "/no/such/folder"})  # type: ignore[arg-type]


def test_a_folder_without_an_adapter_is_an_error(tiny: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot load the adapter: Can't find 'adapter_config.json'"):
        HFModel(str(tiny()), peft=str(tmp_path))


def test_missing_weights_of_an_adapter_are_an_error_and_not_neutral(
    adapter: Callable[..., str], tiny: Callable[..., Path]
) -> None:
    folder = adapter(ADAPTERS["lora"]())
    file = Path(folder) / "adapter_model.safetensors"
    weights = safetensors.torch.load_file(file)
    del weights["base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"]
    safetensors.torch.save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"cannot load the adapter: Found missing adapter keys .*; check that it was"):
        HFModel(str(tiny()), peft=folder)


def test_an_adapter_of_another_model_is_an_error(adapter: Callable[..., str], tiny: Callable[..., Path]) -> None:
    with pytest.raises(ModelError, match=r"cannot load the adapter: .*; check that it was trained on this model"):
        HFModel(str(tiny("gpt2")), peft=adapter(ADAPTERS["lora"]()))

"""GGUF files by name: weights, configuration and tokenizer come from the one file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
import transformers

from multiform.errors import ModelError
from multiform.models.hf.model import HFModel, convert_gguf
from multiform.requests import LoglikelihoodRequest
from tests.models.hf.test_lm_eval_parity import PAIRS, compare, compare_generation

NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def write_gguf(
    source: Path, target: Path, quantized: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32
) -> None:
    """Write a Llama model with a byte-level BPE, as llama.cpp's converter does."""
    model = transformers.AutoModelForCausalLM.from_pretrained(source)
    config = model.config
    writer = gguf.GGUFWriter(target, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)
    vocabulary = json.loads((source / "tokenizer.json").read_text())["model"]
    tokens = sorted(vocabulary["vocab"], key=vocabulary["vocab"].__getitem__)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if index < 3 else 1 for index in range(len(tokens))])
    writer.add_token_merges([" ".join(pair) for pair in vocabulary["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    for name, weight in model.state_dict().items():
        writer.add_tensor(*_tensor(name, weight, config, quantized))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _tensor(name: str, weight: torch.Tensor, config: Any, quantized: Any) -> tuple[str, Any, None, Any]:
    if "q_proj" in name or "k_proj" in name:
        # Pairs of rotated dimensions are neighbours in GGUF, and half a head apart in transformers.
        heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
        weight = weight.view(heads, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape)
    part, layer = name.removesuffix(".weight"), ""
    if part.startswith("model.layers."):
        number, part = part.removeprefix("model.layers.").split(".", 1)
        layer = f"blk.{number}."
    values = weight.float().numpy()
    kind = quantized if values.ndim == 2 and values.shape[1] % 32 == 0 else gguf.GGMLQuantizationType.F32
    return f"{layer}{NAMES[part]}.weight", gguf.quants.quantize(values, kind), None, kind


@pytest.fixture(scope="module")
def folder(tiny: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but two GGUF files of one model, exact and quantized."""
    path = tmp_path_factory.mktemp("gguf")
    write_gguf(tiny(), path / "exact.gguf")
    write_gguf(tiny(), path / "q8.gguf", gguf.GGMLQuantizationType.Q8_0)
    return path


def test_a_gguf_file_is_the_model_that_it_was_made_from(folder: Path, llama: HFModel) -> None:
    requests = [LoglikelihoodRequest("The dog and the cat", text) for text in (" sat", " is it", " A")]
    read = dict(HFModel(str(folder), gguf_file="exact.gguf").loglikelihood(requests))
    original = dict(llama.loglikelihood(requests))
    for index in range(len(requests)):
        assert read[index].loglikelihood == pytest.approx(original[index].loglikelihood, abs=1e-4)


@pytest.mark.parity
@pytest.mark.parametrize("file", ["exact.gguf", "q8.gguf"])
def test_scores_and_texts_are_those_of_lm_eval(file: str, folder: Path, hflm: Any) -> None:
    ours = HFModel(str(folder), gguf_file=file)
    theirs = hflm(pretrained=str(folder), gguf_file=file, device="cpu", dtype="float32", batch_size=1)
    compare(ours, theirs, PAIRS)
    compare_generation(ours, theirs, {"until": [], "max_gen_toks": 12})


def test_files_of_one_folder_are_different_models(folder: Path) -> None:
    exact, quantized = (HFModel(str(folder), gguf_file=file) for file in ("exact.gguf", "q8.gguf"))
    assert exact.identity != quantized.identity


def test_the_first_run_of_the_bundled_model_says_what_takes_so_long(folder: Path, tmp_path: Path, caplog: Any) -> None:
    convert_gguf(folder / "exact.gguf", tmp_path)
    assert "converting the bundled model" in caplog.text
    assert "this happens once and takes half a minute" in caplog.text
    assert (tmp_path / "model.safetensors").is_file()


def test_a_file_that_does_not_exist_is_an_error_with_the_nearest_name(folder: Path) -> None:
    with pytest.raises(ModelError, match=r"gguf_file: no file 'q9.gguf' in .*; did you mean 'q8.gguf'"):
        HFModel(str(folder), gguf_file="q9.gguf")


def test_a_file_in_place_of_a_folder_is_an_error_that_says_how_to_name_it(folder: Path) -> None:
    with pytest.raises(ModelError, match=rf"q8.gguf' is a file; give pretrained={folder},gguf_file=q8.gguf"):
        HFModel(str(folder / "q8.gguf"))


def test_a_torn_file_is_an_error(folder: Path, tmp_path: Path) -> None:
    torn = Path(shutil.copy(folder / "exact.gguf", tmp_path))
    torn.write_bytes(torn.read_bytes()[:5000])
    with pytest.raises(ModelError, match="cannot load the model"):
        HFModel(str(tmp_path), gguf_file="exact.gguf")

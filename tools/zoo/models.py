"""Tiny models of every architecture of transformers, with random weights of large scale, so that a wrong computation
shows in the numbers. Their configurations have small values in the place of the default ones (``configs.yaml``).
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
import transformers
import yaml
from torch import nn
from transformers import CONFIG_MAPPING, PretrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
)
from transformers.pytorch_utils import Conv1D

from tools.zoo import custom

_TABLES = yaml.safe_load(Path(__file__).with_name("configs.yaml").read_text(encoding="utf-8"))
#: The values of settings, under all the names that architectures have for them.
SMALL: dict[str, int] = {name: value for value, names in _TABLES["small"].items() for name in names.split()}
VOCABULARY, LAYERS = SMALL["vocab_size"], SMALL["num_hidden_layers"]
#: Learned positions and position limits: short, so that prompts reach them; and so are windows and chunks.
POSITIONS, WINDOW, CHUNK = (
    SMALL[name] for name in ("max_position_embeddings", "sliding_window", "attention_chunk_size")
)
#: Tokens that prompts do not contain.
TOKENS = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
#: Where shrinking by name is not enough; None leaves a setting at its default.
SPECIAL: dict[str, dict[str, Any]] = {
    **{name: {"is_decoder": True} for name in _TABLES["encoders"].split()},
    **_TABLES["special"],
}
#: Other configurations than the default one: the architecture, and its settings.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = _TABLES["variants"]
#: How the names of models with custom code begin, and the one whose layers have the names of Llama's.
CUSTOM, LLAMA = "custom code: ", "llama with a window"
#: How the name of an encoder-decoder ends whose decoder is in the zoo by itself.
WITH_ENCODER = " (with encoder)"
#: The standard deviation of the outputs of a linear layer whose inputs have one of 1.
GAIN = 1.5
#: Parameters of the largest model; larger ones have parts that shrinking does not reach, such as image encoders.
LARGEST = 20_000_000


def architectures() -> list[str]:
    """The names of all models of the zoo: decoders, their variants, custom code, and encoder-decoders."""
    decoders = [*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *VARIANTS]
    both = [name for name in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES if name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES]
    others = [name for name in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES if name not in both]
    with_encoder = [f"{name}{WITH_ENCODER}" for name in both]
    return sorted([*decoders, *others, *with_encoder]) + [f"{CUSTOM}{kind}" for kind in (*custom.KINDS, LLAMA)]


def zoo_model(name: str) -> PreTrainedModel:
    """A model of the zoo by its name, with random weights, in evaluation mode."""
    torch.manual_seed(7)
    if name == f"{CUSTOM}{LLAMA}":
        return scaled(custom.WindowedLlamaForCausalLM(tiny_config("llama")))
    if name.startswith(CUSTOM):
        return scaled(custom.CustomForCausalLM(custom.CustomConfig(kind=name.removeprefix(CUSTOM), **TOKENS)))
    config = tiny_config(name.removesuffix(WITH_ENCODER))
    is_decoder = config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not name.endswith(WITH_ENCODER)
    auto_class = transformers.AutoModelForCausalLM if is_decoder else transformers.AutoModelForSeq2SeqLM
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in auto_class.from_config(copy.deepcopy(config)).parameters())
    if size > LARGEST:
        raise ValueError(f"{size // 10**6} million parameters")
    return scaled(auto_class.from_config(config))


@torch.no_grad()
def scaled(model: PreTrainedModel) -> PreTrainedModel:
    """The model with all matrices drawn anew: each product keeps the scale of its inputs or enlarges it."""
    torch.manual_seed(11)
    for part in model.modules():
        if isinstance(part, nn.Embedding):
            part.weight.normal_(0, 1.0)
        elif isinstance(part, nn.Linear | Conv1D):
            inputs = part.weight.shape[1] if isinstance(part, nn.Linear) else part.weight.shape[0]
            part.weight.normal_(0, GAIN * inputs**-0.5)
    for name, parameter in model.named_parameters():
        if "expert" in name and parameter.ndim == 3:
            parameter.normal_(0, GAIN * 32**-0.5)
    model.tie_weights()
    return model.eval()


def tiny_config(name: str) -> PretrainedConfig:
    """A configuration with few and small layers of an architecture, or of one of the variants."""
    model_type, overrides = VARIANTS.get(name, (name, {}))
    kind = CONFIG_MAPPING[model_type]
    settings = _small(kind()) | SPECIAL.get(model_type, {}) | overrides
    config = kind(**{key: value for key, value in settings.items() if value is not None})
    if config.is_encoder_decoder:
        config.decoder_start_token_id = 0
    return config


def _small(config: PretrainedConfig) -> dict[str, Any]:
    """The settings of a default configuration and its parts, with small values."""
    small: dict[str, Any] = {name: value for name, value in SMALL.items() if _get(config, name) is not None} | TOKENS
    if "kv_lora_rank" in small:
        small["num_key_value_heads"] = small["num_attention_heads"]
    for name in config.sub_configs:
        if isinstance(part := _get(config, name), PretrainedConfig):
            small[name] = _small(part)
    for name in ("layer_types", "mlp_layer_types", "layers_block_type"):
        is_setting = not isinstance(getattr(type(config), name, None), property)
        if is_setting and isinstance(kinds := _get(config, name), list) and name not in config.attribute_map:
            distinct = list(dict.fromkeys(kinds))
            small[name] = (distinct * LAYERS)[:LAYERS]
    return small


def _get(config: PretrainedConfig, name: str) -> Any:
    try:
        return getattr(config, name, None)
    except Exception:  # noqa: BLE001 - some refuse, each with an error of its own
        return None

"""Tiny configurations of every architecture of transformers, by shrinking what the default configuration has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from transformers import CONFIG_MAPPING, PretrainedConfig

_TABLES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
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

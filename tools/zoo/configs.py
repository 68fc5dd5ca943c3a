"""Tiny configurations of every architecture of transformers, by shrinking what the default configuration has."""

from __future__ import annotations

from typing import Any

from transformers import CONFIG_MAPPING, PretrainedConfig

VOCABULARY = 400
LAYERS = 4
#: Learned positions and position limits: short, so that prompts reach them.
POSITIONS = 160
WINDOW = 24
CHUNK = 32

#: The values of settings, under all the names that architectures have for them.
SMALL: dict[str, Any] = {
    **dict.fromkeys(("vocab_size", "text_vocab_size", "vocab_size_per_layer_input"), VOCABULARY),
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "dim_model", "emb_dim", "embedding_size", "width"), 32),
    **dict.fromkeys(
        ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "encoder_layers"), LAYERS
    ),
    **dict.fromkeys(("num_decoder_layers", "num_encoder_layers", "num_sparse_encoder_layers"), LAYERS),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "num_decoder_attention_heads", "num_encoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "swa_num_key_value_heads"), 2),
    **dict.fromkeys(("intermediate_size", "ffn_hidden_size", "n_inner", "dim_ff", "d_ff", "decoder_ffn_dim"), 48),
    **dict.fromkeys(("encoder_ffn_dim", "moe_intermediate_size", "shared_expert_intermediate_size"), 48),
    **dict.fromkeys(("shared_intermediate_size", "feed_forward_hidden_size", "feed_forward_size", "d_inner"), 48),
    **dict.fromkeys(
        ("head_dim", "d_kv", "v_head_dim", "qk_nope_head_dim", "qk_rope_head_dim", "attention_head_size"), 8
    ),
    **dict.fromkeys(("dim_head", "rotary_dim", "swa_head_dim", "swa_v_head_dim", "global_head_dim"), 8),
    **dict.fromkeys(("kv_lora_rank", "q_lora_rank", "o_lora_rank", "hidden_size_per_layer_input"), 16),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"), POSITIONS),
    **dict.fromkeys(("max_encoder_position_embeddings", "max_decoder_position_embeddings"), POSITIONS),
    **dict.fromkeys(("decoder_vocab_size", "src_vocab_size", "tgt_vocab_size"), VOCABULARY),
    **dict.fromkeys(("sliding_window", "window_size", "attention_window_size", "sliding_window_size"), WINDOW),
    **dict.fromkeys(("attention_chunk_size", "attention_window"), CHUNK),
    **dict.fromkeys(
        ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_routed_experts"), 4
    ),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk", "moe_k", "top_k_experts", "num_selected_experts"), 2),
    **dict.fromkeys(("n_group", "topk_group", "n_shared_experts", "num_shared_experts", "first_k_dense_replace"), 1),
    **dict.fromkeys(
        ("mamba_n_heads", "mamba_num_heads", "linear_num_key_heads", "linear_num_value_heads", "linear_num_heads"), 4
    ),
    **dict.fromkeys(
        ("mamba_d_head", "mamba_head_dim", "linear_key_head_dim", "linear_value_head_dim", "linear_head_dim"), 16
    ),
    **dict.fromkeys(("mamba_d_state", "ssm_state_size", "state_size"), 8),
    **dict.fromkeys(("mamba_n_groups", "n_groups", "mamba_ngroups"), 1),
    **dict.fromkeys(("mamba_expand", "expand"), 2),
    **dict.fromkeys(("lru_width",), 32),
    **dict.fromkeys(("index_head_dim", "index_n_heads"), 8),
    **dict.fromkeys(("index_topk",), 16),
}
#: Tokens that prompts do not contain.
TOKENS = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
#: Encoders that are decoders when their configuration says so.
ENCODERS = (
    *("bert", "bert-generation", "big_bird", "camembert", "data2vec-text", "electra", "ernie", "megatron-bert"),
    *("rembert", "roberta", "roberta-prelayernorm", "roc_bert", "roformer", "xlm-roberta", "xlm-roberta-xl", "xmod"),
)
#: Where shrinking by name is not enough; None leaves a setting at its default.
SPECIAL: dict[str, dict[str, Any]] = {
    **{name: {"is_decoder": True} for name in ENCODERS},
    "cohere_compass_text": {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0}}},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "dbrx": {"attn_config": {"rope_theta": 10000.0, "kv_n_heads": 2, "clip_qkv": 8}},
    "bamba": {"attn_layer_indices": [1, 3]},
    "granitemoehybrid": {"layer_types": ["mamba", "attention", "mamba", "attention"]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "falcon": {"head_dim": None},
    "gemma4_text": {"head_dim": 8, "global_head_dim": 16},
    "gemma4_unified_text": {"head_dim": 8, "global_head_dim": 16},
    "falcon_h1": {"mamba_d_ssm": 64},
    "gpt_neo": {"attention_types": [[["global", "local"], 2]]},
    "gemma3n_text": {"num_kv_shared_layers": 2},
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8},
    "ministral": {"head_dim": 8},
    "nemotron": {"num_key_value_heads": 2},
    "lfm2": {"layer_types": ["conv", "full_attention", "conv", "full_attention"]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv", "full_attention"]},
    "mamba2": {"num_heads": 4, "head_dim": 16},
    "prophetnet": {"num_hidden_layers": None},
    "reformer": {
        "is_decoder": True,
        "axial_pos_embds_dim": (16, 16),
        "axial_pos_shape": (16, 16),
        "max_position_embeddings": 256,
        "hash_seed": 3,
    },
    "xlm": {"causal": True},
    "xlnet": {"max_position_embeddings": None},
    "xlstm": {"v_head_dim": None, "num_heads": 4, "head_dim": None, "qk_dim_factor": 1.0},
    "xmod": {"is_decoder": True, "default_language": "en_XX"},
    "zaya": {"num_experts_per_tok": 1},
}


#: Configurations beside the default one, in which the numbers of a token depend on more than the tokens before it.
_DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
_LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0] * 4,
    "long_factor": [4.0] * 4,
    "original_max_position_embeddings": 64,
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama (dynamic RoPE)": (
        "llama",
        {
            "rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0},
            "max_position_embeddings": 48,
        },
    ),
    "phi3 (LongRoPE)": ("phi3", {"rope_parameters": _LONGROPE, "original_max_position_embeddings": 64}),
    "doge (kept window)": ("doge", {"keep_window_size": 16}),
    "bert (encoder)": ("bert", {"is_decoder": False}),
    "gpt_neo (default layers)": ("gpt_neo", {"window_size": 16}),
    "qwen2 (sliding window)": ("qwen2", {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1}),
}


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
    small = {name: value for name, value in SMALL.items() if _get(config, name) is not None} | TOKENS
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

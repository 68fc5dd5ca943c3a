"""The lead on eight architectures: random models of about 50 million parameters on 5-shot texts, against lm-eval."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.benchmarks.rows import Row, say
from tools.benchmarks.scoring import Case, Pair, all_requests, compared
from tools.benchmarks.sides import Setting

#: Widths that all of them share.
_SIZES = {"hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8, "max_position_embeddings": 4096}
_WIDE = {**_SIZES, "intermediate_size": 1536, "num_key_value_heads": 4}
#: The configuration of each architecture; Mistral has a window that is shorter than the prompts.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": _WIDE,
    "mistral": {**_WIDE, "sliding_window": 128},
    "qwen2": _WIDE,
    "qwen3": {**_WIDE, "head_dim": 64},
    "gemma2": {**_WIDE, "head_dim": 64, "sliding_window": 256},
    "gemma3_text": {**_WIDE, "head_dim": 64, "sliding_window": 256},
    "gpt_neox": {**_SIZES, "intermediate_size": 2048},
    "gpt2": {"n_embd": 512, "n_layer": 8, "n_head": 8, "n_positions": 4096},
}
_CASE = Case(name="texts, 5-shot")
DOCS = 12


def measure(setting: Setting) -> Iterator[Row]:
    """CPU time of both sides for every architecture; raises where they do not agree."""
    docs = min(DOCS, setting.docs[0])
    every = all_requests(setting)[_CASE]
    requests = every[: docs * len(every) // setting.docs[1]]
    for name, config in ARCHITECTURES.items():
        with tempfile.TemporaryDirectory() as folder:
            parameters = save_random(name, config, Path(folder), setting.model)
            say(f"{name}: {parameters / 1e6:.0f} million parameters, {len(requests)} requests")
            pair: Pair = compared(replace(setting, model=Path(folder)), _CASE, requests)
        yield pair.row("CPU time", f"{name}, 5-shot texts, {docs} docs", "s", "cpu")
        yield pair.row("tokens read", f"{name}, 5-shot texts, {docs} docs", "tokens", "read")


def save_random(name: str, config: dict[str, Any], folder: Path, tokenizer: Path) -> int:
    """Write a random model with the tokenizer of another one; returns the number of its parameters."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(0)
    words = AutoTokenizer.from_pretrained(tokenizer)
    made = AutoConfig.for_model(name, vocab_size=len(words), pad_token_id=0, **config)
    model = AutoModelForCausalLM.from_config(made)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())

"""Flags and models of lm-eval that Multiform does not have: accepted with a note, or refused with an alternative."""

from __future__ import annotations

import argparse
import logging

from multiform.errors import UsageError, nearest

logger = logging.getLogger("multiform")

_SERVED = "start its server and use --model local-completions --model_args base_url=http://localhost:8000/v1,model=NAME"
_CHAT = "use --model openai-chat --model_args base_url=URL,model=NAME, with the provider's OpenAI-compatible URL"
_LOCAL = "use --model hf --model_args pretrained=NAME"
#: lm-eval's models that Multiform does not have, and what to use instead.
INSTEAD = {
    **dict.fromkeys(("sglang", "sglang-generate", "trtllm", "gguf", "ggml"), _SERVED),
    "vllm-vlm": f"use --model hf-multimodal --model_args pretrained=NAME, or {_SERVED}",
    "anthropic-completions": "use --model anthropic --model_args model=NAME: Anthropic's older interface is closed",
    **dict.fromkeys(("textsynth", "watsonx_llm"), _CHAT),
    **dict.fromkeys(("hf-audiolm-qwen", "hf-mistral3"), "use --model hf-multimodal --model_args pretrained=NAME"),
    **dict.fromkeys(("mamba_ssm", "steered", "megatron_lm", "nemo_lm"), f"{_LOCAL}, where transformers loads it"),
    **dict.fromkeys(("ipex", "neuronx", "openvino", "habana", "onnxruntime", "onnxruntime-genai", "winml"), _LOCAL),
}
#: Flags that have no effect, and why.
NOTES = {
    "check_integrity": "every prompt is rendered and checked before the model runs, with or without --check_integrity",
}


def add_accepted(parser: argparse.ArgumentParser) -> None:
    """Add the flags of lm-eval that have no effect."""
    group = parser.add_argument_group("accepted for lm-eval's sake, with a note")
    group.add_argument("--check_integrity", action="store_true", help="tasks are checked in any case")


def note_accepted(options: argparse.Namespace) -> None:
    """Log why the given flags have no effect, each reason once."""
    notes = dict.fromkeys(note for name, note in NOTES.items() if getattr(options, name, None))
    for note in notes:
        logger.info("%s", note)


def check_model(name: str) -> None:
    """Raise a UsageError for an unknown model; for one of lm-eval's, it says what to use instead."""
    from multiform.models import models

    if name in models:
        return
    if name in INSTEAD:
        raise UsageError(f"the model '{name}' of lm-eval is not here", where="--model", hint=INSTEAD[name])
    raise UsageError(f"no model '{name}'", where="--model", hint=nearest(str(name), models, listed="models"))

"""Tiny random image-text and audio-text models with real processors, none of which needs torchvision."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

#: Writes each part in its place, and the roles around it.
CHAT = (
    "{% for m in messages %}[{{ m.role }}]{% for c in m.content %}"
    "{% if c.type == 'text' %}{{ c.text }}{% else %}PLACE{% endif %}"
    "{% endfor %}{% if not loop.last %}{{ '\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '\n[assistant]' }}{% endif %}"
)
VISION = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 28,
}


def _with_tokens(tokenizer: Any, tokens: list[str]) -> Any:
    tokenizer.add_tokens(tokens, special_tokens=True)
    tokenizer.pad_token = "</s>"
    return tokenizer


def _text(tokenizer: Any) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "initializer_range": 0.4,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 1,
    }


def llava(tokenizer: Any) -> tuple[Any, Any]:
    """Images of one size, each four tokens."""
    _with_tokens(tokenizer, ["<image>"])
    images = CLIPImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
    processor = transformers.LlavaProcessor(
        images,
        tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=CHAT.replace("PLACE", "<image>"),
    )
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**VISION, patch_size=14, initializer_range=0.4),
        text_config=transformers.LlamaConfig(**_text(tokenizer)),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_layer=-1,
    )
    return processor, transformers.LlavaForConditionalGeneration(config)


def idefics3(tokenizer: Any) -> tuple[Any, Any]:
    """Images cut into tiles, of which a batch has different numbers."""
    tiles = [f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5)]
    _with_tokens(tokenizer, ["<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>", *tiles])
    images = Idefics3ImageProcessorPil(size={"longest_edge": 56}, max_image_size={"longest_edge": 28})
    processor = transformers.Idefics3Processor(
        images, tokenizer, image_seq_len=4, chat_template=CHAT.replace("PLACE", "<image>")
    )
    config = transformers.Idefics3Config(
        vision_config={**VISION, "patch_size": 7, "initializer_range": 0.4},
        text_config=transformers.LlamaConfig(**_text(tokenizer)),
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=2,
    )
    return processor, transformers.Idefics3ForConditionalGeneration(config)


def gemma3(tokenizer: Any) -> tuple[Any, Any]:
    """Images that look at themselves in both directions, by the types of their tokens; another token in the text."""
    names = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"}
    _with_tokens(tokenizer, list(names.values()))
    tokenizer._set_model_specific_special_tokens(special_tokens=names)
    tokenizer.init_kwargs |= {"extra_special_tokens": names}
    images = Gemma3ImageProcessorPil(size={"height": 28, "width": 28})
    chat = CHAT.replace("PLACE", "<start_of_image>")
    processor = transformers.Gemma3Processor(images, tokenizer, image_seq_length=4, chat_template=chat)
    ids = {name: tokenizer.convert_tokens_to_ids(token) for name, token in names.items()}
    config = transformers.Gemma3Config(
        vision_config={**VISION, "patch_size": 7},
        text_config=transformers.Gemma3TextConfig(**_text(tokenizer), head_dim=8, sliding_window=64),
        image_token_id=ids["image_token"],
        boi_token_index=ids["boi_token"],
        eoi_token_index=ids["eoi_token"],
        mm_tokens_per_image=4,
    )
    model = transformers.Gemma3ForConditionalGeneration(config)
    # Made as zeros, with which all images would look the same.
    torch.nn.init.normal_(model.model.multi_modal_projector.mm_input_projection_weight)
    return processor, model


def qwen2_audio(tokenizer: Any) -> tuple[Any, Any]:
    """Sounds of up to a second; its own chat template numbers them."""
    _with_tokens(tokenizer, ["<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>", "<|im_start|>", "<|im_end|>"])
    sounds = transformers.WhisperFeatureExtractor(feature_size=8, chunk_length=1, nb_max_frames=100)
    processor = transformers.Qwen2AudioProcessor(sounds, tokenizer)
    config = transformers.Qwen2AudioConfig(
        audio_config={
            "num_mel_bins": 8,
            "encoder_layers": 2,
            "encoder_attention_heads": 2,
            "encoder_ffn_dim": 32,
            "d_model": 16,
            "max_source_positions": 50,
            "initializer_range": 0.4,
        },
        text_config={"model_type": "qwen2", **_text(tokenizer)},
        audio_token_index=tokenizer.convert_tokens_to_ids("<|AUDIO|>"),
    )
    return processor, transformers.Qwen2AudioForConditionalGeneration(config)


KINDS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "llava": llava,
    "idefics3": idefics3,
    "gemma3": gemma3,
    "qwen2_audio": qwen2_audio,
}


def build(kind: str, tokenizer: Any, folder: Path) -> None:
    """Write a model and its processor."""
    torch.manual_seed(11)
    processor, model = KINDS[kind](tokenizer)
    processor.save_pretrained(folder)
    model.save_pretrained(folder)

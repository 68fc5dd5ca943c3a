"""A random model of a few kilobytes, with a tokenizer and a chat template."""

from __future__ import annotations

from pathlib import Path

CHAT = (
    "{% for message in messages %}<{{ message['role'] }}> {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def save_tiny_model(folder: Path, template: str = CHAT) -> Path:
    """Write the model; equal calls give equal weights."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    from tests.tiny_models import llama_config, save_random

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<s>", "</s>"], initial_alphabet=letters, show_progress=False
    )
    tokenizer.train_from_iterator(["Question: what is it? Answer: the dog and the cat."] * 9, trainer)
    whole = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    whole.chat_template = template
    config = llama_config(
        len(whole), max_position_embeddings=256, bos_token_id=0, eos_token_id=1, initializer_range=0.4
    )
    return save_random(folder, config, whole)

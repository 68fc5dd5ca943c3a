"""`multiform show --tokens`: prompts token by token, and what the chat template made of the messages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")

from transformers import AutoModelForCausalLM, AutoTokenizer

from multiform.cli.show import template_changes
from tests.run.test_think import TEMPLATE
from tests.tiny_models import tiny

__all__ = ["tiny"]


@pytest.fixture
def chat_model(tiny: Callable[..., Path], tmp_path: Path) -> str:
    tokenizer = AutoTokenizer.from_pretrained(tiny("llama"))
    tokenizer.add_tokens(["<|assistant|>"], special_tokens=True)
    tokenizer.chat_template = TEMPLATE.replace("{{ m.content }}", "{{ m.content|trim }}")
    model = AutoModelForCausalLM.from_pretrained(tiny("llama"))
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    model.save_pretrained(tmp_path / "chat")
    tokenizer.save_pretrained(tmp_path / "chat")
    return f"pretrained={tmp_path / 'chat'}"


def test_prompts_are_shown_token_by_token_with_special_tokens_visible(folder, chat_model):
    folder.task()
    ran = folder.run("show", "task.yaml@think", "--tokens", "--apply_chat_template", "--model", "hf",
                     "--model_args", chat_model)  # fmt: skip
    assert ran.code == 0, ran.err
    head, added, tokens, *text = ran.out.splitlines()
    assert head == "=== t@think · doc 0"
    assert added == "--- chat template, added: '<|user|>\\n', '<|end|>\\n<|assistant|>\\n<think>\\n'"
    assert tokens.endswith(" tokens")
    assert any("⟨<|assistant|>⟩│\\n" in line for line in text)


def test_continuations_are_shown_apart(folder, chat_model):
    folder.task()
    ran = folder.run("show", "task.yaml@mcqa", "--tokens", "--model", "hf", "--model_args", chat_model)
    assert ran.out.count(" more: ") == 3


def test_models_without_a_tokenizer_here_are_refused(folder):
    folder.task()
    ran = folder.run("show", "task.yaml@mcqa", "--tokens", "--model", "dummy")
    assert ran.code == 2
    assert "error: --tokens: model 'dummy' has no tokenizer here; use --model hf or vllm" in ran.err
    assert folder.run("show", "task.yaml@mcqa", "--tokens", "--json").code == 2


def test_what_a_template_drops_is_named():
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}]
    assert template_changes(messages, "[INST]2 + 2?[/INST]") == [
        "not in the prompt as it is: what the system says",
        "added: '[INST]', '[/INST]'",
    ]

"""Chat templates that cannot write a conversation give one message that names them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from multiform.errors import ModelError
from multiform.prompts.chat import ChatTemplate

CHAT = [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    "error",
    [
        TypeError("Object of type Undefined is not JSON serializable"),
        ValueError("continue_final_message is set but the final message does not appear in the chat"),
    ],
)
def test_a_template_that_fails_is_named(error):
    def fail(messages: Any, **options: Any) -> str:
        raise error

    tokenizer: Any = SimpleNamespace(chat_template={"default": "x", "tool_use": "{{ tools }}"})
    template = ChatTemplate(tokenizer=tokenizer, model="m", apply=fail, template="tool_use")
    with pytest.raises(ModelError, match="m: the chat template 'tool_use' cannot write these messages: ") as raised:
        template.apply_chat_template(CHAT)
    assert str(error) in str(raised.value)


def test_a_template_with_a_date_still_renders_outside_of_ours():
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    text = "{{ strftime_now('%Y') }} {{ messages[0].content }}"
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(tokenizers.models.BPE()))
    tokenizer.chat_template = text
    template = ChatTemplate(tokenizer=tokenizer, model="m", apply=tokenizer.apply_chat_template)
    ours = template.apply_chat_template(CHAT)
    assert tokenizer.apply_chat_template(CHAT, tokenize=False) == ours

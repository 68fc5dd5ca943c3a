"""Chat templates, which come with models: bombs among them are refused before they go off."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from multiform.errors import ModelError
from multiform.models.chat import ChatTemplate

MESSAGES = [{"role": "user", "content": "Hello"}]
BOMBS = {
    "padding": "{{ 'x'.ljust(2000000000) }}",
    "product": "{{ messages[0]['content'] * 1000000000 }}",
    "loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "doubling": "{% set ns = namespace(x='x') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "recursion": "{% macro m(n) %}{{ m(n + 1) if n < 40 }}{{ m(n + 1) if n < 40 }}{% endmacro %}{{ m(0) }}",
    "format": "{{ '%2000000000d' % 1 }}",
    "bomb after a break": "{% for m in messages %}{{ 'x'.center(2000000000) }}{% break %}{% endfor %}",
}


def chat_template(text: str) -> ChatTemplate:
    """A template that fails the test where it is rendered."""

    def apply(*_: Any, **__: Any) -> str:
        raise AssertionError("the template was rendered")

    tokenizer: Any = SimpleNamespace(chat_template=text)
    return ChatTemplate(tokenizer=tokenizer, model="m", apply=apply)


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS.keys())
def test_a_chat_template_that_asks_for_too_much_is_refused(text):
    started = time.process_time()
    with pytest.raises(ModelError, match="the chat template asks for too much"):
        chat_template(text).apply_chat_template(MESSAGES)
    assert time.process_time() - started < (2 if sys.gettrace() is None else 8)  # counting covered lines takes long


def test_a_bomb_in_a_loop_is_refused_before_it_is_built():
    with pytest.raises(ModelError, match=r"of size 2,000,000,001"):  # 'x' and the padding, computed beforehand
        chat_template(BOMBS["bomb after a break"]).apply_chat_template(MESSAGES)


def test_an_ordinary_chat_template_is_rendered_by_the_tokenizer():
    text = "{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}{{ eos_token }}{% endfor %}"
    with pytest.raises(AssertionError, match="the template was rendered"):
        chat_template(text).apply_chat_template(MESSAGES)

"""Chat templates, which come with models: bombs among them are refused before they go off."""

from __future__ import annotations

import resource
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest
from transformers.utils import chat_template_utils

from multiform.errors import ModelError
from multiform.prompts.chat import ChatTemplate

MESSAGES = [{"role": "user", "content": "Hello"}]
LONG = [{"role": "user", "content": "Hello " * 40}]
BOMBS = {
    "padding": "{{ 'x'.ljust(2000000000) }}",
    "product": "{{ messages[0]['content'] * 1000000000 }}",
    "loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "doubling": "{% set ns = namespace(x='x') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "recursion": "{% macro m(n) %}{{ m(n + 1) if n < 40 }}{{ m(n + 1) if n < 40 }}{% endmacro %}{{ m(0) }}",
    "format": "{{ '%2000000000d' % 1 }}",
    "bomb after a break": "{% for m in messages %}{{ 'x'.center(2000000000) }}{% break %}{% endfor %}",
    "constant, computed by the compiler": "{{ 'x'|center(2000000000) }}",
    "after the date": "{{ strftime_now('%Y') }}{{ 'x'.ljust(2000000000) }}",
    "loops after the date": "{{ strftime_now('%Y') }}{% for a in range(99999) %}{% for b in range(99999) %}"
    "{% endfor %}{% endfor %}",
    "where a message is long": "{% if messages[0].content|length > 100 %}{{ 'x'.ljust(2000000000) }}{% endif %}",
    "where Multiform's filters are missing": "{% if 'regex_replace' is not filter %}{{ 'x' * 2000000000 }}{% endif %}",
    "where transformers' functions are there": "{% if raise_exception is defined %}{{ 'x' * 2000000000 }}{% endif %}",
    "inside a generation block": "{% generation %}{{ 'x' * 2000000000 }}{% endgeneration %}",
    "indent of JSON": "{{ messages|tojson(indent=100000000) }}",
    "separators of JSON": "{{ (range(9999)|list)|tojson(separators=('x' * 99999, 'y')) }}",
    "join over a generator": "{{ range(9999)|map('string')|join('x' * 999999) }}",
    "translation by a list": "{{ ('\\0' * 99999).translate(['y' * 99999]) }}",
    "roman candle": "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}"
    + "{% call m() %}" * 15 + "x" * 9999 + "{% endcall %}" * 15,
}  # fmt: skip


def chat_template(text: str) -> ChatTemplate:
    """A template as transformers renders it."""

    def apply(chat: Any, *, chat_template: str, add_generation_prompt: bool, **_: Any) -> str:
        prompts, _ = chat_template_utils.render_jinja_template(
            conversations=[chat], chat_template=chat_template, add_generation_prompt=add_generation_prompt
        )
        return str(prompts[0])

    tokenizer: Any = SimpleNamespace(chat_template=text)
    return ChatTemplate(tokenizer=tokenizer, model="m", apply=apply)


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS.keys())
def test_a_chat_template_that_asks_for_too_much_is_refused(text):
    started, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelError, match="the chat template asks for too much"):
        chat_template(text).apply_chat_template(LONG)
    assert time.process_time() - started < (2 if sys.gettrace() is None else 8)  # counting covered lines takes long
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 500 * 1024


ORDINARY = {
    "roles": "{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}{{ eos_token }}{% endfor %}",
    "namespace": "{%- set ns = namespace(n=0) -%}{% for m in messages %}{% set ns.n = ns.n + loop.index %}{% endfor %}"
    "{{ ns.n }}{{ 'a' ~ ns.n ~ none }}{% if add_generation_prompt %}<|assistant|>{% endif %}",
    "JSON": "{{ messages|tojson }}{{ messages|tojson(indent=4) }}{{ '{:>9}|{}'.format('a', messages[0].role) }}",
    "generation": "{% for m in messages %}{% generation %}{{ m['content'] }}{% endgeneration %}{% endfor %}",
    "pieces": "{{ messages[0]['content'].split(' ')[0][::-1] + '%03d' % 7 }}{{ messages|map(attribute='role')|join }}",
    "date": "{{ strftime_now('%Y-%m') }}",
    "escapes": "{{ ('<' ~ messages[0].content)|e }}{{ '<b>'|safe ~ '<' }}{{ undefined_name }}",
}


@pytest.mark.parametrize("text", ORDINARY.values(), ids=ORDINARY.keys())
def test_an_ordinary_chat_template_gives_what_transformers_gives(text):
    options = {"messages": MESSAGES, "add_generation_prompt": True, "tools": None, "documents": None}
    plain = chat_template_utils._cached_compile_jinja_template(text).render(**options)
    assert chat_template(text).apply_chat_template(MESSAGES) == plain


def test_a_template_that_fails_is_not_called_a_bomb():
    with pytest.raises(ModelError, match="the chat template fails: no user"):
        chat_template("{{ raise_exception('no user') }}").apply_chat_template(MESSAGES)


def test_a_long_conversation_is_rendered_though_it_exceeds_the_allowance():
    messages = [{"role": "user", "content": "word " * 100_000}]
    text = "{{ messages[0].content.replace('word', 'two words') }}"
    assert chat_template(text).apply_chat_template(messages) == "two words " * 100_000

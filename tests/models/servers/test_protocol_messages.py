"""A chat is one text, and comes back as it was; a text that looks like one is a text."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from multiform.models.servers.openai_chat import message_part
from multiform.models.servers.protocol import sent_messages
from multiform.prompts.prompt import Prompt
from multiform.requests import GenerationRequest, LoglikelihoodRequest

MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant"]), "content": st.text()}), max_size=4
)


@given(MESSAGES)
def test_messages_come_back(messages: list[dict[str, str]]) -> None:
    assert sent_messages(GenerationRequest.of(messages, {}), message_part) == (messages, False)
    assert sent_messages(LoglikelihoodRequest(messages, " A"), message_part) == (messages, False)


@given(st.text() | MESSAGES.map(json.dumps) | MESSAGES.map(lambda chat: Prompt.of(chat).text))
def test_any_other_text_is_what_the_user_says(text: str) -> None:
    messages = [{"role": "user", "content": text}]
    assert sent_messages(GenerationRequest.of(text, {}), message_part) == (messages, False)


def test_a_chat_and_a_text_that_looks_like_it_are_two_requests() -> None:
    chat = Prompt.of([{"role": "user", "content": "Hi"}])
    assert GenerationRequest.of(chat, {}) != GenerationRequest.of(chat.text, {})
    request = GenerationRequest.of(chat, {})
    assert GenerationRequest.of(request.prompt, {}) == request

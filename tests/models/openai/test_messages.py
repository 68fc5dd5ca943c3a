"""A chat is one string, and comes back as it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from multiform.models.openai.messages import pack, unpack

MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant"]), "content": st.text()}), max_size=4
)


@given(MESSAGES)
def test_messages_come_back(messages: list[dict[str, str]]) -> None:
    assert unpack(pack(messages)) == messages


@given(st.text())
def test_any_other_text_is_what_the_user_says(text: str) -> None:
    assert unpack(text) == [{"role": "user", "content": text}]


def test_text_that_only_begins_like_a_chat() -> None:
    text = pack([{"role": "user", "content": "Hi"}])[:-3]
    assert unpack(text) == [{"role": "user", "content": text}]

"""ThoughtMarkers: where a thought begins and ends in the text of a chat, as the model's chat template writes it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from multiform.errors import MultiformError
from multiform.prompts.prompt import ChatTemplate, join_delimited

_THOUGHT, _ANSWER = "(the thought)", "(the answer)"
_QUESTION = {"role": "user", "content": "(the question)"}
#: The names under which templates look for the thought of a message.
_THOUGHT_KEYS = ("reasoning_content", "thinking", "reasoning")
#: For templates that do not write the thoughts of messages: what a rendered chat shows of a family of models, and what
#: stands before and after the thoughts of that family.
_FAMILIES = (
    ("[BEGIN FINAL RESPONSE]", "Here are my reasoning steps:\n", "\n[BEGIN FINAL RESPONSE]\n"),
    ("[/THINK]", "[THINK]", "[/THINK]"),
    ("<|turn>model", "<|channel>thought\n", "<channel|>"),
    ("<|END_THINKING|>", "<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    ("</think>", "<think>\n", "\n</think>\n\n"),
    ("<think>", "<think>\n", "\n</think>\n\n"),
)
_MARKER = re.compile(r"<[^<>\s]+>|\[[^][]+\]")


@dataclass(frozen=True, slots=True)
class ThoughtMarkers:
    r"""What stands before a thought, and between it and the answer.

    >>> markers = ThoughtMarkers("<think>\n", "\n</think>\n\n")
    >>> markers.end, markers.open("<|assistant|>"), markers.open("<|assistant|><think>")
    ('</think>', '<|assistant|><think>\n', '<|assistant|><think>')
    >>> markers.close("<think>\n", "2 + 2"), markers.close("<think>\n", "2 + 2.\n")
    ('<think>\n2 + 2\n</think>\n\n', '<think>\n2 + 2.\n</think>\n\n')
    """

    opening: str
    closing: str

    @property
    def end(self) -> str:
        """The first marker after a thought, at which the generation of one stops."""
        found = _MARKER.search(self.closing)
        return found[0] if found else self.closing.strip()

    def is_closed(self, prompt: str) -> bool:
        """Whether the prompt ends with an empty thought, as templates write it where thinking is switched off."""
        return prompt.rstrip().endswith(self.closing.strip()) or prompt.rstrip().endswith(self.end)

    def open(self, prompt: str) -> str:
        """The prompt with the beginning of a thought; as it is where the template has begun one."""
        opening = self.opening.strip()
        return prompt if opening and prompt.rstrip().endswith(opening) else prompt + self.opening

    def close(self, prompt: str, thought: str) -> str:
        """The prompt and its thought, up to where the answer begins."""
        return prompt + thought + (self.closing.lstrip() if thought[-1:].isspace() else self.closing)


def find_markers(chat_template: ChatTemplate) -> ThoughtMarkers | None:
    """The markers of the model's thoughts, by what its template writes; None where it has none, or is on a server.

    A template that writes the thoughts of messages shows the markers in an answer with a thought. Others drop thoughts
    from past answers; then the markers are those of the family of models that the rendered chat shows.
    """
    try:
        prompt = chat_template([_QUESTION], add_generation_prompt=True)
        if not isinstance(prompt, str):
            return None
        thought = dict.fromkeys(_THOUGHT_KEYS, _THOUGHT)
        answered = chat_template(
            [_QUESTION, {"role": "assistant", **thought, "content": _ANSWER}], add_generation_prompt=False
        )
    except MultiformError:  # where it matters, rendering the prompts says so
        return None
    assert isinstance(answered, str)
    before, found, after = answered.partition(_THOUGHT)
    if found and _ANSWER in after:
        opening = before.removeprefix(prompt) if before.startswith(prompt) else ""
        return ThoughtMarkers(opening, after.partition(_ANSWER)[0])
    rendered = prompt + answered
    if closing := re.search(rf"</think>\s*(?={re.escape(_ANSWER)})", answered):  # after a thought that was dropped
        return ThoughtMarkers("<think>", closing[0])
    return next((ThoughtMarkers(*markers) for shown, *markers in _FAMILIES if shown in rendered), None)


@dataclass(frozen=True, slots=True)
class ThoughtPlan:
    """How a model thinks before its choices are scored: within `markers`, or in plain text up to the `lead` where None.

    `lead` is the beginning of the answer after the thought, such as "The best answer is".
    """

    markers: ThoughtMarkers | None
    lead: str

    @classmethod
    def of(cls, prompt: str, lead: str, markers: ThoughtMarkers | None) -> ThoughtPlan:
        """The plan for a prompt; where its template has switched thinking off, the model reasons in plain text."""
        return cls(None if markers is None or markers.is_closed(prompt) else markers, lead)

    @property
    def stop(self) -> str:
        """The string at which the thought ends."""
        return self.lead.strip() if self.markers is None else self.markers.end

    def begin(self, prompt: str) -> str:
        """The prompt after which the model thinks."""
        return prompt if self.markers is None else self.markers.open(prompt)

    def answer(self, prompt: str, thought: str) -> str:
        r"""The prompt that a choice completes, from that of the thought and the thought.

        >>> ThoughtPlan(None, "The answer is").answer("2 + 2?\n", "Two and two are four.")
        '2 + 2?\nTwo and two are four.\nThe answer is'
        """
        if self.markers is None:
            return join_delimited(prompt + thought, self.lead, "\n")
        return self.markers.close(prompt, thought) + self.lead

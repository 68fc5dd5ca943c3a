"""What is handed around between a task, the engine and the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from multiform.fields import Doc
from multiform.requests import Instance, Output

#: Turns messages into one string; called with the messages and `add_generation_prompt`.
ChatTemplate: TypeAlias = Callable[..., str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions:
    """How a run wants its prompts, beside what the task and its format say."""

    system_instruction: str | None = None
    apply_chat_template: bool = False
    fewshot_as_multiturn: bool = False
    chat_template: ChatTemplate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A document and all that the model answered about it."""

    doc_id: int
    instances: tuple[Instance, ...]
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredDoc:
    """What one document came to under one scorer."""

    doc_id: int
    doc: Doc
    target: Any
    instances: tuple[Instance, ...]
    outputs: tuple[Output, ...]
    scorer: str
    filtered: tuple[Any, ...]
    values: Mapping[str, Any]
    #: What the model picked or said: the index of a choice, or the text that was read out of its answer.
    prediction: Any = None
    #: What would have been right, in the same terms: the index of a choice, or the target.
    gold: Any = None

"""Chat templates: how a tokenizer writes a conversation as one prompt."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jinja2

from multiform.errors import ModelError, UsageError, nearest
from multiform.jinja import too_much

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

logger = logging.getLogger("multiform")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTemplate:
    """A tokenizer's chat template, with its variables.

    `model` is the model's name in messages, `apply` the function of the tokenizer or processor that applies a
    template, and `template` the name of one of several templates.
    """

    tokenizer: PreTrainedTokenizerBase
    model: str
    apply: Callable[..., Any]
    template: str | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str | None:
        """The template itself, or None where the tokenizer has none."""
        return select_template(self.tokenizer.chat_template, self.template)

    def check_name(self) -> None:
        """Refuse a name that the tokenizer does not have; warn where it has a single template without a name."""
        if self.text is not None and not isinstance(self.tokenizer.chat_template, Mapping):
            logger.warning("%s: there is one chat template alone; it is used for '%s'", self.model, self.template)

    @property
    def variant(self) -> str:
        """The template's name and the variables as JSON; empty by default."""
        chosen = {**self.variables, **({"template": self.template} if self.template else {})}
        return f" {json.dumps(chosen, sort_keys=True, default=str)}" if chosen else ""

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True) -> str:
        """The messages as one prompt; without the system message where the template refuses it."""
        options = {
            **self.variables,
            "chat_template": self.text,
            "tokenize": False,
            "add_generation_prompt": add_generation_prompt,
            "continue_final_message": not add_generation_prompt,
        }
        chat = [dict(message) for message in messages]
        check_chat_template(self.text or "", chat, self.variables, self.model)
        try:
            return str(self.apply(chat, **options))
        except jinja2.TemplateError as error:
            # Templates of models that were trained without a system role refuse one.
            others = [message for message in chat if message["role"] != "system"]
            if len(others) == len(chat):
                raise ModelError(f"the chat template fails: {error}", where=self.model) from error
            logger.warning("%s: the chat template fails (%s); left out the system message", self.model, error)
            return str(self.apply(others, **options))


def check_chat_template(
    text: str, messages: Sequence[Mapping[str, Any]], variables: Mapping[str, Any], model: str
) -> None:
    """Refuse a template that would fill the memory or take for ever: anybody can have written the one of a model."""
    roles = tuple(str(message.get("role")) for message in messages)
    problem = _chat_problem(text, roles, json.dumps(dict(variables), sort_keys=True, default=str))
    if problem is not None:
        hint = "run without --apply_chat_template, or with another model"
        raise ModelError(f"the chat template asks for too much: {problem}", where=model, hint=hint)


@lru_cache(maxsize=64)
def _chat_problem(text: str, roles: tuple[str, ...], variables: str) -> str | None:
    """What is too much about a template, tried once for each order of roles with words in place of the messages."""
    messages = [{"role": role, "content": "some words"} for role in roles]
    return too_much(text, {**json.loads(variables), "messages": messages, "add_generation_prompt": True})


def template_variables(variables: Mapping[str, Any] | None, enable_thinking: bool | None) -> dict[str, Any]:
    """The variables of a template for the model arguments `chat_template_args` and `enable_thinking`."""
    return {**(variables or {}), **({} if enable_thinking is None else {"enable_thinking": enable_thinking})}


def select_template(templates: str | Mapping[str, str] | None, name: str | None) -> str | None:
    """The template of that name among a tokenizer's, or its default or only one; None where it has none.

    >>> select_template({"default": "a", "tool_use": "b"}, "tool_use")
    'b'
    """
    if not isinstance(templates, Mapping):
        return templates or None
    selected = name or "default"
    if selected not in templates:
        hint = nearest(selected, templates, listed="templates")
        raise UsageError(f"the tokenizer has no chat template '{selected}'", where="--apply_chat_template", hint=hint)
    return templates[selected]


def apply_tokenizer_template(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool
) -> str:
    """The messages as one prompt by a tokenizer's default template; an error where it has none or it fails."""
    if not tokenizer.chat_template:
        what = "the tokenizer has no chat template"
        raise ModelError(what, where=tokenizer.name_or_path, hint="run without --apply_chat_template")
    try:
        text = tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt,
        )
    except jinja2.TemplateError as error:
        raise ModelError(f"the chat template fails: {error}", where=tokenizer.name_or_path) from error
    return str(text)

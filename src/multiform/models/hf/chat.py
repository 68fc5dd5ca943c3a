"""Chat: how a tokenizer writes a conversation as one prompt."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jinja2
from transformers import PreTrainedTokenizerBase

from multiform.errors import ModelError, UsageError, nearest
from multiform.models.hf.load import load_tokenizer, without_progress_bars
from multiform.models.hf.package import converted_folder
from multiform.models.hf.source import Source, local_folder, model_errors

logger = logging.getLogger("multiform")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """A tokenizer's chat template: the one of a name where it has several, and the variables that it is given.

    `model` is what messages call the model, and `write` applies a template as the tokenizer does.
    """

    tokenizer: PreTrainedTokenizerBase
    model: str
    write: Callable[..., Any]
    template: str | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str | None:
        """The template, or None where the tokenizer has none."""
        return chosen_template(self.tokenizer.chat_template, self.template)

    def check_name(self) -> None:
        """Refuse a name that is not among the tokenizer's templates; where there is one alone, say that it is used."""
        if self.text is not None and not isinstance(self.tokenizer.chat_template, Mapping):
            logger.warning("%s: there is one chat template alone; it is used for '%s'", self.model, self.template)

    @property
    def variant(self) -> str:
        """What was chosen of the tokenizer's templates, and the variables; nothing by default."""
        chosen = {**self.variables, **({"template": self.template} if self.template else {})}
        return f" {json.dumps(chosen, sort_keys=True, default=str)}" if chosen else ""

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True) -> str:
        """The messages as one string; without the system message where the template refuses it."""
        options = {
            **self.variables,
            "chat_template": self.text,
            "tokenize": False,
            "add_generation_prompt": add_generation_prompt,
            "continue_final_message": not add_generation_prompt,
        }
        chat = [dict(message) for message in messages]
        try:
            return str(self.write(chat, **options))
        except jinja2.TemplateError as error:
            # Templates of models that were trained without a system role refuse one.
            others = [message for message in chat if message["role"] != "system"]
            if len(others) == len(chat):
                raise ModelError(f"the chat template fails: {error}", where=self.model) from error
            logger.warning("%s: the chat template fails (%s); left out the system message", self.model, error)
            return str(self.write(others, **options))


def chat_of(arguments: Mapping[str, Any]) -> Chat:
    """The chat of a model with these arguments, without its weights."""
    names = ("subfolder", "gguf_file", "tokenizer", "trust_remote_code")
    source = Source(
        pretrained=str(arguments["pretrained"]),
        revision=str(arguments.get("revision") or "main"),
        **{name: arguments[name] for name in names if arguments.get(name)},
    )
    folder = local_folder(source.pretrained)
    with without_progress_bars(), model_errors(source, folder):
        tokenizer = load_tokenizer(source, folder)
    return Chat(
        tokenizer=tokenizer,
        model=source.pretrained,
        write=tokenizer.apply_chat_template,
        template=arguments.get("chat_template"),
        variables=chat_variables(arguments.get("chat_template_args"), arguments.get("enable_thinking")),
    )


def bundled_chat(arguments: Mapping[str, Any]) -> Chat:
    """The chat of the bundled model, which has been converted."""
    return chat_of({"pretrained": str(converted_folder()), **arguments})


def chat_variables(given: Mapping[str, Any] | None, enable_thinking: bool | None) -> dict[str, Any]:
    """The variables of a template that a model's arguments set."""
    return {**(given or {}), **({} if enable_thinking is None else {"enable_thinking": enable_thinking})}


def chosen_template(given: str | Mapping[str, str] | None, name: str | None) -> str | None:
    """The template of that name among a tokenizer's, or its default or only one; None where it has none.

    >>> chosen_template({"default": "a", "tool_use": "b"}, "tool_use")
    'b'
    """
    if not isinstance(given, Mapping):
        return given or None
    wanted = name or "default"
    if wanted not in given:
        hint = nearest(wanted, given, listed="templates")
        raise UsageError(f"the tokenizer has no chat template '{wanted}'", where="--apply_chat_template", hint=hint)
    return given[wanted]

"""Chat templates: how a tokenizer writes a conversation as one prompt."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jinja2

from multiform.errors import ModelError, UsageError, nearest
from multiform.limits import TimeLimitError, TooMuchError, survives
from multiform.prompts.template import Metered, meter, render_bounded

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
        """The template itself, or None if the tokenizer has none."""
        return select_template(self.tokenizer.chat_template, self.template)

    def check(self) -> None:
        """Refuse a name or an argument that the tokenizer's template does not read; warn of one without effect."""
        if self.template is not None and self.text and not isinstance(self.tokenizer.chat_template, Mapping):
            logger.warning("%s: there is one chat template alone; it is used for '%s'", self.model, self.template)
        for name in ("reasoning_effort", "thinking_budget"):
            if name in self.variables and name not in (self.text or ""):
                message = f"the chat template of '{self.model}' does not read {name}, so it changes nothing"
                hint = "leave it out, or give what the template reads in chat_template_args"
                raise UsageError(message, where=name, hint=hint)
        if "enable_thinking" in self.variables and "enable_thinking" not in (self.text or ""):
            logger.warning("%s: the chat template does not read enable_thinking: it changes nothing", self.model)

    @property
    def variant(self) -> str:
        """The template's name and the variables as JSON; empty by default."""
        chosen = {**self.variables, **({"template": self.template} if self.template else {})}
        return f" {json.dumps(chosen, sort_keys=True, default=str)}" if chosen else ""

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True) -> str:
        """The messages as one prompt; without the system message if the template refuses it."""
        text = self.text
        if text is None:
            message, hint = f"model '{self.model}' has no chat template", "run without --apply_chat_template"
            raise ModelError(message, hint=hint)

        def render(chat: list[dict[str, Any]]) -> str:
            options = {**self.variables, "chat_template": text, "tokenize": False}
            ends = {"add_generation_prompt": add_generation_prompt, "continue_final_message": not add_generation_prompt}
            return apply_bounded(lambda: self.apply(chat, **options, **ends), text, self.model)

        try:
            return render([dict(message) for message in messages])
        except jinja2.TemplateError as error:
            # Templates of models that were trained without a system role refuse one.
            others = [dict(message) for message in messages if message["role"] != "system"]
            if len(others) == len(messages):
                raise ModelError(f"the chat template fails: {error}", where=self.model) from error
            logger.warning("%s: the chat template fails (%s); left out the system message", self.model, error)
            return render(others)
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            # Templates for tools iterate over them, and some do not write an answer that is begun as it is.
            named = f"'{self.template}' " if self.template else ""
            message = f"the chat template {named}cannot write these messages: {error}"
            hint = "it may need tools, or cannot continue an answer: give another one in chat_template=NAME, what it "
            hint += "reads in chat_template_args, or a format without gen_prefix (mcq_cot)"
            raise ModelError(message, where=self.model, hint=hint) from error


#: When the current rendering began: a template that is tried in another process first sees the same time twice.
_now: ContextVar[datetime] = ContextVar("now")


def apply_bounded(apply: Callable[[], Any], text: str, model: str) -> str:
    """The prompt that `apply` renders with transformers; a ModelError if that takes too much time or memory.

    Anybody can have written the chat template of a model.
    """
    now = _now.set(datetime.now())
    try:
        if _meter_template(text):
            return render_bounded(lambda: str(apply()))
        problem = survives(apply)
        if problem is not None:
            raise TooMuchError(problem)
        return str(apply())
    except (TooMuchError, TimeLimitError, MemoryError, RecursionError) as error:
        hint = "run without --apply_chat_template, or with another model"
        message = f"the chat template asks for too much: {str(error) or type(error).__name__}"
        raise ModelError(message, where=model, hint=hint) from error
    finally:
        _now.reset(now)


@lru_cache(maxsize=64)
def _meter_template(text: str) -> bool:
    """Have transformers use a metered template, which it compiles once and keeps; False if a version cannot."""
    from transformers.utils import chat_template_utils as utils

    compile_plain = getattr(utils, "_cached_compile_jinja_template", None)
    if compile_plain is None:
        return False

    def compile_metered(source: str) -> jinja2.Template:
        return _install_meter(compile_plain(""), source)  # constants are evaluated when a template is compiled

    utils._cached_compile_jinja_template = compile_metered
    try:
        template = utils._compile_jinja_template(text)
    finally:
        utils._cached_compile_jinja_template = compile_plain
    if not isinstance(template.environment, Metered):  # somebody else has had it compiled before
        _install_meter(template, text)
    return utils._compile_jinja_template(text) is template


def _install_meter(template: jinja2.Template, source: str) -> jinja2.Template:
    def strftime_now(format: str) -> str:
        # Other code in the process may have transformers render the same template, outside of our renderings.
        return (_now.get(None) or datetime.now()).strftime(format)

    meter(template, source)
    template.environment.globals["strftime_now"] = strftime_now
    return template


def select_template(templates: str | Mapping[str, str] | None, name: str | None) -> str | None:
    """The template of that name among a tokenizer's, or its default or only one; None if it has none.

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

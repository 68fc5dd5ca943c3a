"""Thinking: how a chat model on a server is told to think, in the terms of each protocol."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from multiform.errors import UsageError, shorten


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """The arguments of a model about thinking; None leaves a setting to the server.

    A budget of 0 tokens switches thinking off. What a completion has up to `think_end_token` is its thought, for
    servers that do not send thoughts apart.
    """

    enable_thinking: bool | None = None
    reasoning_effort: str | None = None
    thinking_budget: int | None = None
    think_end_token: str | None = None

    def __post_init__(self) -> None:
        budget = self.thinking_budget
        if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int) or budget < 0):
            raise UsageError(f"thinking_budget is {shorten(budget)}", hint="give a number of tokens, 0 for no thinking")
        if self.enable_thinking is False and budget:
            message = f"enable_thinking is false and thinking_budget {budget}"
            raise UsageError(message, hint="give one of them")

    def settings(self) -> dict[str, Any]:
        """The arguments that were given."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def check(self, names: Collection[str], kind: str) -> None:
        """Raise a UsageError for an argument that a protocol has no word for."""
        for name in self.settings():
            if name not in names:
                hint = f"leave it out; '{kind}' takes {', '.join(names)}"
                raise UsageError(f"'{kind}' has no {name}", where=name, hint=hint)

    @property
    def budget(self) -> int | None:
        """The most tokens of a thought; 0 where thinking is switched off."""
        return 0 if self.enable_thinking is False else self.thinking_budget

    def openai(self) -> dict[str, Any]:
        """The arguments of a chat completion: OpenAI's own effort, and variables of the server's chat template.

        >>> Thinking(enable_thinking=False, reasoning_effort="low").openai()
        {'reasoning_effort': 'low', 'chat_template_kwargs': {'enable_thinking': False}}
        """
        names = ("enable_thinking", "thinking_budget")
        variables = {name: value for name, value in self.settings().items() if name in names}
        effort = {} if self.reasoning_effort is None else {"reasoning_effort": self.reasoning_effort}
        return {**effort, **({"chat_template_kwargs": variables} if variables else {})}

    def anthropic(self) -> dict[str, Any]:
        """The argument `thinking` of Anthropic's messages.

        >>> Thinking(thinking_budget=1024).anthropic()
        {'thinking': {'type': 'enabled', 'budget_tokens': 1024}}
        """
        if self.budget is None:
            if self.enable_thinking:
                message = "enable_thinking needs a number of tokens"
                raise UsageError(message, where="anthropic", hint="give thinking_budget=1024 or more")
            return {}
        return {"thinking": {"type": "enabled", "budget_tokens": self.budget} if self.budget else {"type": "disabled"}}

    def gemini(self) -> dict[str, Any]:
        """The `thinkingConfig` of Gemini, which sends its thoughts along.

        >>> Thinking(thinking_budget=0).gemini()
        {'thinkingConfig': {'thinkingBudget': 0}}
        """
        config: dict[str, Any] = {}
        if self.budget is not None:
            config["thinkingBudget"] = self.budget
        if self.reasoning_effort is not None:
            config["thinkingLevel"] = self.reasoning_effort
        if self.budget != 0 and (config or self.enable_thinking):
            config["includeThoughts"] = True
        return {"thinkingConfig": config} if config else {}

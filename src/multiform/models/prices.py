"""What tokens cost: prices per million by the server and the name of a model, from ``prices.toml`` or a user's file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from multiform.errors import UsageError, excerpt

#: The end of a name that dates a model, which costs what the undated one does.
_DATE = re.compile(r"-(\d{4}-\d\d-\d\d|\d{8})$")
_HINT = 'write a line such as "my-model" = [0.40, 1.60]: dollars per million tokens of prompts and of completions'


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens of prompts and of completions."""

    prompt: float
    completion: float

    def cost(self, tokens: Mapping[str, int]) -> float:
        """What tokens cost in dollars.

        >>> Price(2.0, 8.0).cost({"prompt": 500_000, "completion": 1000})
        1.008
        """
        return (tokens.get("prompt", 0) * self.prompt + tokens.get("completion", 0) * self.completion) / 1e6

    def __str__(self) -> str:
        return f"${self.prompt:g} and ${self.completion:g} per million tokens of prompts and completions"


def find_price(model: str, server: str, file: Path | None = None) -> Price | None:
    """The price of a model on a server, by its URL: that of a user's file, or the known one; None if neither has it.

    >>> find_price("gpt-4.1-mini-2025-04-14", "https://api.openai.com/v1") == Price(0.4, 1.6)
    True
    >>> find_price("gpt-4.1-mini", "http://localhost:8000/v1") is None
    True
    """
    for prices in (_read_prices(file) if file else {}, _known()):
        for name in (model, _DATE.sub("", model)):
            for key in ((server, name), ("", name)):
                if key in prices:
                    return prices[key]
    return None


@cache
def _known() -> Mapping[tuple[str, str], Price]:
    return _read_prices(Path(__file__).with_name("prices.toml"))


def _read_prices(file: Path) -> dict[tuple[str, str], Price]:
    """The prices of a file by server and model; those outside of the tables of servers are of all servers."""
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        message = f"the file cannot be read: {error.strerror or error}"
        raise UsageError(message, where=f"--prices {file}", hint=_HINT) from error
    except ValueError as error:
        raise UsageError(f"it is no TOML: {error}", where=f"--prices {file}", hint=_HINT) from error
    servers = {server.rstrip("/"): table for server, table in data.items() if isinstance(table, dict)}
    servers[""] = {name: pair for name, pair in data.items() if not isinstance(pair, dict)}
    return {(url, name): _price(name, pair, file) for url, table in servers.items() for name, pair in table.items()}


def _price(name: str, pair: Any, file: Path) -> Price:
    numbers = pair if isinstance(pair, list) else []
    if len(numbers) != 2 or not all(isinstance(n, int | float) and not isinstance(n, bool) and n >= 0 for n in numbers):
        raise UsageError(f"{name}: expected two prices, got {excerpt(pair)}", where=f"--prices {file}", hint=_HINT)
    return Price(*map(float, numbers))

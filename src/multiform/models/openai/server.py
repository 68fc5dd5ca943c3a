"""What models on a server share: their arguments, their identity and the client that asks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

import httpx

from multiform.errors import UsageError, nearest, shorten
from multiform.models.base import Model
from multiform.models.openai.client import Client

OPENAI = "https://api.openai.com/v1"
_SECRET = ("authorization", "key", "token", "secret", "cookie")


class ServerModel(Model):
    """A model that a server runs.

    `base_url` is the server's ``.../v1`` or the endpoint itself; by default $OPENAI_BASE_URL, or
    OpenAI's own. The key comes from the environment variable `api_key_env` unless `api_key` is
    given. `seed` goes along with every request; ``seed=none`` leaves it out. `batch_size` and
    `device` are the server's business and change nothing here: `num_concurrent` is how many
    requests are on their way at a time. lm-eval's names of arguments are understood, too.
    """

    kind: ClassVar[str]
    path: ClassVar[str]

    def __init__(
        self,
        *,
        model: str = "",
        base_url: str | None = None,
        api_key: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        num_concurrent: int = 1,
        max_retries: int = 3,
        timeout: float = 300,
        max_length: int | None = None,
        tokenizer: str | None = None,
        headers: Mapping[str, str] | None = None,
        seed: int | None = 1234,
        **unknown: Any,
    ) -> None:
        for argument in unknown:
            known = [name for name in ServerModel.__init__.__annotations__ if name not in ("unknown", "return")]
            hint = nearest(argument, known, listed="arguments")
            raise UsageError(f"unknown model argument '{argument}'", where=self.kind, hint=hint)
        if not model:
            hint = f"name it: --model_args model=NAME,base_url={base_url or 'http://localhost:8000/v1'}"
            raise UsageError(f"the model '{self.kind}' needs the argument 'model'", hint=hint)
        self.name = str(model)
        self.seed = seed
        self.max_length = None if max_length is None else int(_at_least(2, max_length, "max_length"))
        self.tokenizer_name = tokenizer
        url = endpoint(base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI, self.path)
        self.url = str(url.copy_with(userinfo=b""))
        self.client = Client(
            url=str(url),
            key=str(api_key or os.environ.get(api_key_env, "")),
            headers={str(key): str(value) for key, value in (headers or {}).items()},
            timeout=_at_least(0.001, timeout, "timeout"),
            max_retries=int(_at_least(0, max_retries, "max_retries")),
            num_concurrent=int(_at_least(1, num_concurrent, "num_concurrent")),
        )
        self.identity = " ".join([self.kind, self.url, self.name, *(f"{k}={v}" for k, v in self.settings().items())])
        self._arguments = {
            "model": self.name,
            "base_url": self.url,
            **({"api_key": "***"} if api_key else {}),
            **({"headers": {k: _shown(k, v) for k, v in self.client.headers.items()}} if headers else {}),
            "num_concurrent": self.client.num_concurrent,
            "max_retries": self.client.max_retries,
            "timeout": self.client.timeout,
            **self.settings(),
        }

    def settings(self) -> dict[str, Any]:
        """The arguments that change answers, beside the server and the model."""
        return {"seed": self.seed}

    def info(self) -> dict[str, Any]:
        """The arguments without what is secret, in place of those that were given."""
        return {"model_args": dict(self._arguments)}


def endpoint(base_url: str, path: str) -> httpx.URL:
    """The URL to send to, whether the server's or the endpoint's own was given.

    >>> str(endpoint("http://localhost:8000/v1/", "completions"))
    'http://localhost:8000/v1/completions'
    >>> str(endpoint("http://localhost/v1/chat/completions", "chat/completions"))
    'http://localhost/v1/chat/completions'
    """
    hint = "give e.g. base_url=http://localhost:8000/v1"
    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, TypeError) as error:
        raise UsageError(f"base_url {shorten(base_url)} is no URL: {error}", hint=hint) from error
    if url.scheme not in ("http", "https") or not url.host:
        raise UsageError(f"base_url {shorten(base_url)} is no http or https URL", hint=hint)
    root = url.path.rstrip("/")
    for known in ("/chat/completions", "/completions"):
        root = root.removesuffix(known)
    return url.copy_with(path=f"{root}/{path}")


def _at_least(least: float, value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not number >= least:
        raise UsageError(f"{name} is {shorten(value)}", hint=f"give a number of {least:g} or more")
    return number


def _shown(header: str, value: str) -> str:
    return "***" if any(word in header.lower() for word in _SECRET) else value

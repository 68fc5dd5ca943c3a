"""What models on a server share: arguments, identity and the client."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import httpx

from multiform.errors import UsageError, shorten
from multiform.models.arguments import ArgumentRules, Refusal, argument_names
from multiform.models.base import LOCAL_ARGUMENTS, Model
from multiform.models.openai.client import Client

OPENAI = "https://api.openai.com/v1"
_SECRET = ("authorization", "key", "token", "secret", "cookie")
_CERTIFICATES = "set SSL_CERT_FILE to the certificate of the server's authority"
#: Arguments of lm-eval's server models.
_RULES = ArgumentRules(
    renamed={
        "pretrained": "model",
        "header": "headers",
        "auth_token": "api_key",
        "custom_prefix_token_id": "prefix_token_id",
    },
    without_effect={
        "tokenizer_backend": "a tokenizer that is named is one of transformers",
        "truncate": "prompts that are too long are cut at the left where a tokenizer is named",
        "revision": "the tokenizer is the newest one",
        "use_fast_tokenizer": "the tokenizer is the one that transformers gives",
        "eos_string": "the server ends texts",
        "max_images": "all images of a prompt are sent",
        "max_gen_toks": "the task or --gen_kwargs says it",
    },
    ignored=LOCAL_ARGUMENTS,
    refused={
        "ca_cert_path": Refusal(hint=_CERTIFICATES, when=lambda value: True),
        "verify_certificate": Refusal(hint=_CERTIFICATES, when=lambda value: value is False),
    },
)


class ServerModel(Model):
    """A model that a server runs.

    `base_url` is the server's ``.../v1`` or the endpoint itself; by default $OPENAI_BASE_URL, or
    OpenAI's own. The key comes from the environment variable `api_key_env` unless `api_key` is
    given. `seed` is sent with every request; ``seed=none`` leaves it out. `batch_size` and
    `device` have no effect: `num_concurrent` is the number of requests that are sent at a time.
    lm-eval's names of arguments are accepted, too.
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
    ) -> None:
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
        """The arguments that change outputs, beside the server and the model."""
        return {"seed": self.seed}

    def info(self) -> dict[str, Any]:
        """The arguments without secrets, in place of the original ones."""
        return {"model_args": dict(self._arguments)}


def resolve_arguments(
    cls: type[ServerModel], arguments: Mapping[str, Any], more: Collection[str] = ()
) -> dict[str, Any]:
    """The arguments under the names of the constructor, without those that have no effect.

    `tokenized_requests=False` sends text instead of tokens, as without a tokenizer.
    """
    accepted = [*argument_names(cls), *more, "tokenized_requests"]
    resolved = _RULES.resolve(arguments, accepted, where=cls.kind)
    if resolved.pop("tokenized_requests", None) is False:
        resolved.pop("tokenizer", None)
    return resolved


def endpoint(base_url: str, path: str) -> httpx.URL:
    """The URL of the endpoint, from the server's URL or that of the endpoint itself.

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

"""Secrets of a server's address and headers: checked before they are sent, and shown nowhere."""

from __future__ import annotations

import base64
import json
import logging
import urllib.parse
from collections.abc import Iterable
from typing import Any

import httpx

from multiform.errors import UsageError

HIDDEN = "***"
#: Parameters of a URL that are shown; all others may be keys.
_SHOWN_PARAMETERS = ("api-version", "version", "alt")
#: A shorter text is no secret that could be told apart from other text.
_SHORTEST_SECRET = 4


def header_value(value: object, name: str) -> str:
    """The value as a header can hold it, without white space around it; an error that does not show it otherwise.

    >>> header_value("sk-secret\\n", "api_key")
    'sk-secret'
    >>> header_value("sk-\\nsecret", "api_key")
    Traceback (most recent call last):
    multiform.errors.UsageError: api_key has characters that no header may have; check where it comes from
    """
    text = str(value).strip()
    if not (text.isascii() and text.isprintable()):
        message = f"{name} has characters that no header may have"
        raise UsageError(message, hint="check where it comes from")
    return text


def without_userinfo(url: httpx.URL) -> tuple[httpx.URL, dict[str, str]]:
    """The URL without a user and password, and the header that says them in their place.

    >>> without_userinfo(httpx.URL("http://me:pw@localhost/v1"))
    (URL('http://localhost/v1'), {'Authorization': 'Basic bWU6cHc='})
    """
    if not url.userinfo:
        return url, {}
    pair = f"{url.username}:{url.password}".encode()
    return url.copy_with(userinfo=b""), {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def shown_url(url: httpx.URL) -> str:
    """The URL as messages, results and the store have it: without user and password, with parameters hidden.

    >>> shown_url(httpx.URL("http://me:pw@localhost/v1?api-key=sk-1&api-version=2024-10-21"))
    'http://localhost/v1?api-key=***&api-version=2024-10-21'
    """
    bare = str(url.copy_with(userinfo=b"", query=None, fragment=None))
    shown = [f"{name}={value if name in _SHOWN_PARAMETERS else HIDDEN}" for name, value in url.params.multi_items()]
    return f"{bare}?{'&'.join(shown)}" if shown else bare


def url_secrets(url: httpx.URL) -> list[str]:
    """What must not be shown of a URL."""
    values = [value for name, value in url.params.multi_items() if name not in _SHOWN_PARAMETERS]
    return [url.username, url.password, *values]


def header_secrets(values: Iterable[str]) -> list[str]:
    """What must not be shown of headers: their values, and the words of these, as the token after ``Bearer``.

    >>> header_secrets(["Bearer sk-secret"])
    ['Bearer sk-secret', 'sk-secret']
    """
    return [part for value in values for part in (value, *(value.split()[1:]))]


class Redactor:
    """Hides secrets in texts of others, such as the messages of a server that repeat a key.

    >>> Redactor(["sk-secret"])("no such key: sk-secret")
    'no such key: ***'
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        written: dict[str, None] = {}
        for secret in secrets:
            if len(secret) >= _SHORTEST_SECRET:
                written |= dict.fromkeys((secret, urllib.parse.quote(secret, safe=""), json.dumps(secret)[1:-1]))
        self._secrets = sorted(written, key=len, reverse=True)

    def __repr__(self) -> str:
        return f"<Redactor of {len(self._secrets)} secrets>"

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return text

    def plain(self, value: Any) -> Any:
        """The same for the texts of lists and mappings, as they come from JSON.

        >>> Redactor(["sk-secret"]).plain({"id": ["a", "key sk-secret"]})
        {'id': ['a', 'key ***']}
        """
        if isinstance(value, str):
            return self(value)
        if isinstance(value, list):
            return [self.plain(item) for item in value]
        if isinstance(value, dict):
            return {self.plain(key): self.plain(item) for key, item in value.items()}
        return value


class _ShownUrls(logging.Filter):
    """httpx logs the URL of every request, with the keys in it."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(_shown(argument) for argument in record.args)
        return True


def _shown(argument: Any) -> Any:
    return shown_url(argument) if isinstance(argument, httpx.URL) else argument


logging.getLogger("httpx").addFilter(_ShownUrls())

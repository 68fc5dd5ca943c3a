"""Secrets of a server's address, its headers and its proxies: checked before they are sent, and shown nowhere."""

from __future__ import annotations

import base64
import html
import json
import logging
import os
import re
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import Any

import httpx

from multiform.errors import UsageError

HIDDEN = "***"
#: Parameters of a URL that are shown; all others may be keys.
_SHOWN_PARAMETERS = ("api-version", "version", "alt")
#: A shorter text is no secret that could be told apart from other text.
_SHORTEST_SECRET = 4
_SHORTEST_BASE64 = 5
_PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")


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


def proxy_secrets() -> list[str]:
    """What must not be shown of the proxies that the environment names; a UsageError where one cannot be used.

    httpx reads them for every connection, and its errors show the user.
    """
    secrets: list[str] = []
    for scheme in ("http", "https", "all"):
        if address := urllib.request.getproxies().get(scheme):
            names = (f"{scheme}_proxy", f"{scheme.upper()}_PROXY")
            variable = next((f"${name}" for name in names if os.environ.get(name)), "the system's proxy")
            url = _proxy(address if "://" in address else f"http://{address}", variable)
            pair = f"{url.username}:{url.password}" if url.password else ""
            secrets += [*url_secrets(url), url.userinfo.decode(), pair]
    return secrets


def _proxy(address: str, variable: str) -> httpx.URL:
    """The URL of a proxy, checked; messages name the variable and not the user or password."""
    problem, hint = "", "write e.g. http://proxy.example.org:3128, with the port as a number"
    try:
        url = httpx.URL(address)
        url.host.encode("idna")  # as a connection does
    except (httpx.InvalidURL, UnicodeError) as error:
        raise UsageError("it is no URL of a proxy", where=variable, hint=hint) from error
    if url.scheme not in _PROXY_SCHEMES:
        problem, hint = f"'{url.scheme}' is not a proxy protocol", f"use one of {', '.join(_PROXY_SCHEMES)}"
    elif not url.host:
        problem = "the proxy has no host"
    elif not 0 < (url.port or 1) < 2**16:
        problem = f"{url.port} is not a port"
    elif url.scheme.startswith("socks") and find_spec("socksio") is None:
        problem = "a SOCKS proxy needs the package socksio, which is not installed"
        hint = "pip install 'httpx[socks]', or unset the variable"
    if problem:
        raise UsageError(problem, where=variable, hint=hint)
    return url


class Redactor:
    """Hides secrets in texts of others, such as the messages of a server that repeat a key.

    >>> Redactor(["sk-secret"])("no such key: sk-secret")
    'no such key: ***'
    >>> Redactor(["sk-secret"])("Basic " + base64.b64encode(b"user:sk-secret").decode())
    'Basic dXNlcjp***'
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        patterns: dict[str, None] = {}
        for secret in secrets:
            if len(secret) >= _SHORTEST_SECRET:
                patterns |= dict.fromkeys(map(re.escape, _spellings(secret)))
                patterns |= dict.fromkeys(_base64_patterns(secret.encode("utf-8", "surrogateescape")))
        longest_first = sorted(patterns, key=len, reverse=True)
        self._pattern = re.compile("|".join(longest_first)) if patterns else None

    def __call__(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(HIDDEN, text)

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


def _spellings(secret: str) -> Iterator[str]:
    """The ways in which a text may repeat a secret: as it is, in a URL, in JSON, in HTML and in hexadecimal."""
    quoted = urllib.parse.quote(secret, safe="")
    yield from (secret, quoted, re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), quoted))
    yield from (urllib.parse.quote(secret), urllib.parse.quote_plus(secret))
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], html.escape(secret))
    encoded = secret.encode("utf-8", "surrogateescape").hex()
    yield from (encoded, encoded.upper())


def _base64_patterns(secret: bytes) -> Iterator[str]:
    """Patterns of the secret in base64, also as a part of a longer text: it may begin at three places of a group."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + secret).decode()
        whole = encoded[(0, 2, 3)[before] : (before + len(secret)) * 8 // 6]  # without letters that others share
        if len(whole) >= _SHORTEST_BASE64:
            for spelling in {whole, whole.replace("+", "-").replace("/", "_")}:
                yield re.escape(spelling) + r"[\w+/-]?={0,2}"


def _hide_keys(record: logging.LogRecord) -> bool:
    """Hide the keys in the URLs that httpx logs, one for every request."""
    if isinstance(record.args, tuple):
        record.args = tuple(shown_url(part) if isinstance(part, httpx.URL) else part for part in record.args)
    return True


logging.getLogger("httpx").addFilter(_hide_keys)

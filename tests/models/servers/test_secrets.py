"""Keys and passwords: whoever repeats them, in whatever spelling, they are not shown; proxies are checked first."""

from __future__ import annotations

import base64
import json
import urllib.parse
from typing import Any

import httpx
import pytest

from multiform.cli.main import main
from multiform.errors import ModelError, UsageError
from multiform.models.servers import secrets
from multiform.models.servers.client import Client
from multiform.models.servers.openai_completions import OpenAICompletions
from multiform.models.servers.secrets import Redactor, proxy_secrets
from tests.models.fake_server import FakeServer, fake_server
from tests.models.fake_server_fixture import shorten_waits

KEY = 'sk-a/b+c&d e?"Ü-0123'
VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def in_base64(before: str, after: str, *, urlsafe: bool = False) -> str:
    encode = base64.urlsafe_b64encode if urlsafe else base64.b64encode
    return encode(f"{before}{KEY}{after}".encode()).decode()


SPELLINGS = {
    "plain": KEY,
    "URL": urllib.parse.quote(KEY, safe=""),
    "URL in small letters": urllib.parse.quote(KEY, safe="")
    .replace("%2F", "%2f")
    .replace("%2B", "%2b")
    .replace("%3F", "%3f")
    .replace("%C3%9C", "%c3%9c"),
    "URL with slashes": urllib.parse.quote(KEY),
    "form": urllib.parse.quote_plus(KEY),
    "JSON": json.dumps(KEY),
    "JSON with all letters": json.dumps(KEY, ensure_ascii=False),
    "HTML": KEY.replace("&", "&amp;").replace('"', "&quot;"),
    "hexadecimal": KEY.encode().hex(),
    "HEXADECIMAL": KEY.encode().hex().upper(),
    "base64": in_base64("", ""),
    "base64 for URLs": in_base64("", "", urlsafe=True),
    "base64 without padding": in_base64("", "").rstrip("="),
    "base64 after one letter": in_base64(":", ""),
    "base64 after two letters": in_base64("a:", ""),
    "base64 of user and password": in_base64("user:", ""),
    "base64 of a header": in_base64("Authorization: Bearer ", "\r\nHost: x"),
    "base64 of a header for URLs": in_base64("Bearer ", " etc", urlsafe=True),
}


@pytest.mark.parametrize("text", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_a_key_is_hidden_in_every_spelling(text: str) -> None:
    shown = Redactor([KEY])(f"no such key: {text} (see the manual)")
    assert "***" in shown
    assert shown.startswith("no such key: ")
    assert shown.endswith(" (see the manual)")
    for part in (KEY, KEY[:12], KEY.encode().hex()[:20], base64.b64encode(KEY.encode()).decode()[4:16]):
        assert part.lower() not in shown.lower()
    for start in range(len(shown)):  # nor does any piece of what is shown decode to a part of the key
        piece = shown[start : start + 16].replace("-", "+").replace("_", "/")
        try:
            decoded = base64.b64decode(piece, validate=True)
        except ValueError:
            continue
        assert KEY.encode()[:6] not in decoded
        assert KEY.encode()[-6:] not in decoded


def test_what_is_no_secret_is_shown() -> None:
    text = "the model 'x' does not exist: c2stYQ== 736b2d61"
    assert Redactor([KEY, "", "abc"])(text) == text


PROXIES = {
    "unknown scheme": ("http_proxy", "ftp://hunter:pa55word@proxy.org:21", "'ftp' is not a proxy protocol"),
    "scheme of an editor": ("ALL_PROXY", "vscode://hunter:pa55word@proxy.org", "'vscode' is not a proxy protocol"),
    "no scheme": ("https_proxy", "://hunter:pa55word@proxy.org", "is not a proxy protocol"),
    "port that is a word": ("HTTP_PROXY", "http://hunter:pa55word@proxy.org:web", "no URL of a proxy"),
    "port that is too large": ("HTTPS_PROXY", "http://hunter:pa55word@proxy.org:99999", "99999 is not a port"),
    "port without a scheme": ("http_proxy", "hunter:pa55word@proxy.org:x", "no URL of a proxy"),
    "no host": ("all_proxy", "http://hunter:pa55word@:80", "has no host"),
    "no name": ("http_proxy", "http://hunter:pa55word@proxy..org:80", "no URL of a proxy"),
    "line break": ("http_proxy", "http://hunter:pa55word@proxy.org\n:80", "no URL of a proxy"),
    "SOCKS": ("ALL_PROXY", "socks5://hunter:pa55word@proxy.org:1080", "needs the package socksio"),
    "SOCKS with names": ("https_proxy", "socks5h://hunter:pa55word@proxy.org", "needs the package socksio"),
    "old SOCKS": ("all_proxy", "socks4://hunter:pa55word@proxy.org", "'socks4' is not a proxy protocol"),
    "exception": ("NO_PROXY", "localhost,[::bad", "an entry that is not a host"),
}


@pytest.mark.parametrize(("variable", "address", "says"), PROXIES.values(), ids=PROXIES.keys())
def test_a_proxy_that_cannot_be_used_is_an_error_that_names_the_variable(
    variable: str, address: str, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(secrets, "find_spec", lambda name: None)
    monkeypatch.setenv(variable, address)
    if variable == "NO_PROXY":
        monkeypatch.setenv("HTTP_PROXY", "http://proxy.org:3128")
    model = ["--model", "openai-chat", "--model_args", "model=x,base_url=http://models.invalid/v1,api_key=k"]
    assert main(["run", "quiz@generate", "--limit", "1", *model]) == 2
    said = capsys.readouterr().err
    assert f"${variable}: " in said
    assert says in said
    assert "this is a bug" not in said
    assert "Traceback" not in said
    assert "hunter" not in said
    assert "pa55word" not in said


def test_a_proxy_that_repeats_its_password_does_not_show_it(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    shorten_waits(monkeypatch)
    pair = base64.b64encode(b"hunter:pa55 word").decode()
    with fake_server() as proxy, caplog.at_level("DEBUG"):
        address = proxy.base_url.removesuffix("/v1").replace("//", "//hunter:pa55%20word@")
        monkeypatch.setenv("HTTP_PROXY", address)
        client = Client(url=httpx.URL("http://models.invalid/v1/chat/completions"), max_retries=1, deadline=20)
        message = f"hunter may not use pa55 word (pa55%20word, {pair}) at {address}"
        proxy.fail(times=1, status=500, message=message)
        proxy.fail(times=9, status=407, message=message)
        with pytest.raises(ModelError, match="HTTP 407") as caught:
            list(
                client.ask(
                    ["hello"],
                    lambda text: {"messages": [{"role": "user", "content": text}]},
                    lambda item, response: response,
                )
            )
    assert proxy.asked[0].headers["Proxy-Authorization"] == f"Basic {pair}"
    shown = str(caught.value) + caplog.text
    for secret in ("hunter", "pa55", pair, pair[4:-4]):
        assert secret not in shown


def test_a_proxy_without_a_password_has_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "proxy.org:3128")
    assert not any(proxy_secrets())


def test_a_socks_proxy_is_used_where_its_package_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://hunter:pa55word@proxy.org")
    monkeypatch.setattr(secrets, "find_spec", lambda name: "a package")
    assert "pa55word" in proxy_secrets()


def test_an_unusable_proxy_shows_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.org:port")
    with pytest.raises(UsageError, match=r"\$HTTPS_PROXY: it is no URL of a proxy"):
        Client(url=httpx.URL("http://127.0.0.1:9/v1"))


def test_a_key_in_the_echo_of_a_probe_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def repeat_key(logprobs: dict[str, Any]) -> None:
        logprobs["tokens"] = ["sk-secret"] * len(logprobs["tokens"])

    shorten_waits(monkeypatch)
    with fake_server(state=FakeServer(distort=repeat_key)) as server:
        model = OpenAICompletions(model="tiny", base_url=server.base_url, api_key="sk-secret", max_retries=1)
        with pytest.raises(ModelError, match=r"do not spell the prompt: '\*\*\*") as caught:
            model.check_scoring(labels=False, form="quiz@cloze")
    assert "sk-secret" not in str(caught.value)

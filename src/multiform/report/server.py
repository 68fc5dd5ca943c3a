"""The viewer's server: read-only pages on loopback, for the browser of one user and for no other site's scripts.

The address that `Viewer.url` gives has a random token, which becomes a cookie: other users of the machine can reach the
port, but do not know the token. A connection that sends no request is closed, and only so many are open at a time.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import secrets
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from html import escape
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from pydantic import TypeAdapter, ValidationError

from multiform.errors import MultiformError, UsageError, reason
from multiform.models.identity import package_version
from multiform.report.page import SCRIPT, asset
from multiform.report.runs import Runs, UnknownPageError
from multiform.results.export import compact_json
from multiform.results.recorded import MALFORMED

logger = logging.getLogger("multiform")

#: What a page may load: its own script, style and data, and nothing from anywhere else.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
HOST = "127.0.0.1"
#: Seconds in which a connection has to send its request, and in which a browser has to take a response.
READING, SENDING = 10.0, 120.0
#: Connections at a time, each of which has a thread; browsers open about six.
MOST_CONNECTIONS = 32


class Viewer(ThreadingHTTPServer):
    """Serves the runs below a folder; port 0 takes any that is free."""

    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, folder: str | Path, port: int = 0) -> None:
        self.runs = Runs(Path(folder))
        self.token = secrets.token_urlsafe(24)
        #: The open connections, and since when each has been waited for; None once its request has come.
        self._connections: dict[Any, float | None] = {}
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            message = f"port {port} of this machine cannot be used: {str(error).rstrip('.')}"
            raise UsageError(message, where="--port", hint="choose another, or leave it out") from error

    @property
    def url(self) -> str:
        """The address of the first page, with the token that a browser needs."""
        return f"http://{HOST}:{self.server_address[1]}/?token={self.token}"

    @property
    def cookie(self) -> str:
        """The name of the cookie with the token: browsers send cookies to every port of a machine."""
        return f"multiform-{self.server_address[1]}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection; where there are too many, instead of the one that has been waited for longest."""
        if len(self._connections) >= MOST_CONNECTIONS:
            waiting = [connection for connection, since in list(self._connections.items()) if since is not None]
            if not waiting:
                self.shutdown_request(request)
                return
            self._close_early(waiting[0])
        self._connections[request] = time.monotonic()
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Close connections that have not sent their request in time; called twice a second."""
        for connection, since in list(self._connections.items()):
            if since is not None and time.monotonic() - since > READING:
                self._close_early(connection)

    def begin_response(self, request: Any) -> None:
        """Note that a connection has sent its request."""
        self._connections[request] = None
        request.settimeout(SENDING)

    def shutdown_request(self, request: Any) -> None:
        self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log what went wrong with a connection, unless the browser has merely closed it."""
        if not isinstance(error := sys.exception(), ConnectionError | TimeoutError | None):
            logger.warning("the viewer could not answer a request: %s", reason(error))

    def _close_early(self, connection: Any) -> None:
        """End a connection, which its thread then notices."""
        self._connections.pop(connection, None)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: Viewer
    server_version = "multiform"
    sys_version = ""

    def do_GET(self) -> None:
        self.server.begin_response(self.connection)
        try:
            address = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(address.query).items()}
        except ValueError:
            self._send(HTTPStatus.BAD_REQUEST, "text/plain", "this is not an address")
            return
        if not self._is_from_our_pages():
            self._send(HTTPStatus.FORBIDDEN, "text/plain", "this page is for browsers on this machine")
            return
        token = query.pop("token", None)
        known = (token or self._cookie()).encode(errors="replace")
        if not hmac.compare_digest(known, self.server.token.encode()):
            self._send(HTTPStatus.FORBIDDEN, "text/plain", "open the address that `multiform view` has printed")
            return
        if token is not None and address.path in ("/", "/report"):  # the cookie takes its place in the address bar
            cookie = f"{self.server.cookie}={token}; Path=/; HttpOnly; SameSite=Strict"
            place = f"{address.path}?{urlencode(query)}".removesuffix("?")
            self._send(HTTPStatus.SEE_OTHER, "text/plain", "", {"Location": place, "Set-Cookie": cookie})
            return
        try:
            kind, body = self._answer(address.path, query)
        except UnknownPageError:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "there is no such page or run")
        except MultiformError as error:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", str(error))
        except MALFORMED as error:
            message = f"the page cannot be shown, as a file has an unexpected content: {reason(error)}"
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", message)
        else:
            self._send(HTTPStatus.OK, kind, body)

    def _answer(self, path: str, query: Mapping[str, str]) -> tuple[str, str | Iterator[str]]:
        """The type and the text of a page, or its lines as they are made."""
        runs = self.server.runs
        keys = query.get("runs", "").split(",")
        match path:
            case "/":
                return "text/html", page("Runs", "runs")
            case "/report":
                runs.check(keys)  # the page comes at once, and asks for its data
                return "text/html", page("Report", "report")
            case "/app.js":
                return "text/javascript", asset(SCRIPT)
            case "/style.css":
                return "text/css", asset("style.css")
            case "/api/runs":
                return _json(
                    {"complete": runs.run_lines(), "going_on": runs.unfinished_lines(), "folder": str(runs.folder)}
                )
            case "/api/leaderboard":
                return _json(runs.board(_columns(query.get("columns"))))
            case "/api/report":
                return "application/jsonl", runs.report(keys).lines()
            case "/api/samples":
                report, number = runs.report(keys), query.get("block", "")
                block = report.block(int(number)) if number.isdecimal() and len(number) < 10 else None
                if block is None:
                    raise UnknownPageError(number)
                return _json({"samples": block})
            case "/api/picture":
                return _json({"picture": runs.report(keys).picture(query.get("sha256", ""))})
        raise UnknownPageError(path)

    def _cookie(self) -> str:
        """The token in the request's cookie; empty where there is none."""
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(self.server.cookie)
        except CookieError:
            return ""
        return "" if cookie is None else cookie.value

    def _is_from_our_pages(self) -> bool:
        """Whether the request names this server, and comes from its own pages or from the address bar.

        Another site can make a browser ask for our addresses, under a name of its own that points to this machine.
        """
        port = self.server.server_address[1]
        hosts = {f"{name}:{port}" for name in (HOST, "localhost")}
        if self.headers.get("Host") not in hosts:
            return False
        origin = self.headers.get("Origin")
        site = self.headers.get("Sec-Fetch-Site")
        return (origin is None or origin in {f"http://{host}" for host in hosts}) and site not in (
            "cross-site",
            "same-site",
        )

    def _send(
        self, status: HTTPStatus, kind: str, body: str | Iterator[str], headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole text, or lines as they come: the connection ends with the last."""
        parts = iter([body]) if isinstance(body, str) else body
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        if isinstance(body, str):
            self.send_header("Content-Length", str(len(body.encode(errors="replace"))))
        for name, value in {**_HEADERS, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        for part in parts:
            self.wfile.write(part.encode(errors="replace"))

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""


def page(title: str, view: str) -> str:
    """The page of a view; its script requests the data from the server."""
    return Template(asset("viewer.html")).substitute(
        title=escape(title), view=view, help=asset("help.html"), version=package_version("multiform") or ""
    )


def _json(value: Mapping[str, Any]) -> tuple[str, str]:
    return "application/json", compact_json(value)


def _columns(text: str | None) -> list[str] | None:
    """The columns that an address names as JSON; None where it names none."""
    if text is None:
        return None
    try:
        return TypeAdapter(list[str]).validate_json(text)
    except ValidationError as error:
        raise UnknownPageError(text) from error

"""The viewer's server: read-only pages on loopback, for browsers on this machine and for no other site's scripts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import parse_qs, urlsplit

from multiform.errors import MultiformError, UsageError
from multiform.report.page import SCRIPTS, asset
from multiform.results.export import json_line
from multiform.results.provenance import package_version
from multiform.viewer.leaderboard import leaderboard
from multiform.viewer.runs import Runs

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


class Viewer(ThreadingHTTPServer):
    """Serves the runs below a folder; port 0 takes any that is free."""

    daemon_threads = True

    def __init__(self, folder: str | Path, port: int = 0) -> None:
        self.runs = Runs(Path(folder))
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            message = f"port {port} of this machine cannot be used: {str(error).rstrip('.')}"
            raise UsageError(message, where="--port", hint="choose another, or leave it out") from error

    @property
    def url(self) -> str:
        """The address of the first page."""
        return f"http://{HOST}:{self.server_address[1]}/"


class _Handler(BaseHTTPRequestHandler):
    server: Viewer
    server_version = "multiform"
    sys_version = ""

    def do_GET(self) -> None:
        if not self._trusted():
            self._send(HTTPStatus.FORBIDDEN, "text/plain", "this page is for browsers on this machine")
            return
        address = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(address.query).items()}
        try:
            kind, body = self._answer(address.path, query)
        except (KeyError, IndexError, ValueError):
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "there is no such page or run")
        except MultiformError as error:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", str(error))
        else:
            self._send(HTTPStatus.OK, kind, body)

    def _answer(self, path: str, query: Mapping[str, str]) -> tuple[str, str]:
        runs = self.server.runs
        keys = query.get("runs", "").split(",")
        match path:
            case "/":
                return "text/html", page("Runs", "runs")
            case "/report":
                return "text/html", page(str(runs.payload(keys).main["title"]), "report")
            case "/app.js":
                return "text/javascript", "".join(map(asset, [*SCRIPTS, "viewer.js"]))
            case "/style.css":
                return "text/css", asset("style.css")
            case "/api/runs":
                return _json({"complete": runs.listed(), "going_on": runs.going_on(), "folder": str(runs.folder)})
            case "/api/leaderboard":
                return _json(leaderboard(runs.lean()))
            case "/api/report":
                return _json(runs.payload(keys).main)
            case "/api/samples":
                return _json({"samples": runs.payload(keys).blocks[int(query["block"])]})
        raise KeyError(path)

    def _trusted(self) -> bool:
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

    def _send(self, status: HTTPStatus, kind: str, body: str) -> None:
        data = body.encode(errors="replace")
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""


def page(title: str, view: str) -> str:
    """The page of a view; its script requests the data from the server."""
    return Template(asset("viewer.html")).substitute(
        title=escape(title), view=view, help=asset("help.html"), version=package_version("multiform") or ""
    )


def _json(value: Mapping[str, Any]) -> tuple[str, str]:
    return "application/json", json.dumps(json.loads(json_line(value)), separators=(",", ":"))

"""Downloads from a hub on this machine: the pinned revision is asked for, and a broken download goes on."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.long]

COMMIT = "0123456789abcdef0123456789abcdef01234567"
#: More than two of the pieces of ten megabytes that huggingface_hub writes, of which a broken download keeps the first.
ROWS = b"".join(
    json.dumps({"question": f"What is {n} + 1? " + "x" * 6000, "answer": n + 1}).encode() + b"\n" for n in range(4000)
)
FILES = {"README.md": b"---\nlicense: mit\n---\n", "test.jsonl": ROWS}


class Hub(BaseHTTPRequestHandler):
    """A hub with one dataset; the first download of its rows breaks off in the middle."""

    protocol_version = "HTTP/1.1"
    requests: list[tuple[str, str | None]]

    def log_message(self, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer()

    def answer(self) -> None:
        path = self.path.partition("?")[0]
        self.requests.append((path, self.headers.get("Range")))
        file = re.fullmatch(r"/datasets/org/set/resolve/([^/]+)/(.*)", path)
        listed = [
            {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
            for name, data in FILES.items()
        ]
        if file is not None and file[1] in (COMMIT, "main") and file[2] in FILES:
            self.send_file(FILES[file[2]])
        elif path in (f"/api/datasets/org/set/revision/{COMMIT}", "/api/datasets/org/set"):
            siblings = [{"rfilename": name} for name in FILES]
            info = {"id": "org/set", "sha": COMMIT, "siblings": siblings, "private": False, "tags": [], "downloads": 0}
            self.send(json.dumps({**info, "likes": 0, "gated": False, "disabled": False}).encode())
        elif path in (f"/api/datasets/org/set/{kind}/{COMMIT}" for kind in ("tree", "paths-info")):
            self.send(json.dumps(listed).encode())
        else:
            self.send_response(404)
            code = "RevisionNotFound" if "/revision/" in path else "EntryNotFound"
            self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_file(self, data: bytes) -> None:
        begin = re.match(r"bytes=(\d+)-", self.headers.get("Range") or "")
        start = int(begin[1]) if begin else 0
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(data) - start))
        if begin:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        if self.command == "HEAD":
            return
        breaks = data is ROWS and not any(begin for _, begin in self.requests)
        self.wfile.write(data[start : len(data) // 2 if breaks else len(data)])
        if breaks:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def hub() -> Iterator[ThreadingHTTPServer]:
    Hub.requests = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def validate(folder: Path, server: ThreadingHTTPServer, revision: str) -> subprocess.CompletedProcess[str]:
    (folder / "task.yaml").write_text(
        f"task: sums\ndataset_path: org/set\ndataset_kwargs: {{revision: {revision}}}\ntest_split: test\n"
        "doc_to_text: question\ndoc_to_target: '{{answer}}'\nformats: cot\n"
    )
    away = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN")
    env = {key: value for key, value in os.environ.items() if key not in away}
    env |= {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HOME": str(folder / "hf")}
    env |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "no_proxy": "127.0.0.1"}
    command = [sys.executable, "-m", "multiform", "validate", "task.yaml", "--limit", "5"]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False)


def test_a_download_that_breaks_off_goes_on_where_it_was(tmp_path: Path, hub: ThreadingHTTPServer) -> None:
    done = validate(tmp_path, hub, COMMIT)
    assert done.returncode == 0, (done.stderr + done.stdout, Hub.requests)
    ranges = [begin for path, begin in Hub.requests if path.endswith(f"/{COMMIT}/test.jsonl") and begin]
    assert ranges, Hub.requests  # the second half alone is asked for
    assert int(ranges[0].removeprefix("bytes=").rstrip("-")) > 0
    before = len(Hub.requests)
    assert validate(tmp_path, hub, COMMIT).returncode == 0
    again = [path for path, _ in Hub.requests[before:] if path.endswith("test.jsonl")]
    assert len(again) <= 1, "the rows are in the cache"


def test_a_revision_that_is_gone_is_said_in_one_message(tmp_path: Path, hub: ThreadingHTTPServer) -> None:
    done = validate(tmp_path, hub, "f" * 40)
    assert done.returncode == 2
    assert f"has no revision '{'f' * 40}' on the hub" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr

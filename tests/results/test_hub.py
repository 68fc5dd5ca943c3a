"""Results on the hub, by the real huggingface_hub against a hub on loopback."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from multiform import evaluate, read_results
from multiform.errors import UsageError
from multiform.results.exchange.hub import Hub, HubTarget, card, write_eval_results

TOKEN = "hf_verysecret"


class FakeHub:
    """Repositories of datasets, with the endpoints that huggingface_hub calls to make and fill them."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.repos: dict[str, dict[str, bytes]] = {}
        self.settings: dict[str, dict[str, Any]] = {}
        self.messages: list[str] = []
        #: How many commits fail before one works.
        self.failures = 0

    def get(self, path: str) -> tuple[int, Any]:
        if path == "/api/whoami-v2":
            return 200, {"type": "user", "name": "ada", "orgs": []}
        repo = path.removeprefix("/api/datasets/").partition("/tree/")[0]
        return 200, [{"type": "file", "path": name, "size": len(data), "oid": "0" * 40}
                     for name, data in self.repos[repo].items()]  # fmt: skip

    def post(self, path: str, body: bytes) -> tuple[int, Any]:
        if path == "/api/repos/create":
            about = json.loads(body)
            repo = f"{about['organization']}/{about['name']}"
            if repo in self.repos:
                return 409, {
                    "error": "You already created this dataset repo",
                    "url": f"{self.endpoint}/datasets/{repo}",
                }
            self.repos[repo], self.settings[repo] = {}, about
            return 200, {"url": f"{self.endpoint}/datasets/{repo}"}
        if path == "/api/validate-yaml":
            return 200, {"warnings": [], "errors": []}
        repo = path.removeprefix("/api/datasets/").rsplit("/", 2)[0]
        if "/preupload/" in path:
            files = [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                     for file in json.loads(body)["files"]]  # fmt: skip
            return 200, {"files": files}
        if self.failures:
            self.failures -= 1
            return 500, {"error": f"try again, Bearer {TOKEN}"}
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "header":
                self.messages.append(line["value"]["summary"])
            else:
                self.repos[repo][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        return 200, {"commitUrl": f"{self.endpoint}/datasets/{repo}/commit/1", "commitOid": "1", "success": True}

    def put(self, path: str, body: bytes) -> tuple[int, Any]:
        self.settings[path.removeprefix("/api/datasets/").removesuffix("/settings")] |= json.loads(body)
        return 200, {}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    fake = FakeHub()

    class Handler(BaseHTTPRequestHandler):
        def _respond(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = unquote(urlsplit(self.path).path)
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                status, answer = 401, {"error": "Invalid user token."}
            elif self.command == "GET":
                status, answer = fake.get(path)
            else:
                status, answer = {"POST": fake.post, "PUT": fake.put}[self.command](path, body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = _respond  # noqa: N815

        def log_message(self, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    fake.endpoint = endpoint = f"http://127.0.0.1:{server.server_port}"
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", endpoint)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("HF_ENDPOINT", endpoint)  # for other processes
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    yield fake
    server.shutdown()
    server.server_close()


def run(hub_args: Any, **options: Any) -> Any:
    options = {"model": "dummy", "tasks": "quiz@mcqa+cloze", "limit": 4, "progress": False, **options}
    return evaluate(**options, hf_hub_log_args=hub_args)


def test_results_and_samples_are_pushed_as_lm_eval_lays_them_out(hub: FakeHub, tmp_path: Path) -> None:
    both = {"push_results_to_hub": True, "push_samples_to_hub": True}
    about = {"leaderboard_url": "http://board", "point_of_contact": "ada@example.org"}
    results = run({**both, **about, "hub_results_org": "team", "gated": True})
    assert list(hub.repos) == ["team/lm-eval-results-private"]
    settings = hub.settings["team/lm-eval-results-private"]
    assert (settings["visibility"], settings["type"], settings["gated"]) == ("private", "dataset", "auto")
    files = hub.repos["team/lm-eval-results-private"]
    stamp = results.provenance["date_iso"].replace(":", "-")
    forms = ["quiz@mcqa", "quiz@cloze"]
    samples = [f"dummy/samples_{form}_{stamp}.jsonl" for form in forms]
    assert sorted(files) == sorted(["README.md", f"dummy/results_{stamp}.json", *samples])
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    again = read_results(tmp_path)
    assert again["quiz@mcqa"]["acc"] == results["quiz@mcqa"]["acc"]
    assert [len(form.samples) for form in again.forms] == [4, 4]
    head, body = files["README.md"].decode().split("---\n")[1:]
    configs = {config["config_name"]: config["data_files"] for config in yaml.safe_load(head)["configs"]}
    assert list(configs) == ["dummy__quiz_cloze", "dummy__quiz_mcqa", "dummy__results"]
    assert configs["dummy__results"][1] == {"split": "latest", "path": [f"**/results_{stamp}.json"]}
    assert "http://board" in body
    assert "ada@example.org" in body
    assert not any(TOKEN.encode() in data for data in files.values())


def test_secrets_are_not_pushed(hub: FakeHub) -> None:
    results = evaluate(model="dummy", tasks="quiz@mcqa", limit=2, progress=False)
    secrets = {"model_args": {"api_key": "sk-verysecret", "extra": {"auth_token": "sk-verysecret"}}}
    results = replace(results, run={**results.run, **secrets})
    Hub(HubTarget.of({"push_results_to_hub": True, "push_samples_to_hub": True})).push(results)
    (files,) = hub.repos.values()
    assert len(files) == 3
    assert not any(b"sk-verysecret" in data for data in files.values())


def test_a_later_run_adds_to_the_repository(hub: FakeHub) -> None:
    for _ in range(2):
        results = run("push_samples_to_hub=True,public_repo=True,details_repo_name=evals", tasks="quiz@mcqa")
    files = hub.repos["ada/evals"]  # without an organization, that of the token
    assert len([name for name in files if "/results_" in name]) == 2
    latest = yaml.safe_load(files["README.md"].decode().split("---\n")[1])["configs"][0]["data_files"][1]["path"][0]
    assert results.provenance["date_iso"].replace(":", "-") in latest


def test_results_have_a_repository_of_their_own(hub: FakeHub) -> None:
    arguments = {"push_results_to_hub": True, "push_samples_to_hub": True, "public_repo": True}
    run({**arguments, "details_repo_name": "details", "results_repo_name": "scores"})
    assert {repo: any("samples_" in name for name in files) for repo, files in hub.repos.items()} == {
        "ada/scores": False,
        "ada/details": True,
    }
    run({**arguments, "hub_repo_name": "all"})
    assert any("samples_" in name for name in hub.repos["ada/all"])


def test_model_names_of_the_hub_are_folders_of_results() -> None:
    target = HubTarget.of({"push_results_to_hub": True, "hub_results_org": "team"})
    assert target.repo("results", "ada") == "team/lm-eval-results-private"
    text = card(target, "org/model", ["org__model/samples_a_b_2026-01-01T00-00-00.5.jsonl", ".gitattributes"])
    assert "config_name: org__model__a_b" in text


@pytest.mark.parametrize("failures", [1, 9])
def test_a_hub_that_fails_costs_a_warning_without_the_token(
    hub: FakeHub, failures: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.failures = failures
    from multiform.cli.main import main

    pushed = ["--hf_hub_log_args", "push_results_to_hub=True", f"token={TOKEN}"]
    command = ["run", "--model", "dummy", "--tasks", "quiz@mcqa", "--limit", "2", "-o", str(tmp_path), *pushed]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert "the results are not on the hub" in printed.err
    assert ("the results are on the hub" in printed.err) == (failures == 1)
    assert TOKEN not in printed.out + printed.err
    written = list(tmp_path.rglob("*.json"))
    assert written
    assert not any(TOKEN in file.read_text() for file in written)


def test_a_hub_that_is_down_does_not_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    assert run({"push_results_to_hub": True, "token": TOKEN}).status == "complete"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("push_result_to_hub=True", "no key 'push_result_to_hub'; did you mean 'push_results_to_hub'?"),
        ("hub_results_org=team", "they say where to push, and not what"),
        ("push_results_to_hub=3", "push_results_to_hub: expected true or false, got 3"),
        ("push_results_to_hub=True,token=wrong", "the hub refuses the token (HTTP 401)"),
    ],
)
def test_what_cannot_be_honoured_is_refused_before_the_run(hub: FakeHub, arguments: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        run(arguments, model="no_such_model")
    assert message in str(caught.value)


def test_a_missing_token_is_refused(hub: FakeHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="no token of the hub"):
        run("push_results_to_hub=True")


def test_offline_mode_is_refused(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UsageError, match="HF_HUB_OFFLINE forbids to push"):
        run("push_results_to_hub=True")


@pytest.mark.process
def test_the_command_pushes_to_the_endpoint_of_the_environment(hub: FakeHub) -> None:
    words = ["run", "--model", "dummy", "--tasks", "quiz@mcqa", "--limit", "2"]
    command = [
        sys.executable,
        "-m",
        "multiform",
        *words,
        "--hf_hub_log_args",
        "push_results_to_hub=True,public_repo=True",
    ]
    subprocess.run(command, check=True, env=os.environ, timeout=120)
    assert list(hub.repos) == ["ada/lm-eval-results"]


def test_entries_for_model_pages_are_read_by_huggingface_hub(tmp_path: Path) -> None:
    from huggingface_hub import parse_eval_result_entries

    results = evaluate(model="dummy", tasks="quiz@mcqa+cloze", limit=4, progress=False)
    (file,) = write_eval_results(results, tmp_path)
    entries = parse_eval_result_entries(yaml.safe_load(file.read_text()))
    assert [entry.value for entry in entries] == [form.estimates[form.primary].value for form in results.forms]
    assert entries[0].task_id == "quiz"

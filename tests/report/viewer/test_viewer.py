"""The viewer: what its server answers, to whom, and what a browser shows of it."""

from __future__ import annotations

import http.client
import json
import os
import platform
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from multiform import Results, evaluate
from multiform.cli.main import main
from multiform.report import server
from multiform.report.leaderboard import Leaderboard
from multiform.report.server import Viewer
from multiform.results.export import to_json, write_json
from multiform.statistics.estimates import mean_estimate


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models on two forms."""
    path = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        results = evaluate(
            model="dummy", model_args={"seed": seed}, tasks="quiz@mcqa+cloze", limit=40, progress=False, use_cache=False
        )
        named = {**results.provenance, "model_name": f"dummy-{seed}", "model_name_sanitized": f"dummy-{seed}"}
        Results(forms=results.forms, run=results.run, provenance=named).save(path)
    return path


@pytest.fixture
def viewer(folder: Path) -> Iterator[Viewer]:
    with Viewer(folder) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def get(viewer: Viewer, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    """A response of the viewer to a browser that has opened its address before."""
    headers = {"Cookie": f"{viewer.cookie}={viewer.token}", **headers}
    connection = http.client.HTTPConnection("127.0.0.1", viewer.server_address[1], timeout=10)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, dict(response.getheaders()), body


def test_the_runs_of_the_folder_are_listed(viewer: Viewer) -> None:
    status, _, body = get(viewer, "/api/runs")
    runs = json.loads(body)["complete"]
    assert status == 200
    assert [run["model"] for run in runs] == ["dummy-1", "dummy-0"]
    assert [score["form"] for score in runs[0]["scores"]] == ["quiz@mcqa", "quiz@cloze"]


def test_samples_come_in_blocks(viewer: Viewer) -> None:
    key = json.loads(get(viewer, "/api/runs")[2])["complete"][0]["key"]
    preview, *forms, last = map(json.loads, get(viewer, f"/api/report?runs={key}")[2].splitlines())
    assert [form["name"] for form in preview["forms"]] == ["quiz@mcqa", "quiz@cloze"]
    assert [len(line["form"]["docs"]) for line in forms] == [40, 40]
    assert last["tasks"]
    samples = json.loads(get(viewer, f"/api/samples?runs={key}&block=0")[2])["samples"]
    assert len(samples) == 40
    assert samples[0]["prompt"].startswith("Question:")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
    ],
)
def test_other_sites_are_refused(viewer: Viewer, headers: dict[str, str]) -> None:
    status, _, body = get(viewer, "/api/runs", **headers)
    assert (status, "dummy" in body) == (403, False)


@pytest.mark.parametrize(
    "path",
    ["/../pyproject.toml", "/etc/passwd", "/api/report?runs=../../x", "/api/samples?runs=", "/%2e%2e/x", "/api/report"],
)
def test_files_outside_of_the_folder_cannot_be_read(viewer: Viewer, path: str) -> None:
    assert get(viewer, path)[0] == 404


@pytest.mark.parametrize(
    "cookie", ["", "other=1", "multiform-{port}=", "multiform-{port}=wrong", "\x7f=;;", "a=b; " * 50]
)
@pytest.mark.parametrize("path", ["/", "/api/runs", "/api/runs?token=", "/api/runs?token=wrong", "/app.js", "/nothing"])
def test_other_users_of_the_machine_get_nothing_without_the_token(viewer: Viewer, path: str, cookie: str) -> None:
    status, headers, body = get(viewer, path, Cookie=cookie.format(port=viewer.server_address[1]))
    assert (status, "dummy" in body, "Set-Cookie" in headers) == (403, False, False)
    assert body == "open the address that `multiform view` has printed"


def test_the_printed_address_gives_the_browser_a_cookie_and_leaves_the_address_bar(viewer: Viewer) -> None:
    path = viewer.url.partition(str(viewer.server_address[1]))[2]
    status, headers, _ = get(viewer, path, Cookie="")
    assert (status, headers["Location"]) == (303, "/")
    assert headers["Set-Cookie"] == f"{viewer.cookie}={viewer.token}; Path=/; HttpOnly; SameSite=Strict"
    assert get(viewer, "/api/runs", Cookie=headers["Set-Cookie"].partition(";")[0])[0] == 200
    assert get(viewer, f"/api/runs?token={viewer.token}", Cookie="")[0] == 200
    _, headers, _ = get(viewer, f"/report?runs=a%0d%0ab&token={viewer.token}", Cookie="")
    assert headers["Location"] == "/report?runs=a%0D%0Ab"


def test_every_viewer_has_a_token_of_its_own(viewer: Viewer, folder: Path) -> None:
    with Viewer(folder) as other:
        assert other.token != viewer.token
        assert len(other.token) >= 32


def connections(viewer: Viewer, number: int) -> list[socket.socket]:
    return [socket.create_connection(("127.0.0.1", viewer.server_address[1]), timeout=10) for _ in range(number)]


def viewer_threads() -> int:
    return sum(thread.name.endswith("(process_request_thread)") for thread in threading.enumerate())


def test_idle_and_slow_connections_are_closed(viewer: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "READING", 0.2)
    idle, slow = connections(viewer, 2)
    slow.sendall(b"GET / HTTP/1.1\r\nHost:")
    for connection in (idle, slow):
        assert connection.recv(1) == b""
        connection.close()
    assert get(viewer, "/api/runs")[0] == 200


def test_many_idle_connections_keep_few_threads_and_nobody_out(viewer: Viewer) -> None:
    idle = connections(viewer, 3 * server.MOST_CONNECTIONS)
    assert get(viewer, "/api/runs")[0] == 200
    assert len(viewer._connections) <= server.MOST_CONNECTIONS
    deadline = time.monotonic() + 10
    while viewer_threads() > server.MOST_CONNECTIONS and time.monotonic() < deadline:
        time.sleep(0.05)
    assert viewer_threads() <= server.MOST_CONNECTIONS
    for connection in idle:
        connection.close()


@pytest.mark.parametrize(
    "path", ["//[", "/?%", "/report?runs=" + "a," * 5000, "*", "/api/samples?runs=a&block=" + "9" * 5000]
)
def test_odd_addresses_are_refused_in_words(viewer: Viewer, path: str) -> None:
    status, _, body = get(viewer, path)
    assert status in (200, 400, 404)
    assert body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_it_only_reads(viewer: Viewer, method: str) -> None:
    assert get(viewer, "/api/runs", method)[0] == 501


def test_pages_have_a_strict_policy_and_loopback_alone_is_bound(viewer: Viewer) -> None:
    _, headers, body = get(viewer, "/")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert viewer.server_address[0] == "127.0.0.1"
    assert "http://" not in body
    assert "https://" not in body


def test_a_broken_file_is_named_among_the_others(viewer: Viewer, folder: Path) -> None:
    broken = folder / "results_2020-01-01T00-00-00.000000.json"
    broken.write_text("{")
    runs = json.loads(get(viewer, "/api/runs")[2])["complete"]
    assert "is not a results file" in runs[-1]["problem"]
    assert len(runs) == 3
    broken.unlink()


def test_a_run_that_goes_on_is_shown_with_how_far_it_is(viewer: Viewer, folder: Path) -> None:
    state = {
        "status": "running",
        "updated": "2026-01-02T03:04:05",
        "model": "big",
        "forms": {"quiz@mcqa": {"documents": 100, "scored": 25, "failed": 0}},
        "requests": {"needed": 400, "cached": 0, "answered": 100, "failed": 0},
    }
    (folder / "run_abc.json").write_text(json.dumps(state))
    (shown,) = json.loads(get(viewer, "/api/runs")[2])["going_on"]
    assert (shown["status"], shown["requests"]["answered"]) == ("running", 100)
    (folder / "run_abc.json").unlink()


def result(model: str, scores: dict[str, float]) -> Results:
    """Results of a model with these scores and no samples."""
    base = evaluate(model="dummy", tasks=[f"quiz@{name}" for name in scores], limit=4, progress=False)
    forms = [
        replace(
            form,
            estimates={
                "acc,none": replace(form.estimates["acc,none"], value=value, low=value - 0.01, high=value + 0.01)
            },
        )
        for form, value in zip(base.forms, scores.values(), strict=True)
    ]
    return replace(base, forms=forms, provenance={**base.provenance, "model_name": model})


def test_the_leaderboard_finds_orders_that_reverse() -> None:
    runs = {
        "1": result("a", {"mcqa": 0.8, "cloze": 0.4}),
        "2": result("b", {"mcqa": 0.6, "cloze": 0.5}),
        "3": result("c", {"mcqa": 0.1, "cloze": 0.1}),
    }
    board = Leaderboard(runs).to_dict()
    (reversal,) = board["reversals"]
    assert (reversal["ahead"], reversal["behind"], reversal["form"], reversal["other"]) == (
        "a",
        "b",
        "quiz@mcqa",
        "quiz@cloze",
    )
    assert reversal["clear"]
    assert board["tau"][0]["tau"] == pytest.approx(1 / 3)
    assert board["stability"] == {
        "compared": 3,
        "reversed": 1,
        "clear": 1,
        "mean_tau": pytest.approx(1 / 3),
        "min_tau": pytest.approx(1 / 3),
    }
    assert board["summary"] == (
        "the order of two models reverses between two forms of a task in 1 of 3 cases (33%), clearly in 1; "
        "Kendall's tau between two forms is 0.33 (0.33 at least)"
    )


def scored(model: str, right: dict[str, range]) -> Results:
    """Results of a model that gets these documents right under each form."""
    base = evaluate(model="dummy", tasks=[f"quiz@{name}" for name in right], limit=40, progress=False)
    forms = []
    for form, numbers in zip(base.forms, right.values(), strict=True):
        values = [float(sample.doc_id in numbers) for sample in form.samples]
        samples = [
            replace(sample, values={**sample.values, "acc": value})
            for sample, value in zip(form.samples, values, strict=True)
        ]
        forms.append(replace(form, samples=samples, estimates={"acc,none": mean_estimate(values)}))
    return replace(base, forms=forms, provenance={**base.provenance, "model_name": model})


def test_a_reversal_is_clear_by_the_test_of_the_same_documents() -> None:
    """Models of 50 and 70 % on 40 documents have intervals that overlap, though one knows all that the other does."""
    first = scored("a", {"mcqa": range(28), "cloze": range(20)})
    second = scored("b", {"mcqa": range(20), "cloze": range(28)})
    cells = [cell for row in Leaderboard({"1": first, "2": second}).to_dict()["cells"] for cell in row]
    assert max(cell["low"] for cell in cells) < min(cell["high"] for cell in cells)
    (reversal,) = Leaderboard({"1": first, "2": second}).to_dict()["reversals"]
    assert reversal["clear"]
    second = scored("b", {"mcqa": range(25), "cloze": range(23)})  # three documents each way
    (reversal,) = Leaderboard({"1": first, "2": second}).to_dict()["reversals"]
    assert not reversal["clear"]


def test_the_leaderboard_marks_all_models_that_cannot_be_told_from_the_best() -> None:
    runs = {
        "1": scored("a", {"mcqa": range(30)}),
        "2": scored("b", {"mcqa": range(28)}),
        "3": scored("c", {"mcqa": range(8)}),
    }
    cells = Leaderboard(runs).to_dict()["cells"]
    assert [row[0]["tied"] for row in cells] == [True, True, False]


def test_a_folder_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", "nowhere"]) == 2
    assert "nowhere: there is no such folder; name the --output_path of a run" in capsys.readouterr().err


@pytest.mark.process
def test_a_browser_compares_two_runs(viewer: Viewer, open_page: Callable[..., Any]) -> None:
    page = open_page(viewer.url)
    assert "dummy-0" in page.locator("#leaderboard").inner_text()
    for box in page.locator("#runs input[type=checkbox]").all():
        page.locator(f"[aria-label='{box.get_attribute('aria-label')}']").check()
    page.get_by_role("button", name="compare 2 runs").click()
    page.wait_for_selector("#differences", state="attached")
    assert "dummy-1" in page.locator("#differences").inner_text()
    page.keyboard.press("j")
    page.wait_for_selector(".detail pre.text")


@pytest.mark.process
def test_a_browser_sees_runs_as_they_come(viewer: Viewer, folder: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(viewer.url)
    assert page.locator("#going-on").count() == 0
    state = {"status": "running", "model": "<b>big</b>", "forms": {}, "requests": {"needed": 4, "answered": 1}}
    (folder / "run_abc.json").write_text(json.dumps(state))
    page.wait_for_selector("#going-on", timeout=8000)
    assert "<b>big</b>" in page.locator("#going-on").inner_text()
    assert page.locator("[role=progressbar]").get_attribute("aria-valuenow") == "25"
    (folder / "run_abc.json").unlink()


@pytest.mark.process
def test_the_bar_of_a_run_that_goes_on_is_as_long_as_its_share(
    viewer: Viewer, folder: Path, open_page: Callable[..., Any]
) -> None:
    state = {"status": "running", "model": "big", "forms": {}, "requests": {"needed": 4, "answered": 1}}
    (folder / "run_bar.json").write_text(json.dumps(state))
    page = open_page(viewer.url)
    (folder / "run_bar.json").unlink()
    track, fill = (page.locator(f"[role=progressbar]{part}").bounding_box() for part in ("", " .fill"))
    assert fill["height"] > 4
    assert fill["width"] == pytest.approx(track["width"] / 4, abs=1)


def test_a_run_whose_process_is_gone_was_killed(viewer: Viewer, folder: Path) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    for name, pid, host in (("gone", child.pid, platform.node()), ("here", os.getpid(), platform.node())):
        state = {"status": "running", "model": name, "forms": {}, "requests": {}, "pid": pid, "host": host}
        (folder / f"run_{name}.json").write_text(json.dumps(state))
    (folder / "run_far.json").write_text(json.dumps({**state, "pid": child.pid, "host": "another", "model": "far"}))
    shown = {state["model"]: state["status"] for state in json.loads(get(viewer, "/api/runs")[2])["going_on"]}
    for name in ("gone", "here", "far"):
        (folder / f"run_{name}.json").unlink()
    assert shown == {"gone": "killed", "here": "running", "far": "running"}


def test_a_run_that_was_stopped_can_be_opened_beside_others(viewer: Viewer, folder: Path) -> None:
    results = evaluate(model="dummy", tasks="quiz@mcqa", limit=4, progress=False, use_cache=False)
    partial = folder / "partial_results_abc.json"
    write_json(partial, to_json(replace(results, status="stopped")))
    runs = json.loads(get(viewer, "/api/runs")[2])["complete"]
    (stopped,) = [run for run in runs if run.get("status") == "stopped"]
    assert len(runs) == 3
    assert get(viewer, f"/api/report?runs={stopped['key']}")[0] == 200
    ranked = json.loads(get(viewer, "/api/leaderboard")[2])["cells"]  # of complete runs alone
    assert all(cell is None or cell["run"] != stopped["key"] for row in ranked for cell in row)
    partial.unlink()


def test_the_leaderboard_keeps_settings_apart() -> None:
    """A model with other arguments is another model, and a form with other few-shot examples another form."""
    base = result("a", {"mcqa": 0.8})
    other = replace(result("a", {"mcqa": 0.5}), run={**base.run, "model_args": {"dtype": "float16"}})
    (form,) = base.forms
    shots = replace(base, forms=[replace(form, num_fewshot=5)])
    board = Leaderboard({"1": base, "2": other, "3": shots}).to_dict()
    assert board["models"] == ["a (dtype=float16)", "a (no arguments)"]
    assert board["forms"] == ["quiz@mcqa", "quiz@mcqa · 5-shot"]
    assert [[entry and entry["run"] for entry in row] for row in board["cells"]] == [["2", None], ["1", "3"]]


@pytest.mark.process
def test_the_viewer_recovers_from_a_failed_request(viewer: Viewer, chromium: Any) -> None:
    page = chromium.new_context().new_page()
    page.goto(viewer.url)
    page.wait_for_selector("#runs table")
    page.route("**/api/runs", lambda route: route.abort())
    page.wait_for_selector("#connection", timeout=8000)
    assert page.locator("#runs table").count() == 1
    page.unroute("**/api/runs")
    page.wait_for_selector("#connection", state="detached", timeout=8000)


@pytest.mark.process
def test_a_report_that_cannot_be_read_says_so(viewer: Viewer, chromium: Any) -> None:
    key = json.loads(get(viewer, "/api/runs")[2])["complete"][0]["key"]
    page = chromium.new_context().new_page()
    page.goto(viewer.url)
    page.route("**/api/report*", lambda route: route.fulfill(status=500, body="the disk is gone"))
    page.goto(f"{viewer.url.partition('?')[0]}report?runs={key}")
    page.get_by_text("The report cannot be shown: the disk is gone").wait_for()
    page.unroute("**/api/report*")
    page.get_by_role("button", name="try again").click()
    page.wait_for_selector(".answer-line")


@pytest.mark.process
def test_a_sample_that_cannot_be_read_says_so(viewer: Viewer, chromium: Any) -> None:
    key = json.loads(get(viewer, "/api/runs")[2])["complete"][0]["key"]
    page = chromium.new_context().new_page()
    page.goto(viewer.url)
    page.goto(f"{viewer.url.partition('?')[0]}report?runs={key}#tab=samples")
    page.route("**/api/samples*", lambda route: route.fulfill(status=500, body="the disk is gone"))
    page.locator(".list .doc").first.click()
    page.get_by_text("The sample cannot be shown: the disk is gone").wait_for()
    page.unroute("**/api/samples*")
    page.get_by_role("button", name="try again").click()
    page.wait_for_selector(".detail pre.text")


def test_the_labels_of_a_sweep_tell_models_apart() -> None:
    runs = {}
    for number, label in enumerate(("cold", "warm")):
        results = evaluate(
            model="dummy", model_args={"seed": number}, tasks="quiz@mcqa", limit=8, progress=False, use_cache=False
        )
        runs[label] = replace(results, run={**results.run, "label": label})
    assert Leaderboard(runs).to_dict()["models"] == ["cold", "warm"]


def test_the_page_of_a_report_comes_before_its_data_are_read(viewer: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    key = json.loads(get(viewer, "/api/runs")[2])["complete"][0]["key"]
    monkeypatch.setattr(viewer.runs, "report", None)
    assert get(viewer, f"/report?runs={key}")[0] == 200
    assert get(viewer, "/report?runs=nothing")[0] == 404

"""The viewer's first page: runs under way and stopped, the table of runs, the ranking, scores over checkpoints."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from multiform import Results, evaluate
from multiform.errors import IncompleteRunError
from multiform.models.dummy import DummyModel
from multiform.report.leaderboard import Leaderboard, headlines, history_charts
from multiform.report.runs import Runs
from multiform.report.server import Viewer
from multiform.results.export import to_json, write_json
from multiform.results.samples import sample_line
from multiform.statistics.estimates import mean_estimate
from tests.report.conftest import serve
from tests.report.test_accessibility import violations


def model(name: str, right: dict[str, int], n: int = 100) -> Results:
    """Results of a model that gets so many of the first documents right under each form, without samples."""
    base = evaluate(model="dummy", tasks=[f"quiz@{form}" for form in right], limit=n, progress=False)
    forms = [
        replace(form, samples=(), estimates={"acc,none": mean_estimate([1.0] * number + [0.0] * (n - number))})
        for form, number in zip(base.forms, right.values(), strict=True)
    ]
    named = {**base.provenance, "model_name": name, "model_name_sanitized": name}
    return replace(base, forms=forms, comparisons=[], provenance=named)


def test_models_are_ranked_in_tiers_that_can_be_told_apart() -> None:
    runs = {
        "1": model("weak", {"mcqa": 20, "cloze": 22}),
        "2": model("strong", {"mcqa": 80, "cloze": 82}),
        "3": model("good", {"mcqa": 76, "cloze": 78}),
        "4": model("partial", {"mcqa": 99}),
    }
    ranked = Leaderboard(runs, headlines).to_dict(["quiz@mcqa", "quiz@cloze"])
    assert [(entry["model"], entry["tier"]) for entry in ranked["ranking"]] == [("strong", 0), ("good", 0), ("weak", 1)]
    assert ranked["ranking"][0]["value"] == pytest.approx(0.81)
    assert ranked["unranked"] == [{"model": "partial", "lacks": ["quiz@cloze"]}]
    by_default = Leaderboard(runs, headlines).to_dict(None)  # by the column that all models have
    assert by_default["ranking"][0]["model"] == "partial"


def test_forms_of_one_task_do_not_make_an_average_surer_than_one_of_them() -> None:
    runs = {"1": model("a", {"mcqa": 60, "cloze": 60})}
    [both] = Leaderboard(runs, headlines).to_dict(["quiz@mcqa", "quiz@cloze"])["ranking"]
    [one] = Leaderboard(runs, headlines).to_dict(["quiz@mcqa"])["ranking"]
    assert both["high"] - both["low"] == pytest.approx(one["high"] - one["low"])


def test_only_scores_of_one_metric_reverse_and_are_averaged() -> None:
    """Accuracy and bits per byte are no order that could reverse."""
    runs = {}
    for key, (accuracy, bits) in {"a": (0.8, 1.2), "b": (0.6, 0.9)}.items():
        base = model(key, {"mcqa": 50, "bpb": 50})
        first, second = base.forms
        accuracies = {"acc,none": replace(first.estimates["acc,none"], value=accuracy)}
        forms = [
            replace(first, estimates=accuracies),
            replace(second, estimates={"bits_per_byte,none": replace(first.estimates["acc,none"], value=bits)},
                    higher_is_better={"bits_per_byte": True}),
        ]  # fmt: skip
        runs[key] = replace(base, forms=forms)
    assert Leaderboard(runs).to_dict()["reversals"] == []
    assert len(Leaderboard(runs, headlines).to_dict(["quiz@mcqa", "quiz@bpb"])["columns"]) == 1


def test_checkpoints_of_a_model_are_one_line_over_their_steps() -> None:
    runs = {str(step): model(f"pythia-step{step}", {"mcqa": step // 100}) for step in (3000, 1000, 10000)}
    [chart] = history_charts(runs)
    [panel] = chart.panels
    assert (chart.name, panel.x.names) == ("pythia-step…", ["1,000", "3,000", "10,000"])
    assert [row["score"] for row in panel.rows] == [0.1, 0.3, 1.0]
    assert (panel.y.low, panel.y.high) == (0.0, 1.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run under way with samples, a stopped one, and two complete ones."""
    for name, right in (("alpha-step100", 30), ("alpha-step200", 60)):
        model(name, {"mcqa": right, "cloze": 20}).save(tmp_path)
    results = evaluate(model="dummy", tasks="quiz@mcqa", limit=8, progress=False, use_cache=False)
    now = datetime.now()
    state = {
        "status": "running",
        "started": (now - timedelta(seconds=100)).isoformat(),
        "updated": now.isoformat(),
        "model": "hf",
        "model_name": "live-model",
        "forms": {"quiz@mcqa": {"documents": 20, "scored": 8, "failed": 0}},
        "requests": {"needed": 120, "cached": 20, "answered": 25, "failed": 0},
        "host": platform.node(),
        "pid": os.getpid(),
    }
    (tmp_path / "run_live.json").write_text(json.dumps(state))
    lines = [{"form": "quiz@mcqa", **sample_line(sample)} for sample in results.forms[0].samples]
    (tmp_path / "partial_samples_live.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    config = {**results.run, "model_args": {"seed": 7}}
    stopped = {**state, "status": "stopped", "model_name": "stopped-model", "config": config}
    (tmp_path / "run_stop.json").write_text(json.dumps(stopped))
    write_json(tmp_path / "partial_results_stop.json", to_json(replace(results, status="stopped")))
    return tmp_path


@pytest.fixture
def viewer(folder: Path) -> Iterator[Viewer]:
    with Viewer(folder) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_run_under_way_has_its_scores_so_far_and_the_time_left(folder: Path) -> None:
    live, stopped = Runs(folder).unfinished_lines()
    assert (live["model"], live["status"]) == ("live-model", "running")
    assert live["left"] == pytest.approx(300)
    [score] = live["scores"]
    assert (score["form"], score["metric"], score["n"]) == ("quiz@mcqa", "acc", 8)
    assert 0 <= score["low"] <= score["value"] <= score["high"] <= 1
    assert "multiform run --tasks quiz@mcqa --model dummy --model_args seed=7" in stopped["command"]
    assert (live["arguments"], stopped["arguments"]) == ("", "seed=7")


def test_scores_so_far_follow_the_file(folder: Path) -> None:
    runs = Runs(folder)
    before = runs.unfinished_lines()[0]["scores"][0]["n"]
    samples = folder / "partial_samples_live.jsonl"
    line = samples.read_text().splitlines()[0]
    with samples.open("a") as file:
        file.write(line + "\n" + line[:50])  # the last line is not whole yet
    assert runs.unfinished_lines()[0]["scores"][0]["n"] == before + 1
    samples.write_text(line + "\n")  # the run began again
    assert runs.unfinished_lines()[0]["scores"][0]["n"] == 1


@pytest.mark.process
def test_the_home_page_shows_all_of_it(viewer: Viewer, open_page: Callable[..., Any]) -> None:
    page = open_page(viewer.url)
    running = page.locator("#going-on").inner_text()
    assert "live-model" in running
    assert "about 5 min left" in running
    assert "n=8" in running
    assert "multiform run --tasks quiz@mcqa" in page.locator("#stopped pre").inner_text()
    assert page.locator("#leaderboard tbody th").first.inner_text() == "alpha-step200"
    assert page.locator("#leaderboard tr.tier").count() == 2
    assert page.locator("#leaderboard tr.tier td:first-child").all_inner_texts() == ["1", "2"]
    assert page.locator("#history svg circle").count() == 4
    page.get_by_role("link", name="live-model").click()
    page.wait_for_selector(".answer-line")
    assert "Running: 8 of 20 documents are scored" in page.locator(".attention").inner_text()


@pytest.mark.process
def test_a_killed_run_says_what_it_has_what_it_lacks_and_how_to_go_on(
    open_page: Callable[..., Any], tmp_path: Path
) -> None:
    class Gone(DummyModel):
        """Fails when it is to generate."""

        def generate(self, requests: Any) -> Any:
            raise RuntimeError("the device is gone")

    about: dict[str, Any] = {"output_path": tmp_path, "log_samples": True, "progress": False, "use_cache": False}
    with pytest.raises(IncompleteRunError):
        evaluate(model=Gone(seed=3), tasks="quiz@mcqa+generate", limit=6, **about)
    [file], [results] = tmp_path.rglob("run_*.json"), tmp_path.rglob("partial_results_*.json")
    results.unlink()
    state = json.loads(file.read_text())
    state["forms"]["quiz@mcqa"]["scored"] = 2  # as it was when the state was written for the last time
    child = subprocess.Popen(["true"])
    child.wait()
    file.write_text(json.dumps({**state, "status": "running", "pid": child.pid}))
    with serve(tmp_path) as viewer:
        page = open_page(viewer.url)
        panel = page.locator("#stopped .panel").inner_text()
        assert "killed" in panel
        assert "6 of 12 documents of 2 forms scored" in panel
        assert f"--output_path {tmp_path} --log_samples" in page.locator("#stopped pre").inner_text()
        page.locator("#stopped a").click()
        page.wait_for_selector(".answer-line")
        note = page.locator(".attention p").first.inner_text()
    assert note.startswith("Partial: the run was stopped, 6 of 12 documents are scored; 1 of 2 forms are missing")
    assert note.endswith("quiz@generate")


@pytest.mark.process
def test_the_samples_of_a_run_under_way_are_named_by_their_own_questions(
    folder: Path, viewer: Viewer, open_page: Callable[..., Any]
) -> None:
    """And not by their few-shot examples, of which the state of the run says nothing."""
    results = evaluate(model="dummy", tasks="quiz@mcqa", num_fewshot=3, limit=8, progress=False, use_cache=False)
    lines = [{"form": "quiz@mcqa", **sample_line(sample)} for sample in results.forms[0].samples]
    (folder / "partial_samples_live.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = open_page(viewer.url)
    page.get_by_role("link", name="live-model").click()
    page.get_by_role("tab", name="Samples").click()
    heads = page.locator(".list .head").all_inner_texts()
    assert heads == [sample.doc["question"] for sample in results.forms[0].samples]


@pytest.mark.process
def test_a_refresh_without_news_keeps_what_is_selected(viewer: Viewer, open_page: Callable[..., Any]) -> None:
    page = open_page(viewer.url)
    page.evaluate("getSelection().selectAllChildren(document.querySelector('#stopped pre'))")
    selected = page.evaluate("String(getSelection())")
    assert "multiform run" in selected
    with page.expect_response("**/api/leaderboard*"), page.expect_response("**/api/runs"):
        pass
    page.wait_for_timeout(300)
    assert page.evaluate("String(getSelection())") == selected


@pytest.mark.process
def test_the_average_is_over_the_chosen_columns(viewer: Viewer, open_page: Callable[..., Any]) -> None:
    page = open_page(viewer.url)
    page.get_by_text("Average over 2 of 2 columns").click()
    averages = page.locator("#leaderboard tr.tier td:nth-child(3) b")
    assert averages.all_inner_texts() == ["0.400", "0.250"]
    page.get_by_label("quiz@cloze").uncheck()
    page.get_by_text("Average over 1 of 2 columns").wait_for()
    assert averages.all_inner_texts() == ["0.600", "0.300"]


@pytest.mark.process
def test_two_to_six_runs_are_compared(viewer: Viewer, folder: Path, open_page: Callable[..., Any]) -> None:
    for number in range(3, 8):
        model(f"more-{number}", {"mcqa": 50}).save(folder)
    page = open_page(viewer.url)
    boxes = page.locator("#runs input[type=checkbox]")
    for index in range(7):
        boxes.nth(index).check()
        state = "enabled" if index < 6 else "disabled"
        words = f"compare {index + 1} runs" if index else "open"
        page.locator(f"[data-focus=compare]:{state}", has_text=words).wait_for()
    assert "At most six runs are compared." in page.locator("#runs .tools").inner_text()


@pytest.mark.process
def test_later_runs_are_compared_with_earlier_ones(viewer: Viewer, open_page: Callable[..., Any]) -> None:
    """Whatever the order in which they are chosen, of which nothing is shown."""
    page = open_page(viewer.url)
    for name in ("alpha-step200", "alpha-step100"):
        page.locator("#runs tr", has_text=name).locator("input").check()
    page.get_by_role("button", name="compare 2 runs").click()
    page.wait_for_selector(".changes")
    heads = page.locator(".changes thead th").all_inner_texts()
    assert [head.strip() for head in heads[1:3]] == ["alpha-step100", "alpha-step200"]


@pytest.mark.process
def test_the_columns_of_the_average_come_first(folder: Path, open_page: Callable[..., Any]) -> None:
    """And not those of a run that has no other, whose names may come first."""
    model("other", {"bpb": 10}).save(folder)
    with serve(folder) as viewer:
        heads = open_page(viewer.url).locator("#leaderboard th.number").all_inner_texts()
    assert [head.split()[0] for head in heads] == ["quiz@cloze", "quiz@mcqa", "quiz@bpb"]


@pytest.mark.process
def test_reversals_that_may_be_chance_are_shown_on_request(folder: Path, open_page: Callable[..., Any]) -> None:
    model("beta", {"mcqa": 58, "cloze": 22}).save(folder)
    model("gamma", {"mcqa": 30, "cloze": 90}).save(folder)
    with serve(folder) as viewer:
        board = open_page(viewer.url).locator("#leaderboard")
        clear = board.locator("ul:visible li").all_inner_texts()
        chance = board.locator("details", has_text="may be chance")
        assert len(clear) == 2
        assert all("gamma" in line for line in clear)
        chance.locator("summary").click()
        assert "beta" in chance.locator("li").first.inner_text()


@pytest.mark.process
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_on_the_home_page(viewer: Viewer, open_page: Callable[..., Any], dark: bool) -> None:
    assert violations(open_page(viewer.url, dark=dark)) == []


@pytest.mark.process
def test_a_refresh_keeps_focus_search_sorting_and_choice(
    viewer: Viewer, folder: Path, open_page: Callable[..., Any]
) -> None:
    page = open_page(viewer.url)
    rows = page.locator("#runs tbody tr:not([hidden])")
    page.locator("#runs th", has_text="quiz@mcqa").get_by_role("button").click()
    scores = page.locator("#runs tbody td:nth-child(5)").all_inner_texts()
    assert scores == sorted(scores)
    page.locator("#runs input[type=checkbox]").first.check()
    page.get_by_label("search runs").fill("alpha")
    assert rows.count() == 2
    model("alpha-step300", {"mcqa": 90}).save(folder)
    page.get_by_text("3 of 4 runs").wait_for(timeout=8000)
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "search runs"
    assert page.get_by_label("search runs").input_value() == "alpha"
    assert page.locator("#runs [aria-sort=ascending]").count() == 1
    assert page.locator("#runs input:checked").count() == 1
    listed = [text.split("\t")[1].split()[0] for text in rows.all_inner_texts()]
    assert listed == ["alpha-step100", "alpha-step200", "alpha-step300"]

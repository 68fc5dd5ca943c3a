"""Charts of results, drawn into files without a network."""

from __future__ import annotations

import html
import sys
from pathlib import Path

import pytest

from multiform import Results, evaluate
from multiform.cli.main import main
from multiform.errors import DataError, UsageError
from multiform.results.charts import CHARTS, save_chart

pytest.importorskip("altair", reason="altair is not installed: pip install 'multiform[charts]'")


@pytest.fixture(scope="module")
def results() -> Results:
    return evaluate(model="dummy", tasks="quiz@mcqa+cloze+generate", limit=40, progress=False, use_cache=False)


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_is_drawn(results: Results, name: str, tmp_path: Path) -> None:
    picture = save_chart(results, name, tmp_path / "chart.svg").read_text()
    assert picture.startswith("<svg")
    assert "quiz" in picture or name == "heatmap"


def test_a_chart_holds_the_numbers_of_the_results(results: Results) -> None:
    values = results.chart.scores().to_dict(validate=False)
    datasets = [str(part) for part in values["datasets"].values()] if "datasets" in values else [str(values)]
    assert any(str(results["quiz@mcqa"]["acc"]) in text for text in datasets)


def test_pictures_are_written_as_their_names_say(results: Results, tmp_path: Path) -> None:
    assert save_chart(results, "scores", tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    page = save_chart(results, "scores", tmp_path / "a.html").read_text()
    assert '<script src="http' not in page
    with pytest.raises(UsageError, match=r"'\.gif' is no kind of picture"):
        save_chart(results, "scores", tmp_path / "a.gif")
    with pytest.raises(UsageError, match="no chart 'pie'; there are: scores, heatmap"):
        save_chart(results, "pie", tmp_path / "a.svg")


def test_a_chart_that_has_nothing_to_show_says_so() -> None:
    alone = evaluate(model="dummy", tasks="quiz@generate", limit=4, progress=False)
    with pytest.raises(DataError, match="no task has two forms"):
        alone.chart.differences()


def test_the_command_draws_a_chart_of_a_folder(results: Results, tmp_path: Path) -> None:
    results.save(tmp_path / "out")
    assert main(["plot", str(tmp_path / "out"), "--chart", "differences", "-o", str(tmp_path / "d.svg")]) == 0
    assert (tmp_path / "d.svg").exists()


def test_without_altair_it_says_what_to_install(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(UsageError, match=r"pip install 'multiform\[charts\]'"):
        results.chart.scores()


@pytest.mark.parametrize("name", ["scores", "differences", "flips"])
def test_charts_cut_no_name_of_a_variation(name: str, tmp_path: Path) -> None:
    results = evaluate(model="dummy", tasks="quiz@mcqa~3", limit=10, progress=False, use_cache=False)
    picture = html.unescape(save_chart(results, name, tmp_path / "chart.svg").read_text())
    assert "…</text>" not in picture
    assert all(f"{form.format_label}" in picture for form in results.forms)

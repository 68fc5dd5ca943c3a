"""Charts of results, drawn into files without a network."""

from __future__ import annotations

import html
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from multiform import Results, evaluate
from multiform.cli.main import main
from multiform.errors import DataError, UsageError
from multiform.results.charts import CHARTS, overview_chart
from multiform.results.compare import compare_forms
from multiform.results.drawing import draw, save_chart
from multiform.results.run_comparison import compare_all_runs, compare_runs
from tests.report.conftest import evaluate_group

pytestmark = pytest.mark.long

pytest.importorskip("altair", reason="altair is not installed: pip install 'multiform[charts]'")


@pytest.fixture(scope="module")
def results() -> Results:
    return evaluate(model="dummy", tasks="quiz@mcqa+cloze+generate", limit=40, progress=False, use_cache=False)


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_is_drawn(results: Results, name: str, tmp_path: Path) -> None:
    picture = save_chart(results, name, tmp_path / "chart.svg").read_text()
    assert picture.startswith("<svg")
    assert "quiz" in picture or name in ("heatmap", "flips")


def test_a_chart_holds_the_numbers_of_the_results(results: Results) -> None:
    values = results.chart.scores().to_dict(validate=False)
    datasets = [str(part) for part in values["datasets"].values()] if "datasets" in values else [str(values)]
    assert any(str(results["quiz@mcqa"]["acc"]) in text for text in datasets)


def drawn_rows(chart: dict[str, Any], column: str) -> list[dict[str, Any]]:
    """The rows of the first data in a chart that have the column."""
    parts: list[dict[str, Any]] = [chart]
    while parts:
        part = parts.pop(0)
        rows: list[dict[str, Any]] = part.get("data", {}).get("values", [])
        if rows and column in rows[0]:
            return rows
        parts += part.get("layer", [])
    raise AssertionError(f"nothing has a column {column}")


def test_of_many_differences_the_largest_are_drawn_and_the_chart_says_so(tmp_path: Path) -> None:
    results = evaluate(model="dummy", tasks="quiz@mcqa~16", limit=20, progress=False, use_cache=False)
    (comparison,) = results.comparisons
    assert len(comparison.differences) == 136
    [chart] = results.chart.differences().to_dict(validate=False)["concat"]
    assert chart["title"] == "the 60 largest of 136 differences"
    drawn = [row["difference"] for row in drawn_rows(chart, "difference")]
    every = sorted((abs(pair.estimate.value) for pair in comparison.differences), reverse=True)
    assert sorted(map(abs, drawn), reverse=True) == every[:60]
    assert "60 largest of 136" in save_chart(results, "differences", tmp_path / "d.svg").read_text()


def test_pictures_are_written_as_their_names_say(results: Results, tmp_path: Path) -> None:
    assert save_chart(results, "scores", tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    page = save_chart(results, "scores", tmp_path / "a.html").read_text()
    assert '<script src="http' not in page
    with pytest.raises(UsageError, match=r"'\.gif' is not a picture format"):
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


@pytest.mark.parametrize("name", [name for name in CHARTS if name != "spread"])
def test_names_of_variations_are_not_wider_than_the_plot(name: str, tmp_path: Path) -> None:
    """They are numbered, as on the page, and the caption has them."""
    results = evaluate(model="dummy", tasks="quiz@mcqa~10", limit=10, progress=False, use_cache=False)
    picture = html.unescape(save_chart(results, name, tmp_path / "chart.svg").read_text())
    texts = [text for text in re.findall(r"<t(?:ext|span)[^>]*>([^<]+)</t", picture) if "[" in text]
    captions = [text for text in texts if re.match(r"mcqa \[\d+\]: mcqa\[", text)]
    assert len(captions) == 10
    assert all(len(text) < 60 for text in texts if text not in captions)


def test_of_many_forms_in_groups_the_groups_are_drawn(tmp_path: Path) -> None:
    results = evaluate_group(tmp_path, tasks="exam@mcqa~3+cloze")
    [panel] = CHARTS["scores"](results).panels
    assert {row["form"] for row in panel.rows} == {group.name for group in results.groups}
    assert panel.title == "accuracy ↑, without the 80 forms in groups"


def test_a_group_is_called_by_its_name_and_each_panel_counts_its_own_tasks(tmp_path: Path) -> None:
    mixed = "group: mixed\ntask: [even, odd, bits]\naggregate_metric_list: {metric: acc}\n"
    (tmp_path / "mixed.yaml").write_text(mixed)
    for name, form in (("even", "mcqa"), ("odd", "mcqa"), ("bits", "bpb")):
        (tmp_path / f"{name}.yaml").write_text(
            f"task: {name}\ndataset_path: rows.jsonl\ntest_split: train\nformats: {form}\n"
            "doc_to_text: q\ndoc_to_choice: c\ndoc_to_target: a\n"
        )
    (tmp_path / "rows.jsonl").write_text('{"q": "What is it?", "c": ["one", "two"], "a": 0}\n' * 3)
    results = evaluate(model="dummy", tasks="mixed", include_path=tmp_path, progress=False, use_cache=False)
    accuracy, bits = overview_chart(results).panels
    assert [(row["row"], row["parent"]) for row in accuracy.rows] == [
        ("mixed", None),
        ("even", "2 tasks of mixed"),
        ("odd", "2 tasks of mixed"),
    ]
    assert [(row["row"], row["parent"]) for row in bits.rows] == [("bits", "1 task of mixed")]


def test_the_flips_of_a_group_are_those_of_all_its_tasks(tmp_path: Path) -> None:
    for name in ("left", "right"):
        (tmp_path / f"{name}.yaml").write_text(
            f"task: {name}\ndataset_path: rows.jsonl\ntest_split: train\n"
            "doc_to_text: q\ndoc_to_choice: c\ndoc_to_target: a\nmetric_list: [{metric: acc}]\n"
        )
    rows = "".join(f'{{"q": "What is {n}?", "c": ["one", "two"], "a": 0}}\n' for n in range(12))
    (tmp_path / "rows.jsonl").write_text(rows)
    (tmp_path / "both.yaml").write_text("group: both\ntask: [left, right]\naggregate_metric_list: {metric: acc}\n")
    results = evaluate(model="dummy", tasks="both@mcqa+cloze", include_path=tmp_path, progress=False, use_cache=False)
    group = results.comparisons[0]
    assert group.rightness is not None
    cells = drawn_rows(results.chart.flips().to_dict(validate=False), "share")
    assert [(cell["right"], cell["wrong"]) for cell in cells] == [("mcqa", "cloze"), ("cloze", "mcqa")]
    assert sum(cell["share"] for cell in cells) == pytest.approx(group.rightness.flip_rate.value)
    assert sum(cell["documents"] for cell in cells) == round(24 * group.rightness.flip_rate.value)


def test_scores_that_are_neither_right_nor_wrong_do_not_flip() -> None:
    """Bits per byte differ on every document, which is no flip."""
    results = evaluate(model="dummy", tasks="quiz@mcqa+cloze+bpb", limit=20, progress=False, use_cache=False)
    (panel,) = CHARTS["flips"](results).panels
    assert panel.x.names == ["mcqa", "cloze"]
    alone = evaluate(model="dummy", tasks="quiz@bpb~2", limit=20, progress=False, use_cache=False)
    with pytest.raises(DataError, match="no task has two forms"):
        alone.chart.flips()


def test_a_description_fixes_the_axis_to_the_range_of_the_metric_and_has_the_chance_level(results: Results) -> None:
    (panel,) = CHARTS["scores"](results).panels
    assert (panel.x.low, panel.x.high) == (0.0, 1.0)
    assert panel.lines == {"chance": 0.25}
    assert [row["score"] for row in panel.rows] == sorted((row["score"] for row in panel.rows), reverse=True)
    unbounded = evaluate(model="dummy", tasks="quiz@bpb", limit=8, progress=False)
    (panel,) = CHARTS["scores"](unbounded).panels
    assert (panel.x.low, panel.x.high) == (0.0, 2.0)


def test_the_colours_of_a_heat_map_are_those_of_the_whole_range(results: Results) -> None:
    """Scores of 0.43 and 0.45 are not white and the darkest blue, and numbers can be read on both."""
    (panel,) = CHARTS["heatmap"](results).panels
    assert panel.value is not None
    assert (panel.value.low, panel.value.high) == (0.0, 1.0)
    texts = str(draw(CHARTS["heatmap"](results), results).to_dict(validate=False))
    assert "datum['score'] > 0.5" in texts


def test_calibration_counts_clusters_as_the_results_file_does() -> None:
    results = evaluate(model="dummy", tasks="quiz@mcqa+cloze", progress=False, use_cache=False)
    forms = []
    for form in results.forms:  # all questions of a subject are right, or all are wrong
        samples = [
            replace(s, prediction=s.sample.gold[0] if len(s.doc["subject"]) % 2 else 1 - s.sample.gold[0])
            for s in form.samples
        ]
        forms.append(replace(form, samples=samples, cluster="subject"))
    clustered = replace(results, forms=forms, comparisons=compare_forms(forms))
    (panel,) = CHARTS["calibration"](clustered).panels
    [first, *_] = clustered.comparisons[0].calibrations
    assert first is not None
    assert f"(ECE {first.error.value:.3f}, {first.error.interval_text()})" in panel.rows[0]["form"]


@pytest.mark.parametrize("name", CHARTS)
def test_every_description_is_json_with_a_text_that_says_what_it_shows(results: Results, name: str) -> None:
    spec = CHARTS[name](results)
    described = json.loads(json.dumps(spec.to_dict()))
    assert described["palette"]
    assert re.search(r": -?\d\.\d{3}", spec.text)
    assert draw(spec, results).to_dict(validate=False)["description"] == spec.text


def test_two_of_several_runs_are_compared_as_two_runs_are(results: Results) -> None:
    tasks = "quiz@mcqa+cloze+generate"
    other = evaluate(model="dummy", model_args={"seed": 1}, tasks=tasks, limit=40, progress=False)
    assert [pair[2] for pair in compare_all_runs([results, other])] == compare_runs(results, other)


def test_a_flip_matrix_has_its_forms_in_one_order_on_both_axes(results: Results) -> None:
    panel = CHARTS["flips"](results).panels[0]
    assert panel.x.names == panel.y.names


def test_every_chart_is_a_method_with_its_description(results: Results) -> None:
    assert {*CHARTS} <= {*dir(results.chart)}
    assert results.chart.heatmap.__doc__ == CHARTS["heatmap"].__doc__
    with pytest.raises(AttributeError, match=r"no chart 'score'; did you mean 'scores'\?"):
        _ = results.chart.score

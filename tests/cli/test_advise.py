"""`multiform advise`: how many documents and wordings an interval needs."""

from __future__ import annotations

import json

import pytest

from multiform.cli.main import main


@pytest.fixture(scope="module")
def pilot(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pilot")
    command = ["run", "quiz@mcqa~6", "--model", "dummy", "--limit", "60", "--output_path", str(folder), "--log_samples"]
    assert main(command) == 0
    return folder


def test_the_advice_gives_the_wanted_interval_with_fewer_evaluations_than_any_other(pilot, capsys):
    capsys.readouterr()
    assert main(["advise", str(pilot), "--half_width", "0.06", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["task"] == "quiz"
    assert (entry["now"]["documents"], entry["now"]["wordings"], entry["available"]) == (60, 7, 144)
    advice, variance = entry["advice"], entry["variance"]
    documents, wordings = advice["documents"], advice["wordings"]
    width = variance["document"] / documents + variance["wording"] / wordings
    width += variance["rest"] / (documents * wordings)
    assert 1.96 * width**0.5 <= 0.06 + 1e-4


def test_what_cannot_be_reached_is_said(pilot, capsys):
    assert main(["advise", str(pilot), "--half_width", "0.0001"]) == 0
    assert "± 0.0001 cannot be reached with this dataset: 144 documents × 128 wordings" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--half_width", "0"], "expected a number above 0, got '0'"), (["--half_width", "x"], "expected a number")],
)
def test_a_wrong_width_is_refused(pilot, arguments, message, capsys):
    assert main(["advise", str(pilot), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_run_of_one_wording_says_what_to_run_first(tmp_path, capsys):
    assert main(["run", "quiz@mcqa", "--model", "dummy", "--limit", "4", "--output_path", str(tmp_path)]) == 0
    assert main(["advise", str(tmp_path)]) == 2
    assert "no task was run under three or more wordings of one format" in capsys.readouterr().err

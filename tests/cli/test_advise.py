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


def test_one_wording_is_one(pilot, capsys):
    assert main(["advise", str(pilot), "--half_width", "5"]) == 0
    assert "× 1 wording, " in capsys.readouterr().out


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


def test_repeats_that_a_metric_averages_are_a_part_of_the_variance(tmp_path, capsys):
    rows = [{"q": f"Question {i}?", "choices": ["red", "green", "blue", "black"], "answer": i % 4} for i in range(40)]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "flips.yaml").write_text(
        f"task: flips\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {tmp_path}/rows.jsonl}}}}\n"
        "test_split: test\ndoc_to_text: q\ndoc_to_choice: choices\ndoc_to_target: answer\nrepeats: 4\n"
        "metric_list: [{metric: exact_match, reduction: mean}]\n"
    )
    command = ["run", "flips@generate~4", "--include_path", str(tmp_path), "--model", "dummy", "--log_samples"]
    assert main([*command, "--gen_kwargs", "temperature=1,do_sample=true", "--output_path", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    assert main(["advise", str(tmp_path / "out"), "--half_width", "0.06", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["now"]["repeats"] == 4
    assert 0.03 < entry["variance"]["repeat"] < 0.14  # the dummy guesses among six texts, in most wordings in vain
    assert main(["advise", str(tmp_path / "out"), "--half_width", "0.06"]) == 0
    assert "wordings × 4 repeats, ±" in capsys.readouterr().out

"""The gate: verdicts of a policy on two runs, their error rates, and its files."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from multiform import Results, evaluate
from multiform.cli.main import main
from multiform.errors import ConfigError, UsageError
from multiform.results.gate import check_policy, judge, read_accuracy_file, read_policy, score_bounds
from multiform.results.run_comparison import FormChange
from multiform.statistics.differences import paired_difference
from multiform.statistics.estimates import exact_bounds, mean_estimate
from multiform.statistics.means import document_scores


def run(seed: int, tasks: str = "quiz@mcqa+cloze", limit: int = 60) -> Results:
    return evaluate(model="dummy", model_args={"seed": seed}, tasks=tasks, limit=limit, progress=False)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("runs")
    for name, seed in (("base", 0), ("tuned", 1)):
        run(seed).save(folder / name)
    return str(folder / "base"), str(folder / "tuned")


@pytest.fixture
def policy(tmp_path: Path):
    def write(text: str) -> str:
        (tmp_path / "policy.yaml").write_text(text)
        return str(tmp_path / "policy.yaml")

    return write


def gate_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["gate", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("rule", "code", "verdict"),
    [
        ("{max_loss: 0.5}", 0, "PASS"),
        ("{min_gain: 0.5}", 1, "FAIL"),
        ("{max_loss: 0.02}", 3, "INCONCLUSIVE"),
        ("{min_score: 0.1}", 0, "PASS"),
        ("{max_score: 0.1}", 1, "FAIL"),
    ],
)
def test_each_verdict_has_its_exit_code(runs, policy, capsys, rule: str, code: int, verdict: str) -> None:
    given, report = gate_json(capsys, policy(f"default: {rule}\n"), *runs)
    assert (given, report["verdict"]) == (code, verdict)


def test_an_open_condition_says_how_many_documents_would_decide(runs, policy, capsys) -> None:
    _, report = gate_json(capsys, policy("tasks: {quiz@mcqa: {max_loss: 0.02}}\n"), *runs)
    (condition,) = report["conditions"]
    half, distance = (condition["high"] - condition["low"]) / 2, abs(condition["value"] + 0.02)
    assert condition["n"] + condition["more"] == int(np.ceil(60 * (half / distance) ** 2))
    assert main(["gate", policy("tasks: {quiz@mcqa: {max_loss: 0.02}}\n"), *runs]) == 3
    assert "more documents would decide, if the value stays; the dataset has 84 more" in capsys.readouterr().out


def test_too_few_documents_decide_nothing(runs, policy, capsys) -> None:
    _, report = gate_json(capsys, policy("default: {min_gain: 0.5, min_n: 100}\n"), *runs)
    assert report["verdict"] == "INCONCLUSIVE"
    assert report["conditions"][0]["more"] == 40


def test_a_task_states_what_differs_from_the_default(runs, policy, capsys) -> None:
    text = "default: {max_loss: 0.5}\ntasks: {'*@cloze': {max_loss: 0.4}}\n"
    _, report = gate_json(capsys, policy(text), *runs)
    assert {c["name"]: c["limit"] for c in report["conditions"]} == {"quiz@mcqa": 0.5, "quiz@cloze": 0.4}


def test_what_the_candidate_lacks_fails_unless_allowed(runs, policy, capsys, tmp_path: Path) -> None:
    run(0, "quiz@mcqa", limit=30).save(tmp_path / "part")
    part = str(tmp_path / "part")
    code, report = gate_json(capsys, policy("default: {max_loss: 0.5}\n"), runs[0], part)
    assert (code, report["missing"]) == (1, ["quiz@cloze", "quiz@mcqa"])
    assert gate_json(capsys, policy("default: {max_loss: 0.5}\nallow_missing: true\n"), runs[0], part)[0] == 0


def test_the_one_line_form_agrees_with_the_policy(runs, policy, capsys) -> None:
    for loss, verdict in ((0.5, "PASS"), (0.02, "INCONCLUSIVE")):
        _, report = gate_json(capsys, policy(f"default: {{max_loss: {loss}}}\n"), *runs)
        main(["compare", *runs, "--fail_below", str(-loss), "--json"])
        compared = json.loads(capsys.readouterr().out)
        assert report["verdict"] == verdict
        assert bool(compared["open"]) == (verdict == "INCONCLUSIVE")


def test_the_files_for_a_pull_request_and_for_ci(runs, policy, tmp_path: Path, capsys) -> None:
    rules = policy("default: {max_loss: 0.02}\ntasks: {quiz@cloze: {min_gain: 0.9}}\n")
    files = ["--markdown", str(tmp_path / "comment.md"), "--junit", str(tmp_path / "gate.xml")]
    assert main(["gate", rules, *runs, *files]) == 1
    comment = (tmp_path / "comment.md").read_text()
    assert comment.startswith("### ❌ FAIL: 1 FAIL, 2 INCONCLUSIVE")
    suite = ElementTree.parse(tmp_path / "gate.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "2")
    assert len(suite.findall("testcase/failure")) == 1
    capsys.readouterr()
    main(["gate", rules, *runs, "--markdown", "-"])
    assert capsys.readouterr().out == comment


ACCURACY = """\
model_name: org/model
tasks:
- name: quiz@mcqa
  metrics:
  - {name: "acc,none", value: 0.25}
  - {name: "acc_norm,none", value: 0.9}
limit: 1000
num_fewshot: 0
"""


def test_an_accuracy_file_of_vllm_is_a_baseline(runs, policy, tmp_path: Path, capsys) -> None:
    (tmp_path / "model.yaml").write_text(ACCURACY)
    rules = policy("default: {max_loss: 0.05}\n")
    assert main(["gate", rules, str(tmp_path / "model.yaml"), runs[1], "--json"]) == 1
    printed = capsys.readouterr()
    first, second = json.loads(printed.out)["conditions"]
    assert (first["metric"], second["metric"]) == ("acc", "acc_norm")
    assert second["verdict"] == "FAIL"
    assert first["n"] == 60
    assert "the baseline is over 1,000 documents, the candidate over 60" in printed.err
    assert read_accuracy_file(tmp_path / "model.yaml").run["model"] == "org/model"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("default: {max_los: 0.1}", "policy.yaml:1: default: unknown key 'max_los'; did you mean 'max_loss'"),
        ("default: {max_loss: -0.1}", "max_loss: expected a number that is not negative, got -0.1"),
        ("confidence: 95\ndefault: {max_loss: 0.1}", "expected a share between 0.5 and 1, got 95"),
        ("default: {min_n: 5}", "the rule has no limit"),
        ("tasks: [a]", "expected a mapping of rules"),
        ("default: {metric: 5, max_loss: 0.1}", "metric: expected the name of a score, got 5"),
        ("default: {max_loss: .inf}", "expected a number that is not negative, got inf"),
        ("tasks: {a: }", "expected a mapping of limits, got None"),
        ("{}", "neither 'default' nor 'tasks'"),
        ("rules: {}", "unknown key 'rules'"),
    ],
)
def test_a_wrong_policy_is_one_message(policy, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_policy(Path(policy(text)))
    assert message in str(caught.value)


def test_a_wrong_accuracy_file_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "model.yaml").write_text(ACCURACY.replace("0.25", "high"))
    with pytest.raises(ConfigError, match=r"model.yaml:2: tasks: tasks: expected a list of tasks, got .*'high'"):
        read_accuracy_file(tmp_path / "model.yaml")


def test_a_name_that_no_run_has_is_refused(policy) -> None:
    results = run(0)
    with pytest.raises(UsageError, match="no form, task or group of the runs is called 'quizz@mcqa'"):
        check_policy(read_policy(Path(policy("tasks: {quizz@mcqa: {max_loss: 0.1}}"))), results, results)


@pytest.mark.process
def test_a_shell_sees_the_exit_codes(runs, policy) -> None:
    for rule, code in (("max_loss: 0.5", 0), ("min_gain: 0.5", 1), ("max_loss: 0.02", 3), ("max_lost: 1", 2)):
        command = [sys.executable, "-m", "multiform", "gate", policy(f"default: {{{rule}}}\n"), *runs]
        assert subprocess.run(command, capture_output=True, check=False).returncode == code


def simulated_verdicts(*, gain: float, limit: float, forms: int, n: int, draws: int) -> list[set[str]]:
    """The verdicts of gates on pairs of runs whose forms all gain `gain` in truth; a tenth of the documents flips."""
    generator, verdicts = np.random.default_rng(7), []
    for _ in range(draws):
        found: set[str] = set()
        for _ in range(forms):
            draw = generator.random(n)
            base = generator.random(n) < 0.6
            up, down = draw < 0.1 + gain / 2, draw > 0.9 + gain / 2
            # Documents that go up were wrong and those that go down were right.
            before = np.where(up, False, np.where(down, True, base))
            after = np.where(up, True, np.where(down, False, base))
            difference = paired_difference(document_scores(np.stack([after, before], axis=1)))
            change = FormChange(
                name="t", metric="acc", first=difference.estimate, second=difference.estimate,
                difference=difference.estimate, paired=True, p=difference.p, p_holm=None, higher_is_better=True,
                comparisons=forms,
            )  # fmt: skip
            low, high = change.gain_bounds()
            found.add(judge(low, high, change.gain, limit))
        verdicts.append(found)
    return verdicts


@pytest.mark.long
@pytest.mark.parametrize("forms", [1, 8])
def test_wrong_verdicts_are_as_rare_as_promised(forms: int) -> None:
    """At the limit itself, where errors are most frequent: neither a pass nor a fail in more than 5 % of the gates."""
    draws, slack = 600, 0.018  # two standard errors of a rate of 5 % over the draws
    at_limit = simulated_verdicts(gain=-0.02, limit=-0.02, forms=forms, n=400, draws=draws)
    assert np.mean(["FAIL" in found for found in at_limit]) <= 0.05 + slack
    assert np.mean([found == {"PASS"} for found in at_limit]) <= 0.05 + slack
    assert np.mean([found <= {"PASS", "INCONCLUSIVE"} and "INCONCLUSIVE" in found for found in at_limit]) >= 0.88


@pytest.mark.long
def test_enough_documents_decide() -> None:
    """Far from the limit, verdicts are found: nothing is open in 95 % of the gates."""
    equal = simulated_verdicts(gain=0.0, limit=-0.05, forms=4, n=2000, draws=200)
    worse = simulated_verdicts(gain=-0.1, limit=-0.05, forms=4, n=2000, draws=200)
    assert np.mean([found == {"PASS"} for found in equal]) >= 0.95
    assert np.mean([found == {"FAIL"} for found in worse]) >= 0.95


def score_verdicts(rate: float, limit: float, *, forms: int = 1, n: int = 300, draws: int = 2000) -> list[set[str]]:
    """The verdicts of gates on scores whose forms all have the rate `rate` in truth."""
    generator = np.random.default_rng(3)
    counts = generator.binomial(n, rate, size=(draws, forms))
    by_count: dict[int, str] = {}
    for count in set(counts.ravel().tolist()):
        score = mean_estimate([1.0] * count + [0.0] * (n - count))
        low, high = score_bounds(score, forms, 0.95, is_rate=True)
        by_count[count] = judge(low, high, score.value, limit)
    return [{by_count[count] for count in row} for row in counts.tolist()]


@pytest.mark.parametrize("forms", [1, 8])
@pytest.mark.parametrize("rate", [0.05, 0.25, 0.5, 0.7, 0.9, 0.97])
def test_scores_at_a_threshold_are_judged_wrongly_as_rarely(rate: float, forms: int) -> None:
    """At the threshold itself a PASS and a FAIL are both wrong: in 5 % of the gates at most."""
    verdicts, slack = score_verdicts(rate, rate, forms=forms), 0.01  # two standard errors
    assert np.mean([found == {"PASS"} for found in verdicts]) <= 0.05 + slack
    assert np.mean(["FAIL" in found for found in verdicts]) <= 0.05 + slack
    assert np.mean(["INCONCLUSIVE" in found for found in verdicts]) >= 0.85


def test_scores_far_from_a_threshold_are_decided() -> None:
    assert np.mean([found == {"PASS"} for found in score_verdicts(0.8, 0.7)]) >= 0.95
    assert np.mean([found == {"FAIL"} for found in score_verdicts(0.6, 0.7)]) >= 0.95


def test_documents_that_are_alike_count_as_fewer() -> None:
    alone = mean_estimate([1.0] * 80 + [0.0] * 20)
    low, high = alone.interval
    alike = replace(alone, low=low - 0.08, high=min(1.0, high + 0.06))
    bounds = [score_bounds(score, 1, 0.95, is_rate=True) for score in (alone, alike)]
    assert bounds[1][0] < bounds[0][0] < 0.8 < bounds[0][1] < bounds[1][1]


def test_the_threshold_of_a_run_is_exact(policy) -> None:
    results = run(0)
    score = results.forms[0].estimates["acc,none"]
    report = check_policy(read_policy(Path(policy("default: {min_score: 0.2, metric: acc}"))), results, results)
    low, high = exact_bounds(score.value, score.n, 0.05 / 2)  # two forms
    assert (report.conditions[0].low, report.conditions[0].high) == pytest.approx((low, high))

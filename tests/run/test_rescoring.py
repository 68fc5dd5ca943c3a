"""Responses that were logged are scored again, without a model."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from multiform import LLOutput, evaluate, rescore
from multiform.cli.main import main
from multiform.errors import IncompleteRunError, UsageError
from multiform.models.dummy import DummyModel
from multiform.requests import FailedRequest
from multiform.results.export import to_json

#: Keys of a results file that say when it was made, and from what.
CHANGING = ("date_iso", "rescored_from")
ROWS = [{"question": f"Question {i}?", "choices": [f"x{i}", f"y{i}"], "answer": i % 2} for i in range(6)]
BASE = "dataset_path: rows.jsonl\ntest_split: test\ndoc_to_text: question\n"
TASKS = {
    "ranked": BASE + "output_type: multiple_choice\ndoc_to_choice: choices\ndoc_to_target: answer\n",
    "written": BASE
    + "output_type: generate_until\ndoc_to_target: '{{choices[answer]}}'\nrepeats: 3\n"
    + "filter_list:\n  - name: first\n    filter:\n      - function: take_first\n"
    + "  - name: vote\n    filter:\n      - function: majority_vote\n      - function: take_first\n",
    "likely": BASE + "output_type: loglikelihood\ndoc_to_target: '{{choices[answer]}}'\n",
    "rolling": BASE + "output_type: loglikelihood_rolling\ndoc_to_target: question\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a task of each kind."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    for name, text in TASKS.items():
        (tmp_path / f"{name}.yaml").write_text(f"task: {name}\n{text}")
    return tmp_path


def run(*tasks: str, model: Any = "dummy", **options: Any) -> Any:
    return evaluate(model=model, tasks=list(tasks), output_path="out", log_samples=True, **options)


class Cut(DummyModel):
    """Has impossible continuations, truncated contexts and counted tokens."""

    def loglikelihood(self, requests: Any) -> Iterator[tuple[int, LLOutput]]:
        for position, output in super().loglikelihood(requests):
            value = -math.inf if requests[position].continuation == " B" else output.loglikelihood
            yield position, LLOutput(value, output.is_greedy, tokens=position, context_truncated=position == 1)


@pytest.mark.parametrize("model", ["dummy", Cut()])
def test_the_same_task_gives_the_same_results(folder: Path, model: Any) -> None:
    before = to_json(run(*(f"{name}.yaml" for name in TASKS), "quiz@mcqa", "quiz@generate", model=model, limit=6))
    results = rescore("out")
    after = to_json(results)
    assert {key: value for key, value in after.items() if key not in CHANGING} == {
        key: value for key, value in before.items() if key not in CHANGING
    }
    results.save("again")
    lines = {path.name.split("_")[1]: path.read_text() for path in Path("out").rglob("samples_*.jsonl")}
    assert lines == {path.name.split("_")[1]: path.read_text() for path in Path("again").rglob("samples_*.jsonl")}


def test_a_changed_filter_changes_the_score(folder: Path) -> None:
    run("written.yaml")
    text = (folder / "written.yaml").read_text()
    changed = folder / "changed" / "written.yaml"
    changed.parent.mkdir()
    changed.write_text(
        text.partition("filter_list")[0] + "metric_list:\n  - metric: exact_match\n    ignore_case: true\n"
    )
    assert sorted(rescore("out")["written"]) != sorted(rescore("out", tasks=str(changed))["written"])
    results = rescore(
        "out", tasks="written.yaml", filter_list=[{"name": "all", "filter": [{"function": "take_first"}]}]
    )
    assert "exact_match,all" in results["written"]


def test_other_metrics_are_computed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("ranked.yaml")
    assert main(["score", "out", "--metrics", "acc,brier_score", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["results"]["ranked"]
    assert {"acc,none", "brier_score,none"} < set(scores)
    assert "acc_norm,none" not in scores


def test_metrics_that_are_asked_for_are_seen_of_every_form(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("ranked.yaml@mcqa+cloze+cot")
    capsys.readouterr()
    assert main(["score", "out", "--metrics", "acc,brier_score"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("brier_score ↓") == 2
    assert "ranked@cot: the format overrides metric acc, metric brier_score" in printed
    assert main(["score", "out", "--metrics", "acc,brier_score", "--table", "pivot"]) == 0
    assert "brier_score ↓" not in capsys.readouterr().out


@pytest.mark.parametrize("changed", ["doc_to_text: 'Q: {{question}}'", "target_delimiter: ': '", "num_fewshot: 1"])
def test_a_task_that_asks_something_else_is_refused(changed: str, folder: Path) -> None:
    run("ranked.yaml")
    kept = [line for line in (folder / "ranked.yaml").read_text().splitlines() if line[:11] != changed[:11]]
    (folder / "ranked.yaml").write_text("\n".join([*kept, changed]))
    with pytest.raises(UsageError, match=f"'ranked' asks something else than in the run: {changed.partition(':')[0]}"):
        rescore("out")


def test_another_gold_answer_is_no_other_question(folder: Path) -> None:
    before = run("ranked.yaml")["ranked"]["acc"]
    text = (folder / "ranked.yaml").read_text()
    (folder / "ranked.yaml").write_text(text.replace("doc_to_target: answer", "doc_to_target: '{{1 - answer}}'"))
    assert rescore("out")["ranked"]["acc"] == pytest.approx(1 - before)


@pytest.mark.parametrize("on_error", ["skip", "count"])
def test_documents_that_failed_stay_so(on_error: str, folder: Path) -> None:
    class Failing(DummyModel):
        def loglikelihood(self, requests: Any) -> Iterator[Any]:
            for position, output in super().loglikelihood(requests):
                yield position, FailedRequest(reason="no") if position == 4 else output

    before = to_json(run("ranked.yaml", model=Failing(), on_error=on_error))
    after = to_json(rescore("out"))
    assert after["results"] == before["results"]
    assert after["failures"]["ranked"]["bounds"] == before["failures"]["ranked"]["bounds"]


def test_what_a_failed_run_left_is_scored(folder: Path) -> None:
    class Gone(DummyModel):
        def loglikelihood(self, requests: Any) -> Iterator[Any]:
            yield from list(super().loglikelihood(requests))[:6]
            raise RuntimeError("gone")

    with pytest.raises(IncompleteRunError) as caught:
        run("ranked.yaml", model=Gone())
    results = rescore("out")
    assert (results.status, results["ranked"]["sample_len"]) == ("failed", 3)
    assert results["ranked"]["acc"] == caught.value.results["ranked"]["acc"]


def test_a_run_without_samples_is_scored_from_the_store(folder: Path) -> None:
    tasks = [f"{name}.yaml" for name in TASKS]
    before = evaluate(model="dummy", tasks=tasks, output_path="out", limit=4, use_cache="answers.db")
    after = rescore("out", use_cache="answers.db")
    assert to_json(after)["results"] == to_json(before)["results"]


def test_responses_that_are_nowhere_are_not_made_up(folder: Path) -> None:
    evaluate(model="dummy", tasks="ranked.yaml", output_path="out", limit=4, use_cache="answers.db")
    (results,) = Path("out").rglob("results_*.json")
    results.write_text(results.read_text().replace('"limit": 4', '"limit": 5'))
    with pytest.raises(UsageError, match=r"there are no samples of 'ranked' beside it, and answers.db has 8 of 10"):
        rescore("out", use_cache="answers.db")


def test_a_chat_without_samples_needs_the_model(folder: Path) -> None:
    evaluate(model="dummy", tasks="ranked.yaml", output_path="out", apply_chat_template=True, use_cache="answers.db")
    (results,) = Path("out").rglob("results_*.json")
    written = json.loads(results.read_text())
    results.write_text(json.dumps({**written, "chat_template": "{{ messages }}"}))
    with pytest.raises(UsageError, match="prompts of a chat need the model; run the same command again"):
        rescore("out", use_cache="answers.db")


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["nothing"], "nothing: there is no such file or folder"),
        (["rows.jsonl"], "rows.jsonl: is not a results file"),
        (["empty"], "empty: there is no results_<date>.json in this folder"),
        (["out", "--tasks", "likely.yaml"], "there is no 'likely' in the run; its tasks are: ranked"),
        (["out", "--metrics", "[acc"], "--metrics: not valid JSON"),
        (["out", "--metrics", "accuracy"], "error: --metrics: unknown metric 'accuracy'"),
        (["out", "--scorer", "frist_token"], "error: --scorer: unknown scorer 'frist_token'; did you mean"),
    ],
)
def test_what_cannot_be_scored_is_said(
    argv: list[str], says: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("ranked.yaml")
    Path("empty").mkdir()
    assert main(["score", *argv]) == 2
    assert says in capsys.readouterr().err


def test_a_damaged_line_is_named(folder: Path) -> None:
    run("ranked.yaml")
    [samples] = Path("out").rglob("samples_*.jsonl")
    samples.write_text(samples.read_text() + '{"doc_id": 9}\n')
    with pytest.raises(UsageError, match=r"samples_ranked_.*jsonl:7: the line is not a sample"):
        rescore("out")

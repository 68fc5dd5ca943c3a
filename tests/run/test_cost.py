"""What a run costs: planned, counted, noted, and stopped at a limit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from multiform import evaluate, read_results
from multiform.cli.main import main
from multiform.errors import IncompleteRunError, UsageError
from multiform.models.prices import Price, find_price
from multiform.models.servers.protocol import counted_tokens
from multiform.results.notes import result_notes
from tests.models.servers.fake_batches import FakeBatches, fake_batches

#: The fake counts 10 tokens of each prompt and 3 of each completion: a dollar a document.
PRICES = '"tiny" = [70000, 100000]\n'


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBatches]:
    monkeypatch.setenv("MULTIFORM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "prices.toml").write_text(PRICES)
    with fake_batches("anthropic") as running:
        yield running


def options(server: FakeBatches, tmp_path: Path, **more: Any) -> dict[str, Any]:
    arguments = {"model": "tiny", "base_url": server.base_url, "num_concurrent": 1, **more.pop("model_args", {})}
    about = {"model": "anthropic", "model_args": arguments, "tasks": "quiz@generate", "limit": 8, "progress": False}
    return {**about, "prices": tmp_path / "prices.toml", **more}


def test_results_and_notes_have_the_cost(server: FakeBatches, tmp_path: Path) -> None:
    results = evaluate(**options(server, tmp_path, output_path=tmp_path / "out"))
    assert results.run["server_tokens"] == {"prompt": 80, "completion": 24}
    assert results.run["cost"]["dollars"] == pytest.approx(8.0)
    again = read_results(tmp_path / "out")
    assert again.run["cost"] == results.run["cost"]
    assert any("they cost about $8.0000" in note for note in result_notes(again))


def test_a_limit_stops_the_run_with_what_was_scored(server: FakeBatches, tmp_path: Path) -> None:
    with pytest.raises(IncompleteRunError) as caught:
        evaluate(**options(server, tmp_path, max_cost=2.5))
    partial: Any = caught.value.results
    scored = partial.forms[0].n
    assert partial.status == "stopped"
    assert 3 <= scored <= 5  # with what was in flight
    message = f"the run has cost ${scored}.00, more than max_cost allows: {scored} of 8 documents are scored"
    assert message in str(caught.value)
    rest = evaluate(**options(server, tmp_path, max_cost=20))  # nothing is paid for twice
    assert rest.run["cost"]["dollars"] == pytest.approx(8 - scored)


def test_the_command_ends_with_the_partial_table(
    server: FakeBatches, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = f"model=tiny,base_url={server.base_url},num_concurrent=1"
    command = ["run", "quiz@generate", "--model", "anthropic", "--model_args", arguments, "--limit", "8"]
    command += ["--prices", str(tmp_path / "prices.toml")]
    assert main([*command, "--plan"]) == 0
    plan = capsys.readouterr().out
    assert "at $70000 and $100000 per million tokens" in plan
    assert "tokens of prompts, and at most" in plan
    assert main([*command, "--max_cost", "1.5"]) == 1
    printed = capsys.readouterr()
    assert "quiz@generate" in printed.out
    assert "more than max_cost allows" in printed.err


def test_a_limit_without_a_price_is_refused(server: FakeBatches, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="max_cost: the price of 'tiny' is not known; give --prices"):
        evaluate(**options(server, tmp_path, max_cost=1, prices=None))


def test_batches_cost_half_and_are_refused_beyond_the_limit(server: FakeBatches, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a batch cannot be stopped at a cost"):
        evaluate(**options(server, tmp_path, model_args={"batch": True}, max_cost=2))
    assert not server.batches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tiny = 3", "tiny: expected two prices, got 3"),
        ("tiny = [1, -2]", "expected two prices"),
        ("[", "it is no TOML"),
    ],
)
def test_bad_files_of_prices_are_refused(server: FakeBatches, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "prices.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        evaluate(**options(server, tmp_path))
    assert message in str(caught.value)


def test_a_users_prices_win_and_a_date_does_not_matter(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text('"gpt-4.1" = [1, 2]\n["http://localhost/v1"]\n"own" = [3, 4]\n')
    assert find_price("gpt-4.1-2025-04-14", "https://api.openai.com/v1", file) == Price(1, 2)
    assert find_price("own", "http://localhost/v1", file) == Price(3, 4)
    assert find_price("own", "http://elsewhere/v1", file) is None
    assert find_price("gpt-4.1-unknown", "https://api.openai.com/v1") is None


def test_thoughts_are_counted_where_they_are_counted_apart() -> None:
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 2, "thoughtsTokenCount": 40}
    assert counted_tokens({"usageMetadata": usage}) == {"prompt": 5, "completion": 42}


def test_other_models_cost_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "quiz@mcqa", "--model", "dummy", "--limit", "2", "--json"]) == 0
    assert "cost" not in json.loads(capsys.readouterr().out)["config"]

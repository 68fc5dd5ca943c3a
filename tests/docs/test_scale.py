"""docs/scale.md: its table is what the simulation prints, and its formula agrees with the simulation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.scripts.simulate_scale import Setting, main, predicted_seconds, simulate

ROOT = Path(__file__).parents[2]


def test_the_table_is_what_the_simulation_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["simulate_scale.py"])
    main()
    table = capsys.readouterr().out.rstrip()
    assert table in (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("workers", [10, 100, 1000])
@pytest.mark.parametrize("tokens_per_response", [25.0, 200.0])
def test_the_formula_agrees_with_the_simulation(workers: int, tokens_per_response: float) -> None:
    setting = Setting(workers=workers, tokens_per_response=tokens_per_response)
    outcome = simulate(setting)
    predicted = predicted_seconds(
        tokens=setting.tokens,
        tokens_per_second=setting.tokens_per_second,
        workers=workers,
        requests=setting.tokens / tokens_per_response,
        load_seconds=setting.load_seconds,
        has_failures=outcome.failures > 0,
    )
    assert predicted == pytest.approx(outcome.seconds, rel=0.12)


def test_without_failures_nothing_is_lost_and_with_more_of_them_more_is() -> None:
    lost = [simulate(Setting(workers=200, failures=share)).lost_tokens for share in (0.0, 0.01, 0.1)]
    assert lost[0] == 0.0
    assert 0.0 < lost[1] < lost[2]

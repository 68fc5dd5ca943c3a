"""Tasks whose metrics `evaluate` loads from the hub: with the same metric, both harnesses give the same numbers.

The hub's metrics are written again here, because the tests run without a network.
"""

from __future__ import annotations

import collections
import re
import string
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from multiform import evaluate
from multiform.errors import MultiformError
from tests.parity import reference

pytestmark = [pytest.mark.parity, pytest.mark.bundled, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


class CodeEval:
    """The share of tests that the first program of each list passes."""

    def compute(self, references: list[str], predictions: list[list[str]], k: list[int]) -> Any:
        passed = [
            _runs(f"{programs[0]}\n{test}") for programs, test in zip(predictions, references, strict=True) if k == [1]
        ]
        return {"pass@1": sum(passed) / len(passed)}, {}


class Squad:
    """Exact match and F1 of answers, of which some are that there is none."""

    def compute(self, predictions: list[Any], references: list[Any]) -> dict[str, float]:
        exact, f1 = [], []
        for prediction, reference_ in zip(predictions, references, strict=True):
            golds = [text for text in reference_["answers"]["text"] if _words(text)] or [""]
            exact.append(max(float(_words(prediction["prediction_text"]) == _words(gold)) for gold in golds))
            f1.append(max(_f1(prediction["prediction_text"], gold) for gold in golds))
        has = [bool(one["answers"]["text"]) for one in references]
        values = {"exact": 100 * sum(exact) / len(exact), "f1": 100 * sum(f1) / len(f1)}
        for name, wanted in (("HasAns", True), ("NoAns", False)):
            chosen = [index for index, answered in enumerate(has) if answered is wanted]
            if chosen:
                values[f"{name}_exact"] = 100 * sum(exact[index] for index in chosen) / len(chosen)
                values[f"{name}_f1"] = 100 * sum(f1[index] for index in chosen) / len(chosen)
        return {**values, "best_exact": values["exact"], "best_f1": values["f1"]}


def _runs(program: str) -> bool:
    try:
        return subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=10).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _words(text: str) -> list[str]:
    kept = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", kept).split()


def _f1(prediction: str, gold: str) -> float:
    got, wanted = _words(prediction), _words(gold)
    if not got or not wanted:
        return float(got == wanted)
    common = sum((collections.Counter(got) & collections.Counter(wanted)).values())
    return 2 * common / (len(got) + len(wanted))


@pytest.fixture
def hub_metrics() -> Iterator[None]:
    pytest.importorskip("evaluate", reason="evaluate is not installed: pip install 'multiform[parity]'")
    metrics = {"code_eval": CodeEval, "squad_v2": Squad}
    with mock.patch("evaluate.load", lambda name, *_, **__: metrics[name]()):
        yield


@pytest.fixture
def rows(mirror: Path, tmp_path: Path) -> Path:
    """The mirror, with SQuAD under the name that the task has for it."""
    folder = tmp_path / "mirror"
    for source, name in (("rajpurkar/squad_v2/squad_v2", "lighteval/squad_v2/default"), ("openai", "openai")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(mirror / source)
    return folder


@pytest.mark.parametrize(("name", "limit", "tokens"), [("humaneval", 4, 64), ("squadv2", 4, 16)])
def test_scores_are_those_of_lm_eval(
    name: str,
    limit: int,
    tokens: int,
    rows: Path,
    lm_eval_tasks: Path,
    bundled_path: Path,
    hub_metrics: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_ALLOW_CODE_EVAL", "1")
    theirs, ours = reference.evaluated(
        name,
        reference.models(bundled_path, batch_size=4),
        folder=lm_eval_tasks / name,
        mirror=rows,
        limit=limit,
        tokens=tokens,
        confirm_run_unsafe_code=True,
    )
    expected = {key: value for key, value in theirs["results"][name].items() if isinstance(value, float)}
    assert expected
    assert {key: ours[name][key] for key in expected} == pytest.approx(expected, abs=1e-6)


def test_code_is_not_run_without_consent(rows: Path, lm_eval_tasks: Path, hub_metrics: None) -> None:
    with pytest.raises(MultiformError, match="confirm_run_unsafe_code"):
        evaluate(model="dummy", tasks=["humaneval"], include_path=lm_eval_tasks / "humaneval", dataset_mirror=rows)

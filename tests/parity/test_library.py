"""The library's tasks in lm-eval's form give the requests that lm-eval's own tasks give, byte for byte."""

from __future__ import annotations

import collections
import json
from pathlib import Path

import pytest

from multiform import TaskManager
from multiform.paths import mirror_folders
from tools.parity import library
from tools.parity.compare import FAILS, LEAK

pytestmark = [pytest.mark.parity, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

DOCS = 3


@pytest.fixture(scope="module")
def pairs(lm_eval_tasks) -> list[library.Pair]:
    missing = [str(folder) for folder in mirror_folders(library.MIRROR) if not folder.is_dir()]
    if missing:
        pytest.skip(f"no benchmark rows at {', '.join(missing)}")
    return [pair for pair in library.pairs() if library.has_rows(pair.config)]


def test_requests_are_those_of_lm_eval(pairs: list[library.Pair]):
    done = [library.compare_pair(pair, DOCS) for pair in pairs]
    reasons = collections.Counter(one.reason for result in done for one in result.differences)
    print(f"{len(done)} tasks, {sum(one.docs for one in done)} documents, {sum(one.requests for one in done)} requests")
    assert [(result.task, result.unexplained[0]) for result in done if result.unexplained] == []
    assert set(reasons) <= {LEAK, FAILS}
    assert len(done) >= 110


def test_a_changed_prompt_is_noticed(pairs: list[library.Pair]):
    [pair] = [pair for pair in pairs if pair.lm_eval == "piqa"]
    changed = pair.config.replace(doc_to_text="Goal: {{goal}}\nAnswer:")
    assert library.compare_pair(library.Pair(changed, "piqa"), 1).unexplained


def test_include_has_the_requests_of_lm_eval_on_rows_of_its_columns(lm_eval_tasks, tmp_path: Path):
    rows = [
        {
            "language": "German", "country": "Germany", "domain": "STEM", "subject": "Math", "level": "Academic",
            "regional_feature": "agnostic", "question": f" Was ist {number} + 1? ", "answer": number,
            "option_a": "1", "option_b": "2", "option_c": "3", "option_d": "4",
        }
        for number in range(4)
    ]  # fmt: skip
    for owner in ("CohereLabs", "CohereForAI"):
        file = tmp_path / owner / "include-base-44" / "German" / "test.jsonl"
        file.parent.mkdir(parents=True)
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    [config] = TaskManager().load("include_German@lm-eval")
    result = library.compare_pair(library.Pair(config, "include_base_44_german_stem"), 4, tmp_path)
    assert (result.docs, result.requests, result.unexplained) == (4, 16, [])

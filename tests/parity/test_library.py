"""The library's tasks in lm-eval's form give the requests that lm-eval's own tasks give, byte for byte."""

from __future__ import annotations

import collections

import pytest

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

"""Every task file of lm-eval loads and gives a prompt, or docs/lm-eval-tasks.md says why not."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from parity.found import task_files
from parity.made.every import Outcome, outcomes

pytestmark = [pytest.mark.parity, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

PAGE = Path(__file__).parents[2] / "docs" / "lm-eval-tasks.md"
TASKS = 13_093


def rows(name: str) -> list[list[str]]:
    """The cells of a table of the page, without its head."""
    table = re.search(rf"<!-- {name} -->\n(.*?)<!-- end -->", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert table is not None
    lines = table[1].strip().splitlines()[2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def folders(cell: str) -> Counter[str]:
    return Counter({name: int(number) for name, _, number in (part.rpartition(" ") for part in cell.split(", "))})


@pytest.fixture(scope="module")
def found(lm_eval_tasks: Path) -> list[Outcome]:
    return list(outcomes(task_files(lm_eval_tasks), lm_eval_tasks))


def of_kind(found: list[Outcome], kind: str) -> list[tuple[str, str]]:
    return [(one.path.partition("/")[0], one.error or "") for one in found if one.kind == kind]


def test_all_task_files_are_tried(found):
    assert len(found) == TASKS


def test_what_does_not_load_is_listed_with_its_reason(found):
    left = of_kind(found, "does not load")
    for _, where, says, _ in rows("does not load"):
        listed = folders(where)
        here = [one for one in left if one[0] in listed and says in one[1]]
        # Where the missing package is installed, the tasks load.
        assert not here or Counter(folder for folder, _ in here) == listed, says
        left = [one for one in left if one not in here]
    assert left == []


def test_at_least_95_of_100_tasks_give_a_prompt_and_the_rest_is_listed(found):
    assert sum(one.kind == "prompt" for one in found) >= 0.95 * TASKS
    without = Counter(folder for folder, _ in of_kind(found, "no prompt"))
    listed = sum((folders(where) for _, where, _ in rows("no prompt")), Counter())
    assert without - listed == Counter()


def test_the_numbers_of_the_tables_add_up():
    for name in ("does not load", "no prompt"):
        for number, where, *_ in rows(name):
            assert int(number) == folders(where).total()

"""Every task file of lm-eval loads and gives a prompt, or docs/lm-eval-tasks.md says why not."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import pytest

from multiform.tasks import functions
from tools.parity.found import task_files
from tools.parity.made.__main__ import Outcome, broken_groups, outcomes

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


def by_folder(paths: Iterable[str]) -> Counter[str]:
    return Counter(path.partition("/")[0] for path in paths)


def check_listed(errors: dict[str, str], table: str) -> None:
    """Each row of the table has exactly the files whose error says what the row says, and no file is left over."""
    left = dict(errors)
    for _, where, says, _ in rows(table):
        here = [path for path, error in left.items() if path.partition("/")[0] in folders(where) and says in error]
        # Where the missing package is installed, the tasks load.
        assert not here or by_folder(here) == folders(where), says
        for path in here:
            del left[path]
    assert left == {}


def test_all_task_files_are_tried(found):
    assert len(found) == TASKS


def test_every_task_file_loads(found):
    assert [one for one in found if one.kind == "does not load"] == []


def test_what_loads_only_with_stand_ins_is_listed_with_its_reason(found):
    check_listed({one.path: one.lacks for one in found if one.lacks}, "stand-ins")


def test_every_task_gives_a_prompt_but_for_those_listed(found):
    check_listed({one.path: one.error or "" for one in found if one.kind == "no prompt"}, "no prompt")


def test_the_numbers_of_the_tables_add_up():
    for name in ("stand-ins", "no prompt", "defects"):
        for number, where, *_ in rows(name):
            assert int(number) == folders(where).total()


# lm-eval's own defects


def defective(says: str) -> Counter[str]:
    [where] = [where for _, where, message, _ in rows("defects") if message == says]
    return folders(where)


def test_modules_that_libraries_dropped_are_listed(found, lm_eval_tasks):
    listed = defective("transformers.data.metrics")
    files = [file for name in listed for file in task_files(lm_eval_tasks / name)]
    with mock.patch.object(functions, "with_removed_modules", nullcontext), mock.patch.dict(sys.modules):
        for name in [
            name for name in sys.modules if name.startswith(("transformers.data.metrics", "_multiform_task_"))
        ]:
            del sys.modules[name]
        failed = [one for one in outcomes(files, lm_eval_tasks) if "transformers.data.metrics" in (one.lacks or "")]
    assert by_folder(one.path for one in failed) == listed
    lacking = {one.path for one in found if "load_metric" in (one.lacks or "")}
    assert by_folder(lacking) == defective("load_metric")


def test_data_files_on_a_machine_of_the_authors_are_listed(lm_eval_tasks):
    files = [file for file in task_files(lm_eval_tasks) if "/gpfs/" in str(file.file.data.get("dataset_kwargs"))]
    assert by_folder(str(file.path.relative_to(lm_eval_tasks)) for file in files) == defective("/gpfs/")


def test_groups_that_cannot_be_put_together_are_listed(lm_eval_tasks):
    errors = broken_groups(lm_eval_tasks)
    listed = {name.strip("`"): says for name, says, _ in rows("groups")}
    assert set(errors) == set(listed)
    assert [name for name, says in listed.items() if says not in errors[name]] == []

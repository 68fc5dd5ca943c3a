"""The bundled tasks in lm-eval's form (``task@lm-eval``), compared with lm-eval's own tasks.

python -m tools.parity.library 'arc*' --show 3
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from multiform import Task, TaskConfig, TaskManager
from multiform.errors import MultiformError
from multiform.imports import with_removed_modules
from multiform.paths import mirror_folders
from multiform.tasks.group import Group
from multiform.tasks.yaml import read_yaml
from tools import ROOT
from tools.parity import ours, standins, theirs
from tools.parity.compare import Compared, Setting, compared, together

SETTINGS = (Setting(0, chat=False), Setting(3, chat=False))
#: Why a task has no examples in the mirrors, which hold the first rows of a split.
_TOO_FEW_ROWS = ("no split", "documents to draw from")
MIRROR = Path(f"{ROOT.parent / 'shared' / 'rows'}:{ROOT.parent / 'shared' / 'data'}")


@dataclass(frozen=True, slots=True)
class Pair:
    """A task of the library in lm-eval's form, and the name of the same task in lm-eval."""

    config: TaskConfig
    lm_eval: str


def pairs(globs: Sequence[str] = ("*",), *, every: bool = False) -> Iterator[Pair]:
    """The tasks with a form of lm-eval; of the subsets of a dataset the first and the last, or all with `every`."""
    manager = TaskManager()
    names = [entry.name for entry in manager.index.entries.values() if entry.family is None]
    for name in sorted(names):
        if not any(fnmatch.fnmatchcase(name, glob) for glob in globs):
            continue
        if not _has_form(manager, name):
            continue
        [node] = manager.tree(f"{name}@lm-eval")
        configs = list(node.tasks()) if isinstance(node, Group) else [node]
        configs = [config for config in configs if has_rows(config)] or configs
        named = [(config, config.metadata.get("lm_eval", config.base_name)) for config in configs]
        shared = [Pair(config, name) for config, name in named if name in lm_eval_tasks()]
        yield from shared if every or len(shared) < 3 else (shared[0], shared[-1])


def _has_form(manager: TaskManager, name: str) -> bool:
    formats = read_yaml(manager.index.entries[name].path).data.get("formats")
    return isinstance(formats, dict) and "lm-eval" in formats


def has_rows(config: TaskConfig, mirror: Path = MIRROR) -> bool:
    """Whether a mirror has the evaluated split of the task."""
    split = config.test_split or config.validation_split
    folders = [
        folder / str(config.dataset_path) / (config.dataset_name or "default") for folder in mirror_folders(mirror)
    ]
    if not any((folder / f"{split}.jsonl").is_file() for folder in folders):
        return False
    if config.drop_docs is None:
        return True
    with suppress(MultiformError):
        return len(Task.from_config(config, dataset_mirror=mirror).eval_docs) > 0
    return False


def compare_pair(pair: Pair, docs: int, mirror: Path = MIRROR) -> Compared:
    """The comparison without examples and with three; a setting whose examples are in no mirror is left out."""
    with standins.installed(), with_removed_modules():
        folder, subset = lm_eval_tasks()[pair.lm_eval].path.parent, pair.config.dataset_name
        reference = theirs.load_tasks([pair.lm_eval], mirror, [folder], subset)[pair.lm_eval]
    parts = []
    for setting in SETTINGS:
        task = Task.from_config(pair.config, dataset_mirror=mirror)
        got = ours.requests_of(task, setting, docs, None)
        if got.error and setting.shots and any(reason in got.error for reason in _TOO_FEW_ROWS):
            continue
        parts.append(compared(pair.config.base_name, setting, theirs.built(reference, setting, docs, None), got))
    return together(parts)


@cache
def lm_eval_tasks() -> Mapping[str, Any]:
    """The definitions of lm-eval's tasks, by name."""
    return TaskManager("lm_eval", library=False).index.entries


def main() -> int:
    """Print a line for each task; 1 where requests differ."""
    from tools.parity.__main__ import report

    parser = argparse.ArgumentParser(prog="python -m tools.parity.library", description=__doc__)
    parser.add_argument("tasks", nargs="*", default=["*"], metavar="GLOB", help="names of tasks and groups")
    parser.add_argument("--docs", type=int, default=4, help="documents of each task (default: %(default)s)")
    parser.add_argument("--every", action="store_true", help="all subsets, not the first and the last alone")
    parser.add_argument("--show", type=int, default=2, metavar="N", help="print the texts of so many differences")
    options = parser.parse_args()
    done = []
    for pair in pairs(options.tasks, every=options.every):
        name = f"{pair.config.form_name} = {pair.lm_eval}"
        if not has_rows(pair.config):
            print(f"no rows   {name}")
            continue
        try:
            result = compare_pair(pair, options.docs)
        except Exception as error:  # noqa: BLE001 lm-eval and the task's code raise anything
            print(f"FAILS     {name}: {type(error).__name__}: {error}"[:300])
            continue
        done.append(result)
        print(f"{'DIFFERENT' if result.unexplained else 'equal    '} {name}", result.refused or "", flush=True)
    report(done, options.show)
    return 1 if any(one.unexplained for one in done) else 0


if __name__ == "__main__":
    sys.exit(main())

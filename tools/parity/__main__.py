"""The runner: compares task by task, prints a table and writes it as JSON."""

from __future__ import annotations

import argparse
import collections
import fnmatch
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import datasets

from multiform.paths import cache_root
from tools import ROOT, mirror_folder
from tools.parity import found, ours, standins, theirs
from tools.parity.compare import SETTINGS, Built, Compared, Difference, Setting, compared, together


def main() -> int:
    """Compare; 1 where a difference has no reason, 2 where there is nothing to compare."""
    parser = argparse.ArgumentParser(prog="python -m tools.parity", description=__doc__)
    parser.add_argument("tasks", nargs="*", default=["*"], metavar="GLOB", help="names of tasks (default: all)")
    parser.add_argument("--docs", type=int, default=50, help="documents of each task (default: %(default)s)")
    parser.add_argument("--sample", type=int, metavar="N", help="every so many-th task only")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print the texts of so many differences")
    parser.add_argument("--cache", type=Path, default=cache_root() / "parity", help="where lm-eval's requests are kept")
    parser.add_argument("--output", type=Path, default=ROOT / "out" / "parity.json", help="the table as JSON")
    options = parser.parse_args()
    datasets.disable_progress_bars()
    with standins.installed():
        return run(options)


def run(options: argparse.Namespace) -> int:
    """Compare the tasks that were asked for."""
    mirror = mirror_folder()
    if not mirror.is_dir():
        say(f"no benchmark rows at {mirror}: set MULTIFORM_DATASET_MIRROR")
        return 2
    tasks = [task for task in found.mirrored(found.task_folder(), mirror) if _wanted(task.name, options.tasks)]
    tasks = tasks[:: options.sample or 1]
    if not tasks:
        say("no task of that name has its rows in the mirror")
        return 2
    say(f"{len(tasks)} tasks, {options.docs} documents each, {len(SETTINGS)} settings")
    started, spoken = time.monotonic(), 0.0
    done: list[Compared] = []
    for task in tasks:
        done.append(compare_task(task, mirror, options.docs, options.cache))
        if done[-1].unexplained:
            say(f"{task.name}: {_summary(done[-1].unexplained)}")
        if time.monotonic() - spoken > 10:
            spoken = time.monotonic()
            say(f"{len(done)} of {len(tasks)} tasks, {spoken - started:.0f} s")
    report(done, options.show)
    _write(options.output, done, options.docs)
    say(f"{time.monotonic() - started:.0f} s; wrote {options.output}")
    return 1 if any(one.unexplained for one in done) else 0


def compare_task(task: found.TaskFile, mirror: Path, docs: int, cache: Path) -> Compared:
    """The comparison of one task in all settings."""
    rows = task.rows(mirror)
    assert rows is not None

    def make() -> dict[Setting, Built]:
        try:
            loaded = theirs.load_task(task.name, mirror)
        except Exception as error:  # noqa: BLE001 lm-eval and the task's code raise anything
            return dict.fromkeys(SETTINGS, Built(error=f"{type(error).__name__}: {error}"[:300]))
        return {setting: theirs.built(loaded, setting, docs, theirs.chat()) for setting in SETTINGS}

    expected = found.cached(cache, task, rows, [docs, theirs.tokenizer().chat_template], make)
    parts = []
    for setting in SETTINGS:
        got = ours.built(task.path, mirror, setting, docs, ours.chat())
        parts.append(compared(task.name, setting, expected[setting], got))
    return together(parts)


def report(done: list[Compared], shown: int = 0) -> None:
    """Print what was compared, the reasons, and the texts of the first differences."""
    equal = [one for one in done if not one.differences and not one.refused]
    print(f"\ntasks compared           {len(done)}")
    print(f"documents                {sum(one.docs for one in done):,}")
    print(f"requests                 {sum(one.requests for one in done):,}")
    print(f"tasks without difference {len(equal)}")
    refused = collections.Counter(text for one in done for text in one.refused)
    for text, number in refused.most_common():
        print(f"  refused by both in {number} tasks: {text}")
    reasons = collections.Counter(d.reason for one in done for d in one.differences)
    for reason, number in reasons.most_common():
        tasks = sorted({one.task for one in done for d in one.differences if d.reason == reason})
        print(f"  {number} documents in {len(tasks)} tasks: {reason or 'NO REASON'}: {', '.join(tasks)[:200]}")
    for task, difference in [(one.task, d) for one in done for d in one.unexplained][:shown]:
        print(f"\n{task}, {difference.setting}, doc {difference.doc}, {difference.what}")
        print(f"  lm-eval   {_around(difference.theirs, difference.ours)!r}")
        print(f"  Multiform {_around(difference.ours, difference.theirs)!r}")


def _around(one: Any, other: Any) -> Any:
    """The part of a text that differs from the other one, with what stands around it."""
    if not isinstance(one, str) or not isinstance(other, str):
        return one
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return f"...{one[max(0, at - 60) : at + 100]}"


def _summary(differences: list[Difference]) -> str:
    kinds = collections.Counter(f"{d.setting}: {d.what}" for d in differences)
    return "; ".join(f"{number} x {kind}" for kind, number in kinds.most_common(3))


def _wanted(name: str, globs: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs)


def _write(path: Path, done: list[Compared], docs: int) -> None:
    content = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%S"),
        "docs": docs,
        "settings": [str(setting) for setting in SETTINGS],
        "unexplained": sum(len(one.unexplained) for one in done),
        "tasks": [asdict(one) for one in done],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def say(text: str) -> None:
    """Progress, apart from the table."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

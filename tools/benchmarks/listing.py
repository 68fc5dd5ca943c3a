"""Finding tasks among the thousands of files that come with lm-eval: to list them, and to run one."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.benchmarks.rows import Row, say
from tools.benchmarks.sides import Setting
from tools.benchmarks.startup import LM_EVAL, MULTIFORM

LISTED = (*MULTIFORM, "ls", "tasks", "--include_path", "lm_eval")
IMPORTED = ("-c", "from multiform.tasks.manager import TaskManager")
FOUND = ("-c", "from multiform.tasks.manager import TaskManager; TaskManager('lm_eval').targets('arc_easy')")
THEIRS_IMPORTED = ("-c", "from lm_eval.tasks import TaskManager")
THEIRS_FOUND = ("-c", "from lm_eval.tasks import TaskManager; TaskManager().match_tasks(['arc_easy'])")


def measure(setting: Setting) -> Iterator[Row]:
    """CPU time, of all processes, of listing all tasks and of finding one, with an index that is kept and without."""
    repeats = 3
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        cold = _cpu(setting, repeats, *LISTED, cache=cache, new=True)
        warm = _cpu(setting, repeats, *LISTED, cache=cache)
        find = _cpu(setting, repeats, *FOUND, cache=cache) - _cpu(setting, repeats, *IMPORTED, cache=cache)
    theirs = None if setting.short else _cpu(setting, 1, *LM_EVAL, "ls", "tasks")
    found = _cpu(setting, 1, *THEIRS_FOUND) - _cpu(setting, 1, *THEIRS_IMPORTED)
    yield from _rows("all of lm-eval's tasks", warm, theirs, needed=1.0)
    yield from _rows("the same, the first time", cold, theirs, needed=6.0)
    yield from _rows("finding one task to run", find, found, needed=0.5)


def _rows(case: str, ours: float, theirs: float | None, *, needed: float) -> Iterator[Row]:
    """Both sides where there are two, and our own limit."""
    if theirs is not None:
        yield Row(measure="listing", case=case, unit="s CPU", ours=ours, theirs=theirs)
    yield Row(measure="listing", case=case, unit="s CPU", ours=ours, needed=needed)


def _cpu(setting: Setting, repeats: int, *argv: str, cache: Path | None = None, new: bool = False) -> float:
    """The median of several times, with a cache that is new each time, or is there from before."""
    times = []
    for _ in range(repeats):
        if new and cache is not None:
            shutil.rmtree(cache, ignore_errors=True)
        times.append(setting.command(*argv, cache=cache))
    cpu, wall = (statistics.median(time[kind] for time in times) for kind in ("cpu", "wall"))
    say(f"{' '.join(argv)}: {cpu:.2f} s CPU, {wall:.2f} s wall")
    return cpu

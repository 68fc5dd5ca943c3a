"""What commands take: to start, to list tasks among the thousands of files of lm-eval, and to run again.

A run is measured to its first forward pass, beside transformers, which only loads the same model.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.benchmarks.sides import Setting
from tools.benchmarks.tables import Row, say

MULTIFORM = ("-m", "multiform.cli.main")
LM_EVAL = ("-m", "lm_eval")
SHOW = ("show", "examples/arc_easy.yaml@mcqa", "--doc", "0")
#: A run may take that many times as long to its first forward pass as transformers takes to load the model.
LOADING = 1.3
HEAVY = ("torch", "transformers", "datasets", "numpy", "scipy", "httpx")
LISTED = (*MULTIFORM, "ls", "tasks", "--include_path", "lm_eval")
IMPORTED = ("-c", "from multiform.tasks.manager import TaskManager")
FOUND = ("-c", "from multiform.tasks.manager import TaskManager; TaskManager('lm_eval').targets('arc_easy')")
THEIRS_IMPORTED = ("-c", "from lm_eval.tasks import TaskManager")
THEIRS_FOUND = ("-c", "from lm_eval.tasks import TaskManager; TaskManager().match_tasks(['arc_easy'])")
RUN = (*MULTIFORM, "run", "--tasks", "quiz@all", "--gen_kwargs", "max_gen_toks=8", "--batch_size", "8")


def measure_startup(setting: Setting) -> Iterator[Row]:
    """CPU time of --help, ls and show against lm-eval's way to the same; and that nothing is loaded without need."""
    repeats = 3 if setting.short else 5
    help_ours = _cpu(setting, repeats, *MULTIFORM, "--help")
    help_theirs = _cpu(setting, 1 if setting.short else 3, *LM_EVAL, "--help")
    yield Row(measure="start-up", case="--help", unit="s CPU", ours=help_ours, theirs=help_theirs)
    yield Row(measure="start-up", case="--help", unit="s CPU", ours=help_ours, needed=0.25)
    show = _cpu(setting, repeats, *MULTIFORM, *SHOW)
    yield Row(measure="start-up", case="show of one document", unit="s CPU", ours=show, needed=0.5)
    index = setting.run("prompt", "lm-eval", task="arc_easy")["process_cpu"]
    yield Row(measure="start-up", case="to the first prompt", unit="s CPU", ours=show, theirs=index)
    listing = _cpu(setting, repeats, *MULTIFORM, "ls", "tasks")
    yield Row(measure="start-up", case="ls tasks", unit="s CPU", ours=listing, needed=0.5)
    for argv in (("--help",), ("ls", "tasks"), SHOW):
        _loads_nothing_heavy(setting, *argv)
    yield from _first_pass(setting, repeats)


def _first_pass(setting: Setting, repeats: int) -> Iterator[Row]:
    """CPU time to the first forward pass by phase, of the first run with a model and of a later one."""
    runs: dict[str, list[dict[str, float]]] = {"transformers": [], "first run with a model": [], "later run": []}
    for _ in range(repeats):  # in turns
        with tempfile.TemporaryDirectory() as folder:
            setting.command(*MULTIFORM, "ls", "tasks", cache=Path(folder))  # the index of tasks is not a model's
            for name, found in runs.items():
                side = "transformers" if name == "transformers" else "multiform"
                found.append(setting.run("start", side, folder=folder)["phases"])
    theirs = statistics.median(phases["in all"] for phases in runs.pop("transformers"))
    for name, found in runs.items():
        ours = statistics.median(sum(phases.values()) for phases in found)
        say(f"{name}, to its first forward pass: {ours:.2f} s CPU; transformers loads the model in {theirs:.2f}")
        case, note = f"{name}, to its first forward pass", "against loading with transformers alone"
        measure, unit = "start-up", "s CPU"
        yield Row(measure=measure, case=case, unit=unit, ours=ours, theirs=theirs, needed=1 / LOADING, note=note)
        for phase in sorted({phase for phases in found for phase in phases}):
            seconds = statistics.median(phases.get(phase, 0.0) for phases in found)
            yield Row(measure=measure, case=f"  of it {phase}", unit=unit, ours=seconds)


def _loads_nothing_heavy(setting: Setting, *argv: str) -> None:
    code = (
        f"import sys; from multiform.cli.main import main; main({list(argv)!r});"
        f"found = [name for name in {HEAVY!r} if name in sys.modules];"
        "sys.exit(f'loads {found}' if found else 0)"
    )
    setting.command("-c", code)


def measure_listing(setting: Setting) -> Iterator[Row]:
    """CPU time, of all processes, of listing all tasks and of finding one, with an index that is kept and without."""
    repeats = 3
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        cold = _cpu(setting, repeats, *LISTED, cache=cache, new=True)
        warm = _cpu(setting, repeats, *LISTED, cache=cache)
        find = _cpu(setting, repeats, *FOUND, cache=cache) - _cpu(setting, repeats, *IMPORTED, cache=cache)
    theirs = None if setting.short else _cpu(setting, 1, *LM_EVAL, "ls", "tasks")
    found = _cpu(setting, 1, *THEIRS_FOUND) - _cpu(setting, 1, *THEIRS_IMPORTED)
    for case, ours, other, needed in (
        ("all of lm-eval's tasks", warm, theirs, 1.0),
        ("the same, the first time", cold, theirs, 6.0),
        ("finding one task to run", find, found, 0.5),
    ):
        if other is not None:
            yield Row(measure="listing", case=case, unit="s CPU", ours=ours, theirs=other)
        yield Row(measure="listing", case=case, unit="s CPU", ours=ours, needed=needed)


def measure_rerun(setting: Setting) -> Iterator[Row]:
    """Times of the first and the second run of one command, which finds every answer in the store."""
    limit = ("--limit", "4" if setting.short else "40")
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "answers.db"
        first, second = (setting.command(*RUN, *limit, store=store) for _ in range(2))
    say(f"a run {first['wall']:.1f} s, the same again {second['wall']:.2f} s")
    case = f"quiz@all, {limit[1]} docs"
    for unit, key in (("s CPU", "cpu"), ("s wall", "wall")):
        yield Row(measure="first run", case=case, unit=unit, ours=first[key])
        yield Row(measure="the same run again", case=case, unit=unit, ours=second[key], needed=3.0)


def _cpu(setting: Setting, repeats: int, *argv: str, cache: Path | None = None, new: bool = False) -> float:
    """The median of several CPU times, with a cache that is new each time, or is there from before."""
    times = []
    for _ in range(repeats):
        if new and cache is not None:
            shutil.rmtree(cache, ignore_errors=True)
        times.append(setting.command(*argv, cache=cache)["cpu"])
    say(f"{' '.join(argv)}: {statistics.median(times):.2f} s CPU")
    return statistics.median(times)

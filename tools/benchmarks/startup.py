"""Start-up: how long until a command says something, and whether it loads what it does not need.

A run is measured to its first forward pass, beside transformers, which only loads the same model.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.benchmarks.rows import Row, say
from tools.benchmarks.sides import Setting

MULTIFORM = ("-m", "multiform.cli.main")
LM_EVAL = ("-m", "lm_eval")
SHOW = ("show", "examples/arc_easy.yaml@mcqa", "--doc", "0")
#: A run may take that many times as long to its first forward pass as transformers takes to load the model.
LOADING = 1.3
HEAVY = ("torch", "transformers", "datasets", "numpy", "scipy", "httpx")


def measure(setting: Setting) -> Iterator[Row]:
    """CPU time of --help, ls and show against lm-eval's way to the same."""
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
    yield from _first_pass(setting, 3 if setting.short else 5)


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


def _cpu(setting: Setting, repeats: int, *argv: str) -> float:
    found = statistics.median(setting.command(*argv)["cpu"] for _ in range(repeats))
    say(f"{' '.join(argv)}: {found:.2f} s CPU")
    return found


def _loads_nothing_heavy(setting: Setting, *argv: str) -> None:
    code = (
        f"import sys; from multiform.cli.main import main; main({list(argv)!r});"
        f"found = [name for name in {HEAVY!r} if name in sys.modules];"
        "sys.exit(f'loads {found}' if found else 0)"
    )
    setting.command("-c", code)

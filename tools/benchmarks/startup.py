"""Start-up: how long until a command says something, and whether it loads what it does not need."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from tools.benchmarks.rows import Row, say
from tools.benchmarks.sides import Setting

MULTIFORM = ("-m", "multiform.cli.main")
LM_EVAL = ("-m", "lm_eval")
SHOW = ("show", "examples/arc_easy.yaml@mcqa", "--doc", "0")
HEAVY = ("torch", "transformers", "datasets", "numpy", "scipy")


def measure(setting: Setting) -> Iterator[Row]:
    """CPU time of --help, ls and show against lm-eval's way to the same."""
    repeats = 3 if setting.short else 7
    help_ours = _cpu(setting, repeats, *MULTIFORM, "--help")
    help_theirs = _cpu(setting, 1 if setting.short else 3, *LM_EVAL, "--help")
    yield Row(measure="start-up", case="--help", unit="s CPU", ours=help_ours, theirs=help_theirs)
    yield Row(measure="start-up", case="--help", unit="s CPU", ours=help_ours, needed=0.25)
    show = _cpu(setting, repeats, *MULTIFORM, *SHOW)
    yield Row(measure="start-up", case="show of one document", unit="s CPU", ours=show, needed=1.0)
    index = setting.run("prompt", "lm-eval", task="arc_easy")["process_cpu"]
    yield Row(measure="start-up", case="to the first prompt", unit="s CPU", ours=show, theirs=index)
    listing = _cpu(setting, repeats, *MULTIFORM, "ls", "tasks")
    yield Row(measure="start-up", case="ls tasks", unit="s CPU", ours=listing, needed=1.0)
    for argv in (("--help",), ("ls", "tasks"), SHOW):
        _loads_nothing_heavy(setting, *argv)


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

"""Running again: the second run of a command finds every answer in the store."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.benchmarks.rows import Row, say
from tools.benchmarks.sides import Setting

RUN = ("-m", "multiform.cli.main", "run", "--tasks", "quiz@all", "--gen_kwargs", "max_gen_toks=8", "--batch_size", "8")


def measure(setting: Setting) -> Iterator[Row]:
    """Wall time of the first and the second run of one command."""
    limit = ("--limit", "4" if setting.short else "40")
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "answers.db"
        first, second = (setting.command(*RUN, *limit, store=store) for _ in range(2))
    say(f"a run {first['wall']:.1f} s, the same again {second['wall']:.2f} s")
    case = f"quiz@all, {limit[1]} docs"
    for unit, key in (("s CPU", "cpu"), ("s wall", "wall")):
        yield Row(measure="first run", case=case, unit=unit, ours=first[key])
        yield Row(measure="the same run again", case=case, unit=unit, ours=second[key], needed=3.0)

"""The benchmarks judge fairly: what counts as equal, what has to be computed, when a figure is met."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.benchmarks.answering import differences, errors, tree_nodes
from tools.benchmarks.sides import take_turns
from tools.benchmarks.tables import Row

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[3]
ASKED = [["q1", " a"], ["q1", " b"], ["q2", " a"], ["q2", " b"]]
SCORED = [1, 1, 1, 2]
ANSWERS = [[-1.0, True], [-2.0, False], [-3.0, False], [-2.5, False]]


@pytest.mark.bundled
def test_every_second_to_the_first_pass_is_in_one_phase(tmp_path: Path) -> None:
    code = (
        "import sys, time; from tools.benchmarks.phases import to_first_pass, OTHER, PHASES\n"
        "from multiform.models.identity import converted_folder\n"
        "phases = to_first_pass(str(converted_folder()), sys.argv[1])\n"
        "assert set(PHASES) < set(phases) and OTHER in phases, phases\n"
        "assert {'import multiform', 'import torch, transformers'} < set(phases), phases\n"
        "assert 0 < sum(phases.values()) < time.process_time()"
    )
    converted = "from multiform.models.hf.model import bundled_folder; bundled_folder()"
    for argv in ([converted], [code, str(tmp_path)]):
        done = subprocess.run([sys.executable, "-c", *argv], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@given(st.lists(st.lists(st.integers(0, 2), max_size=6), max_size=12))
def test_the_tree_has_a_node_for_each_distinct_prefix(sequences: list[list[int]]) -> None:
    prefixes = {tuple(tokens[:end]) for tokens in sequences for end in range(1, len(tokens) + 1)}
    assert tree_nodes(sequences) == len(prefixes)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        (ANSWERS, 0),
        ([[-1.00009, True], [-2.0, False], [-3.0, False], [-2.50019, False]], 0),
        ([[-1.0002, True], [-2.0, False], [-3.0, False], [-2.5, False]], 1),
        ([[-1.0, False], [-2.0, False], [-3.0, False], [-2.5, False]], 1),
        ([[-1.0, True], [-2.0, False], [-2.4, False], [-2.5, False]], 2),
        ([[float("nan"), True], *ANSWERS[1:]], 1),
        (ANSWERS[:3], 1),
    ],
    ids=["equal", "near", "far", "flag", "pick", "nan", "missing"],
)
def test_sides_agree_but_for_rounding(changed: list[list[float]], found: int) -> None:
    assert len(differences(ASKED, changed, ANSWERS, SCORED)) == found


def test_errors_are_those_of_a_token() -> None:
    changed = [[-1.00002, True], *ANSWERS[1:3], [-2.5001, False]]
    assert errors(changed, ANSWERS, SCORED) == pytest.approx([2e-5, 0, 0, 5e-5])


def test_texts_agree_when_they_are_the_same() -> None:
    asked = [["q1", {"until": ["\n"]}], ["q2", {"until": ["\n"]}]]
    assert differences(asked, ["a", "b"], ["a", "b"], [0, 0]) == []
    assert differences(asked, ["a", "b"], ["a", "c"], [0, 0]) == ["text 1: 'b' != 'c'"]


@pytest.mark.parametrize(
    ("ours", "theirs", "needed", "met"),
    [
        (1.0, 4.0, 4.0, True),
        (1.0, 3.9, 4.0, False),
        (0.2, None, 0.25, True),
        (0.3, None, 0.25, False),
        (1, 2, None, None),
    ],
)
def test_a_figure_is_met_by_its_ratio_or_alone(
    ours: float, theirs: float | None, needed: float | None, met: bool | None
) -> None:
    assert Row(measure="m", case="c", unit="s", ours=ours, theirs=theirs, needed=needed).met is met


def test_without_rows_the_benchmarks_say_so_and_stop(tmp_path: Path) -> None:
    env = {**os.environ, "MULTIFORM_DATASET_MIRROR": str(tmp_path)}
    command = [sys.executable, "-m", "tools.benchmarks", "--short"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "set MULTIFORM_DATASET_MIRROR to a mirror that has cais/mmlu" in done.stderr


def test_processes_take_turns_to_their_end() -> None:
    code = "import time\nwhile time.process_time() < {}: pass"
    processes = {
        name: subprocess.Popen([sys.executable, "-c", code.format(seconds)])
        for name, seconds in (("short", 0.1), ("long", 0.4))
    }
    spells = take_turns(processes, {"short": 0.02, "long": 0.05})
    assert [process.returncode for process in processes.values()] == [0, 0]
    every = sorted(spell for those in spells.values() for spell in those)
    assert all(first[1] <= second[0] for first, second in pairwise(every))
    assert min(len(those) for those in spells.values()) > 1


def test_a_process_that_fails_ends_its_turns() -> None:
    processes = {"one": subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])}
    take_turns(processes, {"one": 1.0})
    assert processes["one"].returncode == 3

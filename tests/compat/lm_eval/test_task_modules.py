"""Every name that lm-eval's own task modules import from lm_eval is answered."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from multiform.imports import import_provided, is_provided
from multiform.imports import lm_eval_finder as finder

from .conftest import blocker, needs_lm_eval

pytestmark = [needs_lm_eval, pytest.mark.parity]

#: Modules of each kind, whose own imports are installed with lm-eval.
LOADED = [
    "afrimmlu/direct/prompt_1/utils.py",
    "arab_culture/utils_mcq.py",
    "bbh/zeroshot/utils.py",
    "darija_bench/darija_sentiment/utils.py",
    "kormedmcqa/utils.py",
    "leaderboard/ifeval/utils.py",
    "mmlu_prox/af/utils.py",
    "ruler/fwe_utils.py",
    "score/math/utils_math.py",
    "squadv2/task.py",
    "super_glue/record/t5_utils.py",
    "unitxt/task.py",
]


@pytest.fixture(scope="module")
def tasks() -> Path:
    folder = finder.real_folder()
    assert folder is not None
    return folder / "tasks"


def imported(tasks: Path) -> dict[tuple[str, str], list[str]]:
    """What the modules below the task folders import from lm_eval, with the files that do; not lm-eval's own code."""
    found: dict[tuple[str, str], list[str]] = {}
    for file in sorted(tasks.glob("*/**/*.py")):
        source = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if "lm_eval" in source else ():
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "lm_eval":
                for name in node.names:
                    found.setdefault((str(node.module), name.name), []).append(str(file.relative_to(tasks)))
    return found


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of escapes in these files
def test_every_name_is_answered(tasks):
    names = imported(tasks)
    assert len(names) > 40
    missing = []
    for (module, name), files in names.items():
        below = module.removeprefix("lm_eval.tasks").strip(".").split(".")
        if module.startswith("lm_eval.tasks.") and tasks.joinpath(*below).exists():
            continue  # a folder, whose files are found
        if module.startswith("lm_eval.tasks.") and tasks.joinpath(*below).with_suffix(".py").is_file():
            continue
        if not is_provided(module) or not hasattr(import_provided(module), name):
            missing.append((module, name, files[:2]))
    assert not missing


def test_modules_load_from_a_copy_where_lm_eval_is_not_installed(tasks, tmp_path):
    copy = tmp_path / "copy"
    for name in LOADED:
        shutil.copytree(tasks / name.partition("/")[0], copy / name.partition("/")[0], dirs_exist_ok=True)
    shutil.copytree(tasks / "ifeval", copy / "ifeval")
    code = (
        "import sys\nfrom pathlib import Path\nfrom multiform.tasks.functions import load_module\n"
        "for name in sys.argv[2:]:\n    print(load_module(Path(sys.argv[1]) / name).__name__)\n"
        "from importlib.util import find_spec\nprint('installed:', find_spec('lm_eval'))\n"
    )
    command = [sys.executable, "-c", code, str(copy), *LOADED]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(blocker(tmp_path)), "PATH": ""}
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= len(LOADED) + 1
    assert "installed: None" in done.stdout

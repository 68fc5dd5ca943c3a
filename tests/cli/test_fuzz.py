"""Real task files with random damage: every command ends with results or with messages, never with a traceback.

A short sample runs with the other tests; `make fuzz` runs 2,000 files. A case is made of its number alone, so that
`FUZZ_FIRST=123 FUZZ=1 pytest tests/cli/test_fuzz.py` repeats it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import shutil
import time
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT

FIRST = int(os.environ.get("FUZZ_FIRST", "0"))
CASES = range(FIRST, FIRST + int(os.environ.get("FUZZ", "25")))
#: Seconds of computation for a command.
MOST_SECONDS = 20
COMMANDS = ("validate task.yaml --limit 2", "show task.yaml", "run task.yaml --model dummy --limit 2 --no_cache")

#: Columns by the names that benchmarks have for them.
ROWS = [
    {
        "question": f"What is {i}?", "text": "Some text.", "sentence": "A b c.", "passage": "Once.", "premise": "P.",
        "hypothesis": "H.", "choices": {"text": ["x", "y"], "label": ["A", "B"]}, "options": ["x", "y", "z"],
        "answer": ["A", 1, "y"][i], "answerKey": "A", "label": i % 2, "target": "x", "context": "C.", "input": "I",
        "output": "O", "id": i, "idx": i, "image": None, "sol1": "a", "sol2": "b", "query": "Q?", "gold": [0],
    }
    for i in range(3)
]  # fmt: skip
VALUES = (
    "null", "true", "0", "-1", "1e999", ".nan", "9" * 400, "''", "' '", "[]", "{}", "[[]]", "[null]", "{null: null}",
    "{1: 2}", "[1, [2, [3]]]", "'{{'", "'{{ question'", "'{{ nope }}'", "'{% for %}'", "'{{ question|nope }}'",
    "'{{ [].append(1) }}'", "!function os.getcwd", "!function a.b", "!nope x", "&a [*a]", "*missing", "2024-13-45",
    "mcqa", "{mcqa: {labels: 1}}", "'a@b'", "'../x'", "\"\\0\"", "\"\\ud800\"", "'" + "x" * 5000 + "'", "é漢🙂",
    "multiple_choice", "generate_until", "loglikelihood", "loglikelihood_rolling", "question", "choices", "answer",
    "[{metric: acc}]", "[{metric: nope}]", "[{metric: acc, aggregation: 1}]", "[{name: f, filter: 1}]",
    "[{name: f, filter: [{function: regex, regex_pattern: '('}]}]", "{until: 1}", "{max_gen_toks: x}", "{sampler: x}",
)  # fmt: skip
KEYS = (
    "task", "dataset_path", "dataset_name", "test_split", "doc_to_text", "doc_to_choice", "doc_to_target", "formats",
    "output_type", "metric_list", "filter_list", "generation_kwargs", "fewshot_config", "num_fewshot", "repeats", "tag",
    "include", "description", "template", "perturbation", "scorer", "process_docs", "metadata", "group", "class",
)  # fmt: skip


@cache
def real_files() -> list[Path]:
    """Task files of ours and, where it is installed, of lm-eval, from small folders and without code."""
    folders = [ROOT / "examples", ROOT / "src" / "multiform" / "tasks" / "library"]
    spec = importlib.util.find_spec("lm_eval")
    if spec is not None and spec.origin is not None:
        folders.append(Path(spec.origin).parent / "tasks")
    files = [file for folder in folders for file in sorted(folder.rglob("*.yaml"))]
    small = {folder for folder in {file.parent for file in files} if sum(1 for _ in folder.iterdir()) < 40}
    return [file for file in files if file.parent in small and b"!function" not in file.read_bytes()]


def damaged(text: str, other: str, rng: random.Random) -> str:
    """The text with one piece of damage."""
    lines = text.splitlines() or [""]
    at = rng.randrange(len(lines))
    kind = rng.randrange(10)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(rng.randrange(len(lines)), lines[at])
    elif kind == 2:
        lines[at] = rng.choice(("  ", "    ", "\t", "- ")) + lines[at]
    elif kind in (3, 4, 5):
        lines[at] = re.sub(r"^(\s*[\w-]+:).*", lambda key: f"{key[1]} {rng.choice(VALUES)}", lines[at])
    elif kind == 6:
        lines[at] = re.sub(r"^(\s*)\w+:", lambda key: f"{key[1]}{rng.choice(KEYS)}:", lines[at])
    elif kind == 7:
        lines.append(f"{rng.choice(KEYS)}: {rng.choice(VALUES)}")
    elif kind == 8:
        place = rng.randrange(len(lines[at]) + 1)
        noise = rng.choice(("{{", "}}", "{%", "'", '"', "[", "]", ":", "\x07", "\ud7ff", "#", "&a ", "*a", "|", "\\"))
        lines[at] = lines[at][:place] + noise + lines[at][place:]
    else:
        others = other.splitlines() or [""]
        lines = lines[:at] + others[rng.randrange(len(others)) :]
    return "\n".join(lines) + "\n"


def case(number: int, folder: Path) -> str:
    """Write the damaged file of a number, with the files beside the real one; gives where it comes from."""
    rng = random.Random(number)
    files = real_files()
    file = rng.choice(files)
    for beside in file.parent.iterdir():
        if beside.is_file() and beside.stat().st_size < 1_000_000:
            shutil.copy(beside, folder)
    text = file.read_text(encoding="utf-8")
    if rng.random() < 0.8:  # data that is there, so that commands get further
        text = re.sub(r"^dataset_name:.*\n", "", text, flags=re.MULTILINE)
        text = re.sub(r"^dataset_path:.*", "dataset_path: rows.jsonl", text, flags=re.MULTILINE)
    for _ in range(rng.choice((1, 1, 2, 3, 5))):
        text = damaged(text, rng.choice(files).read_text(encoding="utf-8"), rng)
    (folder / "task.yaml").write_text(text, encoding="utf-8", errors="replace")
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return str(file)


@pytest.mark.parametrize("number", CASES)
def test_a_damaged_task_file_gives_results_or_messages(number, folder):
    name = case(number, folder.path)
    for command in COMMANDS:
        started = time.process_time()
        ran = folder.run(*command.split())
        shown = f"{name}, {command}\n{ran.out}{ran.err}"
        assert ran.code in (0, 1, 2), shown
        assert "Traceback" not in shown, shown
        assert "this is a bug" not in shown, shown
        assert ran.code == 0 or "error:" in shown, shown
        assert time.process_time() - started < MOST_SECONDS, shown

"""The prompts of every built-in format, byte for byte, as readable text files.

`golden/quiz` holds whole prompts of the bundled quiz. `golden/arc_easy` holds prompts of ARC-Easy in which
the dataset's own text is left out: «test 0 question» stands for the question of the first test document,
«train 17 choices 2» for the third choice of a training document. The marks are filled in from the rows.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from multiform.cli.main import main

GOLDEN = Path(__file__).parent / "golden"
FORMATS = ("mcqa", "cloze", "hybrid", "generate", "cot", "bpb")
CASES = [pytest.param(name, shots, id=f"{name}-{shots}shot") for name in FORMATS for shots in (0, 2)]


def filled(text: str, folder: Path) -> str:
    """The golden text with the marks replaced by the dataset's own text."""
    rows: dict[str, list[dict[str, object]]] = {}

    def value(match: re.Match[str]) -> str:
        split, index, field, choice = match[1], int(match[2]), match[3], match[4]
        if split not in rows:
            lines = (folder / f"{split}.jsonl").read_text(encoding="utf-8").split("\n")
            rows[split] = [json.loads(line) for line in lines if line]
        found = rows[split][index][field]
        return str(found["text"][int(choice)] if choice else found)  # type: ignore[index]

    return re.sub(r"«(\w+) (\d+) (\w+)(?: (\d+))?»", value, text)


@pytest.mark.parametrize(("name", "shots"), CASES)
def test_show_prints_the_golden_prompt_of_the_quiz(name, shots, capsys):
    assert main(["show", f"quiz@{name}", "--doc", "0:2", "--num_fewshot", str(shots)]) == 0
    assert capsys.readouterr().out == (GOLDEN / "quiz" / f"{name}_{shots}shot.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "shots"), CASES)
def test_show_prints_the_golden_prompt_of_arc_easy(name, shots, capsys, mirror, examples):
    task = f"{examples / 'arc_easy.yaml'}@{name}"
    assert main(["show", task, "--doc", "0:2", "--num_fewshot", str(shots), "--dataset_mirror", str(mirror)]) == 0
    golden = (GOLDEN / "arc_easy" / f"{name}_{shots}shot.txt").read_text(encoding="utf-8")
    assert capsys.readouterr().out == filled(golden, mirror / "allenai/ai2_arc/ARC-Easy")

"""BFCL: the questions of a category, joined with the right calls, which its repository has in files of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from multiform.errors import DataError
from multiform.tasks.datasets.files import read_rows
from multiform.tasks.datasets.hub import repository_file

REPO = "gorilla-llm/Berkeley-Function-Calling-Leaderboard"


def load(*, category: str, dataset_mirror: Path | None = None, **_: Any) -> dict[str, list[dict[str, Any]]]:
    """The questions with the right calls: none where no function fits, and `any` where some call is expected."""
    name = f"BFCL_v3_{category}.json"
    rows = read_rows(repository_file(REPO, name, dataset_mirror))
    if category.endswith("relevance"):
        calls: dict[str, Any] = dict.fromkeys((row["id"] for row in rows), [] if "irrelevance" in category else "any")
    else:
        answers = read_rows(repository_file(REPO, f"possible_answer/{name}", dataset_mirror))
        calls = {row["id"]: row["ground_truth"] for row in answers}
    missing = [row["id"] for row in rows if row["id"] not in calls]
    if missing:
        hint = "the repository may have changed: look at its files"
        raise DataError(f"no answer to {missing[0]} in possible_answer/{name}", where=REPO, hint=hint)
    return {
        "test": [{**row, "functions": json.dumps(row["function"]), "ground_truth": calls[row["id"]]} for row in rows]
    }

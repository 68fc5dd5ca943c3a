"""The prompts in a logged samples file, such as a model card has: of lm-eval, OLMES, HELM, lighteval or Meta."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from multiform.errors import UsageError

#: How many documents are read: a prompt with many examples may fit several formats, which others tell apart.
MOST_PROMPTS = 20
#: Where the records of samples have the prompt: keys and indexes from the record on.
_PLACES: tuple[tuple[str | int, ...], ...] = (
    ("arguments", "gen_args_0", "arg_0"),  # lm-eval
    ("arguments", 0, 0),  # lm-eval up to 0.4.2
    ("arguments", 0, "arg_0"),
    ("request", "context"),  # OLMES
    ("request", "prompt"),  # HELM
    ("input_final_prompts", 0),  # Meta
    ("full_prompt",),  # lighteval
    ("doc", "query"),
    ("prompt",),
    ("input",),
)


def logged_prompts(path: Path) -> list[str]:
    """The prompts of the first documents of a .jsonl or .json file; messages are joined by empty lines."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot be read: {error}", where=str(path), hint="give a text file") from error
    try:
        records = list(islice(_records(text), MOST_PROMPTS))
    except ValueError as error:
        raise UsageError(f"is no JSON: {error}", where=str(path), hint="paste one prompt into a .txt file") from error
    prompts = [prompt for record in records if (prompt := _prompt(record)) is not None]
    if not prompts:
        places = ", ".join(".".join(map(str, place)) for place in _PLACES)
        hint = f"a record has the prompt under one of {places}; or paste one into a .txt file"
        raise UsageError("no prompt in its first records", where=str(path), hint=hint)
    return prompts


def _records(text: str) -> Iterator[Any]:
    """The objects of a file: one in each line, a list of them, or those of HELM's `request_states`."""
    if not text.lstrip().startswith("[") and "\n{" in text.strip():
        yield from (json.loads(line) for line in text.splitlines() if line.strip())
        return
    content = json.loads(text)
    if isinstance(content, dict):
        content = content.get("request_states", [content])
    yield from content


def _prompt(record: Any) -> str | None:
    for place in _PLACES:
        value = record
        for key in place:
            if isinstance(value, dict):
                value = value.get(key)
            else:
                value = value[key] if isinstance(value, list) and isinstance(key, int) and len(value) > key else None
        if isinstance(value, str):
            return value
        if isinstance(value, list) and value and all(isinstance(item, dict) and "content" in item for item in value):
            return "\n\n".join(str(item["content"]) for item in value)
    return None

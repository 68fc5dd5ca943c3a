"""`multiform formats infer`: what a format would work on in a task that was written without formats."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiform.config import TaskConfig
    from multiform.formats.infer import Recovered, Refused

_HOW = {
    "given": "the task gives formats: its fields are used as they are",
    "raw": "the fields are raw already",
    "template": "recovered from the template",
    "documents": "read back out of each document's prompt, where that is certain",
    "refused": "refused under a format",
}


def print_inferred(names: Sequence[str], include_path: Any, *, as_json: bool) -> int:
    """Print what was found, once for all tasks of which the same was found."""
    from multiform.catalog import TaskManager

    found: dict[str, dict[str, Any]] = {}
    bare = [name.rpartition("@")[0] if "@" in name else name for name in names]
    for config in TaskManager(include_path).load(bare):
        one = _described(config)
        key = json.dumps({**one, "where": None}, sort_keys=True)
        found.setdefault(key, {"tasks": [], **one})["tasks"].append(config.base_name)
    every = list(found.values())
    if as_json:
        print(json.dumps(every, indent=2, ensure_ascii=False))
        return 0
    for one in every:
        _print(one)
    return 0


def _described(config: TaskConfig) -> dict[str, Any]:
    """What there is to say about one task."""
    from multiform.config.recovered import inferred
    from multiform.formats import supported_formats
    from multiform.formats.infer import Refused, shown

    found = None if config.formats is not None else inferred(_fields(config))
    if isinstance(found, Refused):
        return {"how": "refused", **_refused(config, found)}
    raw = config.prompt if found is None else found.mapping
    fields = {"question": raw.question, "choices": raw.choices, "answer": raw.answer}
    return {
        "how": "given" if found is None else found.how,
        **{name: shown(spec) for name, spec in fields.items() if spec is not None},
        "left_out": list(_left_out(found)),
        "formats": supported_formats(config.formats, raw),
        "where": config.where("doc_to_text"),
    }


def _fields(config: TaskConfig) -> dict[str, Any]:
    """The fields of the task as its file gives them."""
    return {
        "doc_to_text": config.prompt.question,
        "doc_to_choice": config.prompt.choices,
        "doc_to_target": config.prompt.answer,
        "output_type": config.output_type,
        "process_docs": config.process_docs,
    }


def _refused(config: TaskConfig, found: Refused) -> dict[str, Any]:
    return {"reason": found.reason, "what": found.what, "hint": found.hint, "where": config.where(found.key)}


def _left_out(found: Recovered | None) -> tuple[str, ...]:
    return () if found is None else found.left_out


def _print(one: dict[str, Any]) -> None:
    tasks = one["tasks"]
    more = f" and {len(tasks) - 1} more" if len(tasks) > 1 else ""
    print(f"=== {tasks[0]}{more} · {_HOW[one['how']]}")
    if one["how"] == "refused":
        print(f"{one['where']}: {one['what']}; {one['hint']}\n")
        return
    for name in ("question", "choices", "answer"):
        if name in one:
            written = one[name].replace("\n", "\\n")
            print(f"{name:<9} {written}")
    if one["left_out"]:
        print(f"left out  {', '.join(map(repr, one['left_out']))}")
    print(f"formats   {', '.join(one['formats'])}\n")

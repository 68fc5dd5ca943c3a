"""The command that reproduces the results of a run, or goes on with it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from multiform.results.results import Results

_SEEDS = ("random", "numpy", "torch", "fewshot")


def command(results: Results) -> str | None:
    """The command that reproduces the results; None where Multiform did not write them, or the tasks have no name.

    Older files do not record the options; there, the names of the forms and the known options are used.
    """
    if "multiform_version" not in results.provenance:
        return None
    run = results.run
    recorded = run.get("arguments")
    if recorded is None:
        chat = {"apply_chat_template": True} if results.provenance.get("chat_template") else {}
        recorded = {"tasks": _names(results), **chat}
    if not recorded.get("tasks"):
        return None
    named = {
        "model": run.get("model"),
        "model_args": arguments_text(run.get("model_args")),
        "num_fewshot": run.get("num_fewshot"),
        "limit": _number(run.get("limit")),
        "samples": json.dumps(run["samples"]) if run.get("samples") else None,
        "gen_kwargs": arguments_text(run.get("gen_kwargs")),
        "batch_size": run.get("batch_size"),
        "device": run.get("device"),
        "seed": ",".join(str(run.get(f"{name}_seed")) for name in _SEEDS),
    }
    options = {name: value for name, value in recorded.items() if name != "tasks"}
    words = ["multiform", "run", "--tasks", *recorded["tasks"]]
    for name, value in (named | options).items():
        words += _words(f"--{name}", value)
    return shlex.join(words)


def arguments_text(value: Any) -> str:
    """Arguments of a model or of generation as the command line takes them."""
    if not isinstance(value, Mapping):
        return str(value or "")
    plain = all(isinstance(part, str | int | float) and "," not in str(part) for part in value.values())
    return ",".join(f"{name}={part}" for name, part in value.items()) if plain else json.dumps(dict(value))


def _words(flag: str, value: Any) -> list[str]:
    if value is None or value == "":
        return []
    if isinstance(value, bool):
        return [flag] if value else [flag, "false"]
    if isinstance(value, Mapping):
        return [flag, arguments_text(value)]
    if isinstance(value, list | tuple):
        words = list(map(str, value))
        return [word for part in words for word in (flag, part)] if flag == "--include_path" else [flag, *words]
    return [flag, str(value)]


def _number(limit: Any) -> Any:
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit


def _names(results: Results) -> list[str]:
    """The outermost groups, and the forms that are in none."""
    inside = {name for group in results.groups for name in group.members}
    groups = [group.name for group in results.groups if group.depth == 0]
    return [*groups, *(form.name for form in results.forms if form.name not in inside)]

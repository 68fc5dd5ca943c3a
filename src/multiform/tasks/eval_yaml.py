"""`hf/ORG/DATASET`: the tasks that a dataset declares in its own `eval.yaml`, as keys of task files.

    tasks:
      - split: test
        field_spec: {input: question, target: answer, choices: options}

The file says what is asked; the prompt is left to formats. What cannot be honoured is refused or logged.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from multiform.errors import ConfigError, UsageError, excerpt, nearest
from multiform.paths import is_file, mirror_folders
from multiform.schema import check_keys, has_type
from multiform.tasks.datasets.hub import hub_file
from multiform.tasks.keys import FilePosition, KeyPath, Source, StatedKeys
from multiform.tasks.yaml import read_own

PREFIX = "hf/"
FILE = "eval.yaml"
logger = logging.getLogger("multiform")

_KEYS = ("id", "config", "split", "field_spec", "shuffle_choices", "epochs", "epoch_reducer", "solvers", "scorers")
_FIELDS = ("input", "target", "choices", "input_image", "id", "metadata")
#: Solvers that write a prompt, which a format does here; those without a text of their own lose nothing.
_PROMPTS = ("prompt_template", "system_message", "user_message")
_PLAIN_SOLVERS = ("chain_of_thought", "generate", "multiple_choice")
_SCORERS = ("choice", "match", "answer", "includes", "exact", "f1", "pattern", "model_graded_qa", "model_graded_fact",
            "math")  # fmt: skip
_REDUCTIONS = {"mean": "mean", "max": "max", "mode": "majority_vote"}
_CHOICE_FORMATS = ("mcqa", "cloze", "hybrid", "generate", "cot")
_EXACT = {"metric": "exact_match", "ignore_case": True, "ignore_punctuation": True}
#: The format of a short answer that is generated.
SHORT_ANSWER = {
    "type": "cloze",
    "scored": "generation",
    "generation_kwargs": {"until": ["\n"], "max_gen_toks": 64},
    "metric_list": [_EXACT],
}


@dataclass(frozen=True, slots=True)
class DeclaredTask:
    """What an `eval.yaml` states of a task, and whether its choices are to be shuffled."""

    path: Path
    stated: StatedKeys
    shuffled: bool = False


def declared_tasks(spec: str, mirror: Path | None = None) -> list[DeclaredTask]:
    """The tasks of ``hf/ORG/DATASET``, or the one of ``hf/ORG/DATASET/ID``.

    The file is looked for in the mirrors, then in a local folder of that name, then on the hub.
    """
    repo, identifier = _repository(spec, mirror)
    path = _local(repo, mirror)
    revision = None
    if path is None:
        path = hub_file(repo, FILE, mirror)
        revision = path.parent.name if path.parent.parent.name == "snapshots" else None
    file = read_own(path)
    data, source = file.data, file.source or Source(path)
    entries = data.get("tasks", [data])  # a file with one task needs no list
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        place = f"{source.at('tasks')}: tasks"
        raise ConfigError("expected a list of tasks", where=place, hint="write - field_spec: ... for each")
    tasks = []
    for index, entry in enumerate(entries):
        name = f"{PREFIX}{repo}/{entry['id']}" if len(entries) > 1 and "id" in entry else f"{PREFIX}{repo}"
        at = ("tasks", index) if "tasks" in data else ()
        if len(entries) > 1 and "id" not in entry:
            raise ConfigError("one of several tasks has no id", where=str(source.at(*at)), hint="give each task an id")
        if identifier in (None, str(entry.get("id"))):
            tasks.append(_Translation(entry, at, source, name).task(repo, revision))
    if not tasks:
        known = [str(entry.get("id")) for entry in entries]
        raise UsageError(f"no task '{identifier}' in its {FILE}", where=spec, hint=nearest(str(identifier), known))
    return tasks


def _repository(spec: str, mirror: Path | None) -> tuple[str, str | None]:
    """The dataset, and the id of one of its tasks."""
    name = spec.removeprefix(PREFIX).rstrip("/")
    if _local(name, mirror):
        return name, None
    parts = name.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        hint = "write hf/ORG/DATASET, or hf/ORG/DATASET/ID for one of its tasks"
        raise UsageError("not the name of a dataset", where=spec, hint=hint)
    return "/".join(parts[:2]), parts[2] if len(parts) == 3 else None


def _local(repo: str, mirror: Path | None) -> Path | None:
    folders = [*(mirror_folders(mirror) if mirror else ()), Path()]
    return next((path for folder in folders if is_file(path := folder / repo / FILE)), None)


class _Translation:
    """One entry of an `eval.yaml` on its way to the keys of a task file."""

    def __init__(self, entry: Mapping[str, Any], at: KeyPath, source: Source, name: str) -> None:
        self.entry, self.at, self.source, self.name = entry, at, source, name
        self.renamed: dict[str, str] = {}

    def task(self, repo: str, revision: str | None) -> DeclaredTask:
        entry = self.entry
        check_keys("a task of eval.yaml", _KEYS, entry, self.where)
        fields = entry.get("field_spec")
        if not isinstance(fields, dict) or "input" not in fields or "target" not in fields:
            hint = "write e.g. field_spec: {input: question, target: answer, choices: options}"
            raise ConfigError("field_spec needs input and target", where=self.where("field_spec"), hint=hint)
        check_keys("field_spec", _FIELDS, fields, partial(self.where, "field_spec"))
        has_choices = fields.get("choices") is not None
        keys: dict[str, Any] = {
            "task": self.name,
            "dataset_path": repo,
            "dataset_name": entry.get("config"),
            "dataset_kwargs": {} if revision is None else {"revision": revision},
            "test_split": entry.get("split", "test"),
            "doc_to_text": self.column("input"),
            "doc_to_target": self.target(fields["target"]),
            "doc_to_choice": self.choices(fields["choices"]) if has_choices else None,
            "doc_to_image": self.column("input_image") if "input_image" in fields else None,
            "formats": self.formats(has_choices),
            **self.repeats(),
        }
        keys["rename_columns"] = self.renamed or None
        shuffled = bool(entry.get("shuffle_choices")) and has_choices
        if entry.get("shuffle_choices") and not has_choices:
            raise ConfigError("there are no choices", where=self.where("shuffle_choices"), hint="remove the key")
        places = {"doc_to_text": "input", "doc_to_target": "target", "doc_to_choice": "choices"}
        source = self.source.under(*self.at)
        positions: dict[KeyPath, FilePosition] = {(key,): source.at("field_spec", places[key]) for key in places}
        positions[("test_split",)] = source.at("split")
        stated = {key: value for key, value in keys.items() if value is not None and value != {}}
        path = self.source.file
        return DeclaredTask(path, StatedKeys(stated, Source(path, positions, self.source.notes)), shuffled)

    def where(self, *path: str | int) -> str:
        key = ".".join(map(str, path))
        return f"{self.source.at(*self.at, *path)}: {key}" if key else str(self.source.at(*self.at))

    def column(self, field: str) -> str:
        return self._name(self.entry["field_spec"][field], "field_spec", field)

    def _name(self, column: Any, *path: str | int) -> str:
        """A column's name, or the one that it gets if it could not stand in a template."""
        if not isinstance(column, str) or not column:
            raise ConfigError(f"expected a column, got {excerpt(column)}", where=self.where(*path), hint="name one")
        if column.isidentifier():
            return column
        return self.renamed.setdefault(column, re.sub(r"\W+", "_", f"column {column}"))

    def target(self, target: Any) -> str:
        if isinstance(target, str) and target.startswith("literal:"):
            return "{{" + repr(target.removeprefix("literal:")) + "}}"
        return self._name(target, "field_spec", "target")

    def choices(self, choices: Any) -> str:
        if not isinstance(choices, list):
            return self._name(choices, "field_spec", "choices")
        names = [self._name(name, "field_spec", "choices", index) for index, name in enumerate(choices)]
        return "{{[" + ", ".join(names) + "]}}"

    def formats(self, has_choices: bool) -> dict[str, Any]:
        """The formats, that of the declared solvers first; with a note for each text that formats do not use."""
        solvers, scorers = self._entries_by_name("solvers"), self._entries_by_name("scorers")
        for name, arguments in solvers.items():
            if name not in (*_PROMPTS, *_PLAIN_SOLVERS):
                message = f"solver '{name}' is not supported: a model is asked once, and has no tools"
                raise ConfigError(message, where=self.where("solvers"), hint="write a task file of your own")
            if name in _PROMPTS or arguments.keys() - {"cot"}:
                self._note("solvers", f"the prompt of solver '{name}' is not used, as formats write the prompts")
        reasons = "chain_of_thought" in solvers or bool(solvers.get("multiple_choice", {}).get("cot"))
        for name in scorers:
            if name not in _SCORERS:
                raise ConfigError(f"no scorer '{name}'", where=self.where("scorers"), hint=nearest(name, _SCORERS))
        if has_choices:
            for name in (name for name in scorers if name != "choice"):
                self._note("scorers", f"scorer '{name}' is not used: with choices, each format scores the choice")
            names = sorted(_CHOICE_FORMATS, key=lambda name: name != "cot") if reasons else _CHOICE_FORMATS
            return dict.fromkeys(names)
        if "choice" in scorers:
            raise ConfigError("scorer 'choice' needs choices", where=self.where("scorers"), hint="add them")
        return self._open_formats(scorers, reasons=reasons)

    def _open_formats(self, scorers: Mapping[str, Mapping[str, Any]], *, reasons: bool) -> dict[str, Any]:
        cot: dict[str, Any] = {}
        for name, arguments in scorers.items():
            if name.startswith("model_graded"):
                wish = {"judge_model": arguments["model"]} if isinstance(arguments.get("model"), str) else {}
                cot["scorer"] = {"type": "ai_judge", "kwargs": {"question": self.column("input"), **wish}}
                arguments = {key: value for key, value in arguments.items() if key != "model"}
            elif name == "pattern" and isinstance(arguments.get("pattern"), str):
                cot["scorer"] = {"type": "regex", "kwargs": {"regex_pattern": arguments["pattern"]}}
                arguments = {key: value for key, value in arguments.items() if key != "pattern"}
            elif name == "math":
                cot["scorer"] = "math_verify"
            elif name != "exact":
                self._note("scorers", f"scorer '{name}' is replaced by the format's: its final answer is compared")
            if arguments:
                self._note("scorers", f"arguments of scorer '{name}' are not used: {', '.join(arguments)}")
        table = {"cot": cot or None, "short": SHORT_ANSWER}
        return table if reasons or cot else {"short": SHORT_ANSWER, "cot": None}

    def repeats(self) -> dict[str, Any]:
        """The keys of several epochs; formats that generate reduce them as the file says."""
        epochs, reducer = self.entry.get("epochs", 1), self.entry.get("epoch_reducer", "mean")
        if not isinstance(epochs, int) or isinstance(epochs, bool) or epochs < 1:
            message = f"expected a number of 1 or more, got {excerpt(epochs)}"
            raise ConfigError(message, where=self.where("epochs"), hint="remove the key")
        if epochs == 1:
            return {}
        pass_at = re.fullmatch(r"pass_at_(\d+)", str(reducer))
        reduction = f"pass@{pass_at[1]}" if pass_at else _REDUCTIONS.get(str(reducer))
        if reduction is None:
            known = f"{', '.join(_REDUCTIONS)} or pass_at_4"
            hint = f"use {known}"
            raise ConfigError(f"no reduction '{reducer}' of epochs", where=self.where("epoch_reducer"), hint=hint)
        graded = any(name.startswith("model_graded") for name in self._entries_by_name("scorers"))
        metric = {"metric": "judge"} if graded else dict(_EXACT)
        return {"repeats": epochs, "metric_list": [{**metric, "reduction": reduction}]}

    def _entries_by_name(self, key: str) -> dict[str, dict[str, Any]]:
        """Solvers or scorers by name, with their arguments."""
        entries = self.entry.get(key) or []
        named = {}
        for index, item in enumerate(entries if isinstance(entries, list) else [entries]):
            item = {"name": item} if isinstance(item, str) else item
            if not isinstance(item, dict) or not isinstance(item.get("name"), str):
                message = f"expected a name, got {excerpt(item)}"
                raise ConfigError(message, where=self.where(key, index), hint="write e.g. - name: choice")
            check_keys(key, ("name", "args"), item, partial(self.where, key, index))
            arguments = item.get("args") or {}
            if not has_type(arguments, dict[str, Any]):
                place, hint = self.where(key, index, "args"), "write e.g. args: {cot: true}"
                raise ConfigError(f"expected arguments by name, got {excerpt(arguments)}", where=place, hint=hint)
            named[item["name"]] = arguments
        return named

    def _note(self, key: str, text: str) -> None:
        logger.warning("%s: %s", self.where(key), text)

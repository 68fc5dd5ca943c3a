"""`multiform new`: write a task file for a dataset, from its columns."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiform.cli import options as flags
from multiform.cli.parser import command, flag
from multiform.errors import MultiformError, UsageError, list_first
from multiform.run.values import SOURCES

if TYPE_CHECKING:
    from multiform.tasks.datasets.files import Dataset
    from multiform.tasks.guess import Guess

#: How many rows of a split are looked at.
_ROWS = 500
_EVALUATED = ("test", "validation", "val", "dev", "testmini")
_SHOTS = ("train", "dev", "validation", "val")
_OPEN = {
    "short": {
        "type": "cloze",
        "scored": "generation",
        "generation_kwargs": {"until": ["\n"], "max_gen_toks": 64},
        "metric_list": [{"metric": "exact_match", "ignore_case": True, "ignore_punctuation": True}],
    },
    "cot": None,
}


@command(
    "write a task file for a dataset, from its columns",
    flag("dataset", "a dataset of the hub or a mirror, or a data file", metavar="ORG/DATASET|FILE"),
    flag("--dataset_name", "the configuration of a dataset that has several", metavar="NAME"),
    flag("--revision", "the revision of a dataset of the hub (default: main)", metavar="COMMIT"),
    flag("--output -o", "write it there instead of to standard output", metavar="FILE"),
    flags.option_groups(SOURCES),
    description="Look at the columns of a dataset and write a task file. A comment marks each guess.",
    examples="""\
examples:
  multiform new my_questions.jsonl --output my_task.yaml
  multiform new org/dataset --dataset_name german --output task.yaml
  multiform new org/dataset --dataset_mirror data

Look at the comments of the file, then at its prompts: multiform validate task.yaml@all, multiform show task.yaml
""",
)
def new(options: argparse.Namespace) -> None:
    """Write the task file; what could not be guessed is an error."""
    from multiform.paths import is_file, replace_output

    output = None if options.output is None else Path(options.output)
    if output is not None and output.exists():
        raise UsageError("the file exists", where=options.output, hint="choose another name, or remove it first")
    text = task_text(options.dataset, options.dataset_name, options.dataset_mirror, options.revision, output)
    if output is None:
        print(text, end="")
        return
    with replace_output(output) as partial:
        partial.write_text(text, encoding="utf-8")
    mirror = "" if is_file(Path(options.dataset)) or not options.dataset_mirror else " with the same --dataset_mirror"
    print(f"{options.output}: look at its comments, then run 'multiform validate {options.output}@all'{mirror}")


def task_text(
    dataset: str,
    name: str | None = None,
    dataset_mirror: Any = None,
    revision: str | None = None,
    output: Path | None = None,
) -> str:
    """The text of a task file for a dataset."""
    from multiform.paths import is_file, mirror_path
    from multiform.tasks.config import TaskConfig
    from multiform.tasks.datasets.documents import load_dataset
    from multiform.tasks.guess import guess_mapping

    mirror = mirror_path(dataset_mirror)
    is_local = is_file(Path(dataset))
    name = name or (None if is_local else _only_name(dataset, mirror))
    pinned: dict[str, Any] = {} if is_local else {"dataset_kwargs": {"revision": revision or "main"}}
    # Task files name data files relative to themselves.
    path = os.path.relpath(dataset, output.parent) if is_local and output is not None else dataset
    config = TaskConfig(task="new", dataset_path=dataset, dataset_name=name, test_split="test", **pinned)
    try:
        splits = load_dataset(config, mirror)
    except MultiformError as error:
        raise error.relocate(dataset) from error
    evaluated = _split_to_evaluate(splits)
    guess: Guess = guess_mapping(splits[evaluated][:_ROWS])
    if "doc_to_text" not in guess.keys or "doc_to_target" not in guess.keys:
        part = "question" if "doc_to_text" not in guess.keys else "answer"
        columns = ", ".join(splits[evaluated][0])
        hint = f"write the task file yourself (multiform docs tasks); the columns are {columns}"
        raise UsageError(f"no column looks like the {part}", where=dataset, hint=hint)
    shots = next((split for split in _SHOTS if split in list(splits) and split != evaluated), None)
    task = re.sub(r"\W+", "_", f"{Path(dataset).stem if is_local else dataset.rpartition('/')[2]}_{name or ''}")
    formats: Any = dict.fromkeys(("mcqa", "cloze")) if "doc_to_choice" in guess.keys else _OPEN
    keys: dict[str, Any] = {"task": task.strip("_").lower(), "dataset_path": path, "dataset_name": name, **pinned}
    keys |= {"test_split": evaluated, "fewshot_split": shots, **guess.keys, "formats": formats}
    return _yaml_with_comments(
        {key: value for key, value in keys.items() if value is not None}, guess.comments, revision
    )


def _only_name(dataset: str, mirror: Path | None) -> str | None:
    """The one configuration that the mirrors have of a dataset; `default` needs no name."""
    from multiform.paths import is_dir, mirror_folders

    roots = [folder / dataset for folder in (mirror_folders(mirror) if mirror else ()) if is_dir(folder / dataset)]
    names = sorted({path.name for root in roots for path in root.iterdir() if path.is_dir()})
    if not names or "default" in names:
        return None
    if len(names) > 1:
        hint = f"name one by --dataset_name: {list_first(names, 20)}"
        raise UsageError("it has several configurations", where=dataset, hint=hint)
    return names[0]


def _split_to_evaluate(splits: Dataset) -> str:
    """The split to evaluate: the first of the usual ones that has answers."""
    from multiform.tasks.guess import guess_mapping

    names = sorted(splits, key=lambda name: _EVALUATED.index(name) if name in _EVALUATED else len(_EVALUATED))
    rows = {name: splits[name][:_ROWS] for name in names if splits[name]}
    if not rows:
        raise UsageError("it has no rows", where=splits.name, hint="check the dataset")
    for name in rows:
        guess = guess_mapping(rows[name])
        if "doc_to_target" in guess.keys:
            return name
    return next(iter(rows))


def _yaml_with_comments(keys: dict[str, Any], comments: dict[str, str], revision: str | None) -> str:
    """The YAML of the keys, each with its comment."""
    from multiform.cli.formats import yaml_text

    if revision is None and "dataset_kwargs" in keys:
        comments = {**comments, "dataset_kwargs": "pin a commit here, so that the rows stay the same"}
    lines = ["# Written by 'multiform new': look at the comments, then at the prompts (multiform show).\n"]
    for key, value in keys.items():
        text = yaml_text({key: value})
        guessed = "" if key in ("task", "dataset_path", "dataset_name", "dataset_kwargs", "formats") else "guess"
        note = ": ".join(part for part in (guessed, comments.get(key, "")) if part)
        first, _, rest = text.partition("\n")
        lines.append(f"{first}{f'  # {note}' if note else ''}\n{rest}")
    return "".join(lines)

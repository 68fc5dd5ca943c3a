"""`multiform new`, `validate` and `lint`: begin a task, check tasks, and find what would spoil their scores."""

from __future__ import annotations

import argparse
import logging
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiform.cli import options as flags
from multiform.cli.parser import JSON, command, flag, print_result
from multiform.errors import MultiformError, UsageError, list_first, quantity
from multiform.run.values import SOURCES, count

if TYPE_CHECKING:
    from multiform.lint.findings import Finding
    from multiform.lint.forms import FormFindings
    from multiform.lint.tokens import Tokenizer
    from multiform.run.options import RunOptions
    from multiform.tasks.config import TaskConfig
    from multiform.tasks.datasets.files import Dataset
    from multiform.tasks.guess import Guess
    from multiform.tasks.manager import TaskManager

logger = logging.getLogger("multiform")

_NAMES = flag("names", "tasks, as for run --tasks", nargs="*", metavar="T[@F]")
#: How many rows of a split are looked at.
_ROWS = 500
_EVALUATED = ("test", "validation", "val", "dev", "testmini")
_SHOTS = ("train", "dev", "validation", "val")


@command(
    "write a task file for a dataset, from its columns",
    flag("dataset", "a dataset of the hub or a mirror, or a data file", metavar="ORG/DATASET|FILE"),
    flag("--dataset_name", "the configuration of a dataset that has several", metavar="NAME"),
    flag("--revision", "the revision of a dataset of the hub (default: main)", metavar="COMMIT"),
    flag("--output -o", "the file to write (default: standard output)", metavar="FILE"),
    flags.option("dataset_mirror"),
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
    command = f"multiform validate {shlex.quote(f'{options.output}@all')}"
    print(f"{options.output}: look at its comments, then run {command}{mirror}")


def task_text(
    dataset: str,
    name: str | None = None,
    dataset_mirror: Any = None,
    revision: str | None = None,
    output: Path | None = None,
) -> str:
    """The text of a task file for a dataset."""
    from multiform.fields import other_separator
    from multiform.paths import is_file, mirror_path
    from multiform.tasks.config import TaskConfig
    from multiform.tasks.datasets.documents import load_dataset
    from multiform.tasks.eval_yaml import SHORT_ANSWER
    from multiform.tasks.guess import guess_mapping

    mirror = mirror_path(dataset_mirror)
    is_local = is_file(Path(dataset))
    name = name or (None if is_local else _only_name(dataset, mirror))
    pinned: dict[str, Any] = {} if is_local else {"dataset_kwargs": {"revision": revision or "main"}}
    # Task files name data files relative to themselves.
    path = os.path.relpath(dataset, output.parent) if is_local and output is not None else dataset

    def load() -> Dataset:
        config = TaskConfig(task="new", dataset_path=dataset, dataset_name=name, test_split="test", **pinned)
        try:
            return load_dataset(config, mirror)
        except MultiformError as error:
            raise error.relocate(dataset) from error

    splits = load()
    evaluated = _split_to_evaluate(splits)
    if separator := other_separator(splits[evaluated][0]):
        pinned["dataset_kwargs"] = {"sep": separator}
        splits = load()
    guess: Guess = guess_mapping(splits[evaluated][:_ROWS])
    if separator:
        guess.comments["dataset_kwargs"] = "guess: what separates the columns"
    if "doc_to_text" not in guess.keys or "doc_to_target" not in guess.keys:
        part = "question" if "doc_to_text" not in guess.keys else "answer"
        columns = ", ".join(splits[evaluated][0])
        hint = f"write the task file yourself (multiform docs tasks); the columns are {columns}"
        raise UsageError(f"no column looks like the {part}", where=dataset, hint=hint)
    shots = next((split for split in _SHOTS if split in list(splits) and split != evaluated), None)
    if is_local:  # its rows are those of every split
        evaluated, shots = "test", None
    task = re.sub(r"\W+", "_", f"{Path(dataset).stem if is_local else dataset.rpartition('/')[2]}_{name or ''}")
    has_choices = "doc_to_choice" in guess.keys
    formats = dict.fromkeys(("mcqa", "cloze")) if has_choices else {"short": SHORT_ANSWER, "cot": None}
    keys: dict[str, Any] = {"task": task.strip("_").lower(), "dataset_path": path, "dataset_name": name, **pinned}
    question = {"doc_to_text": guess.keys["doc_to_text"]}  # which comes first
    keys |= {"test_split": evaluated, "fewshot_split": shots, **question, **guess.keys, "formats": formats}
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

    if revision is None and "revision" in keys.get("dataset_kwargs", {}):
        comments = {**comments, "dataset_kwargs": "pin a commit here, so that the rows stay the same"}
    lines = ["# Written by 'multiform new': look at the comments, then at the prompts (multiform show).\n"]
    for key, value in keys.items():
        text = yaml_text({key: value})
        guessed = "" if key in ("task", "dataset_path", "dataset_name", "dataset_kwargs", "formats") else "guess"
        note = ": ".join(part for part in (guessed, comments.get(key, "")) if part)
        first, _, rest = text.partition("\n")
        lines.append(f"{first}{f'  # {note}' if note else ''}\n{rest}")
    return "".join(lines)


@command(
    "check tasks: configuration, data, and prompts of real documents",
    _NAMES,
    flag("--tasks -t", "the same, under lm-eval's name", nargs="+", metavar="T[@F]", default=[]),
    flags.option("limit", default=100, help="documents to render (default: %(default)s)"),
    JSON,
    flags.option_groups("prompts", SOURCES),
    flags.no_code,
    examples="""\
examples:
  multiform validate my_task.yaml
  multiform validate my_task@all --include_path my_tasks --dataset_mirror data
  multiform validate my_task.yaml --limit 1000
""",
)
def validate(options: argparse.Namespace) -> int:
    """Check every form and print all errors; the exit code is 2 if there are any."""
    from multiform.tasks.manager import TaskManager

    names = _names([*options.names, *options.tasks], "validate")
    run = flags.run_options(options, tasks=names, limit=None)
    manager = TaskManager(run.include_path, design=run.design, dataset_mirror=run.dataset_mirror)
    logged: set[Finding] = set()
    checked = [row for name in names for row in _check(name, manager, run, options.limit, logged)]
    lines = (
        f"error: {row['error']}" if row["error"] else f"ok: {row['form']}: {quantity(row['docs'], 'document')} rendered"
        for row in checked
    )
    print_result(options, checked, dict.fromkeys(lines))  # all forms of a task may have one error
    return 2 if any(row["error"] for row in checked) else 0


def _names(specs: Sequence[str], command: str) -> list[str]:
    """The tasks that a command names, one by one."""
    from multiform.arguments import split_outside

    names = [name for spec in specs for name in split_outside(spec, ",")]
    if not names:
        raise UsageError("no tasks named", where=command, hint=f"name some, e.g. multiform {command} my_task.yaml")
    return names


def _check(
    name: str, manager: TaskManager, run: RunOptions, limit: float, logged: set[Finding]
) -> Iterator[dict[str, Any]]:
    """A row for each form of a task or group; an error in one does not hide the others."""
    try:
        targets = manager.targets(name)
    except MultiformError as error:
        yield _row(name, error=error)
        return
    for target in targets:
        shown = name if len(targets) == 1 else target.path.stem
        try:
            labels = manager.labels(target)
        except MultiformError as error:
            yield _row(shown, error=error)
            continue
        for label in labels:
            try:
                node = manager.node(target, label)
            except MultiformError as error:
                yield _row(shown, error=error)
                continue
            for config in node.tasks():
                yield _render(config, run, limit, logged)


def _render(config: TaskConfig, run: RunOptions, limit: float, logged: set[Finding]) -> dict[str, Any]:
    """The row of a form whose configuration is valid, after rendering its documents."""
    from multiform.lint.forms import TasksLint
    from multiform.run.checks import check_output_types, check_packages
    from multiform.run.setup import load_forms

    count = 0
    notes: list[MultiformError] = []
    try:
        forms, _ = load_forms(run.model_copy(update={"tasks": config, "include_path": None}))
        check_output_types(forms)
        check_packages(forms)
        lint = TasksLint(forms)
        for form in forms:
            for doc_id, doc in form.docs(limit=limit):
                lint.see_choices(form, form.sample(doc_id, doc))
                count += 1
            notes += [*form.notes, *form.renderer.problems]
            lint.see_docs(form, form.docs())
        findings = lint.findings()
        for finding in findings:  # of several formats of a task, each once
            if finding not in logged:
                logger.log(logging.WARNING if finding.level == "warning" else logging.INFO, "%s", finding)
        logged.update(findings)
    except MultiformError as error:
        return _row(config.form_name, docs=count, error=error)
    return _row(config.form_name, docs=count, notes=[*notes, *findings])


def _row(
    form: str, *, docs: int = 0, error: MultiformError | None = None, notes: Sequence[MultiformError | Finding] = ()
) -> dict[str, Any]:
    shown = None if error is None else str(error)
    return {"form": form, "docs": docs, "error": shown, "warnings": [str(note) for note in notes]}


@command(
    "find what would spoil the scores of a task, before a model is run: spaces, labels, leaked answers and more",
    _NAMES,
    flag("--tokenizer", "check tokens as well: a folder, a name on the hub, or bundled", metavar="PATH"),
    flag("--max_length", "how many tokens the model reads (default: what the tokenizer says)", count(1)),
    flags.option("limit", help="documents to look at (default: all)"),
    flag("--explain", "what a code means and what to do about it; 'all' explains every code", metavar="CODE"),
    JSON,
    flags.option_groups("prompts", SOURCES),
    flags.no_code,
    examples="""\
examples:
  multiform lint my_task.yaml@all
  multiform lint my_task.yaml@mcqa --num_fewshot 3 --tokenizer path/to/model
  multiform lint my_task.yaml --tokenizer path/to/model --apply_chat_template --max_length 2048
  multiform lint --explain trailing_space

exit codes: 0 nothing found; 1 something found; 2 a task could not be checked
""",
)
def lint(options: argparse.Namespace) -> int:
    """Print every finding; the exit code is 1 if there are any, and 2 if a task cannot be checked."""
    from multiform.lint.tokens import Tokenizer

    if options.explain is not None:
        return _explain(options)
    names = _names(options.names, "lint")
    if options.max_length is not None and options.tokenizer is None:
        raise UsageError("nothing is tokenized", where="--max_length", hint="add --tokenizer PATH")
    tokenizer = None if options.tokenizer is None else Tokenizer.load(options.tokenizer, max_length=options.max_length)
    checked = [row for name in names for row in _lint_forms(name, options, tokenizer)]
    errors = [row for row in checked if isinstance(row, str)]
    linted = [row for row in checked if not isinstance(row, str)]
    findings = list(dict.fromkeys(finding for form in linted for finding in form.findings))
    silenced = list(dict.fromkeys(finding for form in linted for finding in form.silenced))
    described = {
        "forms": [{"form": form.form, "docs": form.docs} for form in linted],
        "findings": [finding.to_dict() for finding in findings],
        "silenced": [finding.to_dict() for finding in silenced],
        "errors": errors,
    }
    lines = [*(f"error: {error}" for error in errors), *map(str, findings)]
    if linted:
        number = quantity(len(findings), "finding") if findings else "nothing found"
        number += f", {len(silenced)} silenced" if silenced else ""
        forms = list_first([form.form for form in linted], 4)
        lines.append(f"{forms}: {number}; {quantity(sum(form.docs for form in linted), 'document')}")
    print_result(options, described, lines)
    return 2 if errors else 1 if any(finding.level == "warning" for finding in findings) else 0


def _lint_forms(name: str, options: argparse.Namespace, tokenizer: Tokenizer | None) -> Iterator[FormFindings | str]:
    """The findings about each form of a name, or its error, which does not hide the others."""
    from multiform.lint.forms import lint_form
    from multiform.run.checks import check_output_types
    from multiform.run.setup import load_forms

    try:
        forms, _ = load_forms(flags.run_options(options, tasks=name, limit=None))
        check_output_types(forms)
    except MultiformError as error:
        yield str(error)
        return
    for form in forms:
        try:
            yield lint_form(form, form.docs(limit=options.limit), tokenizer)
        except UsageError:
            raise
        except MultiformError as error:
            yield str(error)


def _explain(options: argparse.Namespace) -> int:
    from multiform.lint.findings import CODES, explanation

    texts = dict(CODES) if options.explain == "all" else {options.explain: explanation(options.explain)}
    lines = ["\n\n".join(f"{name}: {text}" for name, text in texts.items())]
    print_result(options, {name: asdict(text) for name, text in texts.items()}, lines)
    return 0

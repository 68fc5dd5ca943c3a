"""`multiform validate` and `lint`: check tasks, and find what would spoil their scores, before a model is run."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from multiform.cli import options as flags
from multiform.cli.parser import JSON, command, flag, print_result
from multiform.errors import MultiformError, UsageError, list_first
from multiform.run.values import SOURCES, count

if TYPE_CHECKING:
    from multiform.lint.findings import Finding
    from multiform.lint.forms import FormFindings
    from multiform.lint.tokens import Tokenizer
    from multiform.run.options import RunOptions
    from multiform.tasks.config import TaskConfig
    from multiform.tasks.manager import TaskManager

logger = logging.getLogger("multiform")


_NAMES = flag("names", "tasks, as for run --tasks", nargs="*", metavar="T[@F]")


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
        f"error: {row['error']}" if row["error"] else f"ok: {row['form']}: {row['docs']} documents rendered"
        for row in checked
    )
    print_result(options, checked, lines)
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
    from multiform.lint.answers import reference_findings
    from multiform.lint.findings import drop_silenced
    from multiform.lint.forms import lint_tasks
    from multiform.run.checks import check_output_types, check_packages
    from multiform.run.setup import load_forms

    count = 0
    notes: list[MultiformError] = []
    try:
        forms, _ = load_forms(run.model_copy(update={"tasks": config, "include_path": None}))
        check_output_types(forms)
        check_packages(forms)
        findings = []
        for form in forms:
            samples = []
            for doc_id, doc in form.docs(limit=limit):
                samples.append(form.sample(doc_id, doc))
                count += 1
            notes += [*form.notes, *form.renderer.problems]
            findings += drop_silenced(form, reference_findings(form, samples))
        findings += lint_tasks((form, form.docs()) for form in forms)
        _log(findings, logged)
    except MultiformError as error:
        return _row(config.form_name, docs=count, error=error)
    return _row(config.form_name, docs=count, notes=[*notes, *findings])


def _log(findings: Sequence[Finding], logged: set[Finding]) -> None:
    """Log each finding once, however many formats of a task have it."""
    for finding in findings:
        if finding not in logged:
            logger.log(logging.WARNING if finding.level == "warning" else logging.INFO, "%s", finding)
    logged.update(findings)


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
    flag("--explain", "what a code means and what to do about it; all for all", metavar="CODE"),
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
        number = f"{len(findings)} finding{'' if len(findings) == 1 else 's'}" if findings else "nothing found"
        number += f", {len(silenced)} silenced" if silenced else ""
        forms = list_first([form.form for form in linted], 4)
        lines.append(f"{forms}: {number}; {sum(form.docs for form in linted)} documents")
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

"""Lints the tasks of lm-eval whose rows the mirror has, and writes the table of findings into the documentation.

python -m tools.parity.lint_report              # write docs/lint-lm-eval.md and out/lint.json
python -m tools.parity.lint_report 'mmlu_*'     # print the findings about some tasks
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import logging
import multiprocessing
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import datasets

from multiform.errors import MultiformError
from multiform.forms import RunSettings
from multiform.lint.findings import CODES, Finding
from multiform.lint.forms import lint_form
from multiform.lint.tokens import Tokenizer
from tools import ROOT, mirror_folder
from tools.parity import found, ours, standins

PAGE = ROOT / "docs" / "lint-lm-eval.md"
BEGIN, END = "<!-- findings -->\n", "<!-- end of findings -->\n"
DOCS, SHOTS = 50, 3


@dataclass(frozen=True)
class Linted:
    """The findings about one task with few-shot examples, and why it could not be checked."""

    task: str
    #: The folder of lm-eval's tasks that it is in.
    folder: str
    findings: tuple[Finding, ...] = ()
    error: str | None = None


@cache
def _tokenizer() -> Tokenizer:
    return Tokenizer.load("bundled")


def linted(task: found.TaskFile, mirror: Path) -> Linted:
    """Lint one task; without few-shot examples where there are too few rows to draw them from."""
    error, folder = None, task.path.relative_to(found.task_folder()).parts[0]
    for shots in (SHOTS, 0):
        random.seed(0)
        try:
            form = ours.load_task(task.path, mirror).under(RunSettings(num_fewshot=shots))
            report = lint_form(form.form, form.form.docs(limit=DOCS), _tokenizer())
            return Linted(task.name, folder, report.findings)
        except MultiformError as failed:
            error = str(failed)
    return Linted(task.name, folder, error=error)


def table(done: Sequence[Linted]) -> str:
    """The findings by code: in how many tasks, in which, and one of them."""
    clean = sum(not one.findings and one.error is None for one in done)
    failed = [one for one in done if one.error is not None]
    lines = [
        f"{len(done)} tasks, the first {DOCS} documents of each, {SHOTS} few-shot examples, the tokenizer of the "
        f"bundled model: {clean} tasks without findings, {len(failed)} that cannot be rendered.",
        "",
        "| code | tasks | in | for example |",
        "|---|---|---|---|",
    ]
    for code in CODES:
        hits = [(one, finding) for one in done for finding in one.findings if finding.code == code]
        tasks = list({one.task: one for one, _ in hits}.values())
        if tasks:
            one, finding = hits[0]
            example = finding.example.replace("`", "'").replace("|", "\\|")
            lines.append(
                f"| `{code}` | {len(tasks)} | {_folders(tasks)} | `{one.task}`: {finding.what} (`{example}`) |"
            )
    lines += [f"| cannot be rendered | 1 | {one.folder} | `{one.task}`: {one.error} |" for one in failed]
    return "\n".join([*lines, ""])


def _folders(tasks: Sequence[Linted]) -> str:
    """The folders of tasks with how many are in each, the most frequent first."""
    return ", ".join(f"{folder} {number}" for folder, number in Counter(one.folder for one in tasks).most_common())


def main(argv: Sequence[str]) -> int:
    """Write the page, or print what was found in some tasks."""
    parser = argparse.ArgumentParser(prog="python -m tools.parity.lint_report", description=__doc__)
    parser.add_argument("tasks", nargs="*", metavar="GLOB", help="print the findings about these instead")
    options = parser.parse_args(argv)
    logging.getLogger("multiform").setLevel(logging.ERROR)
    datasets.disable_progress_bars()
    done = []
    with standins.installed():
        for one in _all(options.tasks):
            done.append(one)
            if options.tasks:
                print(f"{one.task}: {one.error or ''}", *one.findings, sep="\n  ")
    if options.tasks:
        return 0
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: BEGIN + table(done) + END, page, flags=re.DOTALL), "utf-8")
    output = ROOT / "out" / "lint.json"
    output.parent.mkdir(exist_ok=True)
    rows = [{"task": one.task, "error": one.error, "findings": [f.to_dict() for f in one.findings]} for one in done]
    output.write_text(json.dumps(rows, indent=1, ensure_ascii=False), encoding="utf-8")
    return 0


def _all(globs: Sequence[str]) -> Iterator[Linted]:
    mirror = mirror_folder()
    tasks = found.mirrored(found.task_folder(), mirror)
    wanted = [task for task in tasks if not globs or any(fnmatch.fnmatchcase(task.name, glob) for glob in globs)]
    with multiprocessing.get_context("fork").Pool(2) as pool:  # a fork has the stand-ins
        for number, one in enumerate(pool.imap(partial(linted, mirror=mirror), wanted, chunksize=4), start=1):
            yield one
            if number % 50 == 0:
                print(f"{number} of {len(wanted)} tasks", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

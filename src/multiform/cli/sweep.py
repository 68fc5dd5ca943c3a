"""`multiform sweep`: models × tasks × formats × shots from one file, and one leaderboard."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiform.cli import options as flags
from multiform.cli.parser import JSON, command, flag, print_result
from multiform.errors import IncompleteRunError, MultiformError, UsageError
from multiform.run.values import count
from multiform.terminal import align, one_line

if TYPE_CHECKING:
    from multiform.results import Results
    from multiform.run.sweep import Sweep

logger = logging.getLogger("multiform")


@command(
    "run models × tasks × formats × shots from one YAML file, with one leaderboard",
    flag("file", "the YAML file of the sweep", metavar="FILE"),
    flag("--only", "the runs of the N-th model, from 0", count()),
    flags.CACHE_PATH,
    flag(
        "--cached",
        "run no model, and print the leaderboard of what is stored; runs that lack responses are named",
    ),
    flag(
        "--slurm",
        "run nothing, and write scripts for SLURM to DIR: an array with a job for each model, and one that merges "
        "their stores and prints the leaderboard",
        metavar="DIR",
    ),
    flags.option("imports"),
    JSON,
    flags.no_code,
    examples="""\
examples:
  multiform sweep sweep.yaml
  multiform sweep sweep.yaml --slurm jobs     scripts that run it on a SLURM cluster

example of a file:
  output_path: results/sweep
  models:
    - model_args: {pretrained: path/to/base}
    - model_args: {pretrained: path/to/tuned}
      apply_chat_template: true
  tasks: [arc_easy, hellaswag]
  formats: [mcqa, cloze]
  num_fewshot: [0, 5]
  limit: 200

All other keys are arguments of multiform.evaluate, for all models or for one. If you start a sweep again, it continues
where it stopped: stored responses are not requested again.
""",
)
def sweep(options: argparse.Namespace) -> None:
    """Run what is missing, and print the leaderboard."""
    from multiform.report.leaderboard import Leaderboard
    from multiform.run.sweep import read_sweep

    stated = read_sweep(Path(options.file))
    if options.only is not None and options.only >= len(stated.models):
        message, last = f"the sweep has no model {options.only}", len(stated.models) - 1
        raise UsageError(message, where="--only", hint=f"give 0 to {last}" if last else "its only model is number 0")
    stated.check(options.only)
    if options.slurm:
        from multiform.run.sweep import write_scripts

        files = write_scripts(stated, Path(options.slurm), options.imports or ())
        print(f"wrote {', '.join(map(str, files))}; submit them with {files[-1]}")
        return
    runs, problems = _run(stated, options)
    board = Leaderboard(runs).to_dict()
    print_result(options, board, _lines(board) if board["models"] else ())
    if problems:
        titles = ", ".join(title for title, _ in problems)
        code = max(problem.exit_code for _, problem in problems)
        kind = UsageError if code == 2 else IncompleteRunError
        raise kind(f"{len(problems)} of the runs failed ({titles})", hint="see the messages above, and run it again")


def _run(sweep: Sweep, options: argparse.Namespace) -> tuple[dict[str, Results], list[tuple[str, MultiformError]]]:
    """The results of all runs by their titles, and the runs that failed; one that fails does not stop the others."""
    from multiform.run.evaluate import open_executor
    from multiform.run.evaluate import run as run_model
    from multiform.run.progress import make_progress

    overrides: dict[str, Any] = {"use_cache": options.cache_path} if options.cache_path else {}
    if options.cached:
        overrides["fresh"] = False
    results: dict[str, Results] = {}
    problems: list[tuple[str, MultiformError]] = []
    with make_progress() as progress:
        runs = list(sweep.runs(options.only, progress=progress, **overrides))
        for label in dict.fromkeys(run.model.label for run in runs):
            of_model = [run for run in runs if run.model.label == label]
            with open_executor(of_model[0].options.cluster, cached=options.cached) as executor:
                for run in of_model:
                    progress.message(f"=== {run.title}")
                    try:
                        outcome = run_model(run.options, executor)
                        if outcome.problem is not None:
                            raise outcome.problem
                    except MultiformError as error:
                        print(f"error: {run.title}: {error}", file=sys.stderr)
                        problems.append((run.title, error))
                    else:
                        results[run.title] = run.label_results(outcome)
    return results, problems


def _lines(board: dict[str, Any]) -> Iterator[str]:
    """The leaderboard: a row for each form, a column for each model; the best of a row has a star."""
    rows = [["form", "metric", "n", *map(one_line, board["models"])]]
    for column, form in enumerate(board["forms"]):
        cells = [row[column] for row in board["cells"]]
        known = [cell for cell in cells if cell is not None and cell["value"] is not None]
        if not known:
            continue
        best = (max if known[0]["higher"] else min)(cell["value"] for cell in known)
        shown = [
            "" if cell is None or cell["value"] is None else f"{cell['value']:.4f}{'*' * (cell['value'] == best)}"
            for cell in cells
        ]
        sizes = sorted({cell["n"] for cell in known})
        rows.append(
            [one_line(form), known[0]["metric"], " to ".join(map(str, dict.fromkeys((sizes[0], sizes[-1])))), *shown]
        )
    yield from align(rows)
    for entry in board["reversals"]:
        if entry["clear"]:
            ahead = f"{entry['ahead']} is ahead of {entry['behind']} under {entry['form']}"
            yield f"{ahead}, and behind under {entry['other']}"
    if board["summary"] is not None:
        yield board["summary"]

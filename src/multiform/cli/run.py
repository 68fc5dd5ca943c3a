"""`multiform run`, `score` and `sweep`: evaluate one or many models, and score the responses of a run again."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiform.cli import options as flags
from multiform.cli.parser import JSON, Gather, command, flag, print_result
from multiform.errors import ConfigError, IncompleteRunError, MultiformError, UsageError, excerpt, quantity
from multiform.run.values import SOURCES, count, one_of
from multiform.terminal import align, fit, one_line, screen_width

if TYPE_CHECKING:
    from multiform.results import Results
    from multiform.run.sweep import Sweep

logger = logging.getLogger("multiform")

#: How many files of samples are listed one by one.
_LISTED_FILES = 6
_TABLE = flag(
    "--table",
    "long: a row for each metric of each form; pivot: a row for each task and a column for each form; "
    "markdown: lm-eval's table; csv; latex (default: pivot if a task has several forms, else long)",
    one_of(("long", "pivot", "markdown", "csv", "latex")),
    metavar="STYLE",
)


@command(
    "evaluate a model on tasks, each in one or several formats",
    flag("names", "tasks, as for --tasks", nargs="*", metavar="T[@F]"),
    flags.option_groups(
        *(None, "model", "prompts", SOURCES, "documents", "programs and judges", "failed requests", "many workers"),
        *("stored responses", "output"),
        several=True,
        output=(
            flag("--report", "also write a page of the scores and samples, e.g. report.html", metavar="FILE"),
            _TABLE,
            flag("--show_config", "print the whole results file before the table"),
            JSON,
            flag("--config -C", "YAML file of these flags; the command line wins", metavar="FILE"),
            flag("--check_integrity", "accepted as in lm-eval, without effect: tasks are always checked"),
        ),
    ),
    flags.no_code,
    examples="""\
examples:
  multiform run quiz@all --limit 20
  multiform run arc_easy.yaml@mcqa+cloze --model hf --model_args pretrained=path/to/model \\
      --num_fewshot 5 --output_path results --log_samples

A task may be followed by @ and a format, several formats joined by +, or @all. @mcqa~16 stands for 16 variations of
mcqa, @mcqa[labels=roman,wrap=(x)] for one of them.
""",
)
def run(options: argparse.Namespace) -> None:
    """Run the evaluation: progress goes to standard error, the table or JSON to standard output."""
    from multiform.results.export import prepare_output
    from multiform.run.displays import chosen_progress
    from multiform.run.evaluate import run as run_forms

    options = flags.with_config(options)
    logger.setLevel(options.verbosity)
    tasks = _tasks(options)
    if not tasks:
        raise UsageError(
            "no tasks named",
            where="--tasks",
            hint="type e.g. multiform run quiz@all --limit 20; multiform ls tasks lists them",
        )
    flags.model_name(options)
    if options.check_integrity:
        logger.info("every prompt is rendered and checked before the model runs, with or without --check_integrity")
    _check_output(options)
    if options.report:
        prepare_output(Path(options.report).parent)
    with chosen_progress(True) as progress:
        run_options = flags.run_options(
            options,
            tasks=",".join(tasks),
            gen_kwargs=options.gen_kwargs or {},
            log_samples=options.log_samples or options.predict_only,
            progress=progress,
        )
        results = run_forms(run_options)
    if options.plan_only:
        print_result(options, dict(results.run), [str(results.run["plan"])])
        return
    report = None
    if results.forms:
        _print_results(results, as_json=options.json, whole=options.show_config, style=options.table)
        for line in () if options.json else _more_lines(results, languages=bool(options.languages)):
            print(line)
        if options.report:
            from multiform.report import write_report

            report = write_report([results], options.report)
    _say_the_rest(results, options, report)
    if results.problem is not None:
        raise results.problem


def _say_the_rest(results: Results, options: argparse.Namespace, report: Path | None) -> None:
    """Print to standard error, below the table: what stands out, what the run took, the files and the next command."""
    from multiform.results.notes import closing_lines

    sys.stdout.flush()  # the table comes first, where both go to one place
    written = [*results.files, *([report] if report is not None else [])]
    lines = _written_lines(written)
    if results.problem is None and results.forms:
        lines += closing_lines(results, output_path=options.output_path, report=report)
    for line in lines:
        print(fit(line, sys.stderr), file=sys.stderr)


def _written_lines(paths: Sequence[Path]) -> list[str]:
    """What was written: a line for each file, and one for the samples of many forms."""
    samples = [path for path in paths if path.name.startswith("samples_")]
    if len(samples) <= _LISTED_FILES:
        return [f"wrote {path}" for path in paths]
    others = [f"wrote {path}" for path in paths if path not in samples]
    return [*others, f"wrote {samples[0].parent / 'samples_*.jsonl'}: the samples of {quantity(len(samples), 'form')}"]


def _tasks(options: argparse.Namespace) -> list[str]:
    """The tasks that the command line names, with or without the flag; else those of the `--config` file."""
    from_file = "tasks" not in vars(options).get("given", ())
    return [*options.names, *(options.tasks or () if not (from_file and options.names) else ())]


def _check_output(options: argparse.Namespace) -> None:
    """Refuse samples that are written nowhere, in the words of the command line."""

    if options.output_path is None:
        for flag in ("log_samples", "predict_only"):
            if getattr(options, flag):
                message = "there is no --output_path to write samples to"
                raise UsageError(message, where=f"--{flag}", hint="add e.g. --output_path results")
    elif not options.output_path:
        raise UsageError(
            "the name of the folder is empty", where="--output_path", hint="give e.g. --output_path results"
        )


def _print_results(results: Results, *, as_json: bool, whole: bool = False, style: str | None = None) -> None:
    """Print the results as a table, as JSON, or with `whole` as both."""
    from multiform.results.export import plain_json, to_json

    if as_json or whole:
        print(plain_json(to_json(results)))
    if as_json:
        return
    from multiform.results.table import default_style, table_text

    width = screen_width(sys.stdout)
    text = table_text(results, style, width=width, color=width is not None)
    # These make what they show visible.
    styled = width is not None and (style or default_style(results)) in ("long", "pivot")
    (getattr(sys.stdout, "write_styled", sys.stdout.write) if styled else sys.stdout.write)(text)


def _more_lines(results: Results, *, languages: bool) -> Iterator[str]:
    """Where a budgeted run stopped, and why; and the scores by language."""
    from multiform.results.notes import stop_lines

    yield from stop_lines(results.run.get("budget", ()))
    if languages:
        from multiform.results.languages import languages_text

        yield "\n" + (languages_text(results) or "--languages: no group has scores in two or more languages")


@command(
    "score the logged responses of a run again, with other metrics, filters or scorers",
    flag("run", "a results file, or a folder, whose newest results file is used", metavar="RUN"),
    flag("--tasks -t", "tasks of the run (default: all)", nargs="+", action=Gather, metavar="T[@F]"),
    flags.option_groups(SOURCES),
    flag(
        "--cache_path", "where the responses of a run without samples are stored (default: as in run)", metavar="FILE"
    ),
    flag("--metrics", "names of metrics, separated by commas; or a JSON list as in metric_list", metavar="NAMES"),
    flag("--filter_list", "filters as in a task's filter_list, as JSON", metavar="JSON"),
    flag("--scorer", "a scorer by name, or as JSON", metavar="NAME"),
    flags.option("bootstrap_iters"),
    flags.option_groups("programs and judges"),
    flag("--output_path -o", "write results and samples there; or a .json file", metavar="DIR"),
    _TABLE,
    JSON,
    flags.no_code,
    examples="""\
examples:
  multiform score results                              the newest run in a folder, with its tasks as they are now
  multiform score results --metrics acc,brier_score    with these metrics
  multiform score results --tasks my_task.yaml@mcqa    one task of it, from a file that was changed

Responses come from the samples that --log_samples wrote, or else from the store. No model is loaded.
""",
)
def score(options: argparse.Namespace) -> None:
    """Score the run and print the results."""
    from multiform.results.export import prepare_output, write_results
    from multiform.run.rescoring import rescore

    logger.setLevel(options.verbosity)
    if options.output_path:
        prepare_output(Path(options.output_path))
    same = ("tasks", "include_path", "dataset_mirror", "bootstrap_iters", "confirm_run_unsafe_code", "sandbox")
    scorer = options.scorer
    changes = {
        "metric_list": _metrics(options.metrics),
        "filter_list": None if options.filter_list is None else _json(options.filter_list, "--filter_list"),
        "scorer": _json(scorer, "--scorer") if (scorer or "").lstrip().startswith("{") else scorer,
    }
    try:
        results = rescore(
            options.run,
            **changes,
            use_cache=options.cache_path,
            **{name: getattr(options, name) for name in (*same, "judge_model", "judge_args", "judge_labels")},
        )
    except ConfigError as error:  # of what the flag says, not of the task's file
        wrong = [key for key in changes if changes[key] is not None and f": {key}" in (error.where or "")]
        flag = f"--{'metrics' if wrong == ['metric_list'] else wrong[0]}" if wrong else error.where
        raise error.relocate(flag) from error
    if options.output_path:
        for path in write_results(results, Path(options.output_path), samples=True):
            print(f"wrote {path}", file=sys.stderr)
    # Metrics that were asked for are to be seen, and the other table has one for each form.
    _print_results(results, as_json=options.json, style=options.table or ("long" if options.metrics else None))


def _metrics(text: str | None) -> list[Any] | None:
    if text is None:
        return None
    if text.lstrip().startswith("["):
        listed = _json(text, "--metrics")
        return [{"metric": item} if isinstance(item, str) else item for item in listed]
    return [{"metric": name.strip()} for name in text.split(",") if name.strip()]


def _json(text: str, flag: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(
            f"not valid JSON: {error}: {excerpt(text)}", where=flag, hint="quote it for the shell"
        ) from error


@command(
    "run models × tasks × formats × shots from one YAML file, with one leaderboard",
    flag("file", "the YAML file of the sweep", metavar="FILE"),
    flag("--only", "only the runs of model number N, counted from 0", count()),
    flags.CACHE_PATH,
    flag("--cached", "run no model, and print the leaderboard of what is stored; runs that lack responses are named"),
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
    from multiform.run.sweep import read_sweep, write_scripts

    stated = read_sweep(Path(options.file))
    if options.only is not None and options.only >= len(stated.models):
        message, last = f"the sweep has no model {options.only}", len(stated.models) - 1
        raise UsageError(message, where="--only", hint=f"give 0 to {last}" if last else "its only model is number 0")
    stated.check(options.only)
    if options.slurm:
        files = write_scripts(stated, Path(options.slurm), options.imports or ())
        print(f"wrote {', '.join(map(str, files))}; submit them with {files[-1]}")
        return
    runs, problems = _run_models(stated, options)
    board = Leaderboard(runs).to_dict()
    print_result(options, board, _board_lines(board) if board["models"] else ())
    if problems:
        titles = ", ".join(title for title, _ in problems)
        code = max(problem.exit_code for _, problem in problems)
        kind = UsageError if code == 2 else IncompleteRunError
        raise kind(f"{len(problems)} of the runs failed ({titles})", hint="see the messages above, and run it again")


def _run_models(
    sweep: Sweep, options: argparse.Namespace
) -> tuple[dict[str, Results], list[tuple[str, MultiformError]]]:
    """The results of all runs by their titles, and the runs that failed; one that fails does not stop the others."""
    from multiform.run.displays import chosen_progress
    from multiform.run.evaluate import make_executor
    from multiform.run.evaluate import run as run_model

    overrides: dict[str, Any] = {"use_cache": options.cache_path} if options.cache_path else {}
    if options.cached:
        overrides["fresh"] = False
    results: dict[str, Results] = {}
    problems: list[tuple[str, MultiformError]] = []
    with chosen_progress(True) as progress:
        runs = list(sweep.runs(options.only, progress=progress, **overrides))
        for label in dict.fromkeys(run.model.label for run in runs):
            of_model = [run for run in runs if run.model.label == label]
            with closing(make_executor(of_model[0].options.cluster, cached=options.cached)) as executor:
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


def _board_lines(board: dict[str, Any]) -> Iterator[str]:
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

"""`multiform run` and `score`: evaluate a model on tasks, and score the responses of a run again without a model."""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiform.cli import options as flags
from multiform.cli.parser import Command, Gather, Parser
from multiform.errors import UsageError, shorten
from multiform.run.values import SOURCES, one_of
from multiform.terminal import visible

if TYPE_CHECKING:
    from multiform.results import Results

logger = logging.getLogger("multiform")

#: The groups of flags, in the order of `--help`.
_GROUPS = (
    *(None, "model", "prompts", SOURCES, "documents", "programs and judges", "failed requests", "many workers"),
    *("stored responses", "output"),
)
#: The flags of `--help`; `--help all` has every flag.
_COMMON = frozenset(
    (
        *("help", "tasks", "model", "model_args", "batch_size", "device", "num_fewshot", "apply_chat_template"),
        *("gen_kwargs", "include_path", "import", "dataset_mirror", "limit", "output_path", "log_samples", "report"),
        *("json", "config", "plan", "no_code"),
    )
)
#: How many files of samples are listed one by one.
_LISTED_FILES = 6


def _add_run(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `run`."""
    parser.add_argument("names", nargs="*", metavar="T[@F]", help="tasks, as for --tasks")
    groups = flags.add_flags(parser, *_GROUPS, several=True)
    _add_output(groups["output"])
    accepted = parser.add_argument_group("accepted for lm-eval's sake, with a note")
    accepted.add_argument("--check_integrity", action="store_true", help="tasks are checked in any case")
    flags.add_code(parser)
    if isinstance(parser, Parser):
        parser.common = _COMMON


def _add_output(output: argparse._ActionsContainer) -> None:
    output.add_argument(
        "--report", metavar="FILE", help="also write a page of the scores and samples, e.g. report.html"
    )
    output.add_argument(
        "--table",
        type=one_of(("long", "pivot", "markdown", "csv", "latex")).reader("--table"),
        metavar="STYLE",
        help="long: a row for each metric of each form; pivot: a row for each task and a column for each form; "
        "markdown: lm-eval's table; csv; latex (default: pivot where a task has several forms, else long)",
    )
    output.add_argument("--show_config", action="store_true", help="print the whole results file before the table")
    output.add_argument("--json", action="store_true", help="print the results as JSON and nothing else")
    output.add_argument("--config", "-C", metavar="FILE", help="YAML file of these flags; the command line wins")


def _run(options: argparse.Namespace) -> int:
    """Run the evaluation: progress goes to standard error, the table or JSON to standard output."""
    from multiform.results.export import prepare_output
    from multiform.run.evaluate import run
    from multiform.run.progress import make_progress

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
    flags.check_files(options.decontamination_corpus, "--decontamination_corpus")
    _check_output(options)
    if options.report:
        prepare_output(Path(options.report).parent)
    with make_progress() as progress:
        run_options = flags.run_options(
            options,
            tasks=",".join(tasks),
            gen_kwargs=options.gen_kwargs or {},
            log_samples=options.log_samples or options.predict_only,
            progress=progress,
        )
        results = run(run_options)
    if options.plan_only:
        print(json.dumps(dict(results.run)) if options.json else results.run["plan"])
        return 0
    if results.forms:
        print_results(results, as_json=options.json, whole=options.show_config, style=options.table)
        if not options.json:
            _print_stops(results)
            if options.languages:
                _print_languages(results)
    report = None
    if options.report and results.forms:
        from multiform.report import write_report

        report = write_report([results], options.report)
    _say_the_rest(results, options, report)
    if results.problem is not None:
        raise results.problem
    return 0


def _say_the_rest(results: Results, options: argparse.Namespace, report: Path | None) -> None:
    """Print to standard error, below the table: what stands out, what the run took, the files and the next command."""
    from multiform.results.notes import closing_lines

    sys.stdout.flush()  # the table comes first, where both go to one place
    written = [*results.files, *([report] if report is not None else [])]
    lines = _written_lines(written)
    if results.problem is None and results.forms:
        lines += closing_lines(results, output_path=options.output_path, report=report)
    width = shutil.get_terminal_size().columns if sys.stderr.isatty() else sys.maxsize
    for line in lines:
        # A number, name or path is not split at the edge of a terminal.
        wrapped = textwrap.fill(visible(line), width, break_long_words=False, break_on_hyphens=False)
        print(wrapped, file=sys.stderr)


def _written_lines(paths: Sequence[Path]) -> list[str]:
    """What was written: a line for each file, and one for the samples of many forms."""
    samples = [path for path in paths if path.name.startswith("samples_")]
    if len(samples) <= _LISTED_FILES:
        return [f"wrote {path}" for path in paths]
    others = [f"wrote {path}" for path in paths if path not in samples]
    return [*others, f"wrote {samples[0].parent / 'samples_*.jsonl'}: the samples of {len(samples)} forms"]


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


def print_results(results: Results, *, as_json: bool, whole: bool = False, style: str | None = None) -> None:
    """Print the results as a table, as JSON, or with `whole` as both."""
    from multiform.results.export import plain_json, to_json

    if as_json or whole:
        print(plain_json(to_json(results)))
    if as_json:
        return
    from multiform.results.table import default_style, table_text

    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else None
    text = table_text(results, style, width=width, color=terminal)
    styled = terminal and (style or default_style(results)) in ("long", "pivot")  # which make what they show visible
    (getattr(sys.stdout, "write_styled", sys.stdout.write) if styled else sys.stdout.write)(text)


def _print_languages(results: Results) -> None:
    """Print the scores by language, and the spread over languages, of each group."""
    from multiform.results.languages import languages_text

    text = languages_text(results)
    print("\n" + (text or "--languages: no group has scores in two or more languages"))


def _print_stops(results: Results) -> None:
    """Print where a budgeted run stopped, and why."""
    from multiform.results.notes import stop_lines

    for line in stop_lines(results.run.get("budget", ())):
        print(line)


RUN = Command(
    help="evaluate a model on tasks, each in one or several formats",
    description="Evaluate a model on tasks, each in one or several formats.",
    examples="""\
examples:
  multiform run quiz@all --limit 20
  multiform run arc_easy.yaml@mcqa+cloze --model hf --model_args pretrained=path/to/model \\
      --num_fewshot 5 --output_path results --log_samples

A task may be followed by @ and a format, several formats joined by +, or @all. @mcqa~16 stands for 16 variations of
mcqa, @mcqa[labels=roman,wrap=(x)] for one of them.
""",
    add_arguments=_add_run,
    execute=_run,
)


def _add_score(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `score`."""
    parser.add_argument("run", metavar="RUN", help="a results file, or a folder whose newest one is taken")
    parser.add_argument(
        "--tasks", "-t", nargs="+", action=Gather, metavar="T[@F]", help="tasks of the run (default: all)"
    )
    flags.add_flags(parser, SOURCES)
    parser.add_argument(
        "--cache_path", metavar="FILE", help="the store, for a run without samples (default: the user's)"
    )
    parser.add_argument("--metrics", metavar="NAMES", help="metrics by comma, or a JSON list as in metric_list")
    parser.add_argument("--filter_list", metavar="JSON", help="filters as in a task's filter_list, as JSON")
    parser.add_argument("--scorer", metavar="NAME", help="a scorer by name, or as JSON")
    flags.add_flag(parser, "bootstrap_iters")
    flags.add_flags(parser, "programs and judges")
    parser.add_argument("--output_path", "-o", metavar="DIR", help="write results and samples there; or a .json file")
    parser.add_argument("--json", action="store_true", help="print the results as JSON and nothing else")
    flags.add_code(parser)


def _score(options: argparse.Namespace) -> int:
    """Score the run and print the results."""
    from multiform.results.export import prepare_output, write_results
    from multiform.run.rescoring import rescore

    logger.setLevel(options.verbosity)
    if options.output_path:
        prepare_output(Path(options.output_path))
    results = rescore(
        options.run,
        tasks=options.tasks,
        include_path=options.include_path,
        metric_list=_metrics(options.metrics),
        filter_list=None if options.filter_list is None else _json(options.filter_list, "--filter_list"),
        scorer=_scorer(options.scorer),
        dataset_mirror=options.dataset_mirror,
        use_cache=options.cache_path,
        bootstrap_iters=options.bootstrap_iters,
        confirm_run_unsafe_code=options.confirm_run_unsafe_code,
        sandbox=options.sandbox,
        judge_model=options.judge_model,
        judge_args=options.judge_args,
        judge_labels=options.judge_labels,
    )
    if options.output_path:
        for path in write_results(results, Path(options.output_path), samples=True):
            print(f"wrote {path}", file=sys.stderr)
    print_results(results, as_json=options.json)
    return 0


def _metrics(text: str | None) -> list[Any] | None:
    if text is None:
        return None
    if text.lstrip().startswith("["):
        listed = _json(text, "--metrics")
        return [{"metric": item} if isinstance(item, str) else item for item in listed]
    return [{"metric": name.strip()} for name in text.split(",") if name.strip()]


def _scorer(text: str | None) -> Any:
    return _json(text, "--scorer") if text is not None and text.lstrip().startswith("{") else text


def _json(text: str, flag: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(
            f"not valid JSON: {error}: {shorten(text)}", where=flag, hint="quote it for the shell"
        ) from error


SCORE = Command(
    help="score the logged responses of a run again, with other metrics, filters or scorers",
    description="Score the logged responses of a run again, with other metrics, filters or scorers.",
    examples="""\
examples:
  multiform score results                              the newest run in a folder, with its tasks as they are now
  multiform score results --metrics acc,brier_score    with these metrics
  multiform score results --tasks my_task.yaml@mcqa    one task of it, from a file that was changed

Responses come from the samples that --log_samples wrote, or else from the store. No model is loaded.
""",
    add_arguments=_add_score,
    execute=_score,
)

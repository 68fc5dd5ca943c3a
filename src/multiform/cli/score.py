"""`multiform score`: score the responses of a run again, without a model."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import Any

from multiform.cli import options as flags
from multiform.cli.parser import Command, Gather
from multiform.errors import UsageError, shorten
from multiform.run.values import SOURCES


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
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


def _execute(options: argparse.Namespace) -> int:
    """Score the run and print the results."""
    from multiform.cli.run import print_results
    from multiform.results.export import prepare_output, write_results
    from multiform.run.rescoring import rescore

    logging.getLogger("multiform").setLevel(options.verbosity)
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


COMMAND = Command(
    help="score the logged responses of a run again, with other metrics, filters or scorers",
    description="Score the logged responses of a run again, with other metrics, filters or scorers.",
    examples="""\
examples:
  multiform score results                              the newest run in a folder, with its tasks as they are now
  multiform score results --metrics acc,brier_score    with these metrics
  multiform score results --tasks my_task.yaml@mcqa    one task of it, from a file that was changed

Responses come from the samples that --log_samples wrote, or else from the store. No model is loaded.
""",
    add_arguments=_add_arguments,
    execute=_execute,
)

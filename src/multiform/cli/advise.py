"""`multiform advise`: how many documents and wordings a wanted interval needs, from the variance of a run."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from multiform.cli.parser import Command
from multiform.errors import UsageError
from multiform.run.values import number_reader

if TYPE_CHECKING:
    from multiform.results import Results


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("run", metavar="RUN", help="an --output_path with samples, or a results_<date>.json in it")
    parser.add_argument(
        "--half_width",
        type=_half_width,
        default=0.02,
        metavar="X",
        help="the wanted interval: ± X (default: 0.02)",
    )
    parser.add_argument("--json", action="store_true", help="print the advice as JSON and nothing else")


def _half_width(text: str) -> float:
    read = number_reader(lambda value: 0 < value < math.inf, "a number above 0", "give e.g. FLAG 0.02 for ± 0.02")
    return float(read(text, "--half_width"))


def _execute(options: argparse.Namespace) -> int:
    """Print the advice for each format that was run under several wordings."""
    from multiform.results.export import plain_json
    from multiform.results.read import read_results

    advice = list(_advice(read_results(options.run), options.half_width))
    if not advice:
        message = "no task was run under three or more wordings of one format, with its samples"
        hint = "run e.g. quiz@mcqa~8 with --output_path and --log_samples first"
        raise UsageError(message, where=options.run, hint=hint)
    if options.json:
        print(plain_json(advice))
    else:
        for entry in advice:
            print("\n".join(_lines(entry, options.half_width)))
    return 0


def _advice(results: Results, half_width: float) -> Iterator[dict[str, Any]]:
    from multiform.statistics.design import RunDesign, cheapest_design

    totals = {form.task: form.total_docs for form in results.forms}
    for group in results.groups:
        totals[group.path] = sum(form.total_docs for form in results.forms if form.name in group.forms)
    for comparison in results.comparisons:
        for entry in comparison.populations if comparison.scoring != "any" else ():
            components = entry.population.components
            available = totals.get(comparison.name, comparison.n)
            design = cheapest_design(components, half_width, documents=available)
            now = RunDesign(documents=comparison.n, wordings=entry.population.wordings)
            yield {
                "task": comparison.name,
                "format": entry.label,
                "metric": comparison.metric,
                "variance": {"document": components.document, "wording": components.wording, "rest": components.rest},
                "now": {**asdict(now), "half_width": components.half_width(now)},
                "available": available,
                "advice": None if design is None else {**asdict(design), "evaluations": design.evaluations},
                "best_possible": components.half_width(RunDesign(documents=available, wordings=128)),
            }


def _lines(entry: dict[str, Any], half_width: float) -> Iterator[str]:
    variance = entry["variance"]
    total = sum(variance.values()) or 1.0
    shares = ", ".join(f"{name}s {value / total:.0%}" for name, value in variance.items() if name != "rest")
    now, advice = entry["now"], entry["advice"]
    name, rest = f"{entry['task']}@{entry['format']}", f"{variance['rest'] / total:.0%}"
    yield f"{name}, {entry['metric']}: a single score varies by {shares}, the rest {rest}"
    yield f"  now: {now['documents']:,} documents × {now['wordings']} wordings, ± {now['half_width']:.4f}"
    if advice is None:
        reachable = f"{entry['available']:,} documents × 128 wordings would give ± {entry['best_possible']:.4f}"
        yield f"  ± {half_width:g} cannot be reached with this dataset: {reachable}"
    else:
        needed = f"{advice['documents']:,} of {entry['available']:,} documents × {advice['wordings']} wordings"
        yield f"  for ± {half_width:g}: {needed}, {advice['evaluations']:,} evaluations"


COMMAND = Command(
    help="how many documents and wordings a wanted interval needs",
    description="""\
Split the variance of a run into documents, wordings and the rest, and say which number of each gives a wanted interval
of the score over wordings with the fewest evaluations. The run is a pilot: any task under three or more wordings of a
format, such as quiz@mcqa~8.""",
    examples="""\
examples:
  multiform run --tasks arc_easy@mcqa~8 --limit 200 --output_path pilot --log_samples
  multiform advise pilot --half_width 0.02
  multiform advise pilot --half_width 0.01 --json
""",
    add_arguments=_add_arguments,
    execute=_execute,
)

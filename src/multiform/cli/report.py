"""`multiform report`, `view`, `plot`, `export` and `advise`: results as a page, in the browser, as a chart, for other
tools, and as a plan of the next run."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiform.cli.parser import JSON, RUN, command, flag, print_result
from multiform.errors import UsageError
from multiform.run.values import count, number_type

if TYPE_CHECKING:
    from multiform.results import Results


@command(
    "write results as a page: scores, differences between forms, every sample",
    flag("runs", "an --output_path, or a results_<date>.json in it", nargs="+", metavar="RUN"),
    flag("--output -o", "the file to write (default: report.html)", metavar="FILE", default="report.html"),
    flag("--all", "every run in the folders, not only the newest of each"),
    flag("--title", "the heading (default: the tasks)", metavar="TEXT"),
    description="Write the results of runs, of Multiform or of lm-eval, as one HTML file that needs no network.",
    examples="""\
examples:
  multiform report results                       the newest run in the folder, as report.html
  multiform report results -o page.html
  multiform report results/a results/b           two runs side by side
  multiform report lm_eval_results --all         every run in a folder, of lm-eval too
""",
)
def report(options: argparse.Namespace) -> None:
    """Read the results, and write the page."""
    from multiform.report import write_report
    from multiform.results.read import read_results, recorded_run, results_files
    from multiform.results.recorded import results_of_run

    if options.all:
        runs = [results_of_run(recorded_run(file)) for path in options.runs for file in results_files(Path(path))]
    else:
        runs = [read_results(path) for path in options.runs]
    path = write_report(runs, options.output, title=options.title)
    print(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB); open it in a browser")


@command(
    "look at all runs of a folder in the browser, even while they run",
    flag("folder", "the --output_path of runs (default: .)", nargs="?", default=".", metavar="DIR"),
    flag("--port", "the port to listen on (default: any that is free)", count(), default=0),
    description="Serve the runs of a folder, of Multiform and of lm-eval, to your browser on this machine. The printed "
    "address has a token, without which nothing is shown. Nothing is written, and no other machine is contacted. "
    "Ctrl-C ends it.",
    examples="""\
examples:
  multiform view                     the runs below the current folder
  multiform view results --port 8000
""",
)
def view(options: argparse.Namespace) -> None:
    """Serve until interrupted."""
    from multiform.report.server import Viewer

    if not Path(options.folder).is_dir():
        raise UsageError("there is no such folder", where=options.folder, hint="name the --output_path of a run")
    with Viewer(options.folder, options.port) as viewer:
        print(f"{viewer.url} shows the runs in {options.folder}; Ctrl-C ends it", flush=True)
        with suppress(KeyboardInterrupt):
            viewer.serve_forever()


@command(
    "draw a chart of a run as SVG, PNG or HTML",
    RUN,
    flag("--chart", "which chart (default: scores)", default="scores", metavar="NAME"),
    flag(
        "--output -o",
        "the .svg, .png or .html file to write (default: scores.svg)",
        metavar="FILE",
        default="scores.svg",
    ),
    description="Draw a chart of a run, of Multiform or of lm-eval, into a file. It needs multiform[charts].",
    examples="""\
examples:
  multiform plot results -o scores.svg
  multiform plot results --chart differences -o differences.png
  multiform plot results --chart heatmap -o heatmap.html

charts: scores, heatmap, spread, differences, flips, position_bias, calibration
""",
)
def plot(options: argparse.Namespace) -> None:
    """Read the results, and write the picture."""
    from multiform.results.drawing import save_chart
    from multiform.results.read import read_results

    print(f"wrote {save_chart(read_results(options.run), options.chart, options.output)}")


#: The built-in formats of `export`, for its help.
EXPORTS = ("eee", "inspect", "lm-eval", "eval-results", "parquet", "otel")


@command(
    "write a run for other tools: Inspect, Every Eval Ever, Parquet, OpenTelemetry, the hub",
    flag("run", "an --output_path, a results file, or a log that can be read", metavar="RUN"),
    flag("--to", f"{', '.join(EXPORTS)}, or what 'multiform ls exporters' lists", required=True, metavar="FORMAT"),
    flag("--output -o", "the folder to write to (default: exported)", metavar="DIR", default="exported"),
    description="Write the results of a run in the format of another tool. 'multiform docs exchange' lists what each "
    "one holds.",
    examples="""\
examples:
  multiform export results --to inspect -o logs           then: inspect view --log-dir logs
  multiform export results --to eee -o every_eval_ever
  multiform export results --to parquet
""",
)
def export(options: argparse.Namespace) -> None:
    """Read the run, and write its files."""
    from multiform.results.exchange.exporters import exporters, shareable
    from multiform.results.export import prepare_output
    from multiform.results.read import read_results

    folder = Path(options.output)
    try:
        write = exporters.get(options.to)
        prepare_output(folder)
    except UsageError as error:
        raise error.relocate("--output" if error.where else "--to") from error
    results = shareable(read_results(options.run))
    for path in write(results, folder):
        print(f"wrote {path}")


_HALF_WIDTH = number_type(lambda value: 0 < value < math.inf, expected="a number above 0", example="0.02 for ± 0.02")


@command(
    "how many documents and wordings a wanted interval needs",
    RUN,
    flag("--half_width", "the wanted interval: ± X (default: 0.02)", _HALF_WIDTH, default=0.02, metavar="X"),
    JSON,
    description="Say how many documents, wordings and repeats give the interval that you want, at the lowest cost. The "
    "variance of each comes from a pilot run: any task under three or more wordings of a format, such as quiz@mcqa~8. "
    "Repeats are advised only if a metric averages them.",
    examples="""\
examples:
  multiform run --tasks arc_easy@mcqa~8 --limit 200 --output_path pilot --log_samples
  multiform advise pilot --half_width 0.02
  multiform advise pilot --half_width 0.01 --json
""",
)
def advise(options: argparse.Namespace) -> None:
    """Print the advice for each format that was run under several wordings."""
    from multiform.results.read import read_results

    advice = list(_advice(read_results(options.run), options.half_width))
    if not advice:
        message = "no task was run under three or more wordings of one format, with its samples"
        hint = "run e.g. quiz@mcqa~8 with --output_path and --log_samples first"
        raise UsageError(message, where=options.run, hint=hint)
    print_result(options, advice, (line for entry in advice for line in _lines(entry, options.half_width)))


def _advice(results: Results, half_width: float) -> Iterator[dict[str, Any]]:
    from multiform.statistics.design import RunDesign, cheapest_design

    totals = {form.task: form.total_docs for form in results.forms}
    for group in results.groups:
        totals[group.path] = sum(form.total_docs for form in results.forms if form.name in group.forms)
    for comparison in results.comparisons:
        for entry in comparison.populations if comparison.scoring != "any" else ():
            components, repeats = entry.population.components, 1
            known = _repeats(results, [comparison.forms[index] for index in entry.forms])
            if known is not None:
                variance, repeats = known
                components = components.split_repeats(variance, repeats)
            available = totals.get(comparison.name, comparison.n)
            design = cheapest_design(components, half_width, documents=available)
            now = RunDesign(documents=comparison.n, wordings=entry.population.wordings, repeats=repeats)
            best = RunDesign(documents=available, wordings=128, repeats=16 if components.repeat else 1)
            yield {
                "task": comparison.name,
                "format": entry.label,
                "metric": comparison.metric,
                "variance": {
                    "document": components.document,
                    "wording": components.wording,
                    **({} if known is None else {"repeat": components.repeat}),
                    "rest": components.rest,
                },
                "now": {**asdict(now), "half_width": components.half_width(now)},
                "available": available,
                "advice": None if design is None else {**asdict(design), "evaluations": design.evaluations},
                "best_possible": components.half_width(best),
            }


def _repeats(results: Results, names: Sequence[str]) -> tuple[float, int] | None:
    """The variance between repeats under the forms of a task, and their number; None where they are not known."""
    from multiform.results.compare import ScoredForm
    from multiform.statistics.design import repeat_variance

    members = {name for group in results.groups if group.name in names for name in group.forms}
    forms = [form for form in results.forms if form.name in {*names, *members}]
    numbers = {int(form.config.get("repeats") or 1) for form in forms}
    if len(numbers) != 1:
        return None
    (repeats,) = numbers
    variance = repeat_variance([value for form in forms for value in ScoredForm.of(form).values.values()], repeats)
    return (variance, repeats) if variance else None  # without any variance, a metric may take the first repeat alone


def _lines(entry: dict[str, Any], half_width: float) -> Iterator[str]:
    variance = entry["variance"]
    total = sum(variance.values()) or 1.0
    shares = ", ".join(f"{name}s {value / total:.0%}" for name, value in variance.items() if name != "rest")
    now, advice = entry["now"], entry["advice"]
    name, rest = f"{entry['task']}@{entry['format']}", f"{variance['rest'] / total:.0%}"
    yield f"{name}, {entry['metric']}: a single score varies by {shares}, the rest {rest}"
    yield f"  now: {now['documents']:,} documents × {_times(now)}, ± {now['half_width']:.4f}"
    if advice is None:
        most = _times({"wordings": 128, "repeats": 16 if "repeat" in variance else 1})
        reachable = f"{entry['available']:,} documents × {most} would give ± {entry['best_possible']:.4f}"
        yield f"  ± {half_width:g} cannot be reached with this dataset: {reachable}"
    else:
        needed = f"{advice['documents']:,} of {entry['available']:,} documents × {_times(advice)}"
        yield f"  for ± {half_width:g}: {needed}, {advice['evaluations']:,} evaluations"


def _times(design: dict[str, Any]) -> str:
    repeats = f" × {design['repeats']} repeats" if design["repeats"] > 1 else ""
    return f"{design['wordings']} wording{'s' * (design['wordings'] != 1)}{repeats}"

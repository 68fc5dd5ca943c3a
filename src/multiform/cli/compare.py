"""`multiform compare` and `gate`: paired differences between two runs, and a verdict on them under a policy."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from multiform.cli.parser import JSON, command, flag, print_result
from multiform.errors import UsageError, list_first
from multiform.run.values import number_type
from multiform.terminal import fit, markdown_text, screen_width, visible

if TYPE_CHECKING:
    from multiform.results import Results
    from multiform.results.gate import GateCondition, GateReport, Verdict
    from multiform.results.run_comparison import FormChange, WordingChange
    from multiform.results.values import ResultsData

_COLUMNS = ("Form", "Metric", "A", "B", "B − A", "95 % interval", "p", "n", "up", "down")
#: How many numbers of changed documents are listed.
_LISTED = 40
#: Groups of more forms have those left out of the table whose p value is not below this.
_FOLDED = 12
_ALPHA = 0.05
#: How many forms that only one run has are named.
_NAMED = 3


@command(
    "compare two runs: paired differences, changed documents, an exit code",
    flag("first", "an --output_path, or a results_<date>.json in it", metavar="RUN_A"),
    flag("second", "the run to compare with it", metavar="RUN_B"),
    flag("--metric", "the score to compare (default: the first of each form)", metavar="NAME"),
    flag(
        "--fail_below",
        "exit with 1 if RUN_B clearly gains less than X; -0.02 means that it loses more than two points. All forms are "
        "tested together with an error of 5 %%. Forms and documents that RUN_B lacks fail, too",
        number_type(math.isfinite, expected="a number", example="-0.02"),
        metavar="X",
    ),
    flag("--strict", "with --fail_below: exit with 1 unless every form is shown to keep X"),
    flag("--allow_missing", "with --fail_below: pass although RUN_B lacks forms or documents"),
    flag("--documents", "list the documents that changed"),
    JSON,
    description="Compare two runs, of Multiform or of lm-eval, document by document: the second minus the first.",
    examples="""\
examples:
  multiform compare results/base results/tuned
  multiform compare results/base lm_eval_results            with a run of lm-eval
  multiform compare base tuned --fail_below -0.02           exit code 1 if a form clearly lost more than two points
  multiform compare base tuned --documents                  the numbers of the documents that changed
""",
)
def compare(options: argparse.Namespace) -> int:
    """Print the differences; the exit code is 1 if one is below the limit."""
    from multiform.results.gate import gate as judge_changes
    from multiform.results.read import read_results
    from multiform.results.run_comparison import compare_groups, compare_runs, compare_wordings, only_in

    if options.fail_below is None and (options.strict or options.allow_missing):
        flag = "--strict" if options.strict else "--allow_missing"
        raise UsageError("there is no limit to check", where=flag, hint="give e.g. --fail_below -0.02 as well")
    first, second = read_results(options.first), read_results(options.second)
    compared = compare_runs(first, second, metric=options.metric)
    groups = compare_groups(first, second, metric=options.metric)
    wordings = compare_wordings(first, second, metric=options.metric)
    alone = {"only_in_first": only_in(first, second), "only_in_second": only_in(second, first)}
    verdicts = None if options.fail_below is None else judge_changes([*groups, *compared], options.fail_below)
    partial = [entry.name for entry in compared if entry.left_out[0]]
    missing = [] if options.allow_missing else [*alone["only_in_first"], *partial]
    failed = () if verdicts is None else verdicts["FAIL"]
    folded = _fold(first, compared, groups) - {entry.name for entry in failed}
    described = {
        "forms": list(map(_entry, compared)),
        "groups": list(map(_entry, groups)),
        "wordings": list(map(asdict, wordings)),
        "failed": [entry.name for entry in failed],
        **alone,
    }
    if verdicts is not None:
        described |= {"open": [entry.name for entry in verdicts["INCONCLUSIVE"]], "missing": missing}
    shown = [*groups, *(entry for entry in compared if entry.name not in folded)]
    table = _table([_row(entry) for entry in shown], screen_width(sys.stdout))
    notes = _notes(shown, len(folded), wordings, documents=options.documents)
    print_result(options, described, [table, *(fit(note, sys.stdout) for note in notes)])
    runs = (options.first, options.second)
    for line in _cautions(compared, runs):
        print(fit(line, sys.stderr), file=sys.stderr)
    for run, names in zip(runs, alone.values(), strict=True):
        if names:
            print(fit(f"not compared, as only {run} has it: {_name_list(names)}", sys.stderr), file=sys.stderr)
    return 0 if verdicts is None else _report_limit(verdicts, missing, options)


def _entry(entry: FormChange) -> dict[str, Any]:
    return {**asdict(entry), "simultaneous": entry.simultaneous, "p_simultaneous": entry.p_simultaneous}


def _wording_line(entry: WordingChange) -> str:
    low, high = entry.population.mean.interval
    return (
        f"{entry.name}: over {entry.population.wordings} wordings B − A is {entry.population.mean.value:+.4f} "
        f"({low:+.4f} to {high:+.4f}) in {entry.metric}; another wording reverses the order of the two runs with "
        f"probability {entry.reversal:.2f}"
    )


def _report_limit(
    verdicts: Mapping[Verdict, Sequence[FormChange]], missing: Sequence[str], options: argparse.Namespace
) -> int:
    """Say which forms fail the limit, which are missing and which are open; the exit code."""
    limit, failed, undecided = f"{options.fail_below:+g}", verdicts["FAIL"], verdicts["INCONCLUSIVE"]
    for entry in failed:
        highest = entry.gain_bounds()[1]
        surely = "" if math.isnan(highest) else f" (with 95 % confidence below {highest:+.4f})"
        print(f"fails: {entry.name}: {entry.gain:+.4f} is below {limit}{surely}", file=sys.stderr)
    if missing:
        lacks = f"{options.second} lacks forms or documents of {options.first}: {_name_list(missing)}"
        print(f"fails: {lacks}; --allow_missing passes without them", file=sys.stderr)
    if undecided:
        names = _name_list([entry.name for entry in undecided])
        word = "fails" if options.strict else "passes"
        print(
            f"{word}, but a result below {limit} is not excluded: {names}; more documents would tell", file=sys.stderr
        )
    return 1 if failed or missing or (options.strict and undecided) else 0


def _cautions(compared: Sequence[FormChange], runs: Sequence[str]) -> Iterator[str]:
    """What differences may come from beside the model, and which documents they leave out."""
    by_settings: dict[tuple[str, ...], list[str]] = {}
    for entry in compared:
        by_settings.setdefault(entry.settings, []).append(entry.name)
    for settings, names in by_settings.items():
        if settings:
            yield f"{_name_list(names)}: not the same in both runs: {', '.join(settings)}"
    yield from _left_out([entry for entry in compared if any(entry.left_out)], runs)


def _left_out(partial: Sequence[FormChange], runs: Sequence[str]) -> Iterator[str]:
    """How many documents forms are compared over: a line for those with the same numbers, or one line for many."""
    by_counts: dict[tuple[int, ...], list[str]] = {}
    for entry in partial:
        by_counts.setdefault((entry.difference.n, *entry.left_out), []).append(entry.name)
    if len(by_counts) > _NAMED:
        sums = [sum(counts) for counts in zip(*((e.difference.n, *e.left_out) for e in partial), strict=True)]
        yield f"{_name_list([entry.name for entry in partial])}: together {_counts(sums, runs)}"
        return
    for counts, names in by_counts.items():
        yield f"{_name_list(names)}: {'each ' if len(names) > 1 else ''}{_counts(counts, runs)}"


def _counts(counts: Sequence[int], runs: Sequence[str]) -> str:
    shared, *left_out = counts
    only = " and ".join(f"{number:,} only in {run}" for number, run in zip(left_out, runs, strict=True) if number)
    return f"over the {shared:,} documents that both have; {only}"


def _name_list(names: Sequence[str]) -> str:
    return visible(list_first(names, _NAMED))


def _fold(first: Results, compared: Sequence[FormChange], groups: Sequence[FormChange]) -> set[str]:
    """The forms of large groups that are left out of the table, as their groups are in it: those of no significance."""
    large = [group for group in first.groups if len(group.forms) > _FOLDED and group.name in {g.name for g in groups}]
    inside = {name for group in large for name in group.forms}
    return {entry.name for entry in compared if entry.name in inside and not (entry.p_simultaneous or 0.0) < _ALPHA}


def _notes(
    shown: Sequence[FormChange], folded: int, wordings: Sequence[WordingChange], *, documents: bool
) -> Iterator[str]:
    """What holds for the table, and the documents that changed."""
    most = max((entry.comparisons for entry in shown), default=1)
    if most > 1:
        yield f"intervals and p values hold for all {most} rows at once (Bonferroni)"
    if any(not entry.paired for entry in shown):
        yield (
            "where p is missing, a run has no samples of its documents, or the score is not a mean over them; "
            "the interval is then that of unrelated documents"
        )
    for entry in shown if documents else ():
        for word, numbers in (("up", entry.raised), ("down", entry.lowered)):
            if numbers:
                yield f"{visible(entry.name)}: {word}: {list_first(numbers, _LISTED)}"
    if folded:
        yield f"{folded} forms of the groups are not listed, as no difference is significant; --json has them"
    yield from map(_wording_line, wordings)


def _table(rows: Sequence[Sequence[str]], width: int | None) -> str:
    """The table on one line for each row, or on two if it does not fit the width; long names are folded."""
    from multiform.results.table import Column, columns_text, total_width

    cells = zip(*rows, strict=True) if rows else repeat(())
    columns = [
        Column(heading, texts, "left" if heading in ("Form", "Metric") else "right")
        for heading, texts in zip(_COLUMNS, cells, strict=False)
    ]
    if width is not None and total_width(columns) - 1 > width:
        columns = [above.above(below) for above, below in zip(columns[::2], columns[1::2], strict=True)]
    return columns_text(columns, width)


def _row(entry: FormChange) -> tuple[str, ...]:
    difference, (low, high), p = entry.difference, entry.simultaneous, entry.p_simultaneous
    interval = "" if math.isnan(low) else f"{low:+.4f} to {high:+.4f}"
    arrow = "↑" if entry.higher_is_better else "↓"
    return (
        visible(entry.name),
        visible(f"{entry.metric} {arrow}"),
        f"{entry.first.value:.4f}",
        f"{entry.second.value:.4f}",
        f"{difference.value:+.4f}",
        interval,
        "" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}",
        str(difference.n),
        str(len(entry.raised)) if entry.paired else "",
        str(len(entry.lowered)) if entry.paired else "",
    )


_SIGNS = {"max_loss": "loses at most", "min_gain": "gains at least", "min_score": "at least", "max_score": "at most"}
_MARKS = {"PASS": "✅", "FAIL": "❌", "INCONCLUSIVE": "❔"}


@command(
    "check a run against a baseline and a policy: PASS, FAIL or INCONCLUSIVE",
    flag("policy", "a YAML file of limits", metavar="POLICY"),
    flag("base", "the baseline: an --output_path, or an accuracy file of vLLM", metavar="BASE"),
    flag("candidate", "the run to check", metavar="CANDIDATE"),
    flag("--markdown", "also write a table for a pull request; - prints it alone", metavar="FILE"),
    flag("--junit", "also write JUnit XML", metavar="FILE"),
    JSON,
    description="Check a run against a baseline under a policy of limits. The exit code is 0 (PASS), 1 (FAIL) or 3 "
    "(INCONCLUSIVE: the intervals decide neither; it then says how many more documents would decide).",
    examples="""\
examples:
  multiform gate policy.yaml results/base results/tuned
  multiform gate policy.yaml base tuned --markdown comment.md --junit gate.xml
  multiform gate policy.yaml Meta-Llama-3-8B.yaml tuned     against an accuracy file of vLLM

policy.yaml:
  confidence: 0.95
  default: {max_loss: 0.02, min_n: 100}
  tasks:
    gsm8k: {max_loss: 0.01}
    mmlu*: {min_score: 0.6}
""",
)
def gate(options: argparse.Namespace) -> int:
    """Print the verdict of each condition; the exit code is that of the whole."""
    from multiform.results.gate import EXIT_CODES, check_policy, read_policy
    from multiform.results.read import read_results

    policy = read_policy(Path(options.policy))
    report = check_policy(policy, _baseline(options.base), read_results(options.candidate))
    lines = [markdown(report).rstrip("\n")] if options.markdown == "-" else map(visible, _verdict_lines(report))
    print_result(options, asdict(report) | {"verdict": report.verdict}, lines)
    if options.markdown not in (None, "-"):
        _write(options.markdown, markdown(report))
    if options.junit:
        _write(options.junit, junit(report))
    for caution in report.cautions:
        print(visible(caution), file=sys.stderr)
    return EXIT_CODES[report.verdict]


def _baseline(name: str) -> ResultsData:
    """The run in a folder or file, or the scores of one of vLLM's accuracy files, which are YAML."""
    from multiform.results.gate import read_accuracy_file
    from multiform.results.read import read_results

    path = Path(name)
    return read_accuracy_file(path) if path.suffix in (".yaml", ".yml") and path.is_file() else read_results(path)


def _write(path: str, text: str) -> None:
    from multiform.paths import replace_output

    with replace_output(Path(path)) as partial:
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")


def _verdict_lines(report: GateReport) -> list[str]:
    lines = [f"{c.verdict:<12}  {c.name}: {_statement(c)}" for c in report.conditions]
    lines += [f"{'FAIL':<12}  {name}: the candidate lacks it, or documents of it" for name in report.missing]
    return [*lines, f"{report.verdict}: {_summary(report)}"]


def _statement(condition: GateCondition) -> str:
    """The condition, what was measured, and what would decide it."""
    signed = condition.kind in ("max_loss", "min_gain")
    number = "{:+.4f}" if signed else "{:.4f}"
    text = f"{condition.metric} {_SIGNS[condition.kind]} {condition.limit:g}; it {'gains' if signed else 'is'} "
    text += number.format(condition.value)
    if not math.isnan(condition.high):
        text += f" ({number.format(condition.low)} to {number.format(condition.high)})"
    text += f" over {condition.n:,} documents"
    return "; ".join(part for part in (text, condition.note, _missing_documents(condition)) if part)


def _missing_documents(condition: GateCondition) -> str:
    if condition.verdict != "INCONCLUSIVE":
        return ""
    if condition.more is None:
        return "" if condition.note else "the value is at the limit: no number of documents can be given"
    text = f"about {condition.more:,} more documents would decide, if the value stays"
    left = condition.total - condition.n
    return f"{text}; the dataset has {max(0, left):,} more" if condition.total and left < condition.more else text


def _summary(report: GateReport) -> str:
    counts = {word: sum(c.verdict == word for c in report.conditions) for word in ("PASS", "FAIL", "INCONCLUSIVE")}
    listed = ", ".join(f"{number} {word}" for word, number in counts.items() if number)
    missing = f", {len(report.missing)} missing" if report.missing else ""
    return f"{listed}{missing}; with {report.confidence * 100:g} % confidence for all conditions together"


def markdown(report: GateReport) -> str:
    """The report as Markdown for the comment of a pull request."""
    rows = ["| | form | score | condition | measured | n |", "|---|---|---|---|---:|---:|"]
    for c in report.conditions:
        interval = "" if math.isnan(c.high) else f" ({c.low:+.4f} to {c.high:+.4f})"
        remark = "; ".join(part for part in (c.note, _missing_documents(c)) if part)
        condition = f"{_SIGNS[c.kind]} {c.limit:g}{f'<br>{remark}' if remark else ''}"
        cells = (_MARKS[c.verdict], _cell(c.name), _cell(c.metric), condition, f"{c.value:+.4f}{interval}", f"{c.n:,}")
        rows.append(f"| {' | '.join(cells)} |")
    rows += [f"| {_MARKS['FAIL']} | {_cell(name)} | | missing in the candidate | | |" for name in report.missing]
    cautions = [f"* {_cell(caution)}" for caution in report.cautions]
    parts = [f"### {_MARKS[report.verdict]} {report.verdict}: {_summary(report)}", "\n".join(rows), "\n".join(cautions)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _cell(text: str) -> str:
    return markdown_text(text).replace("@", "@\u200b")  # a form's name must not mention a user


def junit(report: GateReport) -> str:
    """The report as JUnit XML: a test case for each condition; an open one is skipped."""
    verdicts = [condition.verdict for condition in report.conditions]
    counts = {
        "tests": len(verdicts) + len(report.missing),
        "failures": verdicts.count("FAIL") + len(report.missing),
        "skipped": verdicts.count("INCONCLUSIVE"),
        "errors": 0,
    }
    suite = ElementTree.Element("testsuite", {"name": "multiform gate", **{key: str(n) for key, n in counts.items()}})
    for condition in report.conditions:
        case = _case(suite, condition.name, f"{condition.metric} {condition.kind} {condition.limit:g}")
        word = {"FAIL": "failure", "INCONCLUSIVE": "skipped"}.get(condition.verdict)
        if word is not None:
            ElementTree.SubElement(case, word, message=visible(_statement(condition)))
    for name in report.missing:
        case = _case(suite, name, "present")
        ElementTree.SubElement(case, "failure", message="the candidate lacks it, or documents of it")
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, form: str, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=visible(form), name=visible(name))

"""`multiform gate`: a verdict on two runs under a policy, for continuous integration."""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from multiform.cli.parser import JSON, command, flag, print_result
from multiform.terminal import visible

if TYPE_CHECKING:
    from multiform.results.gate import GateCondition, GateReport
    from multiform.results.values import ResultsData

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
    lines = [markdown(report).rstrip("\n")] if options.markdown == "-" else map(visible, _lines(report))
    print_result(options, asdict(report) | {"verdict": report.verdict}, lines)
    if options.markdown not in (None, "-"):
        _write(options.markdown, markdown(report))
    if options.junit:
        _write(options.junit, junit(report))
    for caution in report.cautions:
        print(visible(caution), file=sys.stderr)
    return EXIT_CODES[report.verdict]


def _baseline(path: str) -> ResultsData:
    from multiform.results.gate import is_accuracy_file, read_accuracy_file
    from multiform.results.read import read_results

    return read_accuracy_file(Path(path)) if is_accuracy_file(Path(path)) else read_results(path)


def _write(path: str, text: str) -> None:
    from multiform.paths import replace_output

    with replace_output(Path(path)) as partial:
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")


def _lines(report: GateReport) -> list[str]:
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
    escaped = visible(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "\\`")
    return escaped.replace("@", "@\u200b").replace("\n", " ")  # a form's name must not mention a user


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

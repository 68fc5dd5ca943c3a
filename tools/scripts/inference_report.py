"""Counts what formats find in the task files of lm-eval, and writes the table into the documentation.

    python tools/scripts/inference_report.py            # write docs/foreign-tasks.md
    python tools/scripts/inference_report.py --check    # fail if the page says something else
    python tools/scripts/inference_report.py --list no  # the tasks that are refused because of "no question"

It reads the files of the lm-eval that is installed (the `parity` extra), and runs none of their code.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from multiform.errors import ConfigError
from multiform.formats.infer import TaskFields, infer
from multiform.formats.infer.layout import UnclearPromptError
from multiform.tasks.yaml import read_yaml

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "foreign-tasks.md"
BEGIN, END = "<!-- report -->\n", "<!-- end of report -->\n"
HOW = {
    "template": "recovered from the template",
    "raw": "raw already",
    "documents": "recovered from each document's prompt, or refused there",
}


@dataclass(frozen=True)
class Finding:
    """What was found in one task file."""

    name: str
    output_type: str
    how: str
    reason: str = ""


def task_folder() -> Path:
    """The task files of the lm-eval that is installed."""
    spec = find_spec("lm_eval")
    if spec is None or spec.origin is None:
        raise SystemExit("lm-eval is not installed: pip install 'multiform[parity]'")
    return Path(spec.origin).parent / "tasks"


def findings(folder: Path) -> Iterator[Finding]:
    """What is found in each task file below a folder."""
    for path in sorted(folder.rglob("*.yaml")):
        try:
            data = read_yaml(path).data
        except ConfigError:
            continue
        if not isinstance(data.get("task"), str) or "group" in data:
            continue
        name, output_type = data["task"], str(data.get("output_type", "generate_until"))
        fields = TaskFields(
            text=data.get("doc_to_text"),
            choices=data.get("doc_to_choice"),
            target=data.get("doc_to_target"),
            ranks=output_type == "multiple_choice",
            processed=data.get("process_docs") is not None,
        )
        try:
            yield Finding(name, output_type, infer(fields).how)
        except UnclearPromptError as error:
            yield Finding(name, output_type, "refused", error.reason)


def report(found: list[Finding]) -> str:
    """The counts as a table."""
    kinds = ("multiple_choice", "generate_until")
    counts = {kind: Counter((one.how, one.reason) for one in found if one.output_type == kind) for kind in kinds}
    totals = {kind: sum(counts[kind].values()) for kind in kinds}
    lines = ["| | multiple choice | generation |", "|---|---|---|"]
    lines += [_row(f"**{name}**", [counts[kind][how, ""] for kind in kinds]) for how, name in HOW.items()]
    reasons = Counter({reason: number for (how, reason), number in counts[kinds[0]].items() if how == "refused"})
    others = {reason for how, reason in counts[kinds[1]] if how == "refused"}
    for reason in [*(reason for reason, _ in reasons.most_common()), *sorted(others - set(reasons))]:
        lines.append(_row(f"refused: {reason}", [counts[kind]["refused", reason] for kind in kinds]))
    lines.append(_row("all", [totals[kind] for kind in kinds]))
    sure = counts[kinds[0]]["template", ""] + counts[kinds[0]]["raw", ""]
    share = f"{100 * sure / totals[kinds[0]]:.1f} %" if totals[kinds[0]] else "none"
    tasks = f"{totals[kinds[0]]:,} multiple-choice tasks"
    head = f"In {sure:,} ({share}) of {tasks}, question and choices follow from the file alone."
    return "\n".join([head, "", *lines, ""])


def _row(name: str, numbers: list[int]) -> str:
    return f"| {name} | {' | '.join(f'{number:,}' for number in numbers)} |"


def written(page: str, table: str) -> str:
    """The page with the table in its place."""
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}{table}{END}", page, flags=re.DOTALL)


def main(argv: list[str]) -> int:
    """Write, check or list."""
    parser = argparse.ArgumentParser(description="Count what formats find in lm-eval's task files.")
    parser.add_argument("--check", action="store_true", help="fail instead of writing")
    parser.add_argument("--list", metavar="TEXT", help="print the tasks whose way or reason begins with TEXT")
    options = parser.parse_args(argv)
    found = list(findings(task_folder()))
    if options.list is not None:
        print("\n".join(one.name for one in found if (one.reason or one.how).startswith(options.list)))
        return 0
    page = PAGE.read_text(encoding="utf-8")
    made = written(page, report(found))
    if options.check and made != page:
        print(f"{PAGE.relative_to(ROOT)} is out of date: run python tools/scripts/inference_report.py", file=sys.stderr)
        return 1
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

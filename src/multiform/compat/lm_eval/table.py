"""The table of results that scripts print: Markdown, with lm-eval's columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_ARROWS = {True: "↑", False: "↓"}
_NOT_METRICS = ("name", "alias", "sample_len", "sample_count")
#: The columns of numbers, which stand to the right.
_RIGHT = ("n-shot", "Value", "Stderr")


def make_table(result_dict: Mapping[str, Any], column: str = "results", sort_results: bool = False) -> str:
    """A row for each metric of each task, or of each group with ``column="groups"``."""
    headers = ["Groups" if column == "groups" else "Tasks", "Version", "Filter", "n-shot", "Metric", "", "Value", "",
               "Stderr"]  # fmt: skip
    order = _depths(result_dict.get("group_subtasks", {}), list(result_dict[column]))
    names = sorted(result_dict[column]) if sort_results else order
    rows = [row for name in names for row in _rows(name, order.get(name, 0), result_dict, column)]
    return _markdown(headers, rows)


def _depths(groups: Mapping[str, Sequence[str]], names: Sequence[str]) -> dict[str, int]:
    """The names in the order of the table, members below their groups, each with how deep it is."""
    inside = {member for members in groups.values() for member in members}
    found: dict[str, int] = {}

    def add(name: str, depth: int) -> None:
        if name in names and name not in found:
            found[name] = depth
            for member in sorted(groups.get(name, ())):
                add(member, depth + 1)

    for name in sorted(names):
        if name not in inside:
            add(name, 0)
    for name in sorted(names):
        add(name, 0)
    return found


def _rows(name: str, depth: int, results: Mapping[str, Any], column: str) -> list[list[str]]:
    scores = results[column][name]
    shown = " " * depth + "- " * bool(depth) + str(scores.get("alias", name))
    version, shots = str(results["versions"].get(name, "    N/A")), str(results.get("n-shot", {}).get(name, " "))
    better = results.get("higher_is_better", {}).get(name, {})
    rows: list[list[str]] = []
    for key in sorted(key for key in scores if key not in _NOT_METRICS):
        metric, _, filtered = key.partition(",")
        if metric.endswith("_stderr"):
            continue
        error = scores.get(f"{metric}_stderr,{filtered}", "")
        sign = "" if error == "" else "±"
        first = [shown, version] if not rows else ["", ""]
        rows.append([*first, filtered, shots, metric, _ARROWS.get(better.get(metric), ""),
                     _number(scores[key]), sign, _number("   N/A" if error == "N/A" else error)])  # fmt: skip
    return rows


def _number(value: Any) -> str:
    """Four decimals, or none where they would all be 0."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return str(value)
    return f"{value:.0f}" if float(f"{value:.4f}").is_integer() else f"{value:.4f}"


def _markdown(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(3, *(len(row[index]) for row in [headers, *rows])) for index in range(len(headers))]
    numeric = [header in _RIGHT and any(_is_number(row[index]) for row in rows) for index, header in enumerate(headers)]
    lines = ["|" + "|".join(f"{header:^{width}}" for header, width in zip(headers, widths, strict=True)) + "|"]
    rules = ["-" * (width - 1) + ":" if right else "-" * width for width, right in zip(widths, numeric, strict=True)]
    lines.append("|" + "|".join(rules) + "|")
    for row in rows:
        cells = [
            f"{cell:>{width}}" if right else f"{cell:<{width}}"
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        lines.append("|" + "|".join(cells) + "|")
    return "\n".join(lines) + "\n"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

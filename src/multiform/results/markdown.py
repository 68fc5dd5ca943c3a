"""lm-eval's table in Markdown, from the keys of a results file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from multiform.results.notes import result_notes
from multiform.results.values import ResultsData
from multiform.terminal import markdown_text


def markdown(results: ResultsData) -> str:
    """A line about the run and a table of tasks, then a table of groups where there are any.

    |Tasks|Version|Filter|n-shot|Metric|   |Value|   |Stderr|
    |-----|------:|------|-----:|------|---|----:|---|-----:|
    |mine |      1|none  |     0|acc   |↑  | 0.25|±  |0.0693|
    """
    about = {key: results.run.get(key) for key in ("gen_kwargs", "limit", "num_fewshot", "batch_size")}
    line = f"{results.run.get('model')} ({results.run.get('model_args')}), "
    line += f"gen_kwargs: ({about.pop('gen_kwargs')}), " + ", ".join(f"{key}: {value}" for key, value in about.items())
    entries = results.entries
    saved = {
        "results": {entry.name: entry.scores() for entry in entries},
        "groups": {group.name: group.scores() for group in results.groups if group.estimates},
        "group_subtasks": {group.name: group.members for group in results.groups},
        "versions": {entry.name: entry.version for entry in entries},
        "n-shot": {entry.name: entry.num_fewshot for entry in entries},
        "higher_is_better": {entry.name: entry.higher_is_better for entry in entries},
    }
    tables = [make_table(saved, column) for column in ("results", "groups") if saved[column] or column == "results"]
    return "\n".join([markdown_text(line), *tables, *map(markdown_text, result_notes(results))])


_ARROWS = {True: "↑", False: "↓"}
_NOT_METRICS = ("name", "alias", "sample_len", "sample_count")
#: The columns that may hold numbers.
_NUMBERS = ("Version", "n-shot", "Value", "Stderr")


def make_table(result_dict: Mapping[str, Any], column: str = "results", sort_results: bool = False) -> str:
    """A row for each metric of each task, or of each group with ``column="groups"``."""
    headers = ["Groups" if column == "groups" else "Tasks", "Version", "Filter", "n-shot", "Metric", "", "Value", "",
               "Stderr"]  # fmt: skip
    order = _depths(result_dict.get("group_subtasks", {}), list(result_dict[column]))
    names = sorted(result_dict[column]) if sort_results else order
    rows = [row for name in names for row in _rows(name, order.get(name, 0), result_dict, column)]
    return _markdown(headers, rows)


def _depths(groups: Mapping[str, Sequence[str]], names: Sequence[str]) -> dict[str, int]:
    """The names in the order of the table, groups first and members below their groups, each with how deep it is."""
    inside = {member for members in groups.values() for member in members}
    depths: dict[str, int] = {}

    def add(name: str, depth: int) -> None:
        if name in names and name not in depths:
            depths[name] = depth
            for member in sorted(groups.get(name, ())):
                add(member, depth + 1)

    for name in sorted(names, key=lambda name: (name in inside, not groups.get(name), name)):
        add(name, 0)
    return depths


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
        first = [shown, version] if not rows else ["", ""]
        arrow, sign = _ARROWS.get(better.get(metric), ""), "" if error == "" else "±"
        rows.append([*first, filtered, shots, metric, arrow, _score(scores[key]), sign, _score(error)])
    return rows


def _score(value: Any) -> str:
    if value == "N/A":
        return "   N/A"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _markdown(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The table; a column of numbers stands to the right, with as many decimals as its longest number needs."""
    columns = [_column(header, [markdown_text(row[index]) for row in rows]) for index, header in enumerate(headers)]
    heads = ["|" + "|".join(column[line] for column in columns) + "|" for line in range(len(rows) + 2)]
    return "\n".join(heads) + "\n"


def _column(header: str, cells: Sequence[str]) -> list[str]:
    """The header, the rule below it and the cells, all of one width."""
    filled = [cell for cell in cells if cell.strip()]
    numeric = header in _NUMBERS and bool(filled) and all(_number(cell) is not None for cell in filled)
    decimals = max((_decimals(cell) for cell in filled), default=0) if numeric else 0
    texts = [_spell_number(cell, decimals) if numeric else cell for cell in cells]
    width = max(3, len(header), *map(len, texts), 0)
    rule = "-" * (width - 1) + ":" if numeric else "-" * width
    placed = [f"{text:>{width}}" if numeric or _whole(header, text) else f"{text:<{width}}" for text in texts]
    trimmed = [f"{int(float(text)):>{width}}" if not numeric and _whole(header, text) else text for text in placed]
    return [f"{header:^{width}}", rule, *trimmed]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _decimals(text: str) -> int:
    """How many decimals a number needs.

    >>> _decimals("0.2500"), _decimals("3.0"), _decimals("nan")
    (2, 0, 0)
    """
    return len(text.partition(".")[2].rstrip("0"))


def _spell_number(text: str, decimals: int) -> str:
    value = _number(text)
    if value is None:
        return text
    return f"{value:.{decimals}f}" if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity"


def _whole(header: str, text: str) -> bool:
    """Whether a cell among texts is a whole number, such as a version."""
    value = _number(text) if header in _NUMBERS else None
    return value is not None and math.isfinite(value) and value.is_integer()

"""Tables of figures: a row has one of both sides, and their ratio.

python -m tools.benchmarks.tables   puts those of a whole run of the benchmarks into docs/engine.md and docs/scale.md

Each table stands between a line ``<!-- benchmarks: NAME -->`` and a line ``<!-- end -->``.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tools import ROOT

#: What the page calls the workloads.
WORKLOADS = {
    "labels, 0-shot": "labels scored, 0-shot",
    "labels, 5-shot": "labels scored, 5-shot, same shots",
    "texts, 0-shot": "texts scored, 0-shot",
    "texts, 5-shot": "texts scored, 5-shot, same shots",
    "texts, 5-shot, other shots": "texts scored, 5-shot, other shots for each document",
    "generation, 5-shot": "generation, 5-shot, stop at a blank line",
}
ARCHITECTURES = {
    "llama": "Llama",
    "mistral": "Mistral, window 128",
    "qwen2": "Qwen2",
    "qwen3": "Qwen3",
    "gemma2": "Gemma 2",
    "gemma3_text": "Gemma 3",
    "gpt_neox": "GPT-NeoX",
    "gpt2": "GPT-2",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A figure of both sides. `ratio` is lm-eval's over ours: more is better for us."""

    measure: str
    case: str
    unit: str
    note: str = ""
    ours: float
    theirs: float | None = None
    #: What the ratio is to reach, or what our figure is to stay below where there is no other side.
    needed: float | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.theirs is None or not self.ours else self.theirs / self.ours

    @property
    def met(self) -> bool | None:
        if self.needed is None:
            return None
        return self.ours <= self.needed if self.ratio is None else self.ratio >= self.needed

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "met": self.met}


def say(text: str) -> None:
    """Tell what is going on; the table alone goes to standard output."""
    print(text, file=sys.stderr, flush=True)


def print_rows(rows: Iterable[Row]) -> None:
    """Print the table."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("Measure", "Case", "Unit"):
        table.add_column(name, no_wrap=True)
    for name in ("Multiform", "lm-eval", "Ratio", "Needed"):
        table.add_column(name, justify="right")
    table.add_column("")
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        needed = "" if row.needed is None else f"{'≤ ' if row.ratio is None else '≥ '}{row.needed:g}"
        mark = {None: "", True: "met", False: "MISSED"}[row.met]
        cells = (row.measure, row.case, row.unit, _figure(row.ours), _figure(row.theirs), ratio, needed)
        table.add_row(*cells, f"{mark} {row.note}".strip())
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


class Figures:
    """The rows of a run, by measure and case."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.few, self.many = content["docs"]
        self.rows = content["rows"]

    def row(self, measure: str, case: str) -> dict[str, Any]:
        """The last row of that measure and case; an error if there is none."""
        found = [row for row in self.rows if (row["measure"], row["case"]) == (measure, case)]
        if not found:
            raise SystemExit(f"the benchmarks have no row '{measure}', '{case}'")
        return dict(found[-1])

    def cases(self, measure: str, pattern: str) -> list[dict[str, Any]]:
        """The rows of a measure whose cases match a pattern."""
        return [row for row in self.rows if row["measure"] == measure and re.fullmatch(pattern, row["case"])]


def scoring(figures: Figures) -> Iterator[str]:
    """Tokens, CPU time and memory of each workload."""
    yield from _table(
        "workload",
        "tokens: Multiform / prefix tree",
        "tokens: lm-eval / Multiform",
        "CPU time: lm-eval / Multiform",
        "peak memory, MB",
    )
    for name, title in WORKLOADS.items():
        case = f"{name}, {figures.many} docs"
        tree, read, cpu, memory = (
            figures.row(measure, case) for measure in ("tokens read / tree", "tokens read", "CPU time", "peak memory")
        )
        tokens = _times(read["ratio"])
        if name.startswith("generation"):
            tokens += f" in prefill, {_times(figures.row('tokens written', case)['ratio'])} in decode"
        megabytes = f"{memory['ours']:,.0f} against {memory['theirs']:,.0f}"
        yield _line(title, f"{tree['ours']:.3f}", tokens, _times(cpu["ratio"]), megabytes)


def forms(figures: Figures) -> Iterator[str]:
    """Tokens and CPU time of many forms in one run."""
    yield from _table(
        "forms",
        "tokens: Multiform / prefix tree",
        "tokens: lm-eval / Multiform",
        "CPU time: lm-eval / Multiform",
    )
    for tree in figures.cases("tokens read / tree", r"\d+ (scored|generated) forms, .*"):
        both = [row for name in ("tokens read", "CPU time") for row in figures.cases(name, re.escape(tree["case"]))]
        yield _line(tree["case"], f"{tree['ours']:.3f}", *([_times(row["ratio"]) for row in both] or ["", ""]))


def architectures(figures: Figures) -> Iterator[str]:
    """The lead in CPU time by architecture."""
    yield from _table("", *ARCHITECTURES.values())
    rows = [figures.cases("CPU time", rf"{name}, 5-shot texts, .*")[-1] for name in ARCHITECTURES]
    yield _line("CPU time: lm-eval / Multiform", *(_times(row["ratio"]) for row in rows))


def whole(figures: Figures) -> Iterator[str]:
    """A sentence about a whole run."""
    row = figures.cases("whole run", ".*")[-1]
    docs = row["case"].rpartition(", ")[2].removesuffix(" docs")
    yield from textwrap.wrap(
        f"**A whole run** of {docs} documents, texts scored 5-shot, from the command to its results with "
        "nothing kept from before (`python -m tools.benchmarks --only whole`): "
        f"{row['ours']:.0f} s of CPU against lm-eval's {row['theirs']:.0f}, {row['ratio']:.0f} times less.",
        width=120,
        break_on_hyphens=False,
    )


def startup(figures: Figures) -> Iterator[str]:
    """CPU seconds to the first forward pass, by phase."""
    runs: dict[str, dict[str, float]] = {}
    for row in (row for row in figures.rows if row["measure"] == "start-up"):
        if row["case"].endswith(", to its first forward pass"):
            runs[row["case"].partition(",")[0]] = phases = {"in all": row["ours"]}
            theirs = row["theirs"]
        elif row["case"].startswith("  of it "):
            phases[row["case"].removeprefix("  of it ")] = row["ours"]
    yield from _table("", "transformers alone", *runs)
    whole = [phases.pop("in all") for phases in runs.values()]
    yield _line("in all", f"{theirs:.2f}", *(f"{seconds:.2f} ({seconds / theirs:.2f} times)" for seconds in whole))
    for name in dict.fromkeys(name for phases in runs.values() for name in phases):
        yield _line(name, "", *(f"{phases.get(name, 0.0):.2f}" for phases in runs.values()))


def streams(figures: Figures) -> Iterator[str]:
    """Memory, seconds before the first response, and CPU time of runs of more and more requests."""
    columns = ("peak memory", "before the first response", "CPU time")
    yield from _table("requests", *(f"{model}: {column}" for model in ("dummy", "tiny model") for column in columns))
    for size in [row["case"].removeprefix("dummy, ") for row in figures.cases("peak memory of a run", "dummy, .*")]:
        cells: list[str] = []
        for case in (f"dummy, {size}", f"tiny, {size}"):
            found = figures.cases("peak memory of a run", case)
            if not found:
                cells += ["not run"] * len(columns)
                continue
            first, cpu = (figures.row(measure, case)["ours"] for measure in ("before the first response", "a run"))
            cells += [f"{found[-1]['ours']:,.0f} MB", f"{first:.1f} s", f"{cpu:,.0f} s"]
        yield _line(size.removesuffix(" requests"), *cells)


TABLES: dict[str, Callable[[Figures], Iterator[str]]] = {
    "scoring": scoring,
    "forms": forms,
    "architectures": architectures,
    "whole": whole,
    "startup": startup,
    "streams": streams,
}
#: The tables of each page.
PAGES = {"engine.md": tuple(name for name in TABLES if name != "streams"), "scale.md": ("streams",)}


def _table(*titles: str) -> Iterator[str]:
    yield _line(*titles)
    yield "|---" * len(titles) + "|"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _times(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio >= 2 else f"{ratio:.2f}"


def replace_tables(text: str, figures: Figures, names: Sequence[str]) -> str:
    """The page with these tables replaced; an error where it has no place for one."""
    for name in names:
        begin, end = f"<!-- benchmarks: {name} -->\n", "<!-- end -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise SystemExit(f"the page has no place for the table '{name}'")
        text = f"{before}{begin}\n" + "\n".join(TABLES[name](figures)) + f"\n\n{end}{after}"
    return text


def main() -> None:
    """Replace the tables of the pages."""
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.tables", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=TABLES, default=PAGES["engine.md"], help="which tables")
    parser.add_argument("--input", type=Path, default=ROOT / "out" / "benchmarks.json", help="what make bench wrote")
    options = parser.parse_args()
    content = json.loads(options.input.read_text(encoding="utf-8"))
    if content["short"]:
        raise SystemExit(f"{options.input} is of a short run: run make bench first")
    for name, tables in PAGES.items():
        page = ROOT / "docs" / name
        text = page.read_text(encoding="utf-8")
        chosen = [table for table in tables if table in options.only]
        page.write_text(replace_tables(text, Figures(content), chosen), encoding="utf-8")
        say(f"wrote {', '.join(chosen) or 'no table'} to {page}")


if __name__ == "__main__":
    main()

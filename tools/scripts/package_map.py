"""Prints the map of the packages: the layers of the import contract from top to bottom, with their sizes.

    python tools/scripts/package_map.py             # print the map
    python tools/scripts/package_map.py --write     # update it in CONTRIBUTING.md

The order is that of `layers` in pyproject.toml, which `lint-imports` enforces; modules and lines are counted.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "multiform"
PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- package map -->\n", "<!-- end of package map -->"

#: So many lines are one block of a bar.
_LINES_A_BLOCK = 300

#: What each package or module does, in a few words.
PURPOSE = {
    "compat": "import lm_eval and import eval_framework, provided by Multiform",
    "__main__": "python -m multiform",
    "cli": "the sub-commands, one module for those of a kind",
    "report": "the results of runs as a page with every sample, and the viewer",
    "run": "a whole run: options, store of responses, executors, schedules",
    "results": "tables, data frames, lm-eval's files",
    "lint": "warnings about documents and settings",
    "forms": "Form, Task, Sample: from document to requests to scores",
    "tasks": "what a task file states, TaskConfig, groups, datasets, the library",
    "scoring": "filters, metrics, scorers, aggregation",
    "models": "loading, tokenizers, the torch engine, servers",
    "formats": "FormatConfig, its Jinja templates, its dialects",
    "imports": "import hooks: lm_eval and eval_framework in task files",
    "fields": "a column, template or function of a document",
    "prompts": "what a model gets: Jinja sandbox, chat templates, images and audio",
    "labels": "choice labels and answer keys",
    "requests": "requests and responses",
    "arguments": "key=value arguments, and those of user-defined functions",
    "paths": "the user's cache",
    "sandbox": "programs that a model writes, run in a sandbox",
    "schema": "checks of keys and values against types",
    "registry": "one registry class for everything that has a name",
    "hashing": "short hashes",
    "statistics": "estimates, paired tests, spread, search and stopping",
    "limits": "what templates and regular expressions may cost",
    "terminal": "control characters made visible",
    "stopping": "how Ctrl-C and SIGTERM end a run",
    "errors": "the tree of exceptions",
}


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package or module, with its size; `depth` is 1 inside of another package."""

    name: str
    depth: int
    purpose: str = ""
    modules: int
    lines: int

    def __str__(self) -> str:
        name = "  " * self.depth + self.name
        size = f"{name:18} {self.modules:4} {self.lines:7,}"
        if not self.purpose:
            return size
        return f"{size}  {'█' * max(1, round(self.lines / _LINES_A_BLOCK)):21} {self.purpose}"


def layers() -> list[str]:
    """The packages in the order of the import contract, from top to bottom."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return [name.strip() for layer in contracts[0]["layers"] for name in layer.split("|")]


def packages() -> Iterator[Package]:
    """Every package, followed by the larger packages in it."""
    for name in layers():
        yield _package(SOURCE / name, 0)
        if (SOURCE / name).is_dir():
            inner = sorted(path.parent for path in (SOURCE / name).glob("*/__init__.py"))
            yield from (_package(folder, 1) for folder in inner if len(list(folder.rglob("*.py"))) > 2)


def _package(path: Path, depth: int) -> Package:
    files = list(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
    purpose = "" if depth else PURPOSE[path.name]
    return Package(name=path.name, depth=depth, purpose=purpose, modules=len(files), lines=lines)


def drawn() -> str:
    """The map as text."""
    listed = list(packages())
    total = Package(
        name="all",
        depth=0,
        modules=sum(package.modules for package in listed if not package.depth),
        lines=sum(package.lines for package in listed if not package.depth),
    )
    head = f"{'package':18} {'.py':>4} {'lines':>7}"
    return "\n".join([head, *map(str, listed), str(total)])


def sizes(text: str) -> dict[str, tuple[int, int]]:
    """The modules and lines of each package that a map shows, by its name.

    >>> sizes("package .py lines\\nconfig   18 1,900\\n  index  8 569")
    {'config': (18, 1900), 'config/index': (8, 569)}
    """
    shown: dict[str, tuple[int, int]] = {}
    outer = ""
    for indent, name, modules, lines in re.findall(r"^( *)(\w+) +(\d+) +([\d,]+)", text, re.MULTILINE):
        outer = outer if indent else name
        shown[f"{outer}/{name}" if indent else name] = (int(modules), int(lines.replace(",", "")))
    return shown


def main() -> None:
    """Print the map, or write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="update CONTRIBUTING.md")
    if not parser.parse_args().write:
        print(drawn())
        return
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}```text\n{drawn()}\n```\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()

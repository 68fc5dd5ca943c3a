"""Writes docs/spec-coverage.md: every field and method of the specification, with the tests that show it.

    python tools/scripts/spec_coverage.py           write the table
    python tools/scripts/spec_coverage.py --check   fail where a name has no test or the table is out of date

A test says what it shows by the mark ``covers``; the marks are read from the source, nothing is run.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
TABLE = ROOT / "docs" / "spec-coverage.md"

TITLE = """\
# The specification and its tests

Every field of a task, few-shot, metric, filter, scorer and group configuration, and every attribute and method of
`Task`, with the tests that show what it does. `tools/scripts/spec_coverage.py` generates this page from the marks of
the tests; a test fails if a name has no test or the page is out of date. Tests in *italics* are expected to fail.

`tools/scripts/spec_mutations.py` checks that the tests show it: it breaks each row, by ignoring a field or changing
what a method does, and a test of the row has to fail.
"""

#: What the specification names, each with its meaning in one line, by owner.
NAMES: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("spec_names.toml").read_text(encoding="utf-8")
)


def known_names() -> list[str]:
    """All names, qualified."""
    return [f"{owner}.{name}" for owner, names in NAMES.items() for name in names]


def covering_tests() -> dict[str, list[str]]:
    """The tests of each name, as Markdown links whose targets are at the end of the page."""
    return {name: [_link(path, node) for path, node in tests] for name, tests in _marked().items()}


def covering_nodes() -> dict[str, list[str]]:
    """The tests of each name, as pytest names them."""
    marked = _marked()
    return {
        name: [f"{path.relative_to(ROOT).as_posix()}::{node.name}" for path, node in tests]
        for name, tests in marked.items()
    }


def _marked() -> dict[str, list[tuple[Path, ast.FunctionDef]]]:
    """The functions that are marked with each name, and their files."""
    marked: dict[str, list[tuple[Path, ast.FunctionDef]]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                for name in dict.fromkeys(_covered(node)):
                    marked.setdefault(name, []).append((path, node))
    return marked


def _covered(function: ast.FunctionDef) -> Iterator[str]:
    """The names in a test's marks."""
    for mark in function.decorator_list:
        if isinstance(mark, ast.Call) and _mark_name(mark.func) == "covers":
            yield from (str(ast.literal_eval(argument)) for argument in mark.args)


def _link(path: Path, function: ast.FunctionDef) -> str:
    title = function.name.removeprefix("test_").replace("_", " ")
    link = f"[{title}][{path.stem}]"
    marks = [_mark_name(mark.func if isinstance(mark, ast.Call) else mark) for mark in function.decorator_list]
    return f"*{link}*" if "xfail" in marks else link


def _mark_name(node: ast.expr) -> str:
    """``name`` of ``pytest.mark.name``."""
    return node.attr if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pytest.mark" else ""


def table(tests: dict[str, list[str]]) -> str:
    """The page."""
    files = sorted({path for path in TESTS.rglob("test_*.py") if any(f"[{path.stem}]" in link for link in _all(tests))})
    parts = [TITLE]
    for owner, names in NAMES.items():
        rows = [f"| `{name}` | {meaning} | {'; '.join(tests[f'{owner}.{name}'])} |" for name, meaning in names.items()]
        parts.append("\n".join([f"## {owner}", "", "| name | meaning | tests |", "|---|---|---|", *rows, ""]))
    targets = [f"[{path.stem}]: ../{path.relative_to(ROOT).as_posix()}\n" for path in files]
    return "\n".join(parts) + "\n" + "".join(targets)


def _all(tests: dict[str, list[str]]) -> list[str]:
    return [link for links in tests.values() for link in links]


def problems(tests: dict[str, list[str]]) -> list[str]:
    """Names without a test, and marks that name nothing."""
    known = known_names()
    missing = [f"no test covers {name}" for name in known if name not in tests]
    return missing + [
        f"{links[0]} covers {name}, which is not known" for name, links in tests.items() if name not in known
    ]


def main(argv: list[str]) -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description="Write the table of what the tests cover of the specification.")
    parser.add_argument("--check", action="store_true", help="fail instead of writing")
    check = parser.parse_args(argv).check
    tests = covering_tests()
    wrong = problems(tests)
    if not wrong:
        made = table(tests)
        if not check:
            TABLE.write_text(made, encoding="utf-8")
        elif not TABLE.is_file() or TABLE.read_text(encoding="utf-8") != made:
            wrong = [f"{TABLE.relative_to(ROOT)} is out of date: run python tools/scripts/spec_coverage.py"]
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

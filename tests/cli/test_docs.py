"""`multiform docs` shows the pages of the documentation."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from pathlib import Path

import pytest

import multiform
from multiform.cli.ls import find_pages
from multiform.cli.main import main

ROOT = Path(__file__).parents[2]


def test_every_page_is_listed_with_its_title(capsys):
    assert main(["docs", "--json"]) == 0
    titles = json.loads(capsys.readouterr().out)
    assert titles["tour"] == "A tour in ten minutes"
    assert titles.keys() == {topic for topic in find_pages() if not topic.startswith("benchmarks/")}


@pytest.mark.parametrize(
    "topic", ["tasks", "docs/tasks.md", "guides/switching", "switching", "benchmarks/arc", "SECURITY.md"]
)
def test_a_page_is_found_by_its_name_or_path(topic, capsys):
    assert main(["docs", topic]) == 0
    name = topic.removeprefix("docs/").removesuffix(".md").lower()
    [page] = [path for found, path in find_pages().items() if found == name or found.endswith(f"/{name}")]
    assert capsys.readouterr().out.strip() == page.read_text(encoding="utf-8").strip()


def test_an_unknown_page_names_the_nearest(capsys):
    assert main(["docs", "tuor"]) == 2
    assert "no page 'tuor'; did you mean 'tour'?" in capsys.readouterr().err


def test_messages_name_pages_by_the_command_that_shows_them():
    """Users of the wheel have no folder docs/."""
    pages = set(find_pages())
    source = Path(multiform.__file__).parent
    for file in source.rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        descriptions = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in descriptions:
                assert not re.search(r"docs/[a-z/-]+\.md|(CONTRIBUTING|SECURITY)\.md", node.value), (
                    f"{file.name}: {node.value}"
                )
                named = re.findall(r"(?:see |\(|')multiform docs ([a-z/-]+)", node.value)
                assert pages.issuperset(named), f"{file.name}: {node.value}"


def test_extras_that_messages_and_pages_name_are_those_of_the_package():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    texts = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/*/*.md"), ROOT / "README.md"]
    named = re.findall(r"(?:multiform|'\.)\[([a-z,]+)\]", "\n".join(path.read_text() for path in texts))
    assert {extra for names in named for extra in names.split(",")} - set(extras) == set()
    assert len(named) > 20

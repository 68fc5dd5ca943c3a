"""`multiform docs`: the pages of the documentation in the terminal."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from multiform.errors import UsageError, nearest

HELP = "read a page of the documentation in the terminal"
DESCRIPTION = "Show a page of the documentation. Without a topic, list the pages."
EXAMPLES = """\
examples:
  multiform docs                  the pages, each with its title
  multiform docs tour             a tour in ten minutes
  multiform docs servers | less   models on servers
  multiform docs benchmarks/arc   a benchmark of the library
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("topic", nargs="?", metavar="TOPIC", help="a page, such as tour or guides/switching")
    parser.add_argument("--json", action="store_true", help="print JSON: the pages, or a page's text")


def execute(options: argparse.Namespace) -> int:
    """Print the page, or the list of pages."""
    pages = find_pages()
    if options.topic is None:
        titles = {topic: _title(path) for topic, path in pages.items() if not topic.startswith("benchmarks/")}
        width = max(map(len, titles))
        rows = [f"{topic:{width}}  {title}" for topic, title in titles.items()]
        count = len(pages) - len(titles)
        more = f"and {count} pages of benchmarks: multiform docs benchmarks/NAME"
        print(json.dumps(titles, ensure_ascii=False) if options.json else "\n".join([*rows, more]))
        return 0
    topic = options.topic.strip("/").removesuffix(".md").removeprefix("docs/")
    matches = [name for name in pages if name == topic or name.rpartition("/")[2] == topic]
    if not matches:
        raise UsageError(
            f"no page '{options.topic}'", where="multiform docs", hint=nearest(topic, pages, listed="pages")
        )
    text = pages[matches[0]].read_text(encoding="utf-8")
    if options.json:
        print(json.dumps({"topic": matches[0], "text": text}, ensure_ascii=False))
    elif sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        print(text)
    return 0


def find_pages() -> dict[str, Path]:
    """The pages by topic: those inside of the installed package, or of the repository that it is run from."""
    package = Path(__file__).parents[1]
    folder = next((path for path in (package / "docs", package.parents[1] / "docs") if path.is_dir()), None)
    if folder is None:
        hint = "install Multiform from its wheel, or run it from its repository"
        raise UsageError("this installation has no documentation", where="multiform docs", hint=hint)
    pages = {path.relative_to(folder).with_suffix("").as_posix(): path for path in folder.rglob("*.md")}
    return dict(sorted(pages.items(), key=lambda item: (item[0].count("/"), item[0])))


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip()

"""Hooks of the docs site (mkdocs.yml): pages from the root of the repository, the command line, the gallery's report,
links off the site. And the extension of its API reference that writes docstrings, which are plain text, as Markdown.

The pages under docs/ are read on the site, in the repository and in the terminal (`multiform docs`). They link to
README, CONTRIBUTING and other files beside docs/, which the site shows as pages of its own; a link to any other file,
such as a test, becomes plain text here.
"""

from __future__ import annotations

import argparse
import html
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
#: Files at the root that are pages of the site.
ROOT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
#: Results in the repository, whose report the site shows.
RESULTS = "gallery/quiz"
#: Search on a page that is opened as a file needs this script; the theme would load it from outside.
_SHIM, _OUR_SHIM = "https://unpkg.com/iframe-worker/shim", "assets/iframe-worker.js"
#: A bar in the text of a cell of a table; in code, it needs no backslash.
BAR = "\\|"
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
#: The place of a link that is written as ``[text][name]``, and such a link.
_PLACE = re.compile(r"^\[([^\]]+)\]: (\.\./\S+)\n?", re.MULTILINE)
_NAMED_LINK = re.compile(r"\[([^\]]*)\]\[([^\]]+)\]")
#: A name in the tables of docs/api.md.
_API_NAME = re.compile(r"^\| `(\w+)`", re.MULTILINE)
#: The lines of a doctest and of what it prints, up to a blank line.
_DOCTEST = re.compile(r"(?:^|(?<=\n))(>>> .*(?:\n.+)*)")
#: Lines such as ``limit, samples: how many documents``, with lines that are indented below them.
_ARGUMENTS = re.compile(r"(?:^|(?<=\n\n))(?:[\w, ]+: .+\n?(?: {4}.+\n?)*){2,}(?=\n|$)")
#: A paragraph whose first line is short, such as a prompt: its lines are not those of wrapped text.
_SHORT_LINE = re.compile(r"(?<=\n\n)([^\s>*`].{0,89}\n[^\s*-].*(?:\n.+)*)(?=\n\n|$)")
_ARGUMENT = re.compile(r"^(\w[\w, ]*): ", re.MULTILINE)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages from the root of the repository, the reference of the command line, and the gallery's report."""
    files.append(File.generated(config, "commands.md", content="\n".join(command_lines())))
    files.append(File.generated(config, f"{RESULTS}.html", content=report_page()))
    for name in ROOT_PAGES:
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name, content=text))
    return files


def report_page() -> bytes:
    """The report of the results in the repository, by the present code."""
    from multiform.report import write_report
    from multiform.results.read import read_results

    with tempfile.TemporaryDirectory() as folder:
        return write_report([read_results(ROOT / "docs" / RESULTS)], f"{folder}/report.html").read_bytes()


def command_lines() -> Iterator[str]:
    """The reference of the command line in Markdown: every command with its flags, as `--help all` describes them."""
    from multiform.cli.main import parser

    yield "# Commands\n\nEvery command and flag, generated from what `--help all` prints.\n"
    subparsers = next(action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    for name, command in subparsers.choices.items():
        yield f"## {name}\n\n{command.description}\n"
        for group in command._action_groups:
            actions = [action for action in group._group_actions if action.help and action.dest != "help"]
            if actions:
                title = {"options": "flags", "positional arguments": "arguments"}.get(str(group.title), group.title)
                yield f"| {title} | |\n|---|---|"
                yield from map(_flag_row, actions)
                yield ""
        yield f"```text\n{(command.epilog or '').strip()}\n```\n"


def _flag_row(action: argparse.Action) -> str:
    """The row of a flag: its names, its value, what it does."""
    metavar = action.metavar if isinstance(action.metavar, str) else "|".join(map(str, action.choices or ()))
    names = " ".join(f"`{name}`" for name in action.option_strings)
    value = f"`{metavar}`" if metavar and action.nargs != 0 else ""
    text = html.escape((action.help or "").replace("%%", "%"), quote=False).replace("|", BAR)
    return f"| {names} {value} | {text} |"


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Let links to root pages lead to their pages, and turn links that leave the site into text."""
    folder = Path(page.file.src_uri).parent

    def rewrite(match: re.Match[str]) -> str:
        mark, text, target = match.groups()
        name, hash_sign, anchor = target.partition("#")
        if not name or "://" in name or mark:
            return match.group(0)
        inside = name.removeprefix("../" * (1 + len(folder.parts))) if name.startswith("../") else name
        if name == RESULTS:
            return f"[{text}]({RESULTS}.html)"
        if inside in ROOT_PAGES:
            return f"[{text}]({'../' * len(folder.parts)}{inside}{hash_sign}{anchor})"
        return match.group(0) if (ROOT / "docs" / folder / name).is_file() else text

    if page.file.src_uri == "api.md":
        names = _API_NAME.findall(markdown)
        markdown = "\n\n".join([_API_NAME.sub(r"| [`\1`](#multiform.\1)", markdown), *_docstrings(names)])
    outside = {name for name, _ in _PLACE.findall(markdown)}
    markdown = _PLACE.sub("", markdown)
    markdown = _NAMED_LINK.sub(lambda match: match.group(1 if match.group(2) in outside else 0), markdown)
    return _LINK.sub(rewrite, markdown)


def _docstrings(names: list[str]) -> Iterator[str]:
    """The second half of the API reference: where the docstrings of names and of their methods are put."""
    yield "## Docstrings"
    for name in names:
        yield f'::: multiform.{name}\n    options: {{heading_level: 3, members: null, filters: ["!^_"]}}'


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Load the script that search needs from the site itself."""
    return output.replace(_SHIM, "../" * page.url.count("/") + _OUR_SHIM)


def on_post_build(*, config: MkDocsConfig, **_: Any) -> None:
    """Remove the page for missing addresses, which only a web server would show."""
    (Path(config.site_dir) / "404.html").unlink(missing_ok=True)


class MarkdownDocstrings(griffe.Extension):
    """Puts doctests and prompts into fenced blocks, as Markdown would join their lines, and lists arguments."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            text = _DOCTEST.sub(r"```pycon\n\1\n```", obj.docstring.value)
            text = _ARGUMENTS.sub(lambda block: _ARGUMENT.sub(r"* `\1`: ", block.group()), text)
            obj.docstring.value = _SHORT_LINE.sub(r"```text\n\1\n```", text)

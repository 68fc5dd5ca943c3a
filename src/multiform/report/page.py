"""The report's page: one file with its style, its script and its data, without any network request."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from multiform.paths import replace_output
from multiform.report.payload import payload
from multiform.results.export import json_line
from multiform.results.provenance import package_version
from multiform.results.results import Results

#: The page's script, which tools/page builds from its sources.
SCRIPT = "app.js"

_LONGEST_TITLE = 80


def write_report(runs: Sequence[Results], path: str | Path, *, title: str | None = None) -> Path:
    """Write a report on one or more runs as an HTML file that holds everything it needs; returns its path.

    >>> from multiform import evaluate
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_report([evaluate(model="dummy", tasks="quiz@mcqa", limit=4)], f"{folder}/report.html")
    ...     "<title>" in path.read_text(encoding="utf-8")
    True
    """
    path = Path(path)
    with replace_output(path) as partial, partial.open("w", encoding="utf-8") as file:
        file.writelines(report_page(runs, title=title))
    return path


def report_page(runs: Sequence[Results], *, title: str | None = None) -> Iterator[str]:
    """The page, in parts."""
    name = title or _title(runs)
    data = payload(runs, title=name)
    script = asset(SCRIPT)
    style = asset("style.css")
    sources = f"script-src {_hash(script)}; style-src {_hash(style)}; img-src data:"
    policy = f"default-src 'none'; {sources}; base-uri 'none'"
    marker = "<!-- data -->"
    page = Template(asset("page.html")).substitute(
        policy=policy,
        version=package_version("multiform") or "",
        title=escape(name),
        style=style,
        help=asset("help.html"),
        data=marker,
        script=script,
    )
    before, after = page.split(marker)
    yield before
    yield _data_block("data", data.main)
    yield from (_data_block(f"samples-{number}", block) for number, block in enumerate(data.blocks))
    yield from (_data_block(f"media-{sha256}", picture) for sha256, picture in data.pictures.items())
    yield after


def _title(runs: Sequence[Results]) -> str:
    """The outermost groups, and the tasks that are in none."""
    inside = {name for results in runs for group in results.groups for name in group.forms}
    groups = [group.path for results in runs for group in results.groups if group.depth == 0]
    tasks = [form.task for results in runs for form in results.forms if form.name not in inside]
    name = ", ".join(dict.fromkeys([*groups, *tasks]))
    return name if len(name) <= _LONGEST_TITLE else f"{name[: _LONGEST_TITLE - 1]}…"


def asset(name: str) -> str:
    """The text of a file that comes with the package."""
    return files("multiform.report").joinpath("assets", name).read_text(encoding="utf-8")


def _data_block(name: str, value: Any) -> str:
    """A value as a block of the page: base64, which no text can break out of."""
    plain = json.loads(json_line({"value": value}))["value"]
    packed = zlib.compress(json.dumps(plain, separators=(",", ":"), ensure_ascii=False).encode(errors="replace"), 6)
    return f'<script type="application/octet-stream" id="{name}">{base64.b64encode(packed).decode()}</script>\n'


def _hash(text: str) -> str:
    """A source of the page's policy that allows this text alone."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

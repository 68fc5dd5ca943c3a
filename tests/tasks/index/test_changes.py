"""Whatever happens to the files, the index that is kept says what a new one would say."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiform.tasks.index import Index, build_index

NAMES = ("a.yaml", "b.yaml", "in/a.yaml", "in/b.yaml", "in/common_yaml", "base_yaml", "c.py")
CONTENTS = (
    None,  # there is no such file
    "task: one\n",
    "task: two\ntag: x\n",
    "tag: y\n",
    "group: g\ntask: [one, two]\n",
    "include: base_yaml\n",
    "include: in/common_yaml\ntask: three\n",
    "include: common_yaml\ntask: four\n",
    "include: ../base_yaml\ntag: z\n",
    "include: [base_yaml, in/common_yaml]\n",
    "include: a.yaml\n",
    "task: [open\n",
    "task: 5\n",
    "class C(BaseTask):\n    NAME = 'six'\n",
)
changes = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(CONTENTS)), min_size=1, max_size=4)


def apply(folder: Path, name: str, content: str | None, time: int) -> None:
    file = folder / name
    if content is None:
        file.unlink(missing_ok=True)
        return
    file.parent.mkdir(exist_ok=True)
    file.write_text(content)
    os.utime(file, (time, time))


def said(index: Index) -> tuple[object, ...]:
    entries = sorted((e.name, e.kind, e.file, e.tags, e.attribute, e.line) for e in index.entries.values())
    return entries, {path: str(error) for path, error in index.broken.items()}, index.tags


@settings(max_examples=60)
@given(st.lists(changes, min_size=1, max_size=6))
def test_an_index_that_is_kept_is_the_one_that_would_be_made(rounds):
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr("multiform.tasks.folders._WORTH_CACHING", 0)
        folder, time = Path(place) / "tasks", 1_000_000
        folder.mkdir()
        for number, done in enumerate(rounds):
            for name, content in done:
                time += 1
                apply(folder, name, content, time)
            patch.setenv("MULTIFORM_CACHE", f"{place}/kept")
            kept = said(build_index([folder]))
            patch.setenv("MULTIFORM_CACHE", f"{place}/new{number}")
            assert kept == said(build_index([folder]))

"""Several processes may keep the same index at once."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from multiform.tasks.folders import load
from multiform.tasks.index import build_index

pytestmark = pytest.mark.process

FILES = 200


@pytest.fixture
def many(tmp_path: Path, cache: Path) -> Path:
    """A folder of many files."""
    folder = tmp_path / "many"
    folder.mkdir()
    (folder / "common_yaml").write_text("tag: common\n")
    for number in range(FILES):
        (folder / f"{number:04}.yaml").write_text(f"include: common_yaml\ntask: t{number:04}\n")
        os.utime(folder / f"{number:04}.yaml", (1_000_000, 1_000_000))
    os.utime(folder / "common_yaml", (1_000_000, 1_000_000))
    return folder


def names_of(folder: Path) -> list[str]:
    return build_index([folder]).names("task")


def test_processes_that_keep_an_index_at_once_do_not_harm_it(many, cache):
    expected = [f"t{number:04}" for number in range(FILES)]
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        for names in pool.map(names_of, [many] * 8, chunksize=1):
            assert names == expected
    assert len(list(cache.iterdir())) == 1  # and nothing is left behind
    assert list(load(str(many))) == [f"{number:04}.yaml" for number in range(FILES)]

"""Many files are read at once, by one process or several, and several may keep the same index."""

from __future__ import annotations

import multiprocessing
import os
import threading
from pathlib import Path

import pytest

from multiform.tasks import outline as reader
from multiform.tasks.index import build_index
from multiform.tasks.index_cache import UNSURE, FolderIndex, load, scan

pytestmark = pytest.mark.process

FILES = 1200


@pytest.fixture
def many(tmp_path: Path, cache: Path) -> Path:
    """A folder of so many files that more than one process reads them."""
    folder = tmp_path / "many"
    folder.mkdir()
    (folder / "common_yaml").write_text("tag: common\n")
    for number in range(FILES):
        (folder / f"{number:04}.yaml").write_text(f"include: common_yaml\ntask: t{number:04}\n")
        os.utime(folder / f"{number:04}.yaml", (1_000_000, 1_000_000))
    os.utime(folder / "common_yaml", (1_000_000, 1_000_000))
    return folder


def test_several_processes_read_what_one_does(many, monkeypatch):
    monkeypatch.setattr(reader, "_processors", lambda: 2)
    monkeypatch.setattr(reader, "_may_fork", lambda: False)
    alone = reader.read_files(str(many), scan(str(many)))
    several = reader._read_in_processes(str(many), scan(str(many)), 2)
    assert several == alone
    assert list(several.files) == list(alone.files)
    assert len(several.files) == FILES


def test_one_process_does_it_all_where_no_more_are_to_be_had(many, monkeypatch):
    def refused(*_):
        raise OSError("no more processes")

    monkeypatch.setattr("multiprocessing.context.ForkProcess.start", refused)
    assert len(reader._read_in_processes(str(many), scan(str(many)), 2).files) == FILES


def test_a_process_with_threads_is_not_copied():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert not reader._may_fork()
    finally:
        stop.set()
        thread.join()


def test_what_changed_between_two_readings_is_read_again():
    parts = [FolderIndex(included={"a": (1, 1), "b": (2, 2)}), FolderIndex(included={"a": (1, 1), "b": (2, 3)})]
    assert reader.join_indexes(parts).included == {"a": (1, 1), "b": UNSURE}


def names_of(folder: Path) -> list[str]:
    return build_index([folder]).names("task")


def test_processes_that_keep_an_index_at_once_do_not_harm_it(many, cache):
    expected = [f"t{number:04}" for number in range(FILES)]
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        for names in pool.map(names_of, [many] * 8, chunksize=1):
            assert names == expected
    assert len(list(cache.iterdir())) == 1  # and nothing is left behind
    assert list(load(str(many)).files) == [f"{number:04}.yaml" for number in range(FILES)]

"""Folders in the user's cache: whole or not there."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from multiform.errors import ModelError
from multiform.models.identity import build_once
from multiform.paths import cache_root

SLOW_BUILD = """
import sys, time
from pathlib import Path
from multiform.models.identity import build_once

def build(target):
    (target / "half").touch()
    with (target.parent.parent / "calls").open("a") as calls:
        calls.write("x")
    time.sleep(0.5)
    (target / "whole").touch()

build_once(Path(sys.argv[1]), build)
"""


def start_build(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", SLOW_BUILD, str(folder)])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.process
def test_a_folder_is_built_once_by_several_processes(tmp_path: Path) -> None:
    workers = [start_build(tmp_path / "model") for _ in range(4)]
    assert [worker.wait() for worker in workers] == [0] * 4
    assert (tmp_path / "calls").read_text() == "x"
    assert names(tmp_path / "model") == ["half", "whole"]


@pytest.mark.process
def test_a_killed_build_leaves_no_folder_and_the_next_cleans_up(tmp_path: Path) -> None:
    worker = start_build(tmp_path / "model")
    while not (tmp_path / "calls").exists():
        time.sleep(0.01)
    worker.kill()
    worker.wait()
    assert not (tmp_path / "model").exists()
    assert start_build(tmp_path / "model").wait() == 0
    assert names(tmp_path) == [".model.lock", "calls", "model"]


def test_a_failed_build_leaves_nothing_and_says_what_to_do(tmp_path: Path) -> None:
    def full(target: Path) -> None:
        (target / "half").write_text("1")
        raise OSError(28, "No space left on device")

    with pytest.raises(ModelError, match=r"No space left on device; it needs up to 600 MB; MULTIFORM_CACHE"):
        build_once(tmp_path / "model", full)
    assert names(tmp_path) in ([], [".model.lock"])


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("MULTIFORM_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_root() == Path("/home/someone/.cache/multiform")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_root() == Path("/xdg/multiform")
    monkeypatch.setenv("MULTIFORM_CACHE", "/own")
    assert cache_root() == Path("/own")

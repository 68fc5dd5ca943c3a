"""The memory that is free: the machine's, or what a container leaves of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from multiform.models.torch import device
from multiform.models.torch.device import free_memory

CPU = torch.device("cpu")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(device, "_SYSTEM", tmp_path / "meminfo")
    monkeypatch.setattr(device, "_CONTAINER", tmp_path)
    (tmp_path / "meminfo").write_text("MemTotal:       4000 kB\nMemAvailable:   3000 kB\nHugePages_Total:       0\n")
    return tmp_path


def test_it_is_what_the_machine_says(files: Path) -> None:
    assert free_memory(CPU) == 3000 * 1024


def test_a_container_has_less(files: Path) -> None:
    (files / "memory.max").write_text("1000000\n")
    (files / "memory.current").write_text("700000\n")
    assert free_memory(CPU) == 300000
    (files / "memory.stat").write_text("anon 500000\ninactive_file 150000\n")
    assert free_memory(CPU) == 450000


def test_a_container_without_a_limit_has_the_machines(files: Path) -> None:
    (files / "memory.max").write_text("max\n")
    (files / "memory.current").write_text("700000\n")
    assert free_memory(CPU) == 3000 * 1024


def test_a_system_that_does_not_say_is_taken_to_have_some(files: Path) -> None:
    (files / "meminfo").unlink()
    assert free_memory(CPU) == 2**32

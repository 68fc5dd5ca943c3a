"""Samples on disk are read back as they were, whatever the disk does."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from typing import Any

import pytest

from multiform import evaluate
from multiform.run.spool import Spool, SpooledSamples


def test_what_a_full_disk_does_not_take_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*, buffering: int = -1, **_: Any) -> Any:
        return open("/dev/full", "w+b", buffering=buffering)

    monkeypatch.setattr(tempfile, "TemporaryFile", full_disk)
    spool: Spool[str] = Spool()
    spool.extend(["one", "two"])
    spool.extend(["three"])
    assert [spool[index] for index in range(3)] == ["one", "two", "three"]


def test_a_sample_on_disk_can_be_replaced() -> None:
    """As labels of people are added to samples that a judge has scored."""
    samples = list(evaluate(model="dummy", tasks="quiz@mcqa", limit=3).forms[0].samples)
    spooled = SpooledSamples()
    spooled.extend(samples)
    assert replace(spooled[1], values={"acc": 0.5}) == replace(samples[1], values={"acc": 0.5})

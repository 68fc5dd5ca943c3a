"""Which classes of formats are registered: those with a name, which are refused until they are whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import pytest

from multiform import ConfigError, FormatConfig, MCQAFormat
from multiform.formats.base import formats
from multiform.formats.compile import FieldMapping
from multiform.formats.select import supported_formats


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """The registry of formats, put back as it was after the test."""
    monkeypatch.setattr(formats, "_entries", dict(formats._entries))
    return formats


@pytest.mark.parametrize("name", [None, ""])
def test_a_format_without_a_name_is_not_registered(name):
    before = list(formats)

    @dataclass(frozen=True, kw_only=True)
    class Nameless(MCQAFormat):
        format_name = name

    assert list(formats) == before
    assert Nameless().choice_labels == "letters"


def test_a_name_that_is_no_text_is_an_error():
    with pytest.raises(ConfigError, match="Numbered: format_name is 5, not text"):

        class Numbered(MCQAFormat):
            format_name = 5  # type: ignore[assignment]


def define_broken(name):
    """Define a format whose dataclass fails."""
    with pytest.raises(ValueError, match="mutable default"):

        @dataclass(frozen=True, kw_only=True)
        class Broken(MCQAFormat):
            format_name = name
            labels: list[str] = field(default=[])


def test_a_format_whose_dataclass_fails_is_refused_wherever_it_is_used():
    define_broken("broken")
    with pytest.raises(ConfigError, match="format 'broken' cannot be used: Broken is not a complete dataclass"):
        FormatConfig.by_name("broken")
    with pytest.raises(ConfigError, match="Broken is not a complete dataclass"):
        supported_formats(None, FieldMapping("question", "choices", "answer"))


def test_a_format_that_changes_fields_without_a_decorator_is_refused_instead_of_ignored():
    class Numbers(MCQAFormat):
        format_name = "numbers"
        choice_labels = "numbers"

    with pytest.raises(ConfigError, match=r"Numbers is not a complete dataclass; decorate it with @dataclass\(frozen"):
        FormatConfig.by_name("numbers")


def test_a_format_that_only_overrides_methods_needs_no_decorator():
    class Stopping(MCQAFormat):
        format_name = "stopping"

        def until(self):
            return ["\n"]

    assert FormatConfig.by_name("stopping").until() == ["\n"]


def test_a_later_format_takes_the_name_of_an_earlier_one():
    @dataclass(frozen=True, kw_only=True)
    class Other(MCQAFormat):
        format_name = "mcqa"
        choice_labels: Literal["numbers"] = "numbers"

    assert FormatConfig.by_name("mcqa").choice_labels == "numbers"

"""The codes of findings and their documentation."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from multiform.lint import CODES, Code

PAGE = (Path(__file__).parents[2] / "docs" / "lint.md").read_text(encoding="utf-8")


def test_every_code_is_explained():
    assert set(CODES) == set(get_args(Code))


def test_the_page_has_the_row_of_every_code():
    assert [row for row in (text.row(code) for code, text in CODES.items()) if row not in PAGE] == []

"""The codes of findings and their documentation."""

from __future__ import annotations

import re
from pathlib import Path

from multiform.lint import CODES, findings

PAGE = (Path(__file__).parents[2] / "docs" / "lint.md").read_text(encoding="utf-8")


def test_every_code_is_that_of_a_check_and_explained():
    sources = [path.read_text(encoding="utf-8") for path in Path(findings.__file__).parent.glob("*.py")]
    checks = "".join(source for source in sources if "CODES: dict" not in source)
    assert [code for code in CODES if f'"{code}"' not in checks] == []
    assert set(re.findall(r'code="(\w+)"', checks)) <= set(CODES)


def test_the_page_has_the_row_of_every_code():
    assert [row for row in (text.row(code) for code, text in CODES.items()) if row not in PAGE] == []

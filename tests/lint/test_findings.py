"""The codes of findings and their documentation."""

from __future__ import annotations

import re
from pathlib import Path

from multiform.lint import findings
from multiform.lint.findings import CODES

PAGE = (Path(__file__).parents[2] / "docs" / "lint.md").read_text(encoding="utf-8")


def test_every_code_is_that_of_a_check_and_explained():
    checks = "".join(path.read_text(encoding="utf-8") for path in Path(findings.__file__).parent.glob("*.py"))
    assert [code for code in CODES if f'"{code}"' not in checks] == []
    assert set(re.findall(r'code="(\w+)"', checks)) <= set(CODES)


def test_the_page_has_the_row_of_every_code():
    rows = [f"| `{code}` | {text.meaning} {text.why} | {text.fix} |" for code, text in CODES.items()]
    assert [row for row in rows if row not in PAGE] == []

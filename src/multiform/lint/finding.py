"""Finding: one warning about a task, its documents or its run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Code = Literal[
    "mixed_answers",
    "duplicate_choices",
    "choices_refer",
    "duplicate_rows",
    "empty_question",
    "shots_from_evaluated_split",
    "chat_template_unused",
    "no_corpus",
]
Level = Literal["warning", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A warning: what is odd, where, an example, and what to do about it.

    >>> print(Finding(code="empty_question", where="t.yaml", what="no question", example="doc 4", hint="add it"))
    t.yaml: no question (doc 4); add it [empty_question]
    """

    code: Code
    #: The task, without a format; empty for a finding about the whole run.
    task: str = ""
    where: str | None
    what: str
    example: str = ""
    hint: str
    level: Level = "warning"

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        example = f" ({self.example})" if self.example else ""
        return f"{place}{self.what}{example}; {self.hint} [{self.code}]"


def summary(findings: Iterable[Finding]) -> list[tuple[Level, str]]:
    """One line for each code: its first finding, and the names of the other tasks that have it."""
    by_code: dict[Code, dict[str, Finding]] = {}
    for finding in findings:
        by_code.setdefault(finding.code, {}).setdefault(finding.task, finding)
    return [_line(list(by_task.values())) for by_task in by_code.values()]


def _line(findings: list[Finding]) -> tuple[Level, str]:
    first, *others = findings
    names = ", ".join(finding.task for finding in others[:3]) + (", ..." if len(others) > 3 else "")
    also = f"; so for {len(others)} more: {names}" if others else ""
    return first.level, f"{first}{also}"

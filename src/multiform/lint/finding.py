"""Finding: one warning about a task, its documents, its prompts or its run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from multiform.errors import ConfigError, nearest
from multiform.forms import Form
from multiform.lint.codes import CODES, Code

Level = Literal["warning", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A warning: what is wrong, where, an example, and what to do about it.

    >>> print(Finding(code="empty_question", where="t.yaml", what="no question", example="doc 4", hint="add it"))
    t.yaml: no question (doc 4); add it [empty_question]
    """

    code: Code
    #: The task, without a format; empty for a finding about the whole run.
    task: str = ""
    #: The form, where the finding is about its prompts; empty where it holds for all forms of the task.
    form: str = ""
    where: str | None
    what: str
    example: str = ""
    hint: str
    level: Level = "warning"
    #: How many documents have it, where documents were counted.
    docs: int | None = None

    def __str__(self) -> str:
        place = (f"{self.where}: " if self.where else "") + (f"{self.form}: " if "@" in self.form else "")
        example = f" ({self.example})" if self.example else ""
        return f"{place}{self.what}{example}; {self.hint} [{self.code}]"

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain data."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A problem in one document; hits that differ only in the document become one finding."""

    doc_id: int
    code: Code
    where: str | None
    what: str
    hint: str
    example: str = ""


def counted(hits: Iterable[Hit], total: int, *, task: str, form: str = "") -> list[Finding]:
    """The hits of `total` documents as findings, with the first document of each as its example."""
    groups: dict[tuple[Code, str | None, str], dict[int, Hit]] = {}
    for hit in hits:
        groups.setdefault((hit.code, hit.where, hit.what), {}).setdefault(hit.doc_id, hit)
    return [
        Finding(
            code=code,
            task=task,
            form=form,
            where=where,
            what=f"{what}: {len(by_doc)} of {total} documents",
            example=_example(next(iter(by_doc.values()))),
            hint=next(iter(by_doc.values())).hint,
            docs=len(by_doc),
        )
        for (code, where, what), by_doc in groups.items()
    ]


def _example(hit: Hit) -> str:
    return f"doc {hit.doc_id}: {hit.example}" if hit.example else f"doc {hit.doc_id}"


def unsilenced(form: Form, findings: Iterable[Finding]) -> list[Finding]:
    """The findings without those whose codes the task silences."""
    ignored = silenced(form)
    return [finding for finding in findings if finding.code not in ignored]


def silenced(form: Form) -> Mapping[str, str]:
    """The codes that a task silences, each with its reason."""
    codes = form.lint_ignore
    for code, reason in codes.items():
        place = form.where("lint_ignore", code)
        if code not in CODES:
            raise ConfigError(f"no code '{code}'", where=place, hint=nearest(code, CODES, listed="codes"))
        if not reason.strip():
            raise ConfigError("a code is silenced without a reason", where=place, hint="say why it is right here")
    return codes


def summary(findings: Iterable[Finding]) -> list[tuple[Level, str]]:
    """One line for each code: its first finding, and the names of the other tasks that have it."""
    by_code: dict[Code, dict[str, Finding]] = {}
    for finding in findings:
        by_code.setdefault(finding.code, {}).setdefault(finding.task, finding)
    return [_line(list(by_task.values())) for by_task in by_code.values()]


def _line(findings: list[Finding]) -> tuple[Level, str]:
    first, *rest = findings
    names = ", ".join(finding.task for finding in rest[:3]) + (", ..." if len(rest) > 3 else "")
    also = f"; so for {len(rest)} more: {names}" if rest else ""
    return first.level, f"{first}{also}"

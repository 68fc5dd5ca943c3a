"""Findings: one warning about a task, its documents, its prompts or its run; and what the code of each means."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from multiform.errors import ConfigError, UsageError, nearest
from multiform.forms import Form
from multiform.lint.prompts import Prompts


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a code means, why it matters, and what to do about it."""

    meaning: str
    why: str
    fix: str

    def __str__(self) -> str:
        return f"{self.meaning}\n\nWhy: {self.why}\nFix: {self.fix}"


#: Every code of a finding, with its explanation.
CODES = {
    code: Explanation(**texts)
    for code, texts in tomllib.loads(Path(__file__).with_name("codes.toml").read_text(encoding="utf-8")).items()
}


def explanation(code: str) -> Explanation:
    """What a code means; an unknown one is an error with the nearest."""
    if code not in CODES:
        raise UsageError(f"no code '{code}'", where="--explain", hint=nearest(code, CODES, listed="codes"))
    return CODES[code]


Level = Literal["warning", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A warning: what is wrong, where, an example, and what to do about it.

    >>> print(Finding(code="duplicate_rows", where="t.yaml", what="equal documents", example="docs 3 and 4"))
    t.yaml: equal documents (docs 3 and 4); remove them from the data, or in process_docs [duplicate_rows]
    """

    code: str
    #: The task, without a format; empty for a finding about the whole run.
    task: str = ""
    #: The form, if the finding is about its prompts; empty if it holds for all forms of the task.
    form: str = ""
    where: str | None
    what: str
    example: str = ""
    #: What to do about it here; None for what its code says.
    advice: str | None = None
    level: Level = "warning"
    #: How many documents have it, if documents were counted.
    docs: int | None = None

    @property
    def hint(self) -> str:
        """What to do about it."""
        fix = CODES[self.code].fix
        return self.advice or fix[0].lower() + fix[1:].removesuffix(".")

    def __str__(self) -> str:
        place = (f"{self.where}: " if self.where else "") + (f"{self.form}: " if "@" in self.form else "")
        example = f" ({self.example})" if self.example else ""
        return f"{place}{self.what}{example}; {self.hint} [{self.code}]"

    @classmethod
    def of_form(cls, form: Form, code: str, where: str | None, what: str, **details: Any) -> Finding:
        """A finding about the prompts of one form."""
        return cls(code=code, task=form.task_name, form=form.name, where=where, what=what, **details)

    @classmethod
    def of_task(cls, form: Form, code: str, where: str | None, what: str, **details: Any) -> Finding:
        """A finding that holds for all forms of the form's task."""
        return cls(code=code, task=form.task_name, where=where, what=what, **details)

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain data."""
        names = ("code", "task", "form", "where", "what", "example", "hint", "level", "docs")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class Hit:
    """A problem in one document; hits that differ only in the document become one finding."""

    doc_id: int
    code: str
    where: str | None
    what: str
    example: str = ""
    advice: str | None = None


def as_findings(hits: Iterable[Hit], prompts: Prompts, *, of_task: bool = False) -> list[Finding]:
    """The hits of some documents as findings, with the first document of each as its example."""
    groups: dict[tuple[str, str | None, str], dict[int, Hit]] = {}
    for hit in hits:
        groups.setdefault((hit.code, hit.where, hit.what), {}).setdefault(hit.doc_id, hit)
    findings = []
    for (code, where, what), by_doc in groups.items():
        number, first = len(by_doc), next(iter(by_doc.values()))
        example = f"doc {first.doc_id}: {first.example}" if first.example else f"doc {first.doc_id}"
        details = {"example": example, "advice": first.advice, "docs": number}
        make_finding = Finding.of_task if of_task else Finding.of_form
        counted = f"{what}: {number} of {len(prompts.docs)} documents"
        findings.append(make_finding(prompts.form, code, where, counted, **details))
    return findings


def drop_silenced(form: Form, findings: Iterable[Finding]) -> list[Finding]:
    """The findings without those whose codes the task silences."""
    ignored = silenced_codes(form)
    return [finding for finding in findings if finding.code not in ignored]


def silenced_codes(form: Form) -> Mapping[str, str]:
    """The codes that a task silences, each with its reason."""
    codes = form.config.lint_ignore or {}
    for code, reason in codes.items():
        place = form.where("lint_ignore", code)
        if code not in CODES:
            raise ConfigError(f"no code '{code}'", where=place, hint=nearest(code, CODES, listed="codes"))
        if not reason.strip():
            raise ConfigError("a code is silenced without a reason", where=place, hint="say why it is right here")
    return codes


def summary(findings: Iterable[Finding]) -> list[tuple[Level, str]]:
    """One line for each code: its first finding, and the names of the other tasks that have it."""
    by_code: dict[str, dict[str, Finding]] = {}
    for finding in findings:
        by_code.setdefault(finding.code, {}).setdefault(finding.task, finding)
    lines = []
    for by_task in by_code.values():
        first, *rest = by_task.values()
        names = ", ".join(finding.task for finding in rest[:3]) + (", ..." if len(rest) > 3 else "")
        lines.append((first.level, f"{first}; so for {len(rest)} more: {names}" if rest else str(first)))
    return lines

"""Checks of whole tasks: their documents and their few-shot examples."""

from __future__ import annotations

from collections.abc import Iterable

from multiform.fields import Doc
from multiform.forms import Task
from multiform.lint.documents import DocumentFields, document_findings
from multiform.lint.finding import Finding
from multiform.lint.settings import fewshot_findings


def task_findings(task: Task, docs: Iterable[tuple[int, Doc]]) -> list[Finding]:
    """All that is odd about a task and these documents of it."""
    return [*document_findings(_fields(task), docs), *fewshot_findings(task)]


def lint_tasks(tasks: Iterable[tuple[Task, Iterable[tuple[int, Doc]]]]) -> list[Finding]:
    """The findings of several forms; documents that several forms of a task read alike are checked once."""
    findings: list[Finding] = []
    checked: set[str] = set()
    for task, docs in tasks:
        fields = _fields(task)
        alike = repr((fields.task, fields.question, fields.choices, fields.answer))
        findings += fewshot_findings(task) if alike in checked else task_findings(task, docs)
        checked.add(alike)
    return list({(finding.task, finding.code, finding.what): finding for finding in findings}.values())


def _fields(task: Task) -> DocumentFields:
    """What the task reads, before any format or noise changes it."""
    config = task.config
    raw = config.prompt if config.recovered is None else config.recovered.mapping
    named = config.format is not None
    return DocumentFields(
        task=config.base_name,
        question="question" if raw.question is None and named else raw.question,
        choices=raw.choices,
        answer="answer" if raw.answer is None and named else raw.answer,
        where=config.where(),
        where_question=config.where("doc_to_text"),
        where_choices=config.where("doc_to_choice"),
        where_answer=config.where("doc_to_target"),
        has_media=bool(task.renderer.media.kinds),
    )

"""Lint: warnings about tasks and their documents that are no errors."""

from multiform.lint.documents import DocumentFields, document_findings
from multiform.lint.finding import Code, Finding, summary
from multiform.lint.references import reference_findings
from multiform.lint.tasks import corpus_findings, fewshot_findings, lint_tasks, model_findings, task_findings

__all__ = [
    "Code",
    "DocumentFields",
    "Finding",
    "corpus_findings",
    "document_findings",
    "fewshot_findings",
    "lint_tasks",
    "model_findings",
    "reference_findings",
    "summary",
    "task_findings",
]

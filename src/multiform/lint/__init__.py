"""Lint: warnings about tasks, their documents and their prompts.

findings   Finding; what each code means; how findings are counted, silenced and listed
documents  checks of the columns of documents
prompts    rendered documents, as these need them: spaces, shots, answers, tokens
forms      all checks of one form, and of the settings of a run
"""

from multiform.lint.answers import reference_findings
from multiform.lint.findings import CODES, Finding, drop_silenced, explanation, summary
from multiform.lint.forms import (
    FormFindings,
    TasksLint,
    corpus_findings,
    language_findings,
    lint_form,
    lint_tasks,
    model_findings,
)
from multiform.lint.tokens import Tokenizer

__all__ = [
    "CODES",
    "Finding",
    "FormFindings",
    "TasksLint",
    "Tokenizer",
    "corpus_findings",
    "drop_silenced",
    "explanation",
    "language_findings",
    "lint_form",
    "lint_tasks",
    "model_findings",
    "reference_findings",
    "summary",
]

"""Lint: warnings about tasks, their documents and their prompts.

codes      what each code means         finding    Finding, and how findings are counted, silenced and listed
documents  columns of documents         tasks      settings of tasks and runs
prompts    rendered documents           spaces, shots, answers, choices, tokens    checks of these
form       all checks of one form
"""

from multiform.lint.codes import CODES, Code, Explanation, explanation
from multiform.lint.documents import DocumentFields, document_findings
from multiform.lint.finding import Finding, silenced, summary, unsilenced
from multiform.lint.form import FormFindings, lint_form
from multiform.lint.references import reference_findings
from multiform.lint.tasks import corpus_findings, fewshot_findings, lint_tasks, model_findings, task_findings
from multiform.lint.tokens import Tokenizer

__all__ = [
    "CODES",
    "Code",
    "DocumentFields",
    "Explanation",
    "Finding",
    "FormFindings",
    "Tokenizer",
    "corpus_findings",
    "document_findings",
    "explanation",
    "fewshot_findings",
    "lint_form",
    "lint_tasks",
    "model_findings",
    "reference_findings",
    "silenced",
    "summary",
    "task_findings",
    "unsilenced",
]

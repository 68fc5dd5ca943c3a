"""lint_form: all findings about one form, from its documents to the tokens of its prompts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from multiform.errors import UsageError
from multiform.fields import Doc
from multiform.forms import Form
from multiform.lint.answers import answer_hits, description_findings, stop_findings
from multiform.lint.choices import choice_findings, gold_hits
from multiform.lint.finding import Finding, counted, silenced
from multiform.lint.prompts import render
from multiform.lint.references import reference_findings
from multiform.lint.shots import pool_hits, shot_findings
from multiform.lint.spaces import space_hits
from multiform.lint.tasks import answer_base_findings, task_findings
from multiform.lint.tokens import Tokenizer, token_findings, token_hits


@dataclass(frozen=True, slots=True, kw_only=True)
class FormFindings:
    """The findings about a form, and the codes that its task silences."""

    form: str
    #: The number of documents that were looked at.
    docs: int
    findings: tuple[Finding, ...]
    silenced: tuple[Finding, ...] = ()


def lint_form(form: Form, docs: Iterable[tuple[int, Doc]], tokenizer: Tokenizer | None = None) -> FormFindings:
    """All findings about a form and these documents; with a tokenizer, those about tokens as well.

    >>> from multiform.tasks import TaskManager
    >>> form = Form(TaskManager().load("quiz@mcqa")[0])
    >>> lint_form(form, form.docs())
    FormFindings(form='quiz@mcqa', docs=144, findings=(), silenced=())
    """
    chat = bool(form.settings.apply_chat_template)
    template = None if tokenizer is None else tokenizer.chat_template
    if chat and template is None:
        message = "there is no tokenizer to take it from" if tokenizer is None else "the tokenizer has no chat template"
        raise UsageError(message, where="--apply_chat_template", hint="name one that has: --tokenizer PATH")
    ignored = silenced(form)
    rows = list(docs)
    prompts = render(form, rows, template if chat else None)
    name, base = form.name, form.task_name
    findings = [*task_findings(form, rows), *answer_base_findings(prompts.form)]
    findings += counted(gold_hits(prompts), prompts.total, task=base, form=name)
    findings += choice_findings(prompts)
    findings += reference_findings(form, prompts.samples)
    findings += counted(space_hits(prompts), prompts.total, task=base, form=name)
    findings += shot_findings(prompts)
    if not any(finding.code == "shots_from_evaluated_split" for finding in findings):
        findings += counted(pool_hits(prompts), prompts.total, task=base)
    findings += counted(answer_hits(prompts), prompts.total, task=base, form=name)
    findings += stop_findings(prompts)
    findings += description_findings(prompts)
    if tokenizer is not None:
        findings += token_findings(prompts, tokenizer)
        findings += counted(token_hits(prompts, tokenizer), prompts.total, task=base, form=name)
    return FormFindings(
        form=name,
        docs=prompts.total,
        findings=tuple(finding for finding in findings if finding.code not in ignored),
        silenced=tuple(finding for finding in findings if finding.code in ignored),
    )

"""Checks of tasks and of what a run does with them: few-shot examples, chat template, decontamination."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from multiform.fields import Doc
from multiform.forms import RollingTask, Task
from multiform.lint.documents import DocumentFields, document_findings
from multiform.lint.finding import Finding, silenced, unsilenced
from multiform.models import Model
from multiform.tasks import FewshotConfig


def task_findings(task: Task, docs: Iterable[tuple[int, Doc]]) -> list[Finding]:
    """The findings about a task and these documents of it."""
    return [*document_findings(_fields(task), docs), *fewshot_findings(task), *_revision_findings(task)]


def lint_tasks(tasks: Iterable[tuple[Task, Iterable[tuple[int, Doc]]]]) -> list[Finding]:
    """The findings about several forms; documents that forms of a task read in the same way are checked once."""
    findings: list[Finding] = []
    checked: set[str] = set()
    for task, docs in tasks:
        fields = _fields(task)
        alike = repr((fields.task, fields.context, fields.question, fields.choices, fields.answer))
        task_issues = fewshot_findings(task) if alike in checked else task_findings(task, docs)
        findings += unsilenced(task.config, [*task_issues, *answer_base_findings(task)])
        checked.add(alike)
    return list({(finding.task, finding.code, finding.what): finding for finding in findings}.values())


def _fields(task: Task) -> DocumentFields:
    """The fields that the task reads, before any format or perturbation."""
    config = task.config
    raw = config.stated_mapping if config.recovered is None else config.recovered.mapping
    named = config.format is not None
    return DocumentFields(
        task=config.base_name,
        question="question" if raw.question is None and named else raw.question,
        choices=raw.choices,
        answer="answer" if raw.answer is None and named else raw.answer,
        context=raw.context,
        where=config.where(),
        where_question=config.where("doc_to_text"),
        where_choices=config.where("doc_to_choice"),
        where_answer=config.where("doc_to_target"),
        has_media=bool(task.renderer.media.kinds),
    )


def _revision_findings(task: Task) -> list[Finding]:
    """Whether the dataset of a task comes from the hub at a revision that may move."""
    config, path = task.config, task.config.dataset_path
    source = config.stated.source
    bases = [*([source.file.parent] if source else []), Path.cwd()]
    if not path or path.count("/") != 1 or any((base / path).exists() for base in bases):
        return []  # not a dataset of the hub
    if config.dataset_kwargs.get("revision", "main") != "main":
        return []
    return [
        Finding(
            code="unpinned_revision",
            task=config.base_name,
            where=config.where("dataset_path"),
            what="the dataset's rows are those of the day on which it is downloaded",
            hint="write dataset_kwargs: {revision: ...} with the hash of a commit",
            level="info",
        )
    ]


def fewshot_findings(task: Task) -> list[Finding]:
    """Whether few-shot examples are drawn from the documents that are evaluated."""
    config, fewshot = task.config, task.config.fewshot_config
    if not task.num_fewshot or isinstance(task, RollingTask) or not isinstance(fewshot, FewshotConfig):
        return []
    if (fewshot.split is None and fewshot.samples is not None) or fewshot.process_docs is not config.process_docs:
        return []
    if task.source.has_own_docs or {"fewshot_docs", "eval_docs"} & task.form.hooks.keys():
        return []  # the task's own code chooses the documents
    drawn = fewshot.split or config.training_split or config.validation_split or config.test_split
    evaluated, dataset = task.source.eval_split, task.source.dataset
    if drawn is None or not dataset.same_rows(drawn, evaluated):
        return []
    other_splits = [split for split in dataset if not dataset.same_rows(split, evaluated)]
    return [
        Finding(
            code="shots_from_evaluated_split",
            task=config.base_name,
            where=config.where("fewshot_split" if config.fewshot_split else "num_fewshot"),
            what="few-shot examples are drawn from the documents that are evaluated",
            example=f"split '{drawn}', of which each document's own is left out",
            hint=f"set fewshot_split to another one: {', '.join(other_splits)}"
            if other_splits
            else "add a split of examples",
        )
    ]


def answer_base_findings(task: Task) -> list[Finding]:
    """Whether the documents that a task has rendered have digits as answers that may count from 0 or from 1."""
    config, digits = task.config, task.renderer.reader.unclear_digits
    if digits is None:
        return []
    return [
        Finding(
            code="answer_base_unclear",
            task=config.base_name,
            where=config.where("doc_to_target"),
            what="answers are digits, and no document shows whether they count from 0 or from 1; they count from 1",
            example=digits,
            hint="set answer_base: 0 or 1 in the task",
        )
    ]


def model_findings(model: Model, tasks: Iterable[Task], *, apply_chat_template: bool) -> list[Finding]:
    """Whether a model with a chat template is run without it."""
    if apply_chat_template or all(isinstance(task, RollingTask) for task in tasks) or not model.chat_template_text():
        return []
    return [
        Finding(
            code="chat_template_unused",
            where=f"model '{model.name}'",
            what="it has a chat template, and the prompts are written without it",
            hint="add --apply_chat_template if it is a chat model",
        )
    ]


def corpus_findings(tasks: Iterable[Task]) -> list[Finding]:
    """Whether tasks request decontamination in a run without a corpus."""
    return [
        Finding(
            code="no_corpus",
            task=task.config.base_name,
            where=task.config.where("should_decontaminate"),
            what="nothing is decontaminated without a corpus",
            hint="give --decontamination_corpus FILE",
            level="info",
        )
        for task in tasks
        if task.config.should_decontaminate and "no_corpus" not in silenced(task.config)
    ]

"""Checks of what a run does with its tasks: few-shot examples, chat template, decontamination."""

from __future__ import annotations

from collections.abc import Iterable

from multiform.config import FewshotConfig
from multiform.forms import RollingTask, Task
from multiform.lint.finding import Finding
from multiform.models import Model


def fewshot_findings(task: Task) -> list[Finding]:
    """Whether few-shot examples are drawn from the documents that are evaluated."""
    config, fewshot = task.config, task.config.fewshot_config
    if not task.num_fewshot or isinstance(task, RollingTask) or not isinstance(fewshot, FewshotConfig):
        return []
    if (fewshot.split is None and fewshot.samples is not None) or fewshot.process_docs is not config.process_docs:
        return []
    if any(getattr(type(task), name) is not getattr(Task, name) for name in ("fewshot_docs", "eval_docs")):
        return []  # the task's own code says where documents come from
    drawn = fewshot.split or config.training_split or config.validation_split or config.test_split
    evaluated, dataset = task.source.eval_split, task.source.dataset
    if drawn is None or not dataset.same_rows(drawn, evaluated):
        return []
    others = [split for split in dataset if not dataset.same_rows(split, evaluated)]
    return [
        Finding(
            code="shots_from_evaluated_split",
            task=config.base_name,
            where=config.where("fewshot_split" if config.fewshot_split else "num_fewshot"),
            what="few-shot examples are drawn from the documents that are evaluated",
            example=f"split '{drawn}', of which each document's own is left out",
            hint=f"set fewshot_split to another one: {', '.join(others)}" if others else "add a split of examples",
        )
    ]


def model_findings(model: Model, tasks: Iterable[Task], *, apply_chat_template: bool) -> list[Finding]:
    """Whether a model that has a chat template is asked without it."""
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
    """Which tasks ask to be decontaminated, where there is no corpus to look them up in."""
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
        if task.config.should_decontaminate
    ]

"""All checks of a form, and of what a run does with it: few-shot examples, chat template, decontamination."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from multiform.errors import ConfigError, UsageError, excerpt
from multiform.fields import Doc
from multiform.formats.localization import ENGLISH, NATIVE, local_words, localize, task_language
from multiform.forms import Form, Sample
from multiform.lint.answers import (
    ReferenceChecks,
    description_findings,
    gold_hits,
    length_findings,
    position_findings,
    stop_findings,
    stop_hits,
    visible_answer_hits,
)
from multiform.lint.documents import DocumentChecks, stated_fields
from multiform.lint.findings import Finding, as_findings, drop_silenced, silenced_codes
from multiform.lint.layout import pool_hits, shot_findings, space_hits
from multiform.lint.prompts import render
from multiform.lint.tokens import Tokenizer, token_findings, token_hits
from multiform.models import Model


def lint_tasks(forms: Iterable[tuple[Form, Iterable[tuple[int, Doc]]]]) -> list[Finding]:
    """The findings about several forms; documents that forms of a task read in the same way are checked once."""
    docs_of = list(forms)
    lint = TasksLint([form for form, _ in docs_of])
    for form, docs in docs_of:
        lint.see_docs(form, docs)
    return lint.findings()


class TasksLint:
    """The findings about several forms, whose samples come one by one."""

    def __init__(self, forms: Sequence[Form]) -> None:
        self.forms = forms
        moved = (form for form in forms if form.config.axes or form.config.choice_order is not None)
        #: The checks of choices that speak of others, for forms that may move them.
        self._references = {form.name: ReferenceChecks(form) for form in moved}
        alike = {repr((form.task_name, stated_fields(form))): form for form in reversed(forms)}
        #: The checks of documents, for the first of the forms that read them in the same way.
        self.checks = {form.name: DocumentChecks(form) for form in alike.values()}

    def see(self, form: Form, sample: Sample) -> None:
        """Check a sample of a form."""
        self.see_docs(form, [(sample.doc_id, sample.doc)])
        self.see_choices(form, sample)

    def see_choices(self, form: Form, sample: Sample) -> None:
        """Check whether the choices of a sample speak of others."""
        if form.name in self._references:
            self._references[form.name].see(sample)

    def see_docs(self, form: Form, docs: Iterable[tuple[int, Doc]]) -> None:
        """Check documents of a form, unless another form of the task reads them in the same way."""
        for doc_id, doc in docs if form.name in self.checks else ():
            self.checks[form.name].see(doc_id, doc)

    def findings(self) -> list[Finding]:
        """The findings about the forms, and about their documents and samples so far."""
        findings: list[Finding] = []
        for form in self.forms:
            issues = fewshot_findings(form)
            if form.name in self.checks:
                issues = [*self.checks[form.name].findings(), *issues, *_revision_findings(form)]
            issues += answer_base_findings(form)
            if form.name in self._references:
                issues += self._references[form.name].findings()
            # The codes that a task silences are checked even if nothing was found.
            findings += drop_silenced(form, issues) if issues or form.config.lint_ignore else []
        return list({(finding.task, finding.code, finding.what): finding for finding in findings}.values())


def _revision_findings(form: Form) -> list[Finding]:
    """Whether the dataset of a task comes from the hub at a revision that may move."""
    path, source = form.config.dataset_path, form.config.stated.source
    bases = [*([] if source is None else [source.file.parent]), Path.cwd()]
    is_local = not path or path.count("/") != 1 or any((base / path).exists() for base in bases)
    if is_local or form.config.dataset_kwargs.get("revision") not in (None, "main"):
        return []
    what = "the dataset's rows are those of the day on which it is downloaded"
    return [Finding.of_task(form, "unpinned_revision", form.where("dataset_path"), what, level="info")]


def fewshot_findings(form: Form) -> list[Finding]:
    """Whether few-shot examples are drawn from the documents that are evaluated."""
    fewshot, drawn = form.fewshot, form.fewshot_split
    listed = fewshot.split is None and fewshot.samples is not None
    if not form.num_fewshot or form.output_type == "loglikelihood_rolling" or listed:
        return []
    by_code = form.source.has_own_docs or {"fewshot_docs", "eval_docs"} & form.hooks.keys()
    if by_code or fewshot.process_docs is not form.config.process_docs:
        return []
    evaluated, dataset = form.source.eval_split, form.source.dataset
    if drawn is None or not dataset.same_rows(drawn, evaluated):
        return []
    other_splits = [split for split in dataset if not dataset.same_rows(split, evaluated)]
    place = form.where_stated("fewshot_split", "num_fewshot")
    what = "few-shot examples are drawn from the documents that are evaluated"
    advice = (
        "set fewshot_split to another one: " + ", ".join(other_splits) if other_splits else "add a split of examples"
    )
    example = f"split '{drawn}', of which each document's own is left out"
    return [Finding.of_task(form, "shots_from_evaluated_split", place, what, example=example, advice=advice)]


def answer_base_findings(form: Form) -> list[Finding]:
    """Whether the documents that a task has rendered have digits as answers that may count from 0 or from 1."""
    digits = form.renderer.reader.unclear_digits
    if digits is None:
        return []
    what = "answers are digits, and no document shows whether they count from 0 or from 1; they count from 1"
    return [Finding.of_task(form, "answer_base_unclear", form.where("doc_to_target"), what, example=digits)]


#: Fewer tokens than this cut off most thoughts.
_ROOM_TO_THINK = 1024


def model_findings(model: Model, forms: Sequence[Form], *, apply_chat_template: bool) -> list[Finding]:
    """Whether a chat model is run without its template, or forms are not meant for a model of this kind."""
    template, place = model.chat_template_text(), f"model '{model.name}'"
    written = [form for form in forms if form.output_type == "generate_until"]
    findings: list[Finding] = []
    if template is None:
        what = "it has no chat template, and the format gives instructions to a chat model"
        # Only models with a tokenizer say whether they have a template.
        for form in written if model.tokenizer_info() else ():
            if form.format is not None and form.format.meant_for == "chat":
                finding = Finding.of_form(form, "instructed_base_model", place, what, level="info")
                findings += drop_silenced(form, [finding])
    elif apply_chat_template:
        thinks = "think" in template and '"enable_thinking": false' not in model.chat_template_name()
        for form in written if thinks else ():
            findings += drop_silenced(form, _thinking_findings(place, form))
    elif any(form.output_type != "loglikelihood_rolling" for form in forms):
        what = "it has a chat template, and the prompts are written without it"
        findings.append(Finding(code="chat_template_unused", where=place, what=what))
    return findings


def _thinking_findings(place: str, form: Form) -> Iterator[Finding]:
    """A prefilled answer or a small limit of tokens, for a model that thinks."""
    limit, prefix, what = form.generation_kwargs.get("max_gen_toks"), form.config.gen_prefix, "its chat template has"
    if prefix:
        problem = f"{what} thoughts, and the prompt begins the answer with {prefix!r}"
        yield Finding.of_form(form, "prefilled_thought", place, problem)
    if isinstance(limit, int) and limit < _ROOM_TO_THINK:
        problem = f"{what} thoughts, and completions end at {limit} tokens"
        yield Finding.of_form(form, "little_room_to_think", place, problem)


def corpus_findings(forms: Iterable[Form]) -> list[Finding]:
    """Whether tasks request decontamination in a run without a corpus."""
    what, findings = "nothing is decontaminated without a corpus", list[Finding]()
    for form in forms:
        if form.config.should_decontaminate:
            finding = Finding.of_task(form, "no_corpus", form.where("should_decontaminate"), what, level="info")
            findings += drop_silenced(form, [finding])
    return findings


def language_findings(form: Form) -> list[Finding]:
    """Whether English words of a format stand around questions, or beside its own words, in another language."""
    format = form.format
    if format is None:
        return []
    if format.language not in (None, ENGLISH):
        if not format.instruction or format.instruction != type(format).instruction:
            return []
        name = local_words(format.language).name
        what = f"the words of the format are {name}, and its instruction is English: it has no translation"
        details = {
            "example": excerpt(format.instruction),
            "advice": "write an instruction of your own in formats, or select mcqa, generate or cot",
        }
        return [Finding.of_form(form, "mixed_languages", form.where("formats"), what, **details)]
    is_english = form.metadata.get("language") in (None, ENGLISH)
    native = None if is_english else task_language(form.metadata)
    if format.language is not None or native in (None, ENGLISH):
        return []
    try:
        local = localize(format, local_words(native))
    except ConfigError:  # the format has no English words
        return []
    english = next(
        text
        for text in (format.question_prefix, format.answer_prompt, format.instruction)
        if text and text not in (local.question_prefix, local.answer_prompt, local.instruction)
    )
    what = f"the task is in {local_words(native).name}, and the words of its prompts are English"
    name, bracket, axes = (form.format_label or format.format_name).partition("[")
    advice = f"select {form.task_name}@{name}:{NATIVE}{bracket}{axes}"
    details = {"example": excerpt(english), "advice": advice, "level": "info"}
    return [Finding.of_form(form, "mixed_languages", form.where("formats"), what, **details)]


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

    >>> from multiform.tasks.manager import TaskManager
    >>> form = Form(TaskManager().load("quiz@mcqa")[0])
    >>> lint_form(form, form.docs())
    FormFindings(form='quiz@mcqa', docs=144, findings=(), silenced=())
    """
    chat = bool(form.settings.apply_chat_template)
    template = None if tokenizer is None else tokenizer.chat_template
    if chat and template is None:
        message = "there is no tokenizer to take it from" if tokenizer is None else "the tokenizer has no chat template"
        raise UsageError(message, where="--apply_chat_template", hint="name one that has: --tokenizer PATH")
    ignored = silenced_codes(form)
    rows = list(docs)
    prompts = render(form, rows, template if chat else None)
    checks = DocumentChecks(form)
    for doc_id, doc in rows:
        checks.see(doc_id, doc)
    findings = [*checks.findings(), *fewshot_findings(form), *_revision_findings(form)]
    findings += answer_base_findings(prompts.form)
    findings += as_findings(gold_hits(prompts), prompts)
    findings += [*length_findings(prompts), *position_findings(prompts)]
    references = ReferenceChecks(form)
    for sample in prompts.samples:
        references.see(sample)
    findings += references.findings()
    findings += as_findings(space_hits(prompts), prompts)
    findings += shot_findings(prompts)
    if not any(finding.code == "shots_from_evaluated_split" for finding in findings):
        findings += as_findings(pool_hits(prompts), prompts, of_task=True)
    findings += as_findings([*visible_answer_hits(prompts), *stop_hits(prompts)], prompts)
    findings += stop_findings(prompts)
    findings += description_findings(prompts)
    findings += language_findings(form)
    if tokenizer is not None:
        findings += token_findings(prompts, tokenizer)
        findings += as_findings(token_hits(prompts, tokenizer), prompts)
    return FormFindings(
        form=form.name,
        docs=len(rows),
        findings=tuple(finding for finding in findings if finding.code not in ignored),
        silenced=tuple(finding for finding in findings if finding.code in ignored),
    )

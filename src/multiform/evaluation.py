"""evaluate: run forms on a model and score them."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from multiform.arguments import parse_arguments
from multiform.catalog import BaseTask, Group
from multiform.config import TaskConfig
from multiform.config.serialize import plain
from multiform.engine.checks import check_model_fits, check_settings, generation_arguments
from multiform.engine.progress import Progress, chosen_progress
from multiform.engine.run import (
    PendingSample,
    RequestCaching,
    pending_samples,
    planned,
    run_samples,
    written_out,
)
from multiform.engine.seeds import set_seeds
from multiform.engine.setup import (
    DEFAULT_MODEL,
    DEFAULT_SEEDS,
    check_consent,
    check_output_types,
    check_samples,
    check_selection,
    load_model,
    load_tasks,
)
from multiform.engine.store import chosen_store
from multiform.errors import UsageError, shorten
from multiform.forms import RunSettings, ScoredSample, Task
from multiform.forms.request_cache import delete_requests
from multiform.lint import Finding, corpus_findings, lint_tasks, model_findings, summary
from multiform.models import Model, models
from multiform.results import FormResult, Results
from multiform.results.configs import described_config
from multiform.results.export import prepare_output
from multiform.results.provenance import provenance
from multiform.results.results import group_results
from multiform.scoring.aggregations import DEFAULT_ITERATIONS
from multiform.scoring.decontamination import contaminated

logger = logging.getLogger("multiform")

#: A task by its name, as a configuration, as an object or as a class.
TaskLike: TypeAlias = str | TaskConfig | Task | Group | BaseTask[Any] | type[BaseTask[Any]]

#: Flags of their own, which go to a model beside its arguments.
_NOT_MODEL_ARGS = ("batch_size", "max_batch_size", "device", "chat_template")


def evaluate(
    *,
    tasks: TaskLike | Sequence[TaskLike],
    model: str | Model | Any = DEFAULT_MODEL,
    model_args: str | Mapping[str, Any] | None = None,
    num_fewshot: int | None = None,
    limit: float | None = None,
    samples: Mapping[str, Sequence[int]] | None = None,
    batch_size: int | str | None = None,
    device: str | None = None,
    gen_kwargs: str | Mapping[str, Any] | None = None,
    include_path: str | Path | Sequence[str | Path] | None = None,
    dataset_mirror: str | Path | None = None,
    apply_chat_template: bool | str = False,
    fewshot_as_multiturn: bool | None = None,
    system_instruction: str | None = None,
    perturbation: str | Mapping[str, Any] | None = None,
    keep_description: bool = False,
    seeds: Sequence[int | None] = DEFAULT_SEEDS,
    bootstrap_iters: int = DEFAULT_ITERATIONS,
    predict_only: bool = False,
    write_out: bool = False,
    confirm_run_unsafe_code: bool = False,
    decontamination_corpus: Sequence[str | Path] = (),
    metadata: str | Mapping[str, Any] | None = None,
    use_cache: bool | str | Path | None = None,
    cache_requests: bool | str = False,
    plan_only: bool = False,
    output_path: str | Path | None = None,
    log_samples: bool = False,
    progress: Progress | bool | None = None,
) -> Results:
    """Run forms on a model and score them.

    `output_path` is the folder or .json file that the results are written to; with `log_samples` the samples, too.
    `dataset_mirror` is asked for datasets before the hub (default: $MULTIFORM_DATASET_MIRROR).
    Progress is shown in a terminal and in a notebook; `progress=True` shows it anywhere, `progress=False` nowhere.
    Answers of built-in models are stored in the user's cache, those of any model in the file that `use_cache` names
    (True: the user's cache; False: nowhere).
    `cache_requests` keeps prompts as well: True, "refresh" to make them anew, "delete" to remove all that are kept.
    `metadata` is added to that of every task. `keep_description` leaves in what descriptions say of multiple choice
    under formats that show no choices.
    With `plan_only` nothing is asked: the results hold no scores, and ``run["plan"]`` says what would be.

    >>> results = evaluate(model="dummy", tasks=["quiz@mcqa", "quiz@cloze"], limit=8)
    >>> sorted(results)
    ['quiz@cloze', 'quiz@mcqa']
    >>> 0 <= results["quiz@mcqa"]["acc,none"] <= 1
    True
    """
    started = time.monotonic()
    check_settings(
        num_fewshot=num_fewshot,
        bootstrap_iters=bootstrap_iters,
        limit=limit,
        samples=samples,
        batch_size=batch_size,
        seeds=seeds,
        device=device,
        system_instruction=system_instruction,
        output_path=output_path,
        apply_chat_template=apply_chat_template,
        fewshot_as_multiturn=fewshot_as_multiturn,
        use_cache=use_cache,
        predict_only=predict_only,
        write_out=write_out,
        confirm_run_unsafe_code=confirm_run_unsafe_code,
        log_samples=log_samples,
        plan_only=plan_only,
        keep_description=keep_description,
    )
    output = _output(output_path, log_samples)
    set_seeds(seeds)
    arguments = parse_arguments(model_args, where="model_args")
    arguments |= {k: v for k, v in {"batch_size": batch_size, "device": device}.items() if v is not None}
    entry = models.get(model) if isinstance(model, str) and model in models else None
    if isinstance(apply_chat_template, str) and entry and entry.named_chat_templates:
        arguments["chat_template"] = apply_chat_template
    settings = RunSettings(
        num_fewshot=num_fewshot,
        apply_chat_template=apply_chat_template,
        fewshot_as_multiturn=fewshot_as_multiturn,
        system_instruction=system_instruction,
        gen_kwargs=generation_arguments(gen_kwargs),
        perturbation=parse_arguments(perturbation, where="perturbation") or None,
        keep_description=keep_description,
        fewshot_seed=seeds[3] if seeds[3] is not None else DEFAULT_SEEDS[3],
        metric="bypass" if predict_only else None,
        metadata=parse_arguments(metadata, where="metadata"),
        model_args=arguments,
        limit=limit,
        samples=samples,
    )
    check_selection(limit, samples)
    groups: list[Group] = []
    dataset_mirror = dataset_mirror or os.environ.get("MULTIFORM_DATASET_MIRROR")
    listed = [tasks] if isinstance(tasks, str) or not isinstance(tasks, Iterable) else list(tasks)
    forms = load_tasks(listed, settings, include_path=include_path, dataset_mirror=dataset_mirror, groups=groups)
    check_samples(forms, samples)
    check_consent(forms, confirm_run_unsafe_code)
    check_output_types(forms)
    check_model_fits(model, forms, settings.gen_kwargs, arguments)
    store = chosen_store(use_cache)
    with chosen_progress(progress) as shown:
        # Prompts need the model only for its chat template: without one, every mistake shows before it is loaded.
        loaded = load_model(model, arguments, shown, store) if apply_chat_template else None
        caching = _request_caching(cache_requests, loaded, shown)
        template = None if loaded is None else loaded.apply_chat_template
        pending = [sample for form in forms for sample in pending_samples(form, template, caching)]
        _say(_findings(forms, pending, corpus=bool(decontamination_corpus)))
        if write_out:
            shown.message(written_out(pending))
        dirty = {form.name: contaminated_docs(form, pending, decontamination_corpus) for form in forms}
        loaded = loaded or load_model(model, arguments, shown, store)
        _say(model_findings(loaded, forms, apply_chat_template=bool(apply_chat_template)))
        store = store if use_cache or loaded.stored else None
        if plan_only:
            return Results(forms=[], run={"plan": planned(loaded, pending, store)}, provenance={})
        scored = run_samples(loaded, pending, shown, store)
    run = _described(
        model if isinstance(model, str) else type(model).__name__,
        arguments,
        loaded,
        seeds,
        batch_size=batch_size,
        batch_sizes=[],
        device=device,
        use_cache=str(use_cache) if isinstance(use_cache, str | Path) else None,
        limit=limit,
        bootstrap_iters=bootstrap_iters,
        gen_kwargs=None if gen_kwargs is None else dict(settings.gen_kwargs),
        num_fewshot=num_fewshot,
        **({} if samples is None else {"samples": {task: list(ids) for task, ids in samples.items()}}),
    )
    form_results = [
        _form_result(form, scored[form.name], loaded, run["model_args"], dirty[form.name], bootstrap_iters)
        for form in forms
    ]
    by_name = {form.name: form for form in form_results}
    results = Results(
        forms=form_results,
        groups=[result for group in groups for result in group_results(group, by_name)],
        run=run,
        provenance=provenance(
            model=loaded,
            source=model if isinstance(model, str) else "CUSTOM",
            arguments=arguments,
            seconds=time.monotonic() - started,
            system_instruction=system_instruction,
            fewshot_as_multiturn=True if settings.multiturn else fewshot_as_multiturn,
            chat=bool(apply_chat_template),
        ),
    )
    if output is not None:
        results.save(output, samples=log_samples)
    return results


def _output(path: str | Path | None, log_samples: bool) -> Path | None:
    """Where the results are to be written, checked before a model is asked anything."""
    if path is None:
        if log_samples:
            what = "there is no output_path to write samples to"
            raise UsageError(what, where="log_samples", hint="give e.g. output_path='results'")
        return None
    if not str(path):
        raise UsageError("the name of the folder is empty", where="output_path", hint="give e.g. output_path='results'")
    prepare_output(Path(path))
    return Path(path)


def _findings(forms: Sequence[Task], pending: Sequence[PendingSample], *, corpus: bool) -> list[Finding]:
    """What is odd about the documents and the settings of a run."""
    docs = {
        form.name: [(entry.sample.doc_id, entry.sample.doc) for entry in pending if entry.task is form]
        for form in forms
    }
    findings = list(lint_tasks((form, docs[form.name]) for form in forms))
    return findings if corpus else [*findings, *corpus_findings(forms)]


def _say(findings: Iterable[Finding]) -> None:
    """Log what is odd, once for each kind of thing."""
    for level, line in summary(findings):
        logger.log(logging.WARNING if level == "warning" else logging.INFO, "%s", line)


def _request_caching(asked: bool | str, model: Model | None, progress: Progress) -> RequestCaching | None:
    """Whether requests are kept on disk; those that are kept are removed where that is asked."""
    if asked == "delete":
        progress.message(f"removed {delete_requests()} files of kept requests")
        return None
    if asked not in (False, True, "true", "refresh"):
        hint = "give true, refresh or delete"
        raise UsageError(f"expected one of three, got {shorten(asked)}", where="cache_requests", hint=hint)
    if not asked:
        return None
    template = f"{model.chat_template_name()} {model.chat_template_text()}" if model else ""
    return RequestCaching(refresh=asked == "refresh", template=template)


def _described(
    model: str, arguments: Mapping[str, Any], loaded: Model, seeds: Sequence[int | None], **settings: Any
) -> dict[str, Any]:
    """What the results file's `config` says, in lm-eval's order."""
    return {
        "model": model,
        "model_args": {key: value for key, value in arguments.items() if key not in _NOT_MODEL_ARGS},
        **loaded.info(),
        **settings,
        **dict(zip(("random_seed", "numpy_seed", "torch_seed", "fewshot_seed"), seeds, strict=True)),
    }


def contaminated_docs(task: Task, pending: Sequence[PendingSample], corpus: Sequence[str | Path]) -> set[int] | None:
    """The documents of a form that the corpus contains; None where nothing is to be checked."""
    if not corpus or not task.config.should_decontaminate:
        return None
    ids = [entry.sample.doc_id for entry in pending if entry.task is task]
    queries = {doc_id: task.doc_to_decontamination_query(task.eval_docs[doc_id]) for doc_id in ids}
    return contaminated(queries, [Path(path) for path in corpus])


def _form_result(
    task: Task,
    scored: list[ScoredSample],
    model: Model,
    arguments: Mapping[str, Any],
    dirty: set[int] | None,
    bootstrap_iters: int,
) -> FormResult:
    config = task.config
    estimates = task.estimates(scored, bootstrap_iters)
    if dirty is not None:
        clean = task.estimates([doc for doc in scored if doc.doc_id not in dirty], bootstrap_iters)
        estimates |= {key.replace(",", "_decontaminate,", 1): estimate for key, estimate in clean.items()}
    form, format, mapping = task.form, config.format, config.mapping
    return FormResult(
        form=task.name,
        task=config.base_name,
        alias=task.name.replace(config.base_name, config.task_alias, 1) if config.task_alias else task.name,
        identity=form.identity(model.chat_template_name()),
        version=form.metadata.get("version", "Yaml"),
        num_fewshot=form.metadata.get("num_fewshot", form.num_fewshot),
        total_docs=len(task.eval_docs),
        estimates=estimates,
        higher_is_better=task.higher_is_better(),
        config=described_config(task, arguments),
        format=None if format is None else format.to_dict(),
        format_label=config.format_label,
        mapping=plain({"question": mapping.question, "choices": mapping.choices, "answer": mapping.answer}),
        overridden=form.overridden,
        samples=scored,
    )

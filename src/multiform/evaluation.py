"""evaluate: run forms on a model and score them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from multiform.arguments import parse_arguments
from multiform.config import TaskConfig
from multiform.config.serialize import plain
from multiform.engine.forms import RequestCaching, Work, planned, run_works, works_of, written_out
from multiform.engine.progress import Progress, Silent
from multiform.engine.seeds import set_seeds
from multiform.engine.setup import (
    DEFAULT_MODEL,
    DEFAULT_SEEDS,
    PromptSettings,
    check_consent,
    check_samples,
    check_selection,
    load_model,
    load_tasks,
)
from multiform.engine.store import chosen_store
from multiform.errors import UsageError, shorten
from multiform.formats.identity import short_hash
from multiform.models import Model, models
from multiform.results import FormResult, Results
from multiform.results.configs import described_config
from multiform.results.groups import group_results
from multiform.results.provenance import provenance
from multiform.scoring.aggregations import DEFAULT_ITERATIONS
from multiform.scoring.decontamination import contaminated
from multiform.tasks import BaseTask, Group, ScoredDoc, Task
from multiform.tasks.cache import delete_requests

#: Names and ways of writing that do not change a prompt or a score; the resolved format counts instead.
_NOT_IDENTITY = ("task", "task_alias", "tag", "metadata", "formats", "template")

#: Flags of their own, which go to a model beside its arguments.
_NOT_MODEL_ARGS = ("batch_size", "max_batch_size", "device", "chat_template")


def evaluate(
    *,
    tasks: str | Sequence[str | TaskConfig | Task | Group | BaseTask[Any] | type[BaseTask[Any]]],
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
    progress: Progress | None = None,
) -> Results:
    """Run forms on a model and score them.

    Answers are stored in the user's cache, or in the file that `use_cache` names (False: nowhere).
    `cache_requests` keeps prompts as well: True, "refresh" to make them anew, "delete" to remove all that are kept.
    `metadata` is added to that of every task.
    With `plan_only` nothing is asked: the results hold no scores, and ``run["plan"]`` says what would be.

    >>> results = evaluate(model="dummy", tasks=["quiz@mcqa", "quiz@cloze"], limit=8)
    >>> sorted(results)
    ['quiz@cloze', 'quiz@mcqa']
    >>> 0 <= results["quiz@mcqa"]["acc,none"] <= 1
    True
    """
    started = time.monotonic()
    progress = progress or Silent()
    set_seeds(seeds)
    settings = PromptSettings(
        num_fewshot=num_fewshot,
        apply_chat_template=apply_chat_template,
        fewshot_as_multiturn=fewshot_as_multiturn,
        system_instruction=system_instruction,
        gen_kwargs=parse_arguments(gen_kwargs, where="gen_kwargs"),
        perturbation=parse_arguments(perturbation, where="perturbation") or None,
        fewshot_seed=seeds[3] if seeds[3] is not None else DEFAULT_SEEDS[3],
    )
    check_selection(limit, samples)
    groups: list[Group] = []
    forms = load_tasks(tasks, settings, include_path=include_path, dataset_mirror=dataset_mirror, groups=groups)
    check_samples(forms, samples)
    check_consent(forms, confirm_run_unsafe_code)
    if predict_only:
        for form in forms:
            form.override_metric("bypass")
    arguments = parse_arguments(model_args, where="model_args")
    arguments |= {k: v for k, v in {"batch_size": batch_size, "device": device}.items() if v is not None}
    entry = models.get(model) if isinstance(model, str) and model in models else None
    if isinstance(apply_chat_template, str) and entry and entry.named_chat_templates:
        arguments["chat_template"] = apply_chat_template
    for form in forms:
        form.source.arguments = arguments
        form.config.metadata = {**form.config.metadata, **parse_arguments(metadata, where="metadata")}
    store = chosen_store(use_cache)
    # Prompts need the model only for its chat template: without one, every mistake shows before it is loaded.
    loaded = load_model(model, arguments, progress, store) if apply_chat_template else None
    caching = _request_caching(cache_requests, loaded, progress)
    works = [work for form in forms for work in works_of(form, limit, samples, settings.options(loaded), caching)]
    if write_out:
        progress.message(written_out(works))
    dirty = {form.name: contaminated_docs(form, works, decontamination_corpus) for form in forms}
    loaded = loaded or load_model(model, arguments, progress, store)
    store = store if use_cache or loaded.stored else None
    if plan_only:
        return Results(forms=[], run={"plan": planned(loaded, works, store)}, provenance={})
    scored = run_works(loaded, works, progress, store)
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
    results = [
        _form_result(form, scored[form.name], settings, loaded, run["model_args"], dirty[form.name], bootstrap_iters)
        for form in forms
    ]
    return Results(
        forms=results,
        groups=[made for group in groups for made in group_results(group, {form.name: form for form in results})],
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


def contaminated_docs(task: Task, works: Sequence[Work], corpus: Sequence[str | Path]) -> set[int] | None:
    """The documents of a form that the corpus contains; None where nothing is to be checked."""
    if not corpus or not task.config.should_decontaminate:
        return None
    ids = [work.doc_id for work in works if work.task is task]
    queries = {doc_id: task.doc_to_decontamination_query(task.eval_docs[doc_id]) for doc_id in ids}
    return contaminated(queries, [Path(path) for path in corpus])


def _form_result(
    task: Task,
    scored: list[ScoredDoc],
    settings: PromptSettings,
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
    form = config.format.to_dict() if config.format is not None else None
    described = {**task.dump_config(), **config.templates()}
    raw, shots = config.mapping, task.num_fewshot
    identity = short_hash(
        {
            "config": {key: value for key, value in described.items() if key not in _NOT_IDENTITY},
            "format": form,
            "seed": settings.fewshot_seed if shots else None,
            "system_instruction": settings.system_instruction,
            "chat": model.chat_template_name() if settings.apply_chat_template else None,
            "multiturn": settings.multiturn,
        }
    )
    return FormResult(
        form=task.name,
        task=config.base_name,
        alias=task.name.replace(config.base_name, config.task_alias, 1) if config.task_alias else task.name,
        identity=identity,
        version=config.metadata.get("version", "Yaml"),
        num_fewshot=config.metadata.get("num_fewshot", shots),
        total_docs=len(task.eval_docs),
        estimates=estimates,
        higher_is_better=task.higher_is_better(),
        config=described_config(task, arguments),
        format=form,
        mapping=plain({"question": raw.question, "choices": raw.choices, "answer": raw.answer}),
        set_aside=(*config.set_aside, *task.scoring.set_aside),
        samples=scored,
    )

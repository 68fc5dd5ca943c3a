"""From scored samples to the results of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiform.catalog import Group
from multiform.config.serialize import plain
from multiform.engine.budget import FormStop, TaskStops
from multiform.evaluation.options import RunOptions
from multiform.forms import ScoredSample, Task
from multiform.models import Model
from multiform.results import FormResult, GroupResult, Results
from multiform.results.configs import described_config
from multiform.results.provenance import provenance
from multiform.results.results import group_results

if TYPE_CHECKING:
    from multiform.results.comparison import FormComparison

#: Options of their own, which go to a model beside its arguments.
_NOT_MODEL_ARGS = ("batch_size", "max_batch_size", "device", "chat_template")


def results_of(
    options: RunOptions,
    model: Model,
    forms: Sequence[Task],
    groups: Sequence[Group],
    scored: Mapping[str, list[ScoredSample]],
    contaminated: Mapping[str, set[int] | None],
    seconds: float,
    stops: Sequence[TaskStops] = (),
) -> Results:
    """The scores of each form and group, with all that is needed to get them again, and where a budget stopped."""
    run = _described(options, model)
    if stops:
        run["budget"] = [asdict(stop) for stop in stops]
    form_results = [
        _form_result(form, scored[form.name], model, run["model_args"], contaminated[form.name], options)
        for form in forms
    ]
    stopped = {name: stop for task in stops for name, stop in task.forms.items()}
    form_results = [_with_stop(form, stopped[form.name]) if form.name in stopped else form for form in form_results]
    by_name = {form.form: form for form in form_results}
    of_groups = [result for group in groups for result in group_results(group, by_name)]
    return Results(
        forms=form_results,
        groups=of_groups,
        comparisons=_comparisons(form_results, of_groups),
        run=run,
        provenance=provenance(
            model=model,
            source=options.model if isinstance(options.model, str) else "CUSTOM",
            arguments=options.model_arguments,
            seconds=seconds,
            system_instruction=options.system_instruction,
            fewshot_as_multiturn=True if options.settings.multiturn else options.fewshot_as_multiturn,
            chat=bool(options.apply_chat_template),
        ),
    )


def _with_stop(form: FormResult, stop: FormStop) -> FormResult:
    """The form with the interval of its first metric that holds although the run chose where to stop."""
    first = replace(form.estimates[form.primary], low=stop.low, high=stop.high)
    return replace(form, estimates={**form.estimates, form.primary: first})


def _described(options: RunOptions, model: Model) -> dict[str, Any]:
    """What the results file's `config` says, in lm-eval's order."""
    arguments, samples = options.model_arguments, options.samples
    return {
        "model": options.model_label,
        "model_args": {name: value for name, value in arguments.items() if name not in _NOT_MODEL_ARGS},
        **model.info(),
        "batch_size": options.batch_size,
        "batch_sizes": [],
        "device": options.device,
        "use_cache": str(options.use_cache) if isinstance(options.use_cache, str | Path) else None,
        "limit": options.limit,
        "bootstrap_iters": options.bootstrap_iters,
        "gen_kwargs": None if options.gen_kwargs is None else dict(options.settings.gen_kwargs),
        "num_fewshot": options.num_fewshot,
        **({} if samples is None else {"samples": {task: list(ids) for task, ids in samples.items()}}),
        **dict(zip(("random_seed", "numpy_seed", "torch_seed", "fewshot_seed"), options.seeds, strict=True)),
    }


def _form_result(
    task: Task,
    scored: list[ScoredSample],
    model: Model,
    arguments: Mapping[str, Any],
    contaminated: set[int] | None,
    options: RunOptions,
) -> FormResult:
    config = task.config
    estimates = task.estimates(scored, options.bootstrap_iters)
    if contaminated is not None:
        clean = task.estimates([doc for doc in scored if doc.doc_id not in contaminated], options.bootstrap_iters)
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
        cluster=form.metadata.get("cluster"),
    )


def _comparisons(forms: Sequence[FormResult], groups: Sequence[GroupResult]) -> list[FormComparison]:
    """The forms of each task and group, compared; numpy is not needed where there is nothing to compare."""
    if len({form.task for form in forms}) == len(forms) and all(form.cluster is None for form in forms):
        return []
    from multiform.results.compare import compare_forms

    return compare_forms(forms, groups)

"""From scored samples to the results of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiform.catalog import Group
from multiform.config.serialize import plain
from multiform.engine.run import RunOutcome
from multiform.engine.stops import TaskStops
from multiform.evaluation.options import RunOptions
from multiform.forms import Task
from multiform.models import Model
from multiform.results import FormResult, GroupResult, Results
from multiform.results.configs import described_config
from multiform.results.intervals import with_intervals
from multiform.results.provenance import provenance
from multiform.results.results import group_results
from multiform.results.usage import usage_entry

if TYPE_CHECKING:
    from multiform.results.form_comparison import FormComparison

#: Options of their own, which go to a model beside its arguments.
_NOT_MODEL_ARGS = ("batch_size", "max_batch_size", "device", "chat_template")


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A run after its last response: its options, forms and groups, the outcome, and how long it took."""

    options: RunOptions
    model: Model
    forms: Sequence[Task]
    groups: Sequence[Group]
    outcome: RunOutcome
    #: The documents of each form that a training corpus contains; None where that is not checked.
    contaminated: Mapping[str, set[int] | None]
    #: Where a budget stopped.
    stops: Sequence[TaskStops]
    seconds: float


def results_of(run: FinishedRun) -> Results:
    """The results of a run: scores of each form and group, provenance, and where a budget stopped.

    Results of an incomplete run have the forms with at least one scored document, and no groups. A budget may also
    leave out all documents of a group's subject.
    """
    options, model, outcome, stops = run.options, run.model, run.outcome, run.stops
    described_run = _described(options, model)
    if stops:
        described_run["budget"] = [asdict(stop) for stop in stops]
    complete = outcome.state == "complete"
    forms = [form for form in run.forms if outcome.scored[form.name] or (complete and not stops)]
    form_results = [
        form_result(
            form,
            outcome,
            template=model.chat_template_name(),
            total_docs=len(form.eval_docs),
            arguments=described_run["model_args"],
            contaminated=run.contaminated[form.name],
            count=options.on_error == "count",
            iterations=options.bootstrap_iters if complete else 0,  # partial results are there at once
        )
        for form in forms
    ]
    by_name = {form.form: form for form in form_results}
    of_groups = [result for group in run.groups for result in group_results(group, by_name)] if complete else []
    form_results, of_groups = with_intervals(form_results, of_groups, described_run.get("budget", ()))
    return Results(
        forms=form_results,
        groups=of_groups,
        comparisons=form_comparisons(form_results, of_groups),
        status=outcome.state,
        run=described_run,
        provenance=provenance(
            model=model,
            source=options.model if isinstance(options.model, str) else "CUSTOM",
            arguments=options.model_arguments,
            seconds=run.seconds,
            system_instruction=options.system_instruction,
            fewshot_as_multiturn=True if options.settings.multiturn else options.fewshot_as_multiturn,
            chat=bool(options.apply_chat_template),
            usage=usage_entry(
                outcome.usage,
                requests=outcome.requests,
                cached=outcome.cached,
                asked_again=outcome.asked_again,
                loading_seconds=model.loading_seconds,
            ),
        ),
    )


def _described(options: RunOptions, model: Model) -> dict[str, Any]:
    """The key `config` of the results file, in lm-eval's order."""
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
        "arguments": options.described_arguments,
    }


def form_result(
    task: Task,
    outcome: RunOutcome,
    *,
    template: str,
    total_docs: int,
    arguments: Mapping[str, Any],
    contaminated: set[int] | None = None,
    count: bool = False,
    iterations: int,
) -> FormResult:
    """The scores of a form; their standard errors are bootstrapped in `iterations` draws.

    `template` names the model's chat template, and `arguments` are the model's. With `count`, failed documents count as
    wrong; with `contaminated`, there are also the scores without these documents.
    """
    config = task.config
    scored, failed = list(outcome.scored[task.name]), outcome.failed.get(task.name, ())
    bounds = task.scorer.bounds(scored, len(failed)) if failed else {}
    if failed and count:
        scored += task.scorer.counted_wrong([(doc.sample, doc.reason) for doc in failed], scored)
        scored.sort(key=lambda sample: sample.doc_id)
    estimates = task.estimates(scored, iterations)
    if contaminated is not None:
        clean = task.estimates([doc for doc in scored if doc.doc_id not in contaminated], iterations)
        estimates |= {key.replace(",", "_decontaminate,", 1): estimate for key, estimate in clean.items()}
    form, format, mapping = task.form, config.format, config.mapping
    return FormResult(
        form=task.name,
        task=config.base_name,
        alias=task.name.replace(config.base_name, config.task_alias, 1) if config.task_alias else task.name,
        identity=form.identity(template),
        version=form.metadata.get("version", "Yaml"),
        num_fewshot=form.metadata.get("num_fewshot", form.num_fewshot),
        total_docs=total_docs,
        estimates=estimates,
        higher_is_better=task.higher_is_better(),
        config=described_config(task, arguments),
        format=None if format is None else format.to_dict(),
        format_label=config.format_label,
        mapping=plain({"question": mapping.question, "choices": mapping.choices, "answer": mapping.answer}),
        overridden=form.overridden,
        samples=scored,
        cluster=form.metadata.get("cluster"),
        failed=failed,
        bounds=bounds,
    )


def form_comparisons(forms: Sequence[FormResult], groups: Sequence[GroupResult]) -> list[FormComparison]:
    """The forms of each task and group, compared; numpy is not needed where there is nothing to compare."""
    if len({form.task for form in forms}) == len(forms) and all(form.cluster is None for form in forms):
        return []
    from multiform.results.compare import compare_forms

    return compare_forms(forms, groups)

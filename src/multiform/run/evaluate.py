"""evaluate: run tasks under formats on a model, and score them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from multiform.forms import Form, Task
from multiform.forms.request_cache import delete_requests
from multiform.lint import Finding, corpus_findings, lint_tasks, model_findings, reference_findings, summary, unsilenced
from multiform.models import Model
from multiform.results import Results
from multiform.results.failures import OnError
from multiform.results.stops import TaskStops
from multiform.run.budget import check_budget, run_budgeted
from multiform.run.checks import check_model_fits
from multiform.run.contests import Contest, contests
from multiform.run.hosts import Host, chosen_host
from multiform.run.options import RunOptions
from multiform.run.outcome import (
    Evaluation,
    FinishedRun,
    ended,
    how_to_go_on,
    interrupts_say,
    journal_of,
    recorded,
)
from multiform.run.pending import (
    PendingSample,
    RequestCaching,
    by_form,
    check_clusters,
    check_gold,
    detectable_differences,
    pending_samples,
    written_out,
)
from multiform.run.progress import Progress, chosen_progress
from multiform.run.samples import RunOutcome, planned, run_samples
from multiform.run.setup import (
    DEFAULT_MODEL,
    DEFAULT_SEEDS,
    check_consent,
    check_output_types,
    check_samples,
    load_tasks,
    set_seeds,
)
from multiform.run.store import chosen_store
from multiform.sandbox import using_sandbox
from multiform.scoring.aggregations import DEFAULT_ITERATIONS
from multiform.scoring.decontamination import contaminated
from multiform.scoring.scorers.judge_model import judging_by
from multiform.tasks import Group, PythonTask, TaskConfig

logger = logging.getLogger("multiform")

#: A task by its name, as a configuration, as an object or as a class.
TaskLike: TypeAlias = str | TaskConfig | Task | Group | PythonTask | type[PythonTask]


def evaluate(
    *,
    tasks: TaskLike | Sequence[TaskLike],
    model: str | Model | Any = DEFAULT_MODEL,
    model_args: str | Mapping[str, Any] | None = None,
    num_fewshot: int | None = None,
    limit: float | None = None,
    samples: Mapping[str, Sequence[int]] | None = None,
    choice_order: str | None = None,
    fewshot_draws: int = 1,
    budget: int | None = None,
    until_ci: float | None = None,
    batch_size: int | str | None = None,
    device: str | None = None,
    gen_kwargs: str | Mapping[str, Any] | None = None,
    include_path: str | Path | Sequence[str | Path] | None = None,
    dataset_mirror: str | Path | Sequence[str | Path] | None = None,
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
    sandbox: str | None = None,
    judge_model: str | None = None,
    judge_args: str | Mapping[str, Any] | None = None,
    decontamination_corpus: Sequence[str | Path] = (),
    metadata: str | Mapping[str, Any] | None = None,
    use_cache: bool | str | Path | None = None,
    fresh: bool = False,
    cache_requests: bool | str = False,
    plan_only: bool = False,
    output_path: str | Path | None = None,
    log_samples: bool = False,
    on_error: OnError = "stop",
    max_failures: float | None = None,
    executor: str = "local",
    ray_address: str | None = None,
    workers: int | None = None,
    resources: str | Mapping[str, Any] | None = None,
    progress: Progress | bool | None = None,
) -> Results:
    """Evaluate a model on tasks, each in one or several formats, and return the scores.

    Most arguments are the flags of ``multiform run``, under the same names. Those that are not obvious:

    tasks: names such as ``"arc_easy@mcqa+cloze"``, configurations, task objects or task classes; one, or a list
    model: a name (``multiform ls models``) with its `model_args`, or a model object
    limit, samples: how many documents of each form (below 1: which share of them), or their indexes by task
    choice_order: the order of choices: "shuffle:SEED", "cyclic" (a form per rotation), "all" (one per permutation)
    fewshot_draws: runs every form with this number of draws of few-shot examples
    budget: searches the best and worst form of each task or group within this number of evaluations of a document
    until_ci: evaluates each form until its interval is no wider than plus or minus this
    dataset_mirror: folders in which datasets are looked up before the hub (default: $MULTIFORM_DATASET_MIRROR)
    keep_description: keeps sentences about choices in descriptions, under formats that show no choices
    seeds: those of python, numpy, torch and the few-shot sampler
    sandbox: where programs that the model writes run: "bwrap", "landlock", "docker", "docker:IMAGE" or "none"; by
        default $MULTIFORM_SANDBOX, or the best one that works here
    judge_model, judge_args: the model that scores where a task has a judge, and its arguments, such as base_url
    metadata: is added to that of every task
    use_cache: stores responses in this file (True: in the user's cache; False: nowhere); by default, those of
        built-in models in the user's cache
    fresh: runs all requests again and replaces stored responses
    cache_requests: keeps rendered prompts on disk: True, "refresh" to render them again, "delete" to remove all
    plan_only: asks nothing; ``results.run["plan"]`` says what a run would ask
    output_path, log_samples: the folder or .json file for the results, and whether samples are written as well
    on_error: what becomes of documents whose requests failed: "stop" raises an IncompleteRunError once all others are
        scored, "skip" leaves them out, "count" counts them as wrong
    max_failures: ends the run when more documents fail than this number, or this share below 1
    executor, workers, resources, ray_address: "ray" runs the model on workers of a Ray cluster, each with such
        resources as "gpu=1,cpu=8"; the cluster at the address, or one that is started on this machine
    progress: True shows it anywhere, False nowhere, None in a terminal and in a notebook; or an object that gets it

    Ctrl-C and SIGTERM raise a RunInterrupted once what is in flight is finished; it and an IncompleteRunError have the
    partial `results`. ``results.run["budget"]`` says where a budgeted run stopped, and why.

    >>> results = evaluate(model="dummy", tasks=["quiz@mcqa", "quiz@cloze"], limit=8)
    >>> sorted(results)
    ['quiz@cloze', 'quiz@mcqa']
    >>> 0 <= results["quiz@mcqa"]["acc,none"] <= 1
    True
    """
    evaluation = run_evaluation(RunOptions(**locals()))
    if evaluation.problem is not None:
        raise evaluation.problem
    return evaluation.results


def run_evaluation(options: RunOptions, host: Host | None = None) -> Evaluation:
    """The steps of a run: check, load the tasks, render the prompts, run the model, collect the results.

    The model lives on the `host`, which other runs may share; by default, on one for this run alone.
    """
    options.check()
    with using_sandbox(options.sandbox), judging_by(options.judge):
        return _evaluation(options, host)


def _evaluation(options: RunOptions, host: Host | None) -> Evaluation:
    started = time.monotonic()
    set_seeds(options.seeds)
    forms, groups, stopping = _tasks(options)
    store = chosen_store(options.use_cache)
    unasked = "the model has not been run yet; run the same command again"
    with (
        chosen_progress(options.progress) as progress,
        interrupts_say(lambda: unasked),
        nullcontext(host) if host else chosen_host(options.cluster) as host,
    ):
        # Prompts need the model only for its chat template: without one, every mistake shows before it is loaded.
        arguments = options.model_arguments
        model = host.model(options.model, arguments, progress, store) if options.apply_chat_template else None
        pending = _render(options, forms, model, progress)
        dirty = _contaminated_docs(forms, pending, options.decontamination_corpus)
        model = model or host.model(options.model, arguments, progress, store)
        _say(model_findings(model, forms, apply_chat_template=bool(options.apply_chat_template)))
        store = store if options.use_cache or model.stored else None
        detectable = detectable_differences(pending)
        if options.plan_only:
            bound = "" if options.stopping is None else "at most, as the run stops earlier: "
            planned_requests = bound + planned(model, pending, store, fresh=options.fresh)
            plan = "\n".join(filter(None, (planned_requests, detectable)))
            return Evaluation(Results(forms=[], run={"plan": plan}, provenance={}))
        if detectable and options.stopping is None:
            progress.message(detectable)
        journal = journal_of(options, model, pending)
        with interrupts_say(lambda: how_to_go_on(store, fresh=options.fresh)), recorded(journal):
            run_pending = partial(
                run_samples, model, store=store, fresh=options.fresh, log=journal, executor=host.executor(model)
            )
            outcome, stops = _run(options, run_pending, pending, stopping, progress)
            run = FinishedRun(
                options=options,
                model=model,
                forms=forms,
                groups=groups,
                outcome=outcome,
                contaminated=dirty,
                stops=stops,
                seconds=time.monotonic() - started,
            )
            return ended(run, store, journal)


def _run(
    options: RunOptions,
    run_pending: Callable[..., RunOutcome],
    pending: Sequence[PendingSample],
    stopping: Sequence[Contest],
    progress: Progress,
) -> tuple[RunOutcome, list[TaskStops]]:
    """Run all samples on the model, or as many as a budget needs."""
    if options.stopping is None:
        return run_pending(pending, progress, policy=options.policy), []
    # The rounds are many and short: the limit of failures is that of all of them.
    run_round = partial(run_pending, policy=replace(options.policy, max_failures=None))
    return run_budgeted(run_round, pending, stopping, progress, options.stopping, options.policy)


def _tasks(options: RunOptions) -> tuple[list[Form], list[Group], list[Contest]]:
    """The forms to run, their groups, and the contests of a budget; checked against the options."""
    groups: list[Group] = []
    forms = load_tasks(
        options.task_list,
        options.settings,
        include_path=options.include_path,
        dataset_mirror=options.mirror,
        design=options.design,
        groups=groups,
    )
    check_samples(forms, options.samples)
    check_consent(forms, options.confirm_run_unsafe_code, options.judge)
    check_output_types(forms)
    stopping = [] if options.stopping is None else contests(forms, groups)
    if options.stopping is not None:
        check_budget(stopping, options.stopping)
    check_model_fits(options.model, forms, options.settings.gen_kwargs, options.model_arguments)
    return forms, groups, stopping


def _render(options: RunOptions, forms: Sequence[Form], model: Model | None, progress: Progress) -> list[PendingSample]:
    """Render every document of every form; lint findings about them are logged."""
    caching = _request_caching(options.cache_requests, model, progress)
    template = None if model is None else model.apply_chat_template
    pending = [sample for form in forms for sample in pending_samples(form, template, caching)]
    check_gold(pending)
    check_clusters(pending)
    _say(_findings(forms, pending, corpus=bool(options.decontamination_corpus)))
    if options.write_out:
        progress.message(written_out(pending))
    return pending


def _findings(forms: Sequence[Form], pending: Sequence[PendingSample], *, corpus: bool) -> list[Finding]:
    """The lint findings about the documents and the settings of a run."""
    entries = by_form(pending)
    samples = {form.name: [entry.sample for entry in entries.get(form.name, ())] for form in forms}
    docs = ((form, [(sample.doc_id, sample.doc) for sample in samples[form.name]]) for form in forms)
    findings = list(lint_tasks(docs))
    for form in forms:
        findings += unsilenced(form, reference_findings(form, samples[form.name]))
    return findings if corpus else [*findings, *corpus_findings(forms)]


def _say(findings: Iterable[Finding]) -> None:
    """Log the findings, one line for each kind."""
    for level, line in summary(findings):
        logger.log(logging.WARNING if level == "warning" else logging.INFO, "%s", line)


def _request_caching(cache_requests: bool | str, model: Model | None, progress: Progress) -> RequestCaching | None:
    """How requests are cached on disk; with "delete", cached ones are removed."""
    if cache_requests == "delete":
        progress.message(f"removed {delete_requests()} files of cached requests")
        return None
    if not cache_requests:
        return None
    template = "" if model is None else _lasting_template(model)
    if template is None:
        message = "the prompts are not cached: its chat template is not known, runs code or asks for the date"
        logger.warning("%s: %s", "the model" if model is None else model.name, message)
        return None
    return RequestCaching(refresh=cache_requests == "refresh", template=template)


def _lasting_template(model: Model) -> str | None:
    """What tells the chat template of a model from others; None where it may write the same chat in another way."""
    text = model.chat_template_text()
    if text is None and isinstance(model.apply_chat_template([{"role": "user", "content": "Hi"}]), str):
        return None
    if not model.stored or "strftime_now" in (text or ""):
        return None
    return f"{model.identity} {model.chat_template_name()} {text}"


def _contaminated_docs(
    forms: Sequence[Form], pending: Sequence[PendingSample], corpus: Sequence[str | Path]
) -> dict[str, set[int] | None]:
    """The documents of each form that the corpus contains; None where nothing is to be checked."""
    entries = by_form(pending) if corpus else {}
    dirty: dict[str, set[int] | None] = {}
    for form in forms:
        dirty[form.name] = None
        if corpus and form.should_decontaminate:
            ids = [entry.sample.doc_id for entry in entries.get(form.name, ())]
            queries = {doc_id: form.decontamination_query(form.eval_docs[doc_id]) for doc_id in ids}
            dirty[form.name] = contaminated(queries, [Path(path) for path in corpus])
    return dirty

"""evaluate: run tasks under formats on a model, and score them."""

from __future__ import annotations

import inspect
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any, ParamSpec

from multiform.errors import nearest, quantity
from multiform.forms import Form
from multiform.lint.forms import model_findings
from multiform.models import Model
from multiform.models.model import Usage
from multiform.results import Results
from multiform.run.checks import (
    check_forms,
    check_model_fits,
    check_options,
    contaminated_docs,
    judged_forms,
    log_findings,
)
from multiform.run.displays import chosen_progress
from multiform.run.documents import Documents
from multiform.run.executors import CachedExecutor, Executor, LocalExecutor
from multiform.run.executors.cluster import ClusterOptions
from multiform.run.options import RunOptions
from multiform.run.outcome import RunResults, interrupts_say
from multiform.run.progress import workload_words
from multiform.run.runner import Runner, Spending, dollars
from multiform.run.schedule import detectable_differences, make_schedule
from multiform.run.setup import load_forms, set_seeds
from multiform.run.store import Store, chosen_store
from multiform.sandbox import using_sandbox
from multiform.scoring.judges import JudgeChoice, Judging, judging_by
from multiform.tasks.functions import import_plugins

P = ParamSpec("P")


def _with_options(options: Callable[P, RunOptions]) -> Callable[[Callable[..., Results]], Callable[P, Results]]:
    """A decorator that gives a function the fields of `RunOptions` as keywords."""
    signature = inspect.signature(options).replace(return_annotation=Results)

    def decorate(function: Callable[..., Results]) -> Callable[P, Results]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> Results:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:  # as of any function, with the name that may be meant
                unknown = [name for name in kwargs if name not in signature.parameters]
                hint = f"; {nearest(unknown[0], signature.parameters)}" if unknown else ""
                raise TypeError(f"{function.__name__}(): {error}{hint}") from None
            return function(**kwargs)

        call.__signature__ = signature  # type: ignore[attr-defined]
        return call

    return decorate


@_with_options(RunOptions)
def evaluate(**options: Any) -> Results:
    """Evaluate a model on tasks, each in one or several formats, and return the scores.

    Most arguments are the flags of ``multiform run``, under the same names. Those that are not obvious:

    tasks: names such as ``"arc_easy@mcqa+cloze"``, configurations, task objects or task classes; one, or a list
    model: a name (``multiform ls models``) with its `model_args`, or a model object
    limit, samples: how many documents of each form (below 1: which share of them), or their indexes by task
    choice_order: the order of choices: "shuffle:SEED", "cyclic" (a form per rotation), "all" (one per permutation)
    fewshot_draws: runs every form with this number of draws of few-shot examples
    budget: searches the best and worst form of each task or group within this number of evaluations of a document
    until_ci: evaluates each form until its interval is no wider than plus or minus this
    imports: Python files, or modules by name, that register models, formats, metrics and so on; they are run
    dataset_mirror: folders in which datasets are looked up before the hub (default: $MULTIFORM_DATASET_MIRROR)
    keep_description: keeps sentences about choices in descriptions, under formats that show no choices
    seeds: those of python, numpy, torch and the few-shot sampler
    sandbox: where programs that the model writes run: "bwrap", "landlock", "docker", "docker:IMAGE" or "none"; by
        default $MULTIFORM_SANDBOX, or the best one that works here
    judge_model, judge_args: the model that scores where a task has a judge, and its arguments, such as base_url; or
        several models with commas between them
    judge_labels: a file with people's labels of some completions, by which the judge's score is calibrated
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
    max_cost, prices: ends the run once a server's tokens have cost more dollars, and a file with prices of tokens
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
    results = run(RunOptions(**options))
    if results.problem is not None:
        raise results.problem
    return results


def make_executor(cluster: ClusterOptions | None, *, cached: bool = False) -> Executor:
    """The executor of a run: the workers of a cluster where there is one, else this process.

    With `cached`, one that runs no model.
    """
    if cached:
        return CachedExecutor()
    if cluster is None:
        return LocalExecutor()
    from multiform.run.executors.ray import RayExecutor

    return RayExecutor(cluster)


def run(options: RunOptions, executor: Executor | None = None) -> Results:
    """Run the options: load the forms, render their documents, run the model on them, collect the results.

    The `executor` has the model, and other runs may share it; by default, it is for this run alone.
    """
    if options.imports:
        import_plugins(options.imports)
    check_options(options)
    started = time.monotonic()
    open_store = cache(partial(chosen_store, options.use_cache))
    with ExitStack() as stack:
        enter = stack.enter_context
        if options.sandbox:
            enter(using_sandbox(options.sandbox))

        # What is run: most mistakes end here.
        set_seeds(options.seeds)
        forms, groups = load_forms(options)
        judging = _make_judging(options, forms, open_store)
        if judging is not None:
            enter(judging_by(judging))
        check_forms(options, forms)
        run_schedule = make_schedule(options, forms, groups)
        check_model_fits(options, forms)

        # On which model, and its documents.
        progress = enter(chosen_progress(options.progress))
        enter(interrupts_say(lambda: "the model has not been run yet; run the same command again"))
        executor = executor or enter(closing(make_executor(options.cluster)))
        load = partial(executor.load, options.model, options.model_arguments, progress, open_store)
        # Prompts need the model only for its chat template: without one, every mistake shows before it is loaded.
        model = load() if options.apply_chat_template else None
        documents = Documents(options, forms, model, progress)
        contaminated = contaminated_docs(forms, options.decontamination_corpus)
        model = model or load()
        log_findings(model_findings(model, forms, apply_chat_template=bool(options.apply_chat_template)))
        store = open_store() if options.use_cache or model.stored else None
        if options.plan_only:
            return Results(forms=[], run={"plan": plan_text(documents, options, model, store)}, provenance={})
        if not options.stops_early and (detectable := detectable_differences(forms, documents.counts)):
            progress.message(detectable)

        # The run itself, and its results.
        spending = Spending.of(model, options.prices, options.max_cost)
        results = enter(
            RunResults(
                options=options,
                model=model,
                store=store,
                forms=forms,
                groups=groups,
                documents=documents.counts,
                contaminated=contaminated,
                judging=judging,
                spending=spending,
                started=started,
            )
        )
        runner = Runner(options, executor, store, forms, documents.counts, progress, spending, results.log)
        model.keep_prefixes(options.stops_early or not documents.is_one_chunk)
        stack.callback(model.keep_prefixes, False)
        return results.finish(runner.outcome(stops=run_schedule(runner, documents)))


def _make_judging(options: RunOptions, forms: Sequence[Form], open_store: Callable[[], Store | None]) -> Judging | None:
    """The judges of a run; None where no form has one."""
    if not judged_forms(forms):
        return None
    return Judging(
        choice=options.judge or JudgeChoice(),
        cache=open_store(),
        caches_all=bool(options.use_cache),
        fresh=options.fresh,
        prices=options.prices,
    )


def plan_text(documents: Documents, options: RunOptions, model: Model, store: Store | None) -> str:
    """The requests of the run and what they would cost, in words, and what its documents can tell."""
    later, asked, cached = 0, set[int](), set[int]()  # hashes of requests: a later chunk may have the same again
    cost, workload, tokens = None, Usage(), Counter[str]()
    in_one = documents.is_one_chunk
    for chunk in documents.chunks():
        requests = dict.fromkeys(instance.request for entry in chunk for instance in entry.sample.instances)
        known = store.known(model.identity, requests) if store and not options.fresh else {}
        missing = [request for request in requests if request not in known and hash(request) not in asked]
        cached.update(map(hash, known))
        asked.update(map(hash, missing))
        later += sum(entry.form.renderer.output_kind.has_stages for entry in chunk)
        if missing and in_one:
            cost = model.plan(missing)
        elif missing:
            workload += model.workload(missing) or Usage()
        tokens.update(model.estimate_tokens(missing) if missing else {})
    if workload != Usage():
        cost = workload_words(workload)
    bound = "at most, as the run stops earlier: " if options.stops_early else ""
    distinct = quantity(len(asked) + len(cached), "distinct request")
    lines = [f"{bound}{distinct} for {quantity(documents.total, 'document')}; {len(cached)} of them are cached"]
    if later:
        lines.append(f"{later} documents are asked about again, after these responses: those requests are not counted")
    if asked:
        cost = cost or cost_words(model, tokens, options.prices)
        lines.append(cost or f"model '{model.name}' does not say what the others cost")
    return "\n".join(filter(None, (*lines, detectable_differences(documents.forms, documents.counts))))


def cost_words(model: Model, tokens: Mapping[str, int], prices: str | Path | None) -> str | None:
    """What tokens of a server would cost, in words; None where it counts none."""
    if not tokens:
        return None
    counts = f"about {tokens['prompt']:,} tokens of prompts, and at most {tokens['completion']:,} of completions"
    price = model.price(None if prices is None else Path(prices))
    if price is None:
        return f"{counts}; the price of '{model.name}' is not known: give --prices FILE"
    least, most = price.cost({"prompt": tokens["prompt"]}), price.cost(tokens)
    return f"{counts}: {dollars(least)} to {dollars(most)}, at {price}"

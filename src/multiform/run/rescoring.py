"""rescore: score the responses of a recorded run again, with other metrics, filters or scorers and without a model."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from multiform.errors import MultiformError, UsageError, locating, nearest
from multiform.forms import Form, RunSettings, Sample, ScoredSample, Task
from multiform.models.identity import package_version
from multiform.paths import mirror_path
from multiform.requests import Output, Request
from multiform.results import FormResult, Results
from multiform.results.judging import judging_entry
from multiform.results.provenance import described_config
from multiform.results.read import newest_run
from multiform.results.recorded import RecordedRun
from multiform.results.values import FailedDoc
from multiform.run.checks import check_consent
from multiform.run.options import RunOptions
from multiform.run.outcome import collect_results, form_result
from multiform.run.store import Store, chosen_store
from multiform.sandbox import using_sandbox
from multiform.scoring.aggregations import DEFAULT_ITERATIONS
from multiform.scoring.judges import JudgeChoice, Judging, judging_by
from multiform.tasks.config import TaskConfig
from multiform.tasks.group import Group
from multiform.tasks.manager import TaskManager

logger = logging.getLogger("multiform")

#: Keys of a task that determine its requests: with another value, the recorded responses are not those of the task.
_ASKED = (
    *("dataset_path", "dataset_name", "test_split", "validation_split", "process_docs", "output_type", "doc_to_text"),
    *("doc_to_choice", "description", "target_delimiter", "fewshot_delimiter", "gen_prefix", "repeats"),
    *("generation_kwargs", "num_fewshot"),
)
#: Keys of a results file that are not about where, when and with which software a run was done.
_NOT_PROVENANCE = (
    *("results", "groups", "group_subtasks", "configs", "versions", "n-shot", "higher_is_better", "n-samples"),
    *("config", "task_hashes", "intervals", "forms", "across_forms", "status", "failures"),
)


def rescore(
    run: str | Path,
    *,
    tasks: str | Sequence[str] | None = None,
    include_path: str | Path | Sequence[str | Path] | None = None,
    metric_list: Sequence[Any] | None = None,
    filter_list: Sequence[Any] | None = None,
    scorer: Any = None,
    dataset_mirror: str | Path | Sequence[str | Path] | None = None,
    use_cache: str | Path | None = None,
    bootstrap_iters: int = DEFAULT_ITERATIONS,
    confirm_run_unsafe_code: bool = False,
    sandbox: str | None = None,
    judge_model: str | None = None,
    judge_args: str | Mapping[str, Any] | None = None,
    judge_labels: str | Path | None = None,
) -> Results:
    """Score the responses of a run again, without a model.

    `run` is a results file, or a folder, whose newest one is used. The responses are those of the samples files beside
    it; where it has none, those of the store (`use_cache` names another than the user's), for prompts that are rendered
    again. `tasks` are those to score, by default all of the run; a task file that was changed since, or one of the same
    name in `include_path`, is scored as it is now, as long as its requests are the same. `metric_list`,
    `filter_list` and `scorer` replace those of every task; metrics that a format brings along stay. `sandbox`,
    `judge_model`, `judge_args` and `judge_labels` are those of `evaluate`.
    """
    recorded = newest_run(Path(run))
    options = RunOptions(
        tasks=tasks or (),
        include_path=include_path,
        dataset_mirror=dataset_mirror,
        use_cache=use_cache,
        bootstrap_iters=bootstrap_iters,
        confirm_run_unsafe_code=confirm_run_unsafe_code,
        sandbox=sandbox,
        judge_model=judge_model,
        judge_args=judge_args,
        judge_labels=judge_labels,
    )
    replaced = {"metric_list": metric_list, "filter_list": filter_list, "scorer": scorer}
    return _score_again(recorded, options, {key: value for key, value in replaced.items() if value is not None})


def _score_again(recorded: RecordedRun, options: RunOptions, changes: Mapping[str, Any]) -> Results:
    """The results with these changes of each task."""
    mirror, store = mirror_path(options.mirror), chosen_store(options.use_cache)
    judging = Judging(choice=options.judge or JudgeChoice(), cache=store, caches_all=options.use_cache is not None)
    with using_sandbox(options.sandbox), judging_by(judging):
        configs, groups = _configs(recorded, options.task_list, TaskManager(options.include_path))
        changed = [(config.replace(**changes), _settings(recorded, config.form_name)) for config in configs]
        forms = [Task.from_config(config, dataset_mirror=mirror).form.under(settings) for config, settings in changed]
        check_consent(options, forms)
        results = [_form(form, recorded, store, options) for form in forms]
    run = dict(recorded.results.get("config", {}))
    stops = () if changes else run.get("budget", ())
    if judging.choice:
        run["arguments"] = {**(run.get("arguments") or {}), **judging.choice.to_dict()}
    if judging.usage:
        run["judging"] = judging_entry(judging.usage, results, str(recorded.results.get("model_name")))
    provenance = {key: value for key, value in recorded.results.items() if key not in _NOT_PROVENANCE} | {
        "date_iso": datetime.now().isoformat(),
        "multiform_version": package_version("multiform"),
        "rescored_from": recorded.file.name,
    }
    status = recorded.results.get("status", "complete")
    return collect_results(results, groups, stops, run=run, provenance=provenance, status=status)


def _configs(recorded: RecordedRun, tasks: Sequence[str], manager: TaskManager) -> tuple[list[TaskConfig], list[Group]]:
    """The tasks to score, and the groups that they are reported in; without any named, those of the run."""
    if tasks:
        nodes = [node for name in tasks for node in manager.nodes(name)]
    else:
        nodes = [node for form in recorded.forms for node in _recorded_nodes(form, recorded, manager)]
        nodes += [node for name in recorded.results.get("group_subtasks", {}) for node in _group(name, manager)]
    groups = [node for node in nodes if isinstance(node, Group)]
    configs = {config.form_name: config for node in nodes for config in node.tasks()}
    for name in configs:
        if name not in recorded.forms:
            hint = nearest(name, recorded.forms, listed="its tasks are")
            raise UsageError(f"there is no '{name}' in the run", where=str(recorded.file), hint=hint)
    return list(configs.values()), groups


def _recorded_nodes(form: str, recorded: RecordedRun, manager: TaskManager) -> Sequence[Any]:
    """The task of that name; where there is none, that of the file from which the run had it."""
    try:
        return manager.nodes(form)
    except MultiformError:
        source = (recorded.results["configs"][form].get("metadata") or {}).get("config_source")
        if not source or not Path(source).is_file():
            raise
        _, at, format_name = form.partition("@")
        return manager.nodes(f"{source}{at}{format_name}")


def _group(name: str, manager: TaskManager) -> Sequence[Any]:
    try:
        return [node for node in manager.nodes(name) if isinstance(node, Group)]
    except MultiformError as error:
        logger.warning("the group is left out: %s", error)
        return []


def _settings(recorded: RecordedRun, form: str) -> RunSettings:
    """The settings of the run, as far as they determine the requests of a form."""
    results, run = recorded.results, recorded.results.get("config", {})
    then = results["configs"][form]
    return RunSettings(
        perturbation=then.get("perturbation"),
        keep_description=bool(then.get("keep_description")),
        fewshot_seed=run.get("fewshot_seed"),
        num_fewshot=run.get("num_fewshot"),
        apply_chat_template=bool(results.get("chat_template")),
        fewshot_as_multiturn=results.get("fewshot_as_multiturn"),
        system_instruction=results.get("system_instruction"),
        gen_kwargs=run.get("gen_kwargs") or {},
        stop_at_answer=bool((run.get("arguments") or {}).get("stop_at_answer")),
        limit=run.get("limit"),
        samples=run.get("samples"),
    )


def _form(form: Form, recorded: RecordedRun, store: Store | None, options: RunOptions) -> FormResult:
    stated = recorded.results.get("config", {}).get("model_args")
    arguments = stated if isinstance(stated, Mapping) else {}
    _check_same_requests(form, recorded, arguments)
    with_outputs: list[tuple[Sample, tuple[Any, ...]]] = []
    scored: list[ScoredSample] = []
    failed: dict[int, FailedDoc] = {}
    for entry in recorded.results.get("failures", {}).get(form.name, {}).get("documents", ()):
        sample = Sample(doc_id=entry["doc_id"], doc={})
        failed[sample.doc_id] = FailedDoc(sample=sample, reason=entry["reason"], retried=entry["retried"])
    counted = False
    logged = recorded.docs(form.name)
    for doc in _stored_docs(form, recorded, store, failed) if logged is None else logged:
        sample = form.renderer.with_requests(doc.doc_id, dict(doc.doc), doc.instances)
        if doc.failure is not None:
            counted = True
            failed[doc.doc_id] = FailedDoc(sample=sample, reason=doc.failure)
            continue
        with_outputs.append((sample, doc.outputs))
        scored += form.score(sample, doc.outputs)
    scored += form.scorer.score_together(with_outputs)
    with locating(form.name):
        return form_result(
            form,
            sorted(scored, key=lambda sample: sample.doc_id),
            sorted(failed.values(), key=lambda doc: doc.doc_id),
            template=str(recorded.results.get("model_name")),
            total_docs=recorded.results["n-samples"][form.name]["original"],
            arguments=arguments,
            count=counted,
            labels=options.labels,
            iterations=options.bootstrap_iters,
        )


def _stored_docs(
    form: Form, recorded: RecordedRun, store: Store | None, failed: Container[int]
) -> Iterator[ScoredSample]:
    """The documents of a form whose responses the store has; an error unless it has all that did not fail."""
    hint = "run the same command again, best with --log_samples: stored responses are not requested again"
    if store is None or form.settings.apply_chat_template:
        message = f"there are no samples of '{form.name}' beside it, and prompts of a chat need the model"
        raise UsageError(message, where=str(recorded.file), hint=hint)
    samples = [form.sample(doc_id, doc) for doc_id, doc in form.docs() if doc_id not in failed]
    identity = str(recorded.results.get("model_identity"))
    cached: dict[Request, Output] = {}
    waiting = samples
    while waiting:
        requests = dict.fromkeys(instance.request for sample in waiting for instance in sample.instances)
        cached |= store.known(identity, [request for request in requests if request not in cached])
        if missing := sum(request not in cached for request in requests):
            found = f"{store.path} has {len(requests) - missing} of {len(requests)} responses"
            message = f"there are no samples of '{form.name}' beside it, and {found}"
            raise UsageError(message, where=str(recorded.file), hint=hint)
        following = {sample.doc_id: form.continue_sample(sample, _outputs(sample, cached)) for sample in waiting}
        waiting = [sample for sample in following.values() if sample is not None]
        samples = [following.get(sample.doc_id) or sample for sample in samples]
    for sample in samples:
        yield ScoredSample(sample=sample, outputs=_outputs(sample, cached), scorer="none", filtered=(), values={})


def _outputs(sample: Sample, cached: Mapping[Request, Output]) -> tuple[Output, ...]:
    return tuple(cached[instance.request] for instance in sample.instances)


def _check_same_requests(form: Form, recorded: RecordedRun, arguments: Mapping[str, Any]) -> None:
    """Refuse a task whose requests differ from those of the run."""
    now, then = described_config(form, arguments), recorded.results["configs"][form.name]
    changed = [key for key in _ASKED if now.get(key) != then.get(key) and (now.get(key) or then.get(key))]
    if changed:
        message = f"'{form.name}' asks something else than in the run: {', '.join(changed)} changed"
        hint = "run the task again: stored responses are not requested again"
        raise UsageError(message, where=form.where(changed[0]) or str(recorded.file), hint=hint)

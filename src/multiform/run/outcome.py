"""RunResults: from the outcome of a run to its results, and the files that are written on the way."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from multiform.errors import IncompleteRunError, MultiformError, RunInterrupted
from multiform.forms import Form, ScoredSample
from multiform.hashing import short_hash
from multiform.lint.forms import model_findings
from multiform.models import Model
from multiform.paths import safe_name
from multiform.results import FormResult, Results
from multiform.results.export import output_folder, write_results
from multiform.results.groups import group_results, with_intervals
from multiform.results.judging import CALIBRATED, HumanLabel, attach_labels, judge_calibration, judging_entry
from multiform.results.provenance import described_config, model_name, provenance
from multiform.results.values import FailedDoc
from multiform.run.journal import Journal
from multiform.run.options import OPTION_DEFAULTS, OPTIONS, RunOptions
from multiform.run.pending import Batch
from multiform.run.runner import RunOutcome, Spending, dollars
from multiform.run.store import Store
from multiform.scoring.judges import Judging
from multiform.tasks.group import Group
from multiform.tasks.keys import plain

if TYPE_CHECKING:
    from multiform.results.exchange.trackers import Tracking
    from multiform.results.form_comparison import FormComparison


#: Options of their own, which go to a model beside its arguments.
_NOT_MODEL_ARGS = ("batch_size", "max_batch_size", "device", "chat_template")
#: How many failed documents a message names.
_NAMED = 5

logger = logging.getLogger("multiform")


@dataclass(slots=True, kw_only=True)
class RunResults:
    """A run whose results are being collected; on disk, a journal has its state until they are written.

    Where the block of its `with` raises, the journal says so, and an interrupt how to go on.
    """

    options: RunOptions
    model: Model
    store: Store | None
    forms: Sequence[Form]
    groups: Sequence[Group]
    #: The number of documents of each form that has some.
    documents: Mapping[str, int]
    #: The documents of each form that a training corpus contains; None where that is not checked.
    contaminated: Mapping[str, set[int] | None]
    #: When the run began, by the monotonic clock.
    started: float
    #: What the model has cost.
    spending: Spending
    #: The judges of the run, and what they have taken; None where no form has one.
    judging: Judging | None
    journal: Journal | None = field(init=False)
    #: The trackers that are told of the run; None where there are none.
    tracking: Tracking | None = field(init=False)

    def __post_init__(self) -> None:
        self.journal = _open_journal(self.options, self.model, self.forms, self.documents)
        self.tracking = None
        if self.options.trackers:
            from multiform.results.exchange.trackers import Tracking

            self.tracking = Tracking(self.options.trackers, _config_entry(self.options, self.model))

    def __enter__(self) -> RunResults:
        if self.journal is not None:
            self.journal.begin()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, _: Any) -> None:
        if error is None:
            return
        is_interrupt = isinstance(error, KeyboardInterrupt)
        state: Literal["stopped", "failed"] = "stopped" if is_interrupt else "failed"
        if self.journal is not None:
            self.journal.end(state)
        if self.tracking is not None:
            self.tracking.finish(None, state)
        if is_interrupt:
            with interrupts_say(self._how_to_go_on):
                raise error

    def log(self, batch: Batch) -> None:
        """Tell the journal and the trackers what was done."""
        if self.journal is not None:
            self.journal.add(batch)
        if self.tracking is not None:
            self.tracking.add(batch.scored, batch.documents.total(), len(batch.failed))

    def finish(self, outcome: RunOutcome) -> Results:
        """The results, written to `output_path` if there is one; those of a run that did not end well say why."""
        results = self._finish(outcome)
        if self.tracking is not None:  # only now, as nothing that they do may cost the results
            self.tracking.finish(results, outcome.state)
        if self.options.hub is not None:
            self.options.hub.push(results)
        return results

    def _finish(self, outcome: RunOutcome) -> Results:
        problem = self._problem(outcome)
        if problem is None:
            return self._write(self._results(outcome))
        try:
            partial = self._results(outcome)
        except MultiformError as error:  # such as an aggregation that takes all documents
            logger.warning("there are no partial results: %s", error)
            partial = Results(forms=[], run={}, provenance={}, status=outcome.state)
        problem.results = partial if partial.forms else None
        files = self.journal.end(outcome.state, problem.results) if self.journal is not None else []
        return replace(partial, files=files, problem=problem)

    def _problem(self, outcome: RunOutcome) -> IncompleteRunError | RunInterrupted | None:
        """What kept a run from being complete, and how to go on."""
        if outcome.signal is not None:
            return RunInterrupted(self._how_to_go_on(), signal=outcome.signal)
        if (error := outcome.error) is not None:
            incomplete = error.as_kind(IncompleteRunError)
            incomplete.__cause__ = error
            return incomplete
        if outcome.state == "stopped":
            scored = len({(name, sample.doc_id) for name, samples in outcome.scored.items() for sample in samples})
            message = f"the run has cost {dollars(self.spending.cost)}, more than max_cost allows: {scored} of "
            hint = f"{self._how_to_go_on()}, with a max_cost for what is left"
            return IncompleteRunError(f"{message}{sum(self.documents.values())} documents are scored", hint=hint)
        empty = [name for name, docs in outcome.failed.items() if docs and not outcome.scored[name]]
        if outcome.state == "complete" and not empty:
            return None
        docs = [(form, doc) for form, docs in outcome.failed.items() for doc in docs]
        named = [f"{form} doc {doc.doc_id} ({doc.reason})" for form, doc in docs[:_NAMED]]
        more = f" and {len(docs) - _NAMED} more" if len(docs) > _NAMED else ""
        message = f"{len(docs)} of {sum(self.documents.values())} documents failed: {', '.join(named)}{more}"
        hint = self._how_to_go_on()
        if not self.options.allows_failures(len(docs), sum(self.documents.values())):
            message += ", more than max_failures allows"
        elif self.options.on_error != "stop":
            message += f"; no document of {', '.join(empty)} is left to score"
        else:
            hint += "; with on_error skip they are left out, with count they count as wrong"
        return IncompleteRunError(message, hint=hint)

    def _how_to_go_on(self) -> str:
        """What to tell a user whose run is not complete: how to get the rest."""
        if self.store is None or not self.store.working:
            return "the responses are not stored: run the same command again to start over"
        if self.options.fresh:
            return "the responses so far are stored; leave out fresh to ask only for the rest"
        return "the responses so far are stored; run the same command again to go on"

    def _write(self, results: Results) -> Results:
        if self.options.output_path is None or self.journal is None:
            return results
        try:
            files = write_results(results, Path(self.options.output_path), samples=self.options.log_samples)
        except MultiformError as error:  # the results are shown even where they could not be written
            return replace(results, files=self.journal.end("failed"), problem=error)
        self.journal.complete()
        return replace(results, files=files)

    def _results(self, outcome: RunOutcome) -> Results:
        """The scores of each form and group, provenance, and where a budget stopped.

        Results of an incomplete run have the forms with at least one scored document, and no groups. A budget may also
        leave out all documents of a group's subject.
        """
        options, model, stops, labels = self.options, self.model, outcome.stops, self.options.labels
        complete = outcome.state == "complete"
        forms = [form for form in self.forms if outcome.scored[form.name] or (complete and not stops)]
        described_run = self._describe_run(outcome, forms)
        form_results = [
            form_result(
                form,
                outcome.scored[form.name],
                outcome.failed.get(form.name, ()),
                template=model.chat_template_name(),
                total_docs=len(form.eval_docs),
                arguments=described_run["model_args"],
                contaminated=self.contaminated[form.name],
                count=options.on_error == "count",
                labels=labels,
                iterations=options.bootstrap_iters if complete else 0,  # partial results are there at once
            )
            for form in forms
        ]
        if self.judging is not None and self.judging.usage:
            described_run["judging"] = judging_entry(self.judging.usage, form_results, model.name)
        return collect_results(
            form_results,
            self.groups if complete else (),
            described_run.get("budget", ()),
            status=outcome.state,
            run=described_run,
            provenance=provenance(
                model=model,
                source=options.model if isinstance(options.model, str) else "CUSTOM",
                arguments=options.model_arguments,
                seconds=time.monotonic() - self.started,
                system_instruction=options.system_instruction,
                fewshot_as_multiturn=True if options.settings.multiturn else options.fewshot_as_multiturn,
                chat=bool(options.apply_chat_template),
                usage=outcome.usage,
            ),
        )

    def _describe_run(self, outcome: RunOutcome, forms: Sequence[Form]) -> dict[str, Any]:
        """The key `config` of the results, of which these forms have scores; what judges took comes later."""
        described_run = _config_entry(self.options, self.model) | self.spending.entries()
        chat = bool(self.options.apply_chat_template)
        findings = model_findings(self.model, self.forms, apply_chat_template=chat)
        if warnings := [finding for finding in findings if finding.level == "warning"]:
            described_run["model_warnings"] = [f"{each.where}: {each.what}; {each.hint}" for each in warnings]
        if outcome.stops:
            described_run["budget"] = [asdict(stop) for stop in outcome.stops]
        if outcome.state != "complete" and len(forms) < len(self.forms):
            described_run["forms_without_scores"] = [form.name for form in self.forms if form not in forms]
        return described_run


def collect_results(forms: list[FormResult], groups: Sequence[Group], stops: Sequence[Any], **others: Any) -> Results:
    """The results with the scores of these forms and groups; `stops` says where a budget stopped."""
    by_name = {form.name: form for form in forms}
    of_groups = [result for group in groups for result in group_results(group, by_name)]
    if of_groups or stops or any(form.cluster for form in forms):  # other scores have their intervals already
        forms, of_groups = with_intervals(forms, of_groups, stops)
    comparisons: list[FormComparison] = []
    # numpy is not needed where there is nothing to compare.
    if len({form.task for form in forms}) < len(forms) or any(form.cluster for form in forms):
        from multiform.results.compare import compare_forms

        comparisons = compare_forms(forms, of_groups)
    return Results(forms=forms, groups=of_groups, comparisons=comparisons, **others)


def _config_entry(options: RunOptions, model: Model) -> dict[str, Any]:
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
        "arguments": _recorded_arguments(options),
    }


def _recorded_arguments(options: RunOptions) -> dict[str, Any]:
    """The tasks as they were named, and the recorded options that are not the defaults.

    Tasks that are objects or configurations have no name that could be given again, and are left out.
    """
    named = all(isinstance(task, str | Path) for task in options.task_list)
    arguments = {"tasks": options.task_list} if named else {}
    for name, option in OPTIONS.items():
        value = getattr(options, name)
        if option.recorded and value != OPTION_DEFAULTS[name] and value not in ("", (), [], {}):
            arguments[name] = value
    judge = {} if options.judge is None else options.judge.to_dict()
    return {name: _plain(value) for name, value in {**arguments, **judge}.items()}


def _plain(value: Any) -> Any:
    """The value with paths as text."""
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, Path) else value


def form_result(
    form: Form,
    scored: Sequence[ScoredSample],
    failed: Sequence[FailedDoc],
    *,
    template: str,
    total_docs: int,
    arguments: Mapping[str, Any],
    contaminated: set[int] | None = None,
    count: bool = False,
    labels: Sequence[HumanLabel] | None = None,
    iterations: int,
) -> FormResult:
    """The scores of a form; their standard errors are bootstrapped in `iterations` draws.

    `template` names the model's chat template, and `arguments` are the model's. With `count`, failed documents count as
    wrong; with `contaminated`, there are also the scores without these documents; with `labels`, those that people
    would give.
    """
    bounds = form.scorer.bounds(scored, len(failed)) if failed else {}
    if failed and count:
        wrong = form.scorer.count_wrong([(doc.sample, doc.reason) for doc in failed], scored)
        scored = sorted([*scored, *wrong], key=lambda sample: sample.doc_id)
    estimates = form.estimates(scored, iterations)
    if contaminated is not None:
        clean = form.estimates([doc for doc in scored if doc.doc_id not in contaminated], iterations)
        estimates |= {key.replace(",", "_decontaminate,", 1): estimate for key, estimate in clean.items()}
    if labels is not None:
        scored = attach_labels(labels, form, scored)
        for scorer in form.scoring.scorers:
            powered = judge_calibration(scored, scorer.name, name=form.name, cluster=form.cluster)
            estimates |= {} if powered is None else {f"{CALIBRATED},{scorer.name}": powered.mean}
    format, mapping = form.format, form.config.mapping
    return FormResult(
        name=form.name,
        task=form.task_name,
        alias=form.alias,
        identity=form.identity(template),
        version=form.metadata.get("version", "Yaml"),
        num_fewshot=form.metadata.get("num_fewshot", form.num_fewshot),
        total_docs=total_docs,
        estimates=estimates,
        higher_is_better=form.higher_is_better,
        config=described_config(form, arguments),
        format=None if format is None else format.to_dict(),
        format_label=form.format_label,
        mapping=plain({"question": mapping.question, "choices": mapping.choices, "answer": mapping.answer}),
        overridden=(*form.config.overridden, *form.scoring.overridden),
        samples=scored,
        cluster=form.cluster,
        failed=failed,
        bounds=bounds,
        control=format is not None and format.is_control,
    )


def _open_journal(
    options: RunOptions, model: Model, forms: Sequence[Form], documents: Mapping[str, int]
) -> Journal | None:
    """The journal of a run whose results are written somewhere."""
    if options.output_path is None:
        return None
    template = model.chat_template_name()
    identities = sorted([form.name, form.identity(template)] for form in forms if form.name in documents)
    drawing = [] if options.sample == "first" else [options.sample, options.seeds[0]]
    name = model_name(model, options.model_arguments)
    config = _config_entry(options, model)
    # The command that goes on writes the same files.
    config["arguments"] |= {"output_path": str(options.output_path)}
    config["arguments"] |= {"log_samples": True} if options.log_samples else {}
    return Journal(
        output_folder(Path(options.output_path), safe_name(name)),
        short_hash([model.identity, identities, options.limit, options.samples, *drawing]),
        about={"model": options.model_label, "model_name": name, "config": config},
        documents=documents,
        samples=options.log_samples,
    )


@contextmanager
def interrupts_say(message: Callable[[], str]) -> Iterator[None]:
    """Give a KeyboardInterrupt from a block a message that says how to go on, unless it has one."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if str(interrupt):
            raise
        if isinstance(interrupt, RunInterrupted):
            raise RunInterrupted(message(), signal=interrupt.signal) from None
        raise KeyboardInterrupt(message()) from None

"""The end of a run: its results, or partial results with an error that says how to get the rest."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from multiform.engine.failures import described
from multiform.engine.pending import PendingSample
from multiform.engine.run import RunOutcome
from multiform.engine.store import Store
from multiform.errors import IncompleteRunError, MultiformError, RunInterrupted
from multiform.evaluation.options import RunOptions
from multiform.evaluation.outcome import FinishedRun, results_of
from multiform.forms import Task
from multiform.hashing import short_hash
from multiform.models import Model
from multiform.paths import sanitized
from multiform.results import Results
from multiform.results.export import output_folder, write_results
from multiform.results.journal import Journal
from multiform.results.provenance import model_name

logger = logging.getLogger("multiform")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The results of a run, the files that were written, and what kept it from being complete."""

    results: Results
    files: Sequence[Path] = field(default_factory=list)
    problem: MultiformError | RunInterrupted | None = None


def journal_of(options: RunOptions, model: Model, pending: Sequence[PendingSample]) -> Journal | None:
    """The journal of a run whose results are written somewhere."""
    if options.output_path is None:
        return None
    documents: dict[str, int] = {}
    forms: dict[str, Task] = {}
    for entry in pending:
        forms[entry.task.name] = entry.task
        documents[entry.task.name] = documents.get(entry.task.name, 0) + 1
    template = model.chat_template_name()
    identities = sorted([name, task.form.identity(template)] for name, task in forms.items())
    name = model_name(model, options.model_arguments)
    return Journal(
        output_folder(Path(options.output_path), sanitized(name)),
        short_hash([model.identity, identities, options.limit, options.samples]),
        about={"model": options.model_label, "model_name": name},
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


@contextmanager
def recorded(journal: Journal | None) -> Iterator[None]:
    """Record in the journal that a block raised."""
    try:
        yield
    except BaseException as error:
        if journal is not None:
            journal.end("stopped" if isinstance(error, KeyboardInterrupt) else "failed")
        raise


def ended(run: FinishedRun, store: Store | None, journal: Journal | None) -> Evaluation:
    """The results, written to `output_path` if there is one; partial results with the error that ended the run."""
    state = run.outcome.state
    problem = _problem(run.options, run.outcome, store)
    if problem is None:
        return _written(results_of(run), run.options, journal)
    try:
        partial = results_of(run)
    except MultiformError as error:  # such as an aggregation that takes all documents
        logger.warning("there are no partial results: %s", error)
        partial = Results(forms=[], run={}, provenance={}, status=state)
    problem.results = partial if partial.forms else None
    files = journal.end(state, partial if partial.forms else None) if journal is not None else []
    return Evaluation(partial, files, problem)


def _written(results: Results, options: RunOptions, journal: Journal | None) -> Evaluation:
    if options.output_path is None or journal is None:
        return Evaluation(results)
    try:
        files = write_results(results, Path(options.output_path), samples=options.log_samples)
    except MultiformError as error:  # the results are shown even where they could not be written
        return Evaluation(results, journal.end("failed"), error)
    journal.complete()
    return Evaluation(results, files)


def _problem(
    options: RunOptions, outcome: RunOutcome, store: Store | None
) -> IncompleteRunError | RunInterrupted | None:
    """What kept a run from being complete, and how to go on."""
    if outcome.signal is not None:
        return RunInterrupted(how_to_go_on(store, fresh=options.fresh), signal=outcome.signal)
    if (error := outcome.error) is not None:
        incomplete = error.as_kind(IncompleteRunError)
        incomplete.__cause__ = error
        return incomplete
    empty = [name for name, docs in outcome.failed.items() if docs and not outcome.scored[name]]
    if outcome.state == "complete" and not empty:
        return None
    message, hint = described(outcome.failed, outcome.documents), how_to_go_on(store, fresh=options.fresh)
    if options.policy.is_exceeded(sum(map(len, outcome.failed.values())), outcome.documents):
        message += ", more than max_failures allows"
    elif options.on_error != "stop":
        message += f"; no document of {', '.join(empty)} is left to score"
    else:
        hint += "; with on_error skip they are left out, with count they count as wrong"
    return IncompleteRunError(message, hint=hint)


def how_to_go_on(store: Store | None, *, fresh: bool) -> str:
    """What to tell a user whose run is not complete: how to get the rest."""
    if store is None or not store.working:
        return "the responses are not stored: run the same command again to start over"
    if fresh:
        return "the responses so far are stored; the same command asks all again, and without fresh what is not stored"
    return "the responses so far are stored; run the same command again to go on"

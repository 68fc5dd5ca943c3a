"""Budgeted runs: documents in random order, and of each form only as many as the question needs.

`--budget` searches the best and the worst form of each task or group within a number of evaluations (a document under a
form). `--until_ci` evaluates each form until its interval is narrow enough. Both run the model in rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from multiform.errors import UsageError
from multiform.forms import Form
from multiform.results.failures import ErrorPolicy
from multiform.results.stops import TaskStops
from multiform.run.contests import Contest
from multiform.run.pending import PendingSample, by_form
from multiform.run.progress import Progress
from multiform.run.rounds import Ask, EndedError, RoundLog, Rounds
from multiform.run.samples import RunOutcome
from multiform.scoring.aggregations import item_kind

_DEFAULT_POLICY = ErrorPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much to evaluate: a number of `evaluations`, or until intervals are no wider than ± `half_width`.

    An evaluation is one document under one form. Documents are shuffled with the seed; None shuffles them differently
    each time.
    """

    evaluations: int | None = None
    half_width: float | None = None
    seed: int | None = 0

    def __post_init__(self) -> None:
        if self.evaluations is not None and self.half_width is not None:
            message = "a budget searches the best and worst form, until_ci measures every form"
            raise UsageError(message, where="until_ci", hint="give one of budget and until_ci")
        if self.evaluations is not None and self.evaluations < 1:
            message = f"expected a whole number of 1 or more, got {self.evaluations}"
            raise UsageError(message, where="budget", hint="give e.g. budget=2000")
        if self.half_width is not None and not 0 < self.half_width < 0.5:
            message = f"expected a number between 0 and 0.5, got {self.half_width}"
            raise UsageError(message, where="until_ci", hint="give e.g. until_ci=0.02 for an interval of ± 0.02")


def check_budget(contests: Sequence[Contest], budget: Budget) -> None:
    """Refuse a budget too small for its forms, and metrics of which less is better, before a model is loaded."""
    for contest in contests:
        if budget.evaluations is not None and budget.evaluations // len(contests) < len(contest.forms):
            message = f"it is not enough for one document under each of {len(contest.forms)} forms of '{contest.name}'"
            hint = f"give {20 * len(contest.forms)} or more for each task or group"
            raise UsageError(message, where="--budget", hint=hint)
        for form in contest.tasks():
            higher = form.higher_is_better
            metric = contest.metric if contest.metric in higher else next(iter(higher), None)
            if metric is not None and not higher[metric]:
                message = f"lower is better in the first metric of '{form.name}' ({metric})"
                hint = "leave the form out, and name others instead of @all"
                raise UsageError(message, where="--budget or --until_ci", hint=hint)
            _check_means(form)


def _check_means(form: Form) -> None:
    """Refuse a first metric that is no mean over documents, such as BLEU or perplexity."""
    first = next(iter(form.scorer.metrics), None)
    if first is not None and item_kind(first.aggregation) == "pair":
        message = f"the first metric of '{form.name}' ({first.name}) is no mean over documents"
        raise UsageError(
            message, where="--budget or --until_ci", hint="leave the form out, or name a metric like acc first"
        )


def run_budgeted(
    ask: Ask,
    pending: Sequence[PendingSample],
    contests: Sequence[Contest],
    progress: Progress,
    budget: Budget,
    policy: ErrorPolicy = _DEFAULT_POLICY,
) -> tuple[RunOutcome, list[TaskStops]]:
    """Evaluate as much as the budget allows, and return the outcome with where each form stopped.

    `ask` runs and scores the samples of a round. `policy` says what becomes of documents whose requests fail.
    """
    samples = by_form(pending)
    log = RoundLog(ask, list(samples), len(pending), policy, progress)
    all_rounds = [Rounds(contest, samples, log=log, seed=budget.seed) for contest in contests]
    most = sum(rounds.most_evaluations for rounds in all_rounds)
    stops: list[TaskStops] = []
    remaining = budget.evaluations or 0
    try:
        log.begin(most if budget.evaluations is None else min(most, budget.evaluations))
        for number, rounds in enumerate(all_rounds):
            if budget.half_width is not None:
                stops.append(rounds.until(budget.half_width))
            else:
                stops.append(rounds.search(remaining // (len(all_rounds) - number)))
                remaining -= rounds.evaluations
    except EndedError as ended:
        return log.outcome(ended.outcome), stops
    finally:
        progress.end()
    return log.outcome(), stops

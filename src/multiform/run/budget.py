"""Budgeted runs: documents in random order, and of each form only as many as the question needs.

`--budget` searches the best and the worst form of each task or group within a number of evaluations (a document under a
form). `--until_ci` evaluates each form until its interval is narrow enough. Both run the model in rounds.
"""

from __future__ import annotations

from collections.abc import Sequence

from multiform.errors import UsageError
from multiform.forms import Form
from multiform.results.stops import TaskStops
from multiform.run.contests import Contest
from multiform.run.options import RunOptions
from multiform.run.pending import PendingSample, by_form
from multiform.run.progress import Progress
from multiform.run.rounds import Ask, EndedError, RoundLog, Rounds
from multiform.run.samples import RunOutcome
from multiform.scoring.aggregations import item_kind


def check_budget(contests: Sequence[Contest], budget: int | None) -> None:
    """Refuse a budget too small for its forms, and metrics of which less is better, before a model is loaded."""
    for contest in contests:
        if budget is not None and budget // len(contests) < len(contest.forms):
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
    options: RunOptions,
) -> tuple[RunOutcome, list[TaskStops]]:
    """Evaluate as much as the budget allows, and return the outcome with where each form stopped.

    `ask` runs and scores the samples of a round. Documents are shuffled with python's seed.
    """
    budget, half_width = options.budget, options.until_ci
    samples = by_form(pending)
    log = RoundLog(ask, list(samples), len(pending), options.policy, progress)
    all_rounds = [Rounds(contest, samples, log=log, seed=options.seeds[0]) for contest in contests]
    most = sum(rounds.most_evaluations for rounds in all_rounds)
    stops: list[TaskStops] = []
    remaining = budget or 0
    try:
        log.begin(most if budget is None else min(most, budget))
        for number, rounds in enumerate(all_rounds):
            if half_width is not None:
                stops.append(rounds.until(half_width))
            else:
                stops.append(rounds.search(remaining // (len(all_rounds) - number)))
                remaining -= rounds.evaluations
    except EndedError as ended:
        return log.outcome(ended.outcome), stops
    finally:
        progress.end()
    return log.outcome(), stops

"""Whether the answers that filters leave are enough for the reductions that metrics ask for."""

from __future__ import annotations

from collections.abc import Sequence

from multiform.config import TaskConfig
from multiform.errors import ConfigError
from multiform.scoring.metrics import Metric
from multiform.scoring.scorers import Scorer


def check_reductions(config: TaskConfig, scorers: Sequence[Scorer]) -> list[ConfigError]:
    """Refuse a reduction that no pipeline of filters leaves enough answers for, such as ``pass@2`` of one answer.

    Where another pipeline leaves enough, those that do not go without the reduction; that is returned as a note.
    """
    notes: list[ConfigError] = []
    for metric in {id(metric): metric for scorer in scorers for metric in scorer.metrics}.values():
        users = [scorer for scorer in scorers if any(metric is one for one in scorer.metrics)]
        problems = [_problem(config, scorer, metric) for scorer in users]
        first = problems[0]
        if first is not None and None not in problems:
            raise first
        idle = [problem or _without_effect(config, user, metric) for user, problem in zip(users, problems, strict=True)]
        notes += [note for note in idle if note is not None]
    return notes


def _left(config: TaskConfig, scorer: Scorer) -> int:
    """How many answers of a document reach the metrics, at most."""
    if config.output_type != "generate_until":
        return 1
    most = scorer.pipeline.most
    return config.repeats if most is None else min(config.repeats, most)


def _problem(config: TaskConfig, scorer: Scorer, metric: Metric) -> ConfigError | None:
    reduction, left = metric.reduction, _left(config, scorer)
    if reduction is None or reduction.needs <= left:
        return None
    if config.output_type != "generate_until":
        what = f"{reduction.name} needs {reduction.needs} answers, and a task of {config.output_type} asks once"
        return ConfigError(what, where=config.where("metric_list"), hint="remove the reduction")
    if config.repeats < reduction.needs:
        what = f"{reduction.name} needs {reduction.needs} repeats, there are {config.repeats}"
        return ConfigError(what, where=config.where("metric_list"), hint=f"set repeats: {reduction.needs} or more")
    what = f"{reduction.name} of metric '{metric.name}' needs {reduction.needs} answers, and the filters of "
    hint = "remove take_first or majority_vote from them, or give these filters metrics of their own"
    return ConfigError(f"{what}'{scorer.name}' leave {left}", where=config.where("filter_list"), hint=hint)


def _without_effect(config: TaskConfig, scorer: Scorer, metric: Metric) -> ConfigError | None:
    reduction, repeats = metric.reduction, config.repeats
    if reduction is None or reduction.name == "take_first" or config.output_type != "generate_until" or repeats == 1:
        return None
    if _left(config, scorer) > 1:
        return None
    what = f"reduction {reduction.name} of metric '{metric.name}' has one answer of {repeats} to reduce, as the filters"
    hint = "remove take_first or majority_vote from them to have all answers reduced"
    return ConfigError(f"{what} of '{scorer.name}' leave one", where=config.where("filter_list"), hint=hint)

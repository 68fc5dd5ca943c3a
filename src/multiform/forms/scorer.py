"""FormScorer: from the responses to a form's samples to the values of each metric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from multiform.calls import mismatch, name_of
from multiform.errors import ConfigError, DataError, locating, running
from multiform.forms.aggregator import FormAggregator, Values, locating_scores
from multiform.forms.conversations import merge_turns, turn_doc
from multiform.forms.output_kinds import OutputKind
from multiform.forms.sample import Responses, Sample, ScoredSample, Step
from multiform.forms.scoring import build_scoring, check_reductions
from multiform.forms.spec import FormSpec
from multiform.requests import Completion, LLOutput, Output
from multiform.scoring.metrics.choice import best
from multiform.scoring.outcome import Outcome
from multiform.scoring.scorers import ReadingScorer, Scorer
from multiform.scoring.scorers.base import check_values, reduce_task_values


class FormScorer:
    """Filters the responses to the samples of a form, and scores them.

    A task's own `process_results` comes first; if it returns None, the metrics of the scorers are computed.
    """

    def __init__(self, form: FormSpec, kind: OutputKind, aggregator: FormAggregator) -> None:
        self.form = form
        self.hooks = form.hooks
        self.scorers = form.scoring.scorers
        self.kind = kind
        self._aggregator = aggregator
        self._check_process_results()

    def check(self) -> list[ConfigError]:
        """Refuse reductions that need more responses than there will be; return warnings about others."""
        return [] if self.form.scores_itself else check_reductions(self.form.config, self.scorers)

    def _check_process_results(self) -> None:
        config = self.form.config
        problem = None if config.process_results is None else mismatch(config.process_results, {}, [])
        if problem is not None:
            message = f"{name_of(config.process_results)} cannot be called with a document and its results: {problem}"
            hint = "write it as process_results(doc, results)"
            raise ConfigError(message, where=config.where("process_results"), hint=hint)

    def score(self, sample: Sample, outputs: Sequence[Output]) -> list[ScoredSample]:
        """Filter and score a sample, once for each scorer that does not wait for all samples."""
        with locating(f"doc {sample.doc_id}"):
            return [self._score(scorer, sample, outputs) for scorer in self.scorers if not scorer.deferred]

    def score_together(self, samples: Sequence[tuple[Sample, Sequence[Output]]]) -> list[ScoredSample]:
        """Score all samples at once with the scorers that need all of them."""
        deferred = [scorer for scorer in self.scorers if scorer.deferred]
        return [scored for scorer in deferred for scored in self._score_all(scorer, samples)]

    def _score_all(self, scorer: Scorer, samples: Sequence[tuple[Sample, Sequence[Output]]]) -> Iterator[ScoredSample]:
        values: dict[int, Values] = {}
        turns: dict[int, list[list[Outcome]]] = {}
        for index, (sample, outputs) in enumerate(samples):
            with locating(f"doc {sample.doc_id}"), locating_scores(self.form):
                results = self._filter(scorer, sample, outputs)
                processed = self._task_values(scorer, sample, results)
                if processed is None:
                    turns[index] = self._turns(scorer, sample, outputs, results)
                else:
                    values[index] = processed
        if turns:
            with locating_scores(self.form):
                values |= self._score_turns(scorer, {index: samples[index][0] for index in turns}, turns)
        for index, (sample, outputs) in enumerate(samples):
            yield self._score(scorer, sample, outputs, values[index])

    def _score_turns(
        self, scorer: Scorer, samples: Mapping[int, Sample], turns: Mapping[int, Sequence[Sequence[Outcome]]]
    ) -> dict[int, Values]:
        """The values of samples by a scorer that takes all of them at once, each turn of a conversation by itself."""
        scored = [
            (index, number, outcomes)
            for index in turns
            for number, outcomes in enumerate(turns[index])
            if outcomes or len(turns[index]) == 1
        ]
        docs = [turn_doc(samples[index], number) for index, number, _ in scored]
        computed = self._computing_scorer(scorer).score_documents([outcomes for _, _, outcomes in scored], docs)
        by_turn = {(index, number): values for (index, number, _), values in zip(scored, computed, strict=True)}
        return {
            index: merge_turns(scorer, [by_turn.get((index, number)) for number in range(len(turns[index]))])
            for index in turns
        }

    def _score(
        self, scorer: Scorer, sample: Sample, outputs: Sequence[Output], values: Values | None = None
    ) -> ScoredSample:
        steps = [Step(name="completion", value=[output.text for output in outputs if isinstance(output, Completion)])]
        with locating_scores(self.form):
            results = self._filter(scorer, sample, outputs, steps)
            if values is None:
                values = self._task_values(scorer, sample, results)
            if values is None and self.form.bypassed:
                values = {metric.name: metric.fn(None) for metric in scorer.metrics}
            if values is None:
                values = self._compute(scorer, self._turns(scorer, sample, outputs, results))
            if "values" not in self.hooks:
                check_values(values, scorer, lambda key: self._aggregator.aggregation(scorer, key))
        prediction = self._prediction(scorer, sample, outputs, results)
        if isinstance(scorer, ReadingScorer):
            steps.append(Step(name=f"scorer {type(scorer).__name__}", value=prediction))
        return ScoredSample(
            sample=sample,
            outputs=tuple(outputs),
            scorer=scorer.name,
            filtered=tuple(results),
            values=values,
            prediction=prediction,
            steps=tuple(steps) if self.form.output_type == "generate_until" else (),
        )

    def _prediction(self, scorer: Scorer, sample: Sample, outputs: Sequence[Output], results: Sequence[Any]) -> Any:
        """What the model picked or said, for the samples; None if there is no such thing."""
        if self.form.output_type == "multiple_choice":
            scores = [output.loglikelihood for output in outputs if isinstance(output, LLOutput)]
            number = len(sample.choices) or len(scores)
            repeats = self.form.config.repeats if self.form.generates else 1
            ranked = [scores[number * repeat : number * (repeat + 1)] for repeat in range(repeats)]
            picked = [best(each) for each in ranked if each]
            return picked if repeats > 1 else picked[0] if picked else None
        if self.form.output_type != "generate_until":
            return None
        if self.form.compares:
            turns = self._turns(scorer, sample, outputs, results)
            results = [scorer.prediction(outcome) for outcomes in turns for outcome in outcomes]
        return results[0] if len(results) == 1 else list(results)

    def compute_values(self, sample: Sample, outputs: Sequence[Output], results: Sequence[Any]) -> dict[str, Any]:
        """The values of a sample by the metrics of the first scorer, from results that are filtered already."""
        scorer = self.scorers[0]
        return dict(self._compute(scorer, self._turns(scorer, sample, outputs, results)))

    def _compute(self, scorer: Scorer, turns: Sequence[Sequence[Outcome]]) -> Values:
        computing = self._computing_scorer(scorer)
        if len(turns) == 1:
            return computing.score_repeats(turns[0])
        # In a conversation, turns without a reference have no outcomes.
        return merge_turns(scorer, [computing.score_repeats(turn) if turn else None for turn in turns])

    def filter_outputs(self, sample: Sample, outputs: Sequence[Output]) -> dict[str, list[Any]]:
        """The filtered responses of a sample, by scorer."""
        return {scorer.name: self._filter(scorer, sample, outputs) for scorer in self.scorers}

    def _filter(
        self, scorer: Scorer, sample: Sample, outputs: Sequence[Output], steps: list[Step] | None = None
    ) -> list[Any]:
        """What the filters leave of a sample's outputs; each of their steps is added to `steps`."""
        pipeline = scorer.pipeline
        if steps is not None:
            pipeline = pipeline.recording(lambda name, value: steps.append(Step(name=f"filter {name}", value=value)))
        if "filtered" in self.hooks:
            filtered: list[Any] = self.hooks["filtered"](pipeline, sample, outputs)
            return filtered
        return self.kind.filter_outputs(pipeline, sample.doc, outputs)

    def _turns(
        self, scorer: Scorer, sample: Sample, outputs: Sequence[Output], results: Sequence[Any]
    ) -> list[list[Outcome]]:
        """The outcomes of each turn; one list of them, where it is no conversation."""
        all_repeats = all(metric.whole for metric in self._computing_scorer(scorer).metrics)
        return self.kind.turn_outcomes(sample, outputs, results, all_repeats=all_repeats)

    def _task_values(self, scorer: Scorer, sample: Sample, results: Sequence[Any]) -> Values | None:
        """What `process_results` gives for a document; None if it leaves the document to the metrics.

        It gets the results of permuted choices in the order that the document has them in.
        """
        if not self.form.scores_itself:
            return None
        config = self.form.config
        process = self.hooks.get("process_results") or config.process_results
        assert process is not None
        place = config.where("class" if "process_results" in self.hooks else "process_results")
        with running("process_results", where=place, hint="call it to debug it"):
            values = process(sample.doc, _in_order(results, sample.permutation))
        if values is None:
            return None
        if not isinstance(values, Mapping):
            message = f"process_results returned {type(values).__name__}, not a mapping of metrics"
            raise DataError(message, where=place, hint='return e.g. {"acc": 1.0}')
        if "values" in self.hooks:
            scores: Values = self.hooks["values"](values)
            return scores
        return reduce_task_values(scorer, values, lambda key: self._aggregator.aggregation(scorer, key))

    def _computing_scorer(self, scorer: Scorer) -> Scorer:
        """The scorer that computes metrics; of a task with `process_results`, one that does not wait for its values."""
        if not self.form.scores_itself:
            return scorer
        fallback = self._aggregator.fallback
        if not fallback:
            try:
                scoring = build_scoring(self.form.config)
            except ConfigError as error:
                message = f"process_results returned None, and the metrics cannot be computed instead: {error.what}"
                hint = "return the values of every document, or name metrics that are registered"
                raise DataError(message, where=error.where, hint=hint) from error
            fallback |= {computing.name: computing for computing in scoring.scorers}
        return fallback[scorer.name]


def keep_filtered(scorers: Sequence[Scorer], responses: Responses, by_scorer: Mapping[str, list[Any]]) -> None:
    """Keep the filtered responses to a document on the scorers and on its instances."""
    for scorer in scorers:
        filtered = scorer.filtered_docs[responses.doc_id] = by_scorer[scorer.name]
        one_per_request = len(filtered) == len(responses.instances)
        for index, instance in enumerate(responses.instances):
            instance.filtered_resps[scorer.name] = (
                filtered[index] if one_per_request else filtered[0] if len(filtered) == 1 else filtered
            )


def keep_scored(scorers: Sequence[Scorer], scored: Sequence[ScoredSample]) -> None:
    """Keep the filtered responses and the values of documents on the scorers."""
    for scorer in scorers:
        results = [result for result in scored if result.scorer == scorer.name]
        scorer.filtered_docs = {result.doc_id: result.filtered for result in results}
        scorer.scored_docs = {result.doc_id: result.values for result in results}


def _in_order(results: Sequence[Any], permutation: Sequence[int] | None) -> Sequence[Any]:
    """The results of permuted choices, in the order of the document; there may be several for each choice.

    >>> _in_order(["b", "c", "a", "B", "C", "A"], (1, 2, 0))
    ['a', 'b', 'c', 'A', 'B', 'C']
    """
    if permutation is None:
        return results
    number = len(permutation)
    positions = sorted(range(number), key=permutation.__getitem__)
    return [results[start + position] for start in range(0, len(results), number) for position in positions]

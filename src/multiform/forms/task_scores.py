"""TaskScores: the methods of a task that score responses and aggregate the scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from multiform.fields import Doc
from multiform.forms.renderer import Renderer
from multiform.forms.sample import Responses, Sample, ScoredSample, grouped_responses
from multiform.forms.scorer import FormScorer
from multiform.forms.task_docs import TaskDocs
from multiform.requests import Instance, Output
from multiform.scoring.aggregations import DEFAULT_ITERATIONS
from multiform.statistics.estimates import Estimate


class TaskScores(TaskDocs):
    """From responses to scores: one document at a time, or all `instances` at once with the state on the scorers."""

    renderer: Renderer
    scorer: FormScorer
    _instances: list[Instance]

    def process_results(self, doc: Doc, results: Sequence[Any]) -> Mapping[str, Any] | None:
        """The values of a document by the task's own code, or None to have the metrics compute them.

        `results` are pairs of log-likelihood and greedy flag, log-likelihoods of whole texts, or completions.
        """
        function = self.config.process_results
        return None if function is None else function(doc, results)

    def score(self, sample: Sample, outputs: Sequence[Output]) -> list[ScoredSample]:
        """Filter and score a sample, once for each scorer that does not wait for all of them."""
        return self.scorer.score(sample, outputs)

    def apply_filters(self, responses: Responses | None = None) -> dict[str, list[Any]] | None:
        """What each scorer's filters leave of the responses to a document.

        Without an argument, of all `instances`: it is kept in their `filtered_resps` and in the scorers'
        `filtered_docs`.
        """
        if responses is not None:
            return self.scorer.filtered(self._sample(responses), responses.outputs)
        for responses_of_doc in self.responses():
            self.scorer.keep_filtered(self._sample(responses_of_doc), responses_of_doc)
        return None

    def process_instances(self, responses: Responses | None = None) -> list[ScoredSample]:
        """Filter and score one document, once for each scorer that does not wait for all documents.

        Without an argument, all documents of `instances`, by all scorers, which keep the values for `aggregate`.
        """
        if responses is not None:
            return self.score(self._sample(responses), responses.outputs)
        samples = [(self._sample(responses_of_doc), responses_of_doc.outputs) for responses_of_doc in self.responses()]
        scored = [result for sample, outputs in samples for result in self.score(sample, outputs)]
        scored += self.scorer.score_together(samples)
        self.scorer.keep_scored(scored)
        return scored

    def _sample(self, responses: Responses) -> Sample:
        doc_id = responses.doc_id
        return self.renderer.with_requests(doc_id, self.eval_docs[doc_id], responses.instances)

    def responses(self) -> list[Responses]:
        """What a model returned for `instances`, whose `resps` hold it, document by document."""
        return grouped_responses(self._instances, where=self.name)

    def aggregate(
        self, scored: Iterable[ScoredSample] | None = None, bootstrap_iters: int = DEFAULT_ITERATIONS
    ) -> tuple[dict[str, float], int]:
        """All scores, keyed ``metric,scorer``, with standard errors, and the number of documents.

        Without samples, of those that `process_instances()` scored and the scorers keep.
        """
        samples = None if scored is None else list(scored)
        if samples is None:
            estimates, number = self.scorer.kept_estimates(bootstrap_iters)
        else:
            estimates, number = self.estimates(samples, bootstrap_iters), len({sample.doc_id for sample in samples})
        scores: dict[str, float] = {}
        for key, estimate in estimates.items():
            metric, _, scorer = key.partition(",")
            scores[key] = estimate.value
            if estimate.stderr is not None:
                scores[f"{metric}_stderr,{scorer}"] = estimate.stderr
        return scores, number

    def estimates(
        self, scored: Iterable[ScoredSample], bootstrap_iters: int = DEFAULT_ITERATIONS
    ) -> dict[str, Estimate]:
        """All scores of the form with their uncertainty, keyed ``metric,scorer``."""
        return self.scorer.estimates(list(scored), bootstrap_iters)

    def aggregation(self) -> dict[str, Callable[[Sequence[Any]], float]]:
        """The function that aggregates each metric."""
        return {metric.name: metric.aggregate() for metric in self.scorer.metrics}

    def higher_is_better(self) -> dict[str, bool]:
        """Whether higher is better in each metric, and in the values that scored documents have by other names."""
        return self.scorer.directions

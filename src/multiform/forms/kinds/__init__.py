"""The kinds of tasks, one for each output type: what is asked about a document, and what the responses mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from multiform.fields import Doc
from multiform.formats import OutputType
from multiform.forms.doc_fields import DocFields
from multiform.forms.form import Form
from multiform.forms.kinds import choice, generation, loglikelihood, rolling
from multiform.forms.sample import Context, Sample
from multiform.requests import Output, Request
from multiform.scoring.filters import Pipeline
from multiform.scoring.outcome import Outcome


class Kind(Protocol):
    """What a module of this package has to say about its output type."""

    def inputs(self, form: Form, fields: DocFields) -> list[str]:
        """The questions of a document: one, or one for each of several inputs."""

    def shot(self, form: Form, fields: DocFields) -> tuple[str, str]:
        """The question and the answer of a few-shot example."""

    def answer_key(self, form: Form, fields: DocFields) -> Mapping[str, Any]:
        """What is right about a document, as fields of a `Sample`."""

    def requests(self, form: Form, fields: DocFields, context: Context, *, chat: bool) -> list[Request]:
        """What a model is asked about a document after this context; `chat` says that it is a chat."""

    def filtered(self, pipeline: Pipeline, doc: Doc, outputs: Sequence[Output]) -> list[Any]:
        """The outputs as filters, metrics and a task's own code want them, filtered."""

    def outcomes(
        self, form: Form, sample: Sample, outputs: Sequence[Output], results: Sequence[Any], *, whole: bool
    ) -> list[Outcome]:
        """What metrics see of a sample, once for each repeat that is left after filtering.

        With `whole` all repeats are one outcome, as a task's own metric wants them.
        """

    def check_requests(self, form: Form, sample: Sample) -> None:
        """Refuse requests of a task's own `construct_requests` that the metrics could not be computed from."""


KINDS: dict[OutputType, Kind] = {
    "multiple_choice": choice,
    "generate_until": generation,
    "loglikelihood": loglikelihood,
    "loglikelihood_rolling": rolling,
}

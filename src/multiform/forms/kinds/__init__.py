"""The kinds of tasks, one for each output type: the requests of a document, and how responses are scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from multiform.fields import Doc
from multiform.formats import OutputType
from multiform.forms.doc_fields import DocFields
from multiform.forms.kinds import choice, generation, loglikelihood, rolling
from multiform.forms.sample import Context, Sample
from multiform.forms.spec import FormSpec
from multiform.requests import Output, Request
from multiform.scoring.filters import Pipeline
from multiform.scoring.outcome import Outcome


class Kind(Protocol):
    """The functions that a module of this package has for its output type."""

    def inputs(self, form: FormSpec, fields: DocFields) -> list[str]:
        """The questions of a document: one, or one for each of several inputs."""

    def shot(self, form: FormSpec, fields: DocFields) -> tuple[str, str]:
        """The question and the answer of a few-shot example."""

    def answer_key(self, form: FormSpec, fields: DocFields) -> Mapping[str, Any]:
        """The gold answer of a document, as fields of a `Sample`."""

    def requests(self, form: FormSpec, fields: DocFields, context: Context, *, chat: bool) -> list[Request]:
        """The requests of a document with this context; `chat` says that it is a chat."""

    def filtered(self, pipeline: Pipeline, doc: Doc, outputs: Sequence[Output]) -> list[Any]:
        """The filtered outputs, in the types that filters, metrics and a task's own code take."""

    def outcomes(
        self, form: FormSpec, sample: Sample, outputs: Sequence[Output], results: Sequence[Any], *, all_repeats: bool
    ) -> list[Outcome]:
        """The outcomes that metrics get for a sample, one for each repeat that is left after filtering.

        With `all_repeats` all repeats are one outcome, as a task's own metric takes them.
        """

    def check_requests(self, form: FormSpec, sample: Sample) -> None:
        """Refuse requests of a task's own `construct_requests` that the metrics could not be computed from."""


KINDS: dict[OutputType, Kind] = {
    "multiple_choice": choice,
    "generate_until": generation,
    "loglikelihood": loglikelihood,
    "loglikelihood_rolling": rolling,
}

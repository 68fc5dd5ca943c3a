"""loglikelihood_rolling: how likely the whole text of a document is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from multiform.fields import Doc
from multiform.forms.doc_fields import DocFields
from multiform.forms.kinds import choice
from multiform.forms.kinds.loglikelihood import answer_key, check_single, likelihood_outcome, shot, target_text
from multiform.forms.sample import Context, Sample
from multiform.forms.spec import FormSpec
from multiform.requests import LLOutput, Output, Request, RollingRequest
from multiform.scoring.filters import Pipeline
from multiform.scoring.outcome import Outcome

__all__ = ["answer_key", "check_requests", "filtered", "inputs", "outcomes", "requests", "shot"]


def inputs(form: FormSpec, fields: DocFields) -> list[str]:
    """No question: a text stands by itself."""
    return []


def requests(form: FormSpec, fields: DocFields, context: Context, *, chat: bool) -> list[Request]:
    return [RollingRequest(target_text(form, fields))]


def filtered(pipeline: Pipeline, doc: Doc, outputs: Sequence[Output]) -> list[Any]:
    likelihoods = [output.loglikelihood for output in outputs if isinstance(output, LLOutput)]
    # A task's own `construct_requests` may ask for completions as well.
    return likelihoods if len(likelihoods) == len(outputs) else choice.filtered(pipeline, doc, outputs)


def check_requests(form: FormSpec, sample: Sample) -> None:
    check_single(form, sample, RollingRequest)


def outcomes(
    form: FormSpec, sample: Sample, outputs: Sequence[Output], results: Sequence[Any], *, all_repeats: bool = False
) -> list[Outcome]:
    request = sample.instances[0].request
    assert isinstance(request, RollingRequest)
    return [likelihood_outcome(form, request.text, results[0])]

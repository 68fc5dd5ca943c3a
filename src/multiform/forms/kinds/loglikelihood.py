"""loglikelihood: how likely the right answer is after the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from multiform.errors import DataError
from multiform.forms.doc_fields import DocFields
from multiform.forms.kinds.choice import filtered
from multiform.forms.kinds.common import answer_delimiter, missing, one_question, shot_answer
from multiform.forms.sample import Context, Sample
from multiform.forms.spec import FormSpec
from multiform.prompts.prompt import Prompt
from multiform.requests import LoglikelihoodRequest, Output, Request
from multiform.scoring.outcome import LikelihoodOutcome, Outcome

__all__ = ["answer_key", "check_requests", "filtered", "inputs", "outcomes", "requests", "shot"]

inputs = one_question


def shot(form: FormSpec, fields: DocFields) -> tuple[str, str]:
    return str(fields.question), shot_answer(form, fields)


def answer_key(form: FormSpec, fields: DocFields) -> dict[str, Any]:
    return {"target": fields.target}


def target_text(form: FormSpec, fields: DocFields) -> str:
    """The text that is scored, the first of several."""
    target = fields.target[0] if isinstance(fields.target, list) and fields.target else fields.target
    if not fields.has_target:
        raise missing(form, "doc_to_target")
    if target is None or target == "":
        raise DataError("there is no answer to score", where=form.config.where("doc_to_target"), hint="check it")
    return str(target)


def requests(form: FormSpec, fields: DocFields, context: Context, *, chat: bool) -> list[Request]:
    assert isinstance(context, Prompt)
    # Without a format, the target's own text carries the delimiter, as in lm-eval.
    delimiter = answer_delimiter(form.config, chat) if form.config.format is not None else ""
    return [LoglikelihoodRequest(context, delimiter + target_text(form, fields))]


def check_requests(form: FormSpec, sample: Sample) -> None:
    check_single(form, sample, LoglikelihoodRequest)


def check_single(form: FormSpec, sample: Sample, request_type: type[Request]) -> None:
    """Refuse anything but one request of this type."""
    types = [type(instance.request) for instance in sample.instances]
    if types != [request_type]:
        names = ", ".join(kind.__name__ for kind in types)
        message = f"construct_requests made {names}, and the metrics are of one {request_type.__name__}"
        hint = "make one, set another output_type, or give process_results"
        raise DataError(message, where=form.name, hint=hint)


def outcomes(
    form: FormSpec, sample: Sample, outputs: Sequence[Output], results: Sequence[Any], *, all_repeats: bool = False
) -> list[Outcome]:
    request = sample.instances[0].request
    assert isinstance(request, LoglikelihoodRequest)
    loglikelihood, is_greedy = results[0]
    return [likelihood_outcome(form, request.continuation, loglikelihood, is_greedy)]


def likelihood_outcome(form: FormSpec, text: str, loglikelihood: float, is_greedy: bool = False) -> LikelihoodOutcome:
    return LikelihoodOutcome(
        loglikelihood=loglikelihood,
        is_greedy=is_greedy,
        text=text,
        words=form.count_words(text),
        bytes=form.count_bytes(text),
    )

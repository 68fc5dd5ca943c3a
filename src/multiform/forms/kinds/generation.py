"""generate_until: the model completes the prompt, once or as often as `repeats` says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from multiform.errors import DataError
from multiform.fields import Doc
from multiform.forms.doc_fields import DocFields
from multiform.forms.kinds import choice
from multiform.forms.kinds.common import missing, no_answer, one_question, shot_answer
from multiform.forms.sample import Context, Sample
from multiform.forms.spec import FormSpec
from multiform.labels import label_list
from multiform.prompts.prompt import Prompt
from multiform.requests import Completion, GenerationRequest, Output, Request
from multiform.scoring.filters import Pipeline
from multiform.scoring.outcome import Outcome, TextOutcome

inputs = one_question


def shot(form: FormSpec, fields: DocFields) -> tuple[str, str]:
    return str(fields.question), shot_answer(form, fields)


def answer_key(form: FormSpec, fields: DocFields) -> dict[str, Any]:
    format = form.config.format
    texts: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    if format is not None and format.shows_choices and fields.shown_choices is not None:
        texts = tuple(fields.shown_choices)
        labels = tuple(label_list(len(texts), format.choice_labels)) if format.choice_labels else ()
    return {
        "target": fields.target,
        "references": references(form, fields),
        "texts": texts,
        "labels": labels,
        "gen_prefix": fields.gen_prefix,
        "permutation": fields.permutation,
    }


def references(form: FormSpec, fields: DocFields) -> tuple[str, ...]:
    """The completions that count as right; where nothing is compared with them, those that there are."""
    if form.compares and not fields.has_target:
        raise missing(form, "doc_to_target")
    targets = fields.target if isinstance(fields.target, list) else [fields.target]
    if form.config.format is None and form.config.doc_to_choice is not None:
        choices = fields.choices or []
        targets = [choices[t] if isinstance(t, int) and 0 <= t < len(choices) else t for t in targets]
    if form.compares and (not targets or any(target is None for target in targets)):
        raise no_answer(form)
    return tuple(str(target) for target in targets if target is not None)


def requests(form: FormSpec, fields: DocFields, context: Context, *, chat: bool) -> list[Request]:
    assert isinstance(context, Prompt)
    repeats = range(form.config.repeats)
    return [GenerationRequest.of(context, form.generation_kwargs, n) for n in repeats]


def filtered(pipeline: Pipeline, doc: Doc, outputs: Sequence[Output]) -> list[Any]:
    completions = [output.text for output in outputs if isinstance(output, Completion)]
    if len(completions) < len(outputs):  # a task's own `construct_requests` may ask for log-likelihoods as well
        return choice.filtered(pipeline, doc, outputs)
    texts = pipeline(completions, doc)
    return texts if pipeline.single else [texts]


def outcomes(
    form: FormSpec, sample: Sample, outputs: Sequence[Output], results: Sequence[Any], *, all_repeats: bool = False
) -> list[Outcome]:
    if not sample.references:
        raise no_answer(form)
    first, request = outputs[0], sample.instances[0].request
    return [
        TextOutcome(
            prediction=prediction,
            references=sample.references,
            truncated=isinstance(first, Completion) and first.truncated,
            choices=sample.texts,
            labels=sample.labels,
            primed=sample.gen_prefix,
            prompt=request.context if isinstance(request, GenerationRequest) else "",
        )
        for prediction in _predictions(results, all_repeats)
    ]


def _predictions(results: Sequence[Any], all_repeats: bool) -> Sequence[Any]:
    """Each repeat by itself; all together for a task's own metric, where no filter picked one."""
    if not results or not isinstance(results[0], list):
        return results
    return [results[0]] if all_repeats else results[0]


def check_requests(form: FormSpec, sample: Sample) -> None:
    requests = [instance.request for instance in sample.instances]
    unsupported = [request for request in requests if not isinstance(request, GenerationRequest)]
    if unsupported:
        message = f"construct_requests made {type(unsupported[0]).__name__}, and the metrics are of completions"
        hint = "set the output_type of these requests, or give process_results"
        raise DataError(message, where=form.name, hint=hint)

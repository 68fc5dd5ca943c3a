"""multiple_choice: one log-likelihood request for each choice.

With several inputs it is the other way round: the inputs are prompts that share one continuation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from multiform.errors import ConfigError, DataError, shorten
from multiform.fields import Doc
from multiform.forms.doc_fields import DocFields
from multiform.forms.kinds.common import answer_delimiter, missing, one_question, shot_answer
from multiform.forms.sample import Context, Sample
from multiform.forms.spec import FormSpec
from multiform.labels import gold_index
from multiform.prompts.prompt import Prompt
from multiform.requests import LLOutput, LoglikelihoodRequest, Output, Request
from multiform.scoring.filters import Pipeline
from multiform.scoring.outcome import ChoiceOutcome, Outcome


def inputs(form: FormSpec, fields: DocFields) -> list[str]:
    if not fields.several_inputs:
        return one_question(form, fields)
    if not form.config.multiple_inputs:
        return fields.choices or []
    if not isinstance(fields.question, list) or not fields.question:
        message = f"multiple_inputs needs a list of inputs, got {shorten(fields.question)}"
        raise DataError(message, where=form.config.where("doc_to_text"), hint="return one text for each choice")
    return [str(text) for text in fields.question]


def shot(form: FormSpec, fields: DocFields) -> tuple[str, str]:
    if not fields.several_inputs:
        return str(fields.question), shot_answer(form, fields)
    if form.config.multiple_inputs:
        return inputs(form, fields)[gold(form, fields)[0]], continuation(form, fields)
    return (fields.choices or [])[fields.question], continuation(form, fields)


def continuation(form: FormSpec, fields: DocFields) -> str:
    """What all inputs share: the task's only choice, or its target where the choices are the inputs."""
    return (fields.choices or [""])[0] if form.config.multiple_inputs else str(fields.target)


def answer_key(form: FormSpec, fields: DocFields) -> dict[str, Any]:
    labels = form.config.format is not None and form.config.format.scored == "labels"
    indexes, doubt = known_gold(form, fields)
    return {
        "target": fields.target,
        "choices": tuple(ranked(form, fields)),
        "gold": indexes,
        "doubt": doubt,
        "texts": tuple(fields.shown_choices or ()) if labels else (),
        "permutation": fields.permutation,
    }


def requests(form: FormSpec, fields: DocFields, context: Context, *, chat: bool) -> list[Request]:
    delimiter = answer_delimiter(form.config, chat)
    if isinstance(context, list):
        pairs = [(prompt, delimiter + continuation(form, fields)) for prompt in context]
    else:
        pairs = [(context, delimiter + choice) for choice in fields.choices or ()]
    for number, (_, text) in enumerate(pairs, start=1):
        if not text:
            raise _empty_choice(form, number, "is empty")
    if _wants_mutual_info(form, fields):
        pairs += [(Prompt(""), continuation) for _, continuation in pairs]
    return [LoglikelihoodRequest(prompt, text) for prompt, text in pairs]


def _empty_choice(form: FormSpec, number: int, what: str) -> DataError:
    """The error about a choice without tokens: its log-likelihood would be 0, which no other choice reaches."""
    hint = "drop the document in process_docs, or give every choice a text"
    message = f"the text of choice {number} {what}, so that its log-likelihood would be 0 and it would always win"
    return DataError(message, where=form.config.where("doc_to_choice"), hint=hint)


def _wants_mutual_info(form: FormSpec, fields: DocFields) -> bool:
    has_metric = any(metric.name == "acc_mutual_info" for scorer in form.scoring.scorers for metric in scorer.metrics)
    if has_metric and fields.several_inputs:
        message = "acc_mutual_info is not defined for several inputs"
        raise ConfigError(message, where=form.config.where("metric_list"), hint="use acc")
    return has_metric


def filtered(pipeline: Pipeline, doc: Doc, outputs: Sequence[Output]) -> list[Any]:
    # A task's own `construct_requests` may ask for completions as well.
    return [
        (output.loglikelihood, output.is_greedy) if isinstance(output, LLOutput) else pipeline([output.text], doc)[0]
        for output in outputs
    ]


def outcomes(
    form: FormSpec, sample: Sample, outputs: Sequence[Output], results: Sequence[Any], *, all_repeats: bool = False
) -> list[Outcome]:
    number = len(sample.choices)
    lengths = [output.tokens for output in outputs[:number] if isinstance(output, LLOutput)]
    requests = [instance.request for instance in sample.instances[:number]]
    for position, output in enumerate(outputs[:number], start=1):
        if isinstance(output, LLOutput) and output.tokens == 0 and output.loglikelihood == 0:
            raise _empty_choice(form, position, "has no token of the model's")
    return [
        ChoiceOutcome(
            loglikelihoods=tuple(ll for ll, _ in results[:number]),
            greedy=tuple(greedy for _, greedy in results[:number]),
            choices=sample.choices,
            gold=sample.gold,
            tokens=tuple(n for n in lengths if n is not None) if None not in lengths else (),
            unconditional=tuple(ll for ll, _ in results[number:]),
            scored=tuple(request.continuation for request in requests if isinstance(request, LoglikelihoodRequest)),
            texts=sample.texts,
        )
    ]


def check_requests(form: FormSpec, sample: Sample) -> None:
    number = len(sample.choices)
    requests = [instance.request for instance in sample.instances[:number]]
    likelihoods = [request for request in requests if isinstance(request, LoglikelihoodRequest)]
    if len(likelihoods) < number:
        message = f"construct_requests made {len(likelihoods)} log-likelihood requests for {number} choices"
        raise DataError(message, where=form.name, hint="make one for each choice, or give process_results")


def ranked(form: FormSpec, fields: DocFields) -> Sequence[str]:
    """What is ranked: the choices, or the inputs of a document that has several."""
    if fields.several_inputs:
        return inputs(form, fields)
    if fields.choices is None and form.compares:
        raise missing(form, "doc_to_choice")
    return fields.choices or ()


def gold(form: FormSpec, fields: DocFields) -> tuple[int, ...]:
    """The indexes of the right choices; an answer that is none of them is an error."""
    if fields.gold is not None:
        return fields.gold
    choices = ranked(form, fields)
    by_question = fields.several_inputs and not form.config.multiple_inputs
    target = fields.question if by_question else fields.target
    if target is None and not fields.has_target:
        raise missing(form, "doc_to_target")
    if isinstance(target, str) and target in choices:
        return (choices.index(target),)
    try:
        index = gold_index(target, choices)
    except DataError as error:
        if not by_question:
            raise error.moved(form.config.where("doc_to_target")) from error
        message = f"the question is the whole number {shorten(target)}, so it is the index of the right choice, "
        message += f"and there are {len(choices)} choices"
        hint = 'where it is meant as text, write more than the number, e.g. doc_to_text: "Question: {{question}}"'
        raise DataError(message, where=form.config.where("doc_to_text"), hint=hint) from error
    return tuple(index) if isinstance(index, list) else (index,)


def known_gold(form: FormSpec, fields: DocFields) -> tuple[tuple[int, ...], DataError | None]:
    """The indexes of the right choices, and why a document counts as wrong whatever the model picks.

    lm-eval scores a document as wrong without a word where its answer is none of the choices, so that a task without
    a format has to as well; under a format that is an error.
    """
    if not form.compares and fields.target is None and fields.gold is None:
        return (), None
    try:
        return gold(form, fields), None
    except DataError as error:
        if form.config.format is not None and form.compares:
            raise
        target = fields.target
        known = known_indexes(target, ranked(form, fields)) if isinstance(target, list | tuple) else ()
        return known, error if form.compares else None


def known_indexes(answers: Sequence[Any], choices: Sequence[str]) -> tuple[int, ...]:
    """The indexes of those answers that are among the choices.

    >>> known_indexes([1, 7, "C"], ["x", "y", "z"])
    (1, 2)
    """
    indexes: list[int] = []
    for answer in answers:
        try:
            index = gold_index(answer, choices)
        except DataError:
            continue
        indexes += index if isinstance(index, list) else [index]
    return tuple(indexes)

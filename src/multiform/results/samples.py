"""Samples in the layout of lm-eval: a line for each document and filter, with its prompts, responses and values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from multiform.forms import Sample, ScoredSample
from multiform.hashing import sha256
from multiform.prompts.media import Media, binary_summary
from multiform.requests import Completion, GenerationRequest, Instance, LLOutput, Output, Request, RollingRequest
from multiform.results.results import FormResult, metrics_in_order


def sample_lines(form: FormResult) -> Iterator[dict[str, Any]]:
    """The lines of a samples file: all documents of the first scorer, then those of the next."""
    return (sample_line(sample, metrics_in_order(sample.values, form.config)) for sample in _in_order(form))


def sample_line(sample: ScoredSample, metrics: Sequence[str] | None = None) -> dict[str, Any]:
    """A document by one scorer: lm-eval's keys, then those that Multiform adds; `metrics` orders the values."""
    values = sample.values if metrics is None else {name: sample.values[name] for name in metrics}
    named = [name for name, value in values.items() if not isinstance(value, str)]
    line = {**_asked(sample), "metrics": named, **_hashes(sample), **values}
    return {**line, **{key: value for key, value in _plain(sample).items() if key not in line}}


def task_hash(form: FormResult) -> str:
    """The hash over all documents, prompts and targets of a form."""
    return sha256("".join("".join(_hashes(sample).values()) for sample in _in_order(form)))


def _in_order(form: FormResult) -> list[ScoredSample]:
    scorers = list(dict.fromkeys(sample.scorer for sample in form.samples))
    return sorted(form.samples, key=lambda sample: scorers.index(sample.scorer))


def _asked(sample: ScoredSample) -> dict[str, Any]:
    by_request = [list(repeats) for _, repeats in groupby(_pairs(sample), key=lambda pair: _once(pair[0]))]
    return {
        "doc_id": sample.doc_id,
        "doc": dict(sample.doc),
        "target": str(sample.target),
        "arguments": {f"gen_args_{i}": _argument(repeats[0][0].request) for i, repeats in enumerate(by_request)},
        "resps": [
            [_response(output, instance.request) for instance, output in repeats if output is not None]
            for repeats in by_request
        ],
        "filtered_resps": [_response(output) for output in sample.filtered],
        "filter": sample.scorer,
    }


def _pairs(sample: ScoredSample) -> list[tuple[Instance, Output | None]]:
    """Every request with its output; None where there is none, as a request failed."""
    outputs = sample.outputs if sample.failure is None else [None] * len(sample.instances)
    return list(zip(sample.instances, outputs, strict=True))


def _plain(sample: ScoredSample) -> dict[str, Any]:
    """The keys that Multiform adds to a line: prediction, gold, and all that `resps` does not say of the outputs."""
    scored = [output for output in sample.outputs if isinstance(output, LLOutput)]
    written = [output for output in sample.outputs if isinstance(output, Completion)]
    added: dict[str, Any] = {"prediction": sample.prediction, "gold": sample.gold}
    choices, labels = choices_and_labels(sample.sample)
    added |= {key: value for key, value in (("choices", choices), ("labels", labels)) if value}
    if sample.sample.permutation is not None:
        added["choice_order"] = list(sample.sample.permutation)
    if scored:
        added["loglikelihoods"] = [output.loglikelihood for output in scored]
        added["is_greedy"] = [output.is_greedy for output in scored]
        added["num_tokens"] = [output.tokens for output in scored]
    if sample.tied:
        added["tied_choices"] = list(sample.tied)
    if written:
        added["completions_truncated"] = [output.truncated for output in written]
        if any(output.finish_reason is not None for output in written):
            added["finish_reasons"] = [output.finish_reason for output in written]
    if sample.outputs:
        added["contexts_truncated"] = [output.context_truncated for output in sample.outputs]
    if sample.steps:
        added["steps"] = [{"step": step.name, "value": _step_value(step.value)} for step in sample.steps]
    return added if sample.failure is None else {**added, "failure": sample.failure}


def _step_value(value: Any) -> Any:
    return None if value is None else _response(value)


def choices_and_labels(sample: Sample) -> tuple[list[str], list[str]]:
    """The texts of a sample's choices, and their labels in its prompt, where it has both."""
    texts = sample.texts or sample.choices
    labels = sample.labels or (sample.choices if sample.texts != sample.choices else ())
    return list(texts), list(labels if sample.texts else ())


def _hashes(sample: ScoredSample) -> dict[str, str]:
    return {
        "doc_hash": sha256(json.dumps(dict(sample.doc), indent=2, default=binary_summary, ensure_ascii=False)),
        "prompt_hash": sha256(sample.sample.prompt),
        "target_hash": sha256(str(sample.target)),
    }


def _once(instance: Instance) -> Any:
    """A key that is equal for repeats of the same generation, and different for all other requests."""
    request = instance.request
    return (request.context, request.options) if isinstance(request, GenerationRequest) else instance.idx


def _argument(request: Request) -> dict[str, Any]:
    arguments = {f"arg_{number}": argument for number, argument in enumerate(request.arguments)}
    return arguments if isinstance(request, RollingRequest) else arguments | _media(request.media)


def _media(media: Sequence[Media]) -> dict[str, Any]:
    """The third argument of a request with images or audio, as lm-eval has it."""
    kinds = {"visual": "image", "audio": "audio"}
    summaries = {name: [item.summary() for item in media if item.kind == kind] for name, kind in kinds.items()}
    return {"arg_2": {name: listed for name, listed in summaries.items() if listed}} if media else {}


def _response(output: Any, request: Request | None = None) -> Any:
    """A response as text, or nested lists of texts, as lm-eval writes it."""
    if isinstance(output, LLOutput):
        likelihood = str(output.loglikelihood)
        return likelihood if isinstance(request, RollingRequest) else [likelihood, str(output.is_greedy)]
    if isinstance(output, list | tuple):
        return [_response(part) for part in output]
    return output.text if isinstance(output, Completion) else str(output)

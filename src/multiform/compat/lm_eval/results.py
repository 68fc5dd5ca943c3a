"""Results as `simple_evaluate` and `evaluate` return them, with the samples in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from multiform.compat.lm_eval.utils import handle_non_serializable, hash_string
from multiform.forms import ScoredSample
from multiform.requests import Completion, GenerationRequest, Instance, LLOutput, LoglikelihoodRequest, Request
from multiform.results import FormResult, Results
from multiform.results.export import to_json

_SCORES = ("results", "groups", "group_subtasks", "configs", "versions", "n-shot", "higher_is_better", "n-samples")
_RUN = ("config", "git_hash", "date", "pretty_env_info", "transformers_version", "lm_eval_version", "upper_git_hash",
        "tokenizer_pad_token", "tokenizer_eos_token", "tokenizer_bos_token", "eot_token_id", "max_length")  # fmt: skip
#: Keys of `config` that lm-eval does not have.
_OURS = ("samples", "num_fewshot", "generation_config", "arguments", "budget", "server")


def whole_results(
    results: Results, asked: Mapping[str, Any], *, samples: bool, errors: bool, unsaid: Mapping[str, Any]
) -> dict[str, Any]:
    """What `simple_evaluate` returns; `asked` are settings as the script gave them, `unsaid` what no task says."""
    saved = to_json(results)
    scores = without_run(results, samples=samples, errors=errors)
    for config in scores["configs"].values():
        metadata = config.get("metadata", {})
        config["metadata"] = {
            key: value for key, value in metadata.items() if key not in unsaid or unsaid[key] != value
        }
    last = {"samples": scores.pop("samples")} if samples else {}
    run = {key: saved[key] for key in _RUN if key in saved}
    config_of_run = {key: value for key, value in run["config"].items() if key not in _OURS}
    return {**scores, **run, "config": {**config_of_run, **asked}, **last}


def without_run(results: Results, *, samples: bool, errors: bool) -> dict[str, Any]:
    """What `evaluate` returns: the scores and how they were made, but not when and where."""
    saved = {key: value for key, value in to_json(results).items() if key in _SCORES}
    for config in saved["configs"].values():
        config.pop("tag", None)
    saved["versions"] = {name: "Yaml" if version == "N/A" else version for name, version in saved["versions"].items()}
    for group in results.groups:
        if not group.estimates:  # a group without scores is only a name
            saved["results"][group.name].pop("sample_len", None)
    if not errors:  # without resamples, lm-eval gives no standard errors at all
        for key in ("results", "groups"):
            for scores in saved.get(key, {}).values():
                scores.update({name: "N/A" for name in scores if "_stderr," in name})
    if samples:
        saved["samples"] = {form.form: samples_of(form) for form in results.forms}
    return saved


def samples_of(form: FormResult) -> list[dict[str, Any]]:
    """One dict for each filter and document, with answers as tuples and texts."""
    filters = list(dict.fromkeys(sample.scorer for sample in form.samples))
    ordered = sorted(form.samples, key=lambda sample: filters.index(sample.scorer))
    return [_sample(sample) for sample in ordered]


def _sample(sample: ScoredSample) -> dict[str, Any]:
    answers = list(zip(sample.instances, sample.outputs, strict=True))
    asked = [list(some) for _, some in groupby(answers, key=lambda pair: _once(pair[0]))]
    arguments = [some[0][0].request.arguments for some in asked]
    doc = dict(sample.doc)
    return {
        "doc_id": sample.doc_id,
        "doc": doc,
        "target": sample.target,
        "arguments": arguments,
        "resps": [[_response(output, instance.request) for instance, output in some] for some in asked],
        "filtered_resps": list(sample.filtered),
        "filter": sample.scorer,
        "metrics": list(sample.values),
        "doc_hash": hash_string(json.dumps(doc, indent=2, default=handle_non_serializable, ensure_ascii=False)),
        "prompt_hash": hash_string(arguments[0][0]),
        "target_hash": hash_string(str(sample.target)),
        **sample.values,
    }


def _once(instance: Instance) -> Any:
    """The same for all repeats of one generation, and another for any other request."""
    request = instance.request
    return (request.context, request.options) if isinstance(request, GenerationRequest) else (instance.idx, request)


def _response(output: Any, request: Request) -> Any:
    if isinstance(output, Completion):
        return output.text
    assert isinstance(output, LLOutput)
    pair = isinstance(request, LoglikelihoodRequest)
    return (output.loglikelihood, output.is_greedy) if pair else output.loglikelihood

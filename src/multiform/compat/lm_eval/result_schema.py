"""The types of results, for scripts that are type-checked."""

from __future__ import annotations

from typing import Any

from typing_extensions import NotRequired, TypedDict

__all__ = ["EvalResults", "SampleResult"]

#: The scores of a task or group: `name`, `alias` and `sample_len`, and numbers by ``metric,filter``.
_TaskMetrics = dict[str, Any]


class _SampleCount(TypedDict):
    """How many documents a task has, and how many of them were evaluated."""

    original: int
    effective: int


class SampleResult(TypedDict):
    """One document under one filter; beside these keys it has the value of each metric."""

    doc_id: int
    doc: dict[str, Any]
    target: Any
    arguments: Any
    resps: list[Any]
    filtered_resps: list[Any]
    filter: str
    metrics: list[str]
    doc_hash: str
    prompt_hash: str
    target_hash: str


#: What `simple_evaluate` and `evaluate` return; the keys after `samples` are those of `simple_evaluate`.
EvalResults = TypedDict(
    "EvalResults",
    {
        "results": dict[str, _TaskMetrics],
        "groups": NotRequired[dict[str, _TaskMetrics]],
        "group_subtasks": dict[str, list[str]],
        "configs": dict[str, dict[str, Any]],
        "versions": dict[str, Any],
        "n-shot": dict[str, Any],
        "higher_is_better": dict[str, dict[str, bool | None]],
        "n-samples": dict[str, _SampleCount],
        "samples": NotRequired[dict[str, list[SampleResult]]],
        "config": NotRequired[dict[str, Any]],
        "git_hash": NotRequired[str | None],
        "date": NotRequired[float],
        "pretty_env_info": NotRequired[str],
        "transformers_version": NotRequired[str],
        "lm_eval_version": NotRequired[str],
        "upper_git_hash": NotRequired[str | None],
        "tokenizer_pad_token": NotRequired[list[str]],
        "tokenizer_eos_token": NotRequired[list[str]],
        "tokenizer_bos_token": NotRequired[list[str]],
        "eot_token_id": NotRequired[int | None],
        "max_length": NotRequired[int | None],
    },
)

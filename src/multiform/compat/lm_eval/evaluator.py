"""simple_evaluate and evaluate, with the arguments, results and result files of lm-eval 0.4.13."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from multiform.arguments import parse_arguments
from multiform.compat.lm_eval.config import convert_errors
from multiform.compat.lm_eval.manager import Group, TaskDict, TaskManager
from multiform.compat.lm_eval.registry import get_model
from multiform.compat.lm_eval.utils import handle_non_serializable, sanitize_list
from multiform.errors import UsageError
from multiform.forms import ScoredSample, Task
from multiform.hashing import sha256
from multiform.paths import replace_output, safe_name
from multiform.requests import Completion, LLOutput, LoglikelihoodRequest, Request
from multiform.results import Results
from multiform.results.export import output_folder, plain_json, to_json, write_lines
from multiform.results.provenance import argued_name
from multiform.results.samples import outputs_by_request, samples_in_order
from multiform.run.evaluate import evaluate as run

logger = logging.getLogger("multiform")

#: What `evaluate` returns of a results file, and what `simple_evaluate` adds.
_SCORES = ("results", "groups", "group_subtasks", "configs", "versions", "n-shot", "higher_is_better", "n-samples")
_RUN = ("config", "git_hash", "date", "pretty_env_info", "transformers_version", "lm_eval_version", "upper_git_hash",
        "tokenizer_pad_token", "tokenizer_eos_token", "tokenizer_bos_token", "eot_token_id", "max_length")  # fmt: skip
#: Keys of `config` that lm-eval does not have.
_OURS = ("samples", "num_fewshot", "generation_config", "arguments", "budget", "server", "model_warnings")


@convert_errors(ValueError)
def simple_evaluate(
    model: Any,
    model_args: str | Mapping[str, Any] | None = None,
    tasks: Sequence[str | Mapping[str, Any] | Task] | None = None,
    num_fewshot: int | None = None,
    batch_size: int | str | None = None,
    max_batch_size: int | None = None,
    device: str | None = None,
    use_cache: str | None = None,
    cache_requests: bool = False,
    rewrite_requests_cache: bool = False,
    delete_requests_cache: bool = False,
    limit: float | None = None,
    samples: Mapping[str, Sequence[int]] | None = None,
    bootstrap_iters: int = 100000,
    check_integrity: bool = False,
    write_out: bool = False,
    log_samples: bool = True,
    evaluation_tracker: Any = None,
    system_instruction: str | None = None,
    apply_chat_template: bool | str = False,
    fewshot_as_multiturn: bool = True,
    gen_kwargs: str | Mapping[str, Any] | None = None,
    task_manager: TaskManager | None = None,
    verbosity: Any = None,
    predict_only: bool = False,
    random_seed: int = 0,
    numpy_random_seed: int = 1234,
    torch_random_seed: int = 1234,
    fewshot_random_seed: int = 1234,
    confirm_run_unsafe_code: bool = False,
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Evaluate a model, by name or as an object, on tasks; the results have lm-eval's structure.

    There is nothing for `check_integrity` to do: every prompt is made and checked before a model is asked.
    """
    if not tasks:
        raise ValueError("no tasks named: give e.g. tasks=['arc_easy']")
    loaded = (task_manager or TaskManager(metadata=metadata)).load(list(tasks))
    seeds = (random_seed, numpy_random_seed, torch_random_seed, fewshot_random_seed)
    arguments = None
    if isinstance(model, str):
        get_model(model)  # raises for a model that is not there, with what is
        more = {} if max_batch_size is None else {"max_batch_size": max_batch_size}
        arguments = {**parse_arguments(model_args, where="model_args"), **more}
    results = run(
        tasks=_forms(loaded),
        model=model,
        model_args=arguments,
        num_fewshot=num_fewshot,
        limit=limit,
        samples=samples,
        batch_size=batch_size,
        device=device,
        gen_kwargs=gen_kwargs,
        apply_chat_template=apply_chat_template,
        fewshot_as_multiturn=fewshot_as_multiturn,
        system_instruction=system_instruction,
        seeds=seeds,
        bootstrap_iters=bootstrap_iters,
        predict_only=predict_only,
        write_out=write_out,
        confirm_run_unsafe_code=confirm_run_unsafe_code,
        # Nowhere unless that is asked for, and never in a file of lm-eval.
        use_cache=Path(f"{use_cache}.multiform.db") if use_cache else False,
        cache_requests="delete" if delete_requests_cache else "refresh" if rewrite_requests_cache else cache_requests,
    )
    if evaluation_tracker is not None:
        evaluation_tracker.general_config_tracker.log_experiment_args(
            model_source=model if isinstance(model, str) else "CUSTOM",
            model_args=model_args or "",
            system_instruction=system_instruction,
            chat_template=results.provenance.get("chat_template"),
            fewshot_as_multiturn=fewshot_as_multiturn,
        )
    asked = {
        "model": model if isinstance(model, str) else type(model).__name__,
        "model_args": model_args,
        "use_cache": use_cache,
        "gen_kwargs": gen_kwargs,
    }
    # lm-eval adds the model's arguments to the metadata of tasks that its own manager finds.
    unsaid = parse_arguments(model_args, where="model_args") if task_manager is not None else {}
    samples_too = log_samples or predict_only
    return whole_results(results, asked, samples=samples_too, errors=bootstrap_iters > 0, unsaid=unsaid)


@convert_errors(ValueError)
def evaluate(
    lm: Any,
    task_dict: TaskDict | Mapping[Any, Any],
    limit: float | None = None,
    samples: Mapping[str, Sequence[int]] | None = None,
    cache_requests: bool = False,
    rewrite_requests_cache: bool = False,
    bootstrap_iters: int | None = 100000,
    write_out: bool = False,
    log_samples: bool = True,
    system_instruction: str | None = None,
    apply_chat_template: bool | str = False,
    fewshot_as_multiturn: bool = False,
    verbosity: str = "INFO",
    confirm_run_unsafe_code: bool = False,
) -> dict[str, Any]:
    """Evaluate a model object on tasks that are already built."""
    results: Results = run(
        tasks=_forms(task_dict),
        model=lm,
        limit=limit,
        samples=samples,
        apply_chat_template=apply_chat_template,
        fewshot_as_multiturn=fewshot_as_multiturn,
        system_instruction=system_instruction,
        bootstrap_iters=bootstrap_iters or 0,
        write_out=write_out,
        confirm_run_unsafe_code=confirm_run_unsafe_code,
        use_cache=False,
        cache_requests="refresh" if rewrite_requests_cache else cache_requests,
    )
    return scores_of(results, samples=log_samples, errors=bool(bootstrap_iters))


def _forms(loaded: TaskDict | Mapping[Any, Any]) -> list[Any]:
    """The tasks, and the groups whose scores are wanted, of a manager's answer or of nested dicts."""
    if "tasks" in loaded:
        tasks, groups = list(loaded["tasks"].values()), list(loaded.get("groups", {}).values())
    else:
        items = list(_flat(loaded))
        tasks = [item for item in items if not isinstance(item, Group)]
        groups = [item for item in items if isinstance(item, Group)]
    inside = [task for group in groups for task in group.get_all_tasks()]
    inner = {name for group in groups for name in (below.name for below in group.get_all_groups())}
    every: dict[str, Task] = {}
    for task in [*tasks, *inside]:
        if every.setdefault(task.name, task) is not task:
            hint = "rename one of them, or run them one by one"
            raise UsageError(f"two different tasks are called '{task.name}'", where="tasks", hint=hint)
    return [*every.values(), *(group.as_node() for group in groups if group.name not in inner)]


def _flat(nested: Mapping[Any, Any]) -> Iterator[Any]:
    """The tasks of nested dicts, and the groups that they are under."""
    for key, value in nested.items():
        if isinstance(value, Mapping):
            yield from _flat(value)
        else:
            yield value
        if isinstance(key, Group):
            yield key


def whole_results(
    results: Results, asked: Mapping[str, Any], *, samples: bool, errors: bool, unsaid: Mapping[str, Any]
) -> dict[str, Any]:
    """What `simple_evaluate` returns; `asked` are settings as the script gave them, `unsaid` what no task says."""
    saved = to_json(results)
    scores = scores_of(results, samples=samples, errors=errors)
    for config in scores["configs"].values():
        metadata = config.get("metadata", {})
        config["metadata"] = {
            key: value for key, value in metadata.items() if key not in unsaid or unsaid[key] != value
        }
    last = {"samples": scores.pop("samples")} if samples else {}
    run = {key: saved[key] for key in _RUN if key in saved}
    config_of_run = {key: value for key, value in run["config"].items() if key not in _OURS}
    return {**scores, **run, "config": {**config_of_run, **asked}, **last}


def scores_of(results: Results, *, samples: bool, errors: bool) -> dict[str, Any]:
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
        saved["samples"] = {form.name: list(map(_sample, samples_in_order(form))) for form in results.forms}
    return saved


def _sample(sample: ScoredSample) -> dict[str, Any]:
    """A document by one filter, with answers as tuples and texts."""
    asked = outputs_by_request(sample)
    arguments = [repeats[0][0].request.arguments for repeats in asked]
    doc = dict(sample.doc)
    return {
        "doc_id": sample.doc_id,
        "doc": doc,
        "target": sample.target,
        "arguments": arguments,
        "resps": [[_response(output, instance.request) for instance, output in repeats] for repeats in asked],
        "filtered_resps": list(sample.filtered),
        "filter": sample.scorer,
        "metrics": list(sample.values),
        "doc_hash": sha256(json.dumps(doc, indent=2, default=handle_non_serializable, ensure_ascii=False)),
        "prompt_hash": sha256(arguments[0][0]),
        "target_hash": sha256(str(sample.target)),
        **sample.values,
    }


def _response(output: Any, request: Request) -> Any:
    if isinstance(output, Completion):
        return output.text
    assert isinstance(output, LLOutput)
    pair = isinstance(request, LoglikelihoodRequest)
    return (output.loglikelihood, output.is_greedy) if pair else output.loglikelihood


@dataclass
class GeneralConfigTracker:
    """What is said about a run beside its scores."""

    model_source: str | None = None
    model_name: str | None = None
    model_name_sanitized: str | None = None
    system_instruction: str | None = None
    system_instruction_sha: str | None = None
    fewshot_as_multiturn: bool | None = None
    chat_template: str | None = None
    chat_template_sha: str | None = None
    total_evaluation_time_seconds: str | None = None

    def __post_init__(self) -> None:
        self.started = time.perf_counter()

    def log_experiment_args(
        self,
        model_source: str,
        model_args: str | Mapping[str, Any],
        system_instruction: str | None,
        chat_template: str | None,
        fewshot_as_multiturn: bool,
    ) -> None:
        """Take note of the model and the layout of prompts."""
        arguments = parse_arguments(model_args or None, where="model_args")
        self.model_source = model_source
        self.model_name = argued_name(arguments) or ""
        self.model_name_sanitized = safe_name(self.model_name) if self.model_name else ""
        self.system_instruction, self.chat_template = system_instruction, chat_template
        self.system_instruction_sha = sha256(system_instruction) if system_instruction else None
        self.chat_template_sha = sha256(chat_template) if chat_template else None
        self.fewshot_as_multiturn = fewshot_as_multiturn


class EvaluationTracker:
    """Writes what `simple_evaluate` returns below a folder; nothing is sent to the hub."""

    def __init__(self, output_path: str | None = None, push_results_to_hub: bool = False, **hub: Any) -> None:
        self.output_path = output_path
        self.general_config_tracker = GeneralConfigTracker()
        self.date_id: str | None = None
        if push_results_to_hub or hub.get("push_samples_to_hub"):
            logger.warning("nothing is sent to the hub; upload the folder that output_path names")

    def save_results_aggregated(
        self, results: Mapping[str, Any], samples: Mapping[str, Sequence[Mapping[str, Any]]] | None = None
    ) -> None:
        """Write the scores, with the hashes of the samples."""
        tracker = self.general_config_tracker
        tracker.total_evaluation_time_seconds = str(time.perf_counter() - tracker.started)
        self.date_id = datetime.now().isoformat().replace(":", "-")
        if not self.output_path:
            return
        hashes = {
            name: sha256(
                "".join(sample["doc_hash"] + sample["prompt_hash"] + sample["target_hash"] for sample in task_samples)
            )
            for name, task_samples in (samples or {}).items()
        }
        kept = {key: value for key, value in results.items() if key != "samples"}
        whole = {**kept, "task_hashes": hashes, **asdict(tracker)}
        path = Path(self.output_path)
        name = path.stem if path.suffix == ".json" else "results"
        with replace_output(self._folder / f"{name}_{self.date_id}.json") as file:
            file.write_text(plain_json(whole), encoding="utf-8", errors="backslashreplace")

    def save_results_samples(self, task_name: str, samples: Sequence[Mapping[str, Any]]) -> None:
        """Write a line for each document and filter."""
        if self.output_path:
            write_lines(self._folder / f"samples_{safe_name(task_name)}_{self.date_id}.jsonl", map(_plain, samples))

    @property
    def _folder(self) -> Path:
        return output_folder(Path(str(self.output_path)), self.general_config_tracker.model_name_sanitized or "")


def _plain(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A sample as files have it: answers as texts, arguments by name."""
    arguments = {
        f"gen_args_{i}": {f"arg_{j}": value for j, value in enumerate(values)}
        for i, values in enumerate(sample["arguments"])
    }
    changed = {
        "arguments": arguments,
        "resps": sanitize_list(sample["resps"]),
        "filtered_resps": sanitize_list(sample["filtered_resps"]),
        "target": str(sample["target"]),
    }
    plain: dict[str, Any] = json.loads(json.dumps({**sample, **changed}, default=handle_non_serializable))
    return plain

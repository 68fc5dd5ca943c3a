"""RunOptions: the arguments of `evaluate`, checked before anything is read or loaded."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from multiform.arguments import parse_arguments
from multiform.errors import UsageError, shorten
from multiform.forms import RunSettings
from multiform.models import models
from multiform.results.export import prepare_output
from multiform.run.budget import Budget
from multiform.run.checks import check_settings, generation_arguments
from multiform.run.executors.cluster import ClusterOptions
from multiform.run.failures import ErrorPolicy, OnError, is_limit
from multiform.run.progress import Progress
from multiform.run.setup import DEFAULT_SEEDS, check_selection
from multiform.scoring.scorers.ai_judge import JudgeChoice
from multiform.tasks import Design

#: Options whose type is checked elsewhere: where tasks and models are loaded, and where texts are parsed.
_CHECKED_ELSEWHERE = (
    "tasks", "model", "model_args", "gen_kwargs", "include_path", "dataset_mirror", "perturbation",
    "decontamination_corpus", "metadata", "cache_requests", "progress", "resources", "judge_args",
)  # fmt: skip
#: Options that scores depend on and that no other key of a results file has, with their defaults.
_DESCRIBED: Mapping[str, Any] = {
    **dict.fromkeys(("apply_chat_template", "keep_description", "predict_only", "confirm_run_unsafe_code"), False),
    **dict.fromkeys(("fewshot_as_multiturn", "choice_order", "system_instruction", "perturbation", "metadata")),
    **dict.fromkeys(("include_path", "dataset_mirror", "budget", "until_ci", "sandbox")),
    "fewshot_draws": 1,
    "decontamination_corpus": (),
    "on_error": "stop",
}


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The arguments of `evaluate`, which describes them."""

    tasks: Any
    model: Any
    model_args: str | Mapping[str, Any] | None
    num_fewshot: int | None
    limit: float | None
    samples: Mapping[str, Sequence[int]] | None
    choice_order: str | None
    fewshot_draws: int
    budget: int | None
    until_ci: float | None
    batch_size: int | str | None
    device: str | None
    gen_kwargs: str | Mapping[str, Any] | None
    include_path: str | Path | Sequence[str | Path] | None
    dataset_mirror: str | Path | Sequence[str | Path] | None
    apply_chat_template: bool | str
    fewshot_as_multiturn: bool | None
    system_instruction: str | None
    perturbation: str | Mapping[str, Any] | None
    keep_description: bool
    seeds: Sequence[int | None]
    bootstrap_iters: int
    predict_only: bool
    write_out: bool
    confirm_run_unsafe_code: bool
    sandbox: str | None
    judge_model: str | None
    judge_args: str | Mapping[str, Any] | None
    decontamination_corpus: Sequence[str | Path]
    metadata: str | Mapping[str, Any] | None
    use_cache: bool | str | Path | None
    fresh: bool
    cache_requests: bool | str
    plan_only: bool
    output_path: str | Path | None
    log_samples: bool
    on_error: OnError
    max_failures: float | None
    executor: str
    ray_address: str | None
    workers: int | None
    resources: str | Mapping[str, Any] | None
    progress: Progress | bool | None

    def check(self) -> None:
        """Refuse values that cannot be meant, and an output folder that cannot be written to."""
        check_settings(**{name: value for name, value in vars(self).items() if name not in _CHECKED_ELSEWHERE})
        check_selection(self.limit, self.samples)
        if self.stopping is not None and self.predict_only:
            message = "without scores nothing says where to stop"
            raise UsageError(message, where="predict_only", hint="leave it out, or leave budget and until_ci out")
        self.cluster  # noqa: B018  (refuses what is wrong about it)
        self.judge  # noqa: B018
        if self.cache_requests not in (False, True, "true", "refresh", "delete"):
            message = f"expected one of three, got {shorten(self.cache_requests)}"
            raise UsageError(message, where="cache_requests", hint="give true, refresh or delete")
        if self.max_failures is not None and not is_limit(self.max_failures):
            message = f"expected a whole number of documents or a share below 1, got {shorten(self.max_failures)}"
            raise UsageError(message, where="max_failures", hint="give e.g. max_failures=10 or max_failures=0.05")
        if self.output_path is not None and not str(self.output_path):
            hint = "give e.g. output_path='results'"
            raise UsageError("the name of the folder is empty", where="output_path", hint=hint)
        if self.output_path is not None:
            prepare_output(Path(self.output_path))
        elif self.log_samples:
            message = "there is no output_path to write samples to"
            raise UsageError(message, where="log_samples", hint="give e.g. output_path='results'")

    @cached_property
    def model_arguments(self) -> dict[str, Any]:
        """The arguments that the model is loaded with: `model_args`, and the options that have their own names."""
        arguments = parse_arguments(self.model_args, where="model_args")
        named = {"batch_size": self.batch_size, "device": self.device}
        arguments |= {name: value for name, value in named.items() if value is not None}
        entry = models.get(self.model) if isinstance(self.model, str) and self.model in models else None
        if isinstance(self.apply_chat_template, str) and entry and entry.named_chat_templates:
            arguments["chat_template"] = self.apply_chat_template
        return arguments

    @cached_property
    def settings(self) -> RunSettings:
        """The settings of the run that every form gets."""
        fewshot_seed = self.seeds[3]
        return RunSettings(
            num_fewshot=self.num_fewshot,
            apply_chat_template=self.apply_chat_template,
            fewshot_as_multiturn=self.fewshot_as_multiturn,
            system_instruction=self.system_instruction,
            gen_kwargs=generation_arguments(self.gen_kwargs),
            perturbation=parse_arguments(self.perturbation, where="perturbation") or None,
            keep_description=self.keep_description,
            fewshot_seed=fewshot_seed if fewshot_seed is not None else DEFAULT_SEEDS[3],
            metric="bypass" if self.predict_only else None,
            metadata=parse_arguments(self.metadata, where="metadata"),
            model_args=self.model_arguments,
            limit=self.limit,
            samples=self.samples,
        )

    @cached_property
    def design(self) -> Design:
        """How the run multiplies its forms; the variations of ``format~N`` are drawn with python's seed."""
        return Design(seed=self.seeds[0], choice_order=self.choice_order, fewshot_draws=self.fewshot_draws)

    @cached_property
    def stopping(self) -> Budget | None:
        """When the run stops before all documents are evaluated; they are shuffled with python's seed."""
        if self.budget is None and self.until_ci is None:
            return None
        return Budget(evaluations=self.budget, half_width=self.until_ci, seed=self.seeds[0])

    @cached_property
    def cluster(self) -> ClusterOptions | None:
        """The cluster whose workers run the model; None where that is this process."""
        if self.executor == "ray":
            return ClusterOptions.of(self.ray_address, self.workers, self.resources)
        for name in ("ray_address", "workers", "resources"):
            if getattr(self, name) is not None:
                raise UsageError("there are no workers without Ray", where=f"--{name}", hint="add --executor ray")
        return None

    @cached_property
    def judge(self) -> JudgeChoice:
        """The judge that the user chose for tasks that have one."""
        return JudgeChoice.of(self.judge_model, self.judge_args)

    @property
    def policy(self) -> ErrorPolicy:
        """What the run does about documents whose requests failed."""
        return ErrorPolicy(on_error=self.on_error, max_failures=self.max_failures)

    @property
    def task_list(self) -> list[Any]:
        """The tasks as a list, also where one alone was named."""
        alone = isinstance(self.tasks, str) or not isinstance(self.tasks, Iterable)
        return [self.tasks] if alone else list(self.tasks)

    @property
    def described_arguments(self) -> dict[str, Any]:
        """The tasks as they were named, and those of the options that scores depend on which are not the defaults.

        Tasks that are objects or configurations have no name that could be given again, and are left out.
        """
        named = all(isinstance(task, str | Path) for task in self.task_list)
        options = {"tasks": self.task_list} if named else {}
        for name, default in _DESCRIBED.items():
            value = getattr(self, name)
            if value != default and value not in ("", (), [], {}):
                options[name] = value
        return {name: _plain(value) for name, value in {**options, **self.judge.to_dict()}.items()}

    @property
    def mirror(self) -> str | Path | Sequence[str | Path] | None:
        """Where datasets are looked for before the hub."""
        return self.dataset_mirror or os.environ.get("MULTIFORM_DATASET_MIRROR")

    @property
    def model_label(self) -> str:
        """What results call the model."""
        return self.model if isinstance(self.model, str) else type(self.model).__name__


def _plain(value: Any) -> Any:
    """The value with paths as text."""
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, Path) else value

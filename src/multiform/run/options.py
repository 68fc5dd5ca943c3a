"""RunOptions: the options of a run, the one place where each of them is written down.

The keywords of `evaluate`, the flags of the commands, the keys of `--config` files and of sweeps, the checks of values,
and what results record about a run follow from the fields of `RunOptions`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from multiform.arguments import parse_arguments
from multiform.errors import ConfigError, UsageError
from multiform.forms import RunSettings, Task
from multiform.models import Model, models
from multiform.requests import generation_overrides
from multiform.run import values
from multiform.run.executors.cluster import EXECUTORS, ClusterOptions
from multiform.run.progress import Progress
from multiform.run.values import (
    ANYTHING,
    ARGUMENTS,
    COUNT,
    SEVERAL_ARGUMENTS,
    SOURCE_OPTIONS,
    SWITCH,
    TEXT,
    WORDS,
    Option,
    ValueType,
    count,
    one_of,
)
from multiform.sandbox import SANDBOXES, is_sandbox
from multiform.scoring.aggregations import DEFAULT_ITERATIONS
from multiform.scoring.judges import JudgeChoice
from multiform.tasks.config import TaskConfig
from multiform.tasks.group import Group
from multiform.tasks.manager import Design
from multiform.tasks.python_tasks import PythonTask

if TYPE_CHECKING:
    from multiform.results.exchange.hub import Hub
    from multiform.results.exchange.trackers import Tracker
    from multiform.results.judging import HumanLabel

DEFAULT_MODEL = "bundled"
#: The experiment trackers that have names, each of them a package.
TRACKERS = ("wandb", "trackio", "mlflow")
#: A task by its name, as a configuration, as an object or as a class.
TaskLike: TypeAlias = str | TaskConfig | Task | Group | PythonTask | type[PythonTask]


def option(help: str, type: ValueType = SWITCH, metavar: str = "", *, default: Any = None, **about: Any) -> Any:
    """A field of `RunOptions` with what it says of its option; a switch is off by default."""
    return _field(Option(help, type, metavar or None, **about), False if type is SWITCH else default)


def _field(described: Option, default: Any = None) -> Any:
    extra: Any = {"option": described}
    return Field(default, json_schema_extra=extra)


_TASKS: Any = {
    "option": Option(
        "tasks, groups, tags, globs or YAML files, separated by commas or spaces", WORDS, "T[@F]", short="-t"
    )
}
_model = partial(option, group="model")
_prompt = partial(option, group="prompts", setting=True, recorded=True)
#: Options that choose or multiply the forms of a run, and are no settings of each.
_forms = partial(option, group="prompts", recorded=True)
_docs = partial(option, group="documents", recorded=True)
_consent = partial(option, group="programs and judges", recorded=True)
_failure = partial(option, group="failed requests")
_worker = partial(option, group="many workers")
_store = partial(option, group="stored responses")
_output = partial(option, group="output")

#: How a run treats failed documents: it ends without results, leaves them out, or counts them as wrong.
OnError: TypeAlias = Literal["stop", "skip", "count"]
Paths: TypeAlias = str | Path | Sequence[str | Path]
Arguments: TypeAlias = str | Mapping[str, Any]


class RunOptions(BaseModel):
    """The options of a run. A value of a wrong type is a UsageError that names it, as soon as the options are made.

    >>> RunOptions(tasks="quiz", limit="10")
    Traceback (most recent call last):
    multiform.errors.UsageError: limit: expected a whole number of 1 or more, or a fraction below 1, got '10'; ...
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, protected_namespaces=())

    tasks: TaskLike | Sequence[TaskLike] = Field(json_schema_extra=_TASKS)
    model: str | Model | Any = _model(
        "see multiform ls models (default: hf if model_args name a model, else bundled)",
        ANYTHING,
        "NAME",
        short="-M",
        default=DEFAULT_MODEL,
    )
    model_args: Arguments | None = _model(
        "e.g. pretrained=path/to/model,dtype=float32; or a JSON object", SEVERAL_ARGUMENTS, short="-a"
    )
    batch_size: int | str | None = _model(
        "requests per batch; auto:N is auto (default: the model's)", values.BATCH_SIZE, short="-b"
    )
    device: str | None = _model("e.g. cpu or cuda:0", TEXT, "NAME")

    num_fewshot: int | None = _prompt(
        "number of few-shot examples (default: the task's)", COUNT, short="-f", recorded=False
    )
    apply_chat_template: bool | str = _prompt(
        "use the model's chat template, or the named one if it has several", values.CHAT_TEMPLATE, default=False
    )
    fewshot_as_multiturn: bool | None = _prompt(
        "few-shot examples as turns of a chat (default: yes with a chat template)", values.YES_OR_NO
    )
    fewshot_draws: int = _forms(
        "run every form with N draws of few-shot examples, each as its own form (default: 1)", count(1), default=1
    )
    thinking_budget: Sequence[int] | None = _forms(
        "run every form that lets the model think with each of these token budgets: 0,1024,8192", values.BUDGETS
    )
    languages: Sequence[str] | None = _forms(
        "limit groups whose subsets are languages to these, and show the spread over them: de,hi,sw", values.LANGUAGES
    )
    protocol: str | None = _forms(
        "use this protocol for all tasks, such as olmes; see multiform ls protocols", TEXT, "NAME"
    )
    choice_order: str | None = _forms(
        "order of the choices: original, shuffle:SEED, cyclic (a form for each rotation) or all (one for each "
        "permutation, at most 24)",
        values.CHOICE_ORDER,
    )
    system_instruction: str | None = _prompt("system message, or text before the prompt", TEXT, "TEXT")
    perturbation: Arguments | None = _prompt(
        "noise in the questions, e.g. type=editor,probability=0.1,seed=42; types: editor, permute, replace, "
        "delete, uppercase",
        ARGUMENTS,
    )
    keep_description: bool = _prompt(
        "keep sentences about choices in descriptions, even if the format shows no choices"
    )
    gen_kwargs: Arguments | None = _prompt(
        "generation arguments, which override the task's, e.g. max_gen_toks=64; or a JSON object",
        SEVERAL_ARGUMENTS,
        recorded=False,
    )
    stop_at_answer: bool = _prompt("end a completion as soon as its label is certain, as under @generate")
    seeds: Sequence[int | None] = _forms(
        "one seed for all, or those of python (also of the variations of FORMAT~N), numpy, torch and the few-shot "
        "sampler; None sets no seed (default: 0,1234,1234,1234)",
        values.SEEDS,
        flag="seed",
        recorded=False,
        default=values.DEFAULT_SEEDS,
    )

    include_path: Paths | None = _field(SOURCE_OPTIONS["include_path"])
    imports: Paths | None = _field(SOURCE_OPTIONS["imports"])
    dataset_mirror: Paths | None = _field(SOURCE_OPTIONS["dataset_mirror"])

    limit: float | None = _docs(
        "the first N documents, or a fraction below 1", values.LIMIT, short="-L", setting=True, recorded=False
    )
    sample: str = _docs(
        "which documents --limit takes: first, random, or stratified[:COLUMN], which gives each value of a column "
        "(by default that of the task's clusters) its share; drawn with the first --seed (default: first)",
        values.SAMPLE,
        setting=True,
        default="first",
    )
    samples: Mapping[str, Sequence[int]] | None = _docs(
        "chosen documents: '{\"task\": [0, 5]}', or a file", values.SAMPLES, short="-E", setting=True, recorded=False
    )
    decontamination_corpus: Sequence[str | Path] = _docs(
        "training texts (.txt, .jsonl): also show the scores without the documents that they contain",
        WORDS,
        "FILE",
        default=(),
    )
    budget: int | None = _docs(
        "find the best and the worst form of each task within N evaluations (a document under a form)",
        count(1, example=2000),
    )
    until_ci: float | None = _docs(
        "evaluate each form until its 95 %% interval is no wider than plus or minus WIDTH", values.HALF_WIDTH
    )

    ci_of: Literal["questions", "dataset"] = _docs(
        "the interval that --until_ci waits for: over all such questions, or of the score of the whole dataset, "
        "which takes fewer documents (default: questions)",
        one_of(("questions", "dataset")),
        default="questions",
    )

    confirm_run_unsafe_code: bool = _consent(
        "allow tasks that run code written by the model, and metrics whose code comes from the hub"
    )
    sandbox: str | None = _consent(
        "where that code runs: bwrap (bubblewrap), landlock, docker, docker:IMAGE, or none for no sandbox at all "
        "(default: $MULTIFORM_SANDBOX, or bwrap or landlock, whichever works)",
        ValueType(accepts=is_sandbox, expected=f"one of {', '.join(SANDBOXES)}, or docker:IMAGE", example="'bwrap'"),
        "NAME",
    )
    judge_model: str | None = _consent("the model that grades, if a task has a judge", TEXT, "NAME", recorded=False)
    judge_args: Arguments | None = _consent(
        "the judge's arguments, e.g. base_url=http://localhost:8000/v1,api_key_env=MY_KEY; or a JSON object",
        SEVERAL_ARGUMENTS,
        recorded=False,
    )
    judge_labels: str | Path | None = _consent(
        "human labels of some completions, which calibrate the judge's score: a .jsonl or .csv file with doc_id "
        "and label",
        values.INPUT_FILE,
    )
    metadata: Arguments | None = option(
        "metadata for every task, also passed to its custom_dataset; or a JSON object",
        SEVERAL_ARGUMENTS,
        setting=True,
        recorded=True,
    )

    on_error: OnError = _failure(
        "documents with failed requests: finish the other requests and end without results (stop, the default), "
        "leave them out (skip), or count them as wrong (count)",
        one_of(get_args(OnError), example="skip"),
        recorded=True,
        default="stop",
    )
    max_failures: float | None = _failure(
        "start no further request when more than N documents have failed, or more than a share of all below 1",
        values.MAX_FAILURES,
    )

    max_cost: float | None = _model(
        "start no further request once the server's tokens have cost this many US dollars", values.DOLLARS
    )
    prices: str | Path | None = _model(
        "TOML file with prices per million tokens, for models whose price is not known", values.INPUT_FILE
    )

    executor: str = _worker(
        "where the model runs: in this process, or on the workers of a Ray cluster (default: local)",
        one_of(EXECUTORS, example="ray"),
        default="local",
    )
    ray_address: str | None = _worker(
        "the Ray cluster (default: $RAY_ADDRESS, or one that is started on this machine)", TEXT, "HOST:PORT|auto"
    )
    workers: int | None = _worker(
        "workers, each with one copy of the model (default: as many as fit)", count(1, example=2)
    )
    resources: Arguments | None = _worker(
        "what each worker gets, e.g. gpu=1,cpu=8,memory=40GB (default: a core, and a GPU if there are any)", ARGUMENTS
    )

    use_cache: bool | str | Path | None = _store(
        "lm-eval's name for --cache_path; also a folder", values.STORE_FILE, short="-c"
    )
    fresh: bool = _store("run stored requests again, and replace their responses")
    cache_requests: bool | str = _store(
        "cache prompts on disk: use cached ones (true), render them again (refresh), or remove all (delete)",
        values.CACHE_REQUESTS,
        default=False,
    )
    plan_only: bool = _store("print the number of requests and their cost, and stop", flag="plan")

    output_path: str | Path | None = _output(
        "write results (and samples) there; or a .json file", values.OUTPUT, short="-o"
    )
    log_samples: bool = _output("write every document's prompts and responses", short="-s")
    predict_only: bool = _output("collect responses and compute no scores", short="-x", recorded=True)
    write_out: bool = _output("log the first prompt of each form", short="-w")
    bootstrap_iters: int = _output("resamples of bootstrapped standard errors", COUNT, default=DEFAULT_ITERATIONS)
    wandb_args: Arguments | None = _output(
        "track the run with Weights & Biases: arguments of its init", SEVERAL_ARGUMENTS
    )
    wandb_config_args: Arguments | None = _output("further configuration to log with it", SEVERAL_ARGUMENTS)
    trackio_args: Arguments | None = _output("track the run with Trackio: arguments of its init", SEVERAL_ARGUMENTS)
    mlflow_args: Arguments | None = _output(
        "track the run with MLflow: tracking_uri, experiment, run_name", SEVERAL_ARGUMENTS
    )
    hf_hub_log_args: Arguments | None = _output(
        "push the results to the hub: push_results_to_hub, hub_results_org and others", SEVERAL_ARGUMENTS
    )
    track: Any = option("trackers: names, or objects with start, log and finish", ANYTHING, flag="")
    progress: Progress | bool | None = option("where progress is shown", ANYTHING, flag="")

    @field_validator("*", mode="plain")
    @classmethod
    def _check_value(cls, value: Any, info: ValidationInfo) -> Any:
        name = str(info.field_name)
        OPTIONS[name].type.check(name, value)
        return value

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
        settings = {name: getattr(self, name) for name, option in OPTIONS.items() if option.setting}
        try:
            settings["gen_kwargs"] = generation_overrides(parse_arguments(self.gen_kwargs, where="--gen_kwargs"))
        except ConfigError as error:
            raise error.as_kind(UsageError, "--gen_kwargs") from error
        settings["perturbation"] = parse_arguments(self.perturbation, where="perturbation") or None
        settings["metadata"] = parse_arguments(self.metadata, where="metadata")
        settings["sample_seed"] = self.seeds[0]
        settings["fewshot_seed"] = values.DEFAULT_SEEDS[3] if self.seeds[3] is None else self.seeds[3]
        metric = "bypass" if self.predict_only else None
        return RunSettings(**settings, metric=metric, model_args=self.model_arguments)

    @cached_property
    def design(self) -> Design:
        """How the run multiplies its forms; the variations of ``format~N`` are drawn with python's seed."""
        return Design(
            seed=self.seeds[0],
            num_fewshot=self.num_fewshot,
            choice_order=self.choice_order,
            fewshot_draws=self.fewshot_draws,
            thinking_budgets=tuple(self.thinking_budget or ()),
            languages=tuple(self.languages or ()),
            protocol=self.protocol,
        )

    @property
    def stops_early(self) -> bool:
        """Whether the run may stop before all documents are evaluated."""
        return self.budget is not None or self.until_ci is not None

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
    def judge(self) -> JudgeChoice | None:
        """The judges that the user chose for tasks that have one."""
        if self.judge_model is None and self.judge_args is None:
            return None
        return JudgeChoice.of(self.judge_model, self.judge_args)

    @cached_property
    def labels(self) -> Sequence[HumanLabel] | None:
        """The labels of people by which judges are calibrated."""
        from multiform.results.judging import read_labels

        return None if self.judge_labels is None else read_labels(self.judge_labels)

    @cached_property
    def trackers(self) -> list[Tracker]:
        """The experiment trackers of the run; one whose library is missing is refused."""
        given = {name: parse_arguments(getattr(self, f"{name}_args"), where=f"{name}_args") for name in TRACKERS}
        config = parse_arguments(self.wandb_config_args, where="wandb_config_args")
        if self.track is None and not any(given.values()) and not config:
            return []
        from multiform.report import write_report
        from multiform.results.exchange.trackers import chosen_trackers

        return chosen_trackers(self.track, given, config, write_report)

    @cached_property
    def hub(self) -> Hub | None:
        """The hub that the results are pushed to; arguments that cannot be honoured, such as the token, are refused."""
        arguments = parse_arguments(self.hf_hub_log_args, where="hf_hub_log_args")
        if not arguments:
            return None
        from multiform.results.exchange.hub import Hub, HubTarget

        target = HubTarget.of(arguments)
        return None if self.plan_only else Hub(target)

    def allows_failures(self, failed: int, documents: int) -> bool:
        """Whether the run goes on although so many of its documents have failed.

        >>> [RunOptions(tasks="quiz", max_failures=n).allows_failures(2, 20) for n in (None, 0, 2, 0.1, 0.05)]
        [True, False, True, True, False]
        """
        most = self.max_failures
        return most is None or failed <= (most if most >= 1 else most * documents)

    @property
    def task_list(self) -> list[Any]:
        """The tasks as a list, also where one alone was named."""
        tasks: Any = self.tasks
        return [tasks] if isinstance(tasks, str) or not isinstance(tasks, Iterable) else list(tasks)

    @property
    def mirror(self) -> Paths | None:
        """Where datasets are looked for before the hub."""
        return self.dataset_mirror or os.environ.get("MULTIFORM_DATASET_MIRROR")

    @property
    def model_label(self) -> str:
        """What results call the model."""
        return self.model if isinstance(self.model, str) else type(self.model).__name__


def described_options(model: type[BaseModel]) -> dict[str, Option]:
    """What the fields of the model say about each option."""
    return {name: cast(Any, field.json_schema_extra)["option"] for name, field in model.model_fields.items()}


OPTIONS: Mapping[str, Option] = described_options(RunOptions)
OPTION_DEFAULTS: Mapping[str, Any] = {
    name: field.default for name, field in RunOptions.model_fields.items() if not field.is_required()
}

"""Flags that several commands share."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiform.cli import lm_eval, values
from multiform.cli.parser import Arguments, Folders, one_of
from multiform.errors import ConfigError, UsageError, shorten

if TYPE_CHECKING:
    from multiform.forms import RunSettings
    from multiform.tasks import Design


def add_sources(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say where tasks and data come from."""
    group = parser.add_argument_group("tasks and data")
    group.add_argument(
        "--include_path",
        metavar="DIR",
        action=Folders,
        help="another folder of task files, or lm_eval for those of lm-eval (may be repeated, or several with colons)",
    )
    group.add_argument(
        "--dataset_mirror",
        metavar="DIR",
        action=Folders,
        default=os.environ.get("MULTIFORM_DATASET_MIRROR"),
        help="folder in which datasets are looked up before the hub: DIR/<dataset_path>/<dataset_name or default>/"
        "<split>.jsonl or .parquet; may be repeated: a split is read from the first folder that has it (default: "
        "$MULTIFORM_DATASET_MIRROR)",
    )


def add_code(parser: argparse.ArgumentParser) -> None:
    """Add the flag that refuses code; the description says that code is run."""
    parser.description = f"{parser.description} Python code that tasks bring along (!function, class) is run."
    parser.add_argument("--no_code", action="store_true", help="refuse tasks that bring code, instead of running it")


def add_consent(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add the flags of what a task may only do with the user's consent: run programs, and ask a judge."""
    group = parser.add_argument_group("programs and judges")
    group.add_argument(
        "--confirm_run_unsafe_code",
        action="store_true",
        help="allow tasks that run code which the model writes, and metrics whose code comes from the hub",
    )
    group.add_argument(
        "--sandbox",
        metavar="NAME",
        help="where that code runs: bwrap (bubblewrap), landlock, docker, docker:IMAGE, or none for no sandbox at all "
        "(default: $MULTIFORM_SANDBOX, or bwrap or landlock, whichever works)",
    )
    group.add_argument("--judge_model", metavar="NAME", help="the model that scores where a task has a judge")
    group.add_argument(
        "--judge_args",
        metavar="K=V,...",
        action=Arguments,
        nargs="+" if several else None,
        help="its arguments, e.g. base_url=http://localhost:8000/v1,api_key_env=MY_KEY; or a JSON object",
    )


def add_prompt(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add the flags that change prompts; with `several`, flags take more than one K=V."""
    group = parser.add_argument_group("prompts")
    group.add_argument(
        "--num_fewshot",
        "-f",
        metavar="N",
        type=values.count("--num_fewshot"),
        help="number of few-shot examples (default: the task's)",
    )
    group.add_argument(
        "--apply_chat_template",
        nargs="?",
        const=True,
        default=False,
        metavar="NAME",
        type=_template,
        help="write prompts with the model's chat template, or with that of its templates that is named",
    )
    group.add_argument(
        "--fewshot_as_multiturn",
        nargs="?",
        const=True,
        default=None,
        type=values.truth("--fewshot_as_multiturn"),
        metavar="BOOL",
        help="few-shot examples as turns of a chat (default: yes with a chat template)",
    )
    group.add_argument(
        "--fewshot_draws",
        metavar="N",
        type=values.count("--fewshot_draws", 1),
        default=1,
        help="run every form with N draws of few-shot examples, as forms of their own (default: 1)",
    )
    group.add_argument(
        "--choice_order",
        metavar="ORDER",
        help="order of the choices: original, shuffle:SEED, cyclic (a form for each rotation) or all (one for each "
        "permutation, at most 24)",
    )
    group.add_argument("--system_instruction", metavar="TEXT", help="system message, or text before the prompt")
    group.add_argument(
        "--perturbation",
        metavar="K=V,...",
        help="noise in the questions, e.g. type=editor,probability=0.1,seed=42; types: editor, permute, replace, "
        "delete, uppercase",
    )
    group.add_argument(
        "--keep_description",
        action="store_true",
        help="keep sentences about choices in descriptions, under formats that show no choices",
    )
    group.add_argument(
        "--gen_kwargs",
        metavar="K=V,...",
        action=Arguments,
        nargs="+" if several else None,
        help="generation arguments, which override the task's, e.g. max_gen_toks=64; or a JSON object",
    )
    group.add_argument(
        "--seed",
        metavar="N[,N,N,N]",
        default=values.DEFAULT_SEEDS,
        type=values.seeds,
        help="one seed for all, or those of python (also of the variations of FORMAT~N), numpy, torch and the few-shot "
        "sampler; None sets no seed (default: %(default)s)",
    )


def add_model(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add the flags of the model; with `several`, flags take more than one K=V."""
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model",
        "-M",
        metavar="NAME",
        help="see multiform ls models (default: hf where model_args name a model, else bundled)",
    )
    group.add_argument(
        "--model_args",
        "-a",
        metavar="K=V,...",
        action=Arguments,
        nargs="+" if several else None,
        help="e.g. pretrained=path/to/model,dtype=float32; or a JSON object",
    )
    group.add_argument(
        "--batch_size",
        "-b",
        metavar="N|auto",
        type=values.batch_size,
        help="requests per batch; auto:N is auto (default: the model's)",
    )
    group.add_argument(
        "--max_batch_size",
        metavar="N",
        type=values.count("--max_batch_size", 1),
        help="largest batch where batch_size is auto",
    )
    group.add_argument("--device", metavar="NAME", help="e.g. cpu or cuda:0")
    group.add_argument("--trust_remote_code", action="store_true", help="allow code that comes with a model on the hub")


def add_executor(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the executor: local, or the workers of a Ray cluster."""
    group = parser.add_argument_group("many workers")
    group.add_argument(
        "--executor",
        metavar="local|ray",
        type=one_of(values.EXECUTORS, "--executor"),
        default="local",
        help="where the model runs: in this process, or on the workers of a Ray cluster (default: local)",
    )
    group.add_argument(
        "--ray_address",
        metavar="HOST:PORT|auto",
        help="the Ray cluster (default: $RAY_ADDRESS, or one that is started on this machine)",
    )
    group.add_argument(
        "--workers",
        metavar="N",
        type=values.count("--workers", 1),
        help="workers, each with one copy of the model (default: as many as fit)",
    )
    group.add_argument(
        "--resources",
        metavar="K=V,...",
        action=Arguments,
        help="what each worker gets, e.g. gpu=1,cpu=8,memory=40GB (default: a core, and a GPU where there are some)",
    )


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the response store."""
    group = parser.add_argument_group("stored responses")
    group.add_argument(
        "--cache_path",
        metavar="FILE",
        help="where the model's responses are stored (default: $MULTIFORM_STORE, or answers.db in the user's cache)",
    )
    group.add_argument("--use_cache", "-c", metavar="FILE", help="the same, by lm-eval's name; a folder will do")
    group.add_argument("--no_cache", action="store_true", help="neither use stored responses nor store any")
    group.add_argument("--fresh", action="store_true", help="run stored requests again, and replace their responses")
    group.add_argument(
        "--cache_requests",
        nargs="?",
        const="true",
        type=one_of(values.CACHE_REQUESTS, "--cache_requests"),
        metavar="true|refresh|delete",
        help="cache prompts on disk: use cached ones (true), render them again (refresh), or remove all (delete)",
    )
    group.add_argument("--plan", action="store_true", help="print the number of requests and their cost, and stop")


def use_cache(options: argparse.Namespace) -> str | bool | None:
    """The file of the response store that was named, False for none, None for the default one."""
    named: str | None = options.cache_path or options.use_cache
    if options.no_cache and options.fresh:
        message = "without a store, all responses are new"
        raise UsageError(message, where="--fresh", hint="leave out --no_cache to store them, or --fresh")
    if options.no_cache and named:
        message = f"responses are to be stored in '{named}' and not at all"
        raise UsageError(message, where="--no_cache", hint="choose one")
    if options.cache_path and Path(options.cache_path).is_dir():
        hint = f"name a file, e.g. --cache_path {Path(options.cache_path) / 'answers.db'}"
        raise UsageError(f"'{options.cache_path}' is a folder", where="--cache_path", hint=hint)
    if named and named == options.use_cache and (Path(named).is_dir() or named.endswith(os.sep)):
        return str(Path(named) / "answers.db")  # lm-eval takes the beginning of a name, which may be a folder
    return False if options.no_cache else named


def add_bootstrap(parser: argparse._ActionsContainer) -> None:
    """Add the flag of the number of resamples, to a parser or to a group of its flags."""
    parser.add_argument(
        "--bootstrap_iters",
        metavar="N",
        type=values.count("--bootstrap_iters"),
        default=100_000,
        help="resamples of bootstrapped standard errors",
    )


def add_verbosity(parser: argparse.ArgumentParser) -> None:
    """Add the flag of the log level."""
    levels = ["CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG"]
    parser.add_argument(
        "--verbosity",
        "-v",
        metavar="LEVEL",
        type=one_of(levels, "--verbosity"),
        default=_level(levels),
        help=f"what is logged: {', '.join(levels)} (default: $LMEVAL_LOG_LEVEL, $LOGLEVEL or INFO)",
    )


def _level(levels: Sequence[str]) -> str:
    """The log level that the environment sets."""
    wanted = (os.environ.get(name, "").upper() for name in ("LMEVAL_LOG_LEVEL", "LOGLEVEL"))
    return next((level for level in wanted if level in levels), "INFO")


def _template(text: str) -> bool | str:
    """A chat template's name, or whether to use one at all."""
    return {"true": True, "false": False}.get(text.lower(), text)


def prompt_settings(options: argparse.Namespace) -> RunSettings:
    """The run settings from the prompt flags."""
    from multiform.forms import RunSettings

    return RunSettings(
        num_fewshot=options.num_fewshot,
        apply_chat_template=options.apply_chat_template,
        fewshot_as_multiturn=options.fewshot_as_multiturn,
        system_instruction=options.system_instruction,
        gen_kwargs=gen_kwargs(options),
        perturbation=perturbation(options),
        keep_description=options.keep_description,
        **({} if options.seed[3] is None else {"fewshot_seed": options.seed[3]}),
    )


def design(options: argparse.Namespace) -> Design:
    """How the flags multiply the forms."""
    from multiform.tasks import Design

    try:
        return Design(
            seed=options.seed[0],
            num_fewshot=options.num_fewshot,
            choice_order=options.choice_order,
            fewshot_draws=options.fewshot_draws,
        )
    except UsageError as error:
        raise error.moved(f"--{error.where}") from error


def gen_kwargs(options: argparse.Namespace) -> dict[str, Any]:
    """The generation arguments, checked even where no task of the run generates."""
    from multiform.run.checks import generation_arguments

    return generation_arguments(options.gen_kwargs)


def perturbation(options: argparse.Namespace) -> dict[str, Any] | None:
    """The settings of ``--perturbation``, checked before any task is read."""
    from multiform.arguments import parse_arguments
    from multiform.formats.perturbation import Perturbation

    if options.perturbation is None:
        return None
    settings = parse_arguments(options.perturbation, where="--perturbation")
    try:
        Perturbation.of(settings)
    except ConfigError as error:
        message = f"{error.where}: {error.what}" if error.where else error.what
        raise UsageError(
            message, where="--perturbation", hint="write e.g. type=editor,probability=0.1,seed=42"
        ) from error
    return settings


def model_name(options: argparse.Namespace) -> str:
    """The name of the model: the flag's, else `hf` with a `pretrained` argument, else `bundled`; checked."""
    if options.model is not None and not options.model.strip():
        message = "the name of the model is empty"
        raise UsageError(message, where="--model", hint="see multiform ls models, or leave the flag out")
    name = options.model or ("hf" if "pretrained" in model_arguments(options) else "bundled")
    lm_eval.check_model(name)
    return str(name)


def check_files(names: Sequence[str], flag: str) -> None:
    """Raise a UsageError for files that do not exist, even where no task of the run reads them."""
    for name in names:
        if not Path(name).exists():
            raise UsageError(f"no file {shorten(name)}", where=flag, hint="check the path")


def model_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of the model, with those that have flags of their own."""
    more = {
        "batch_size": options.batch_size,
        "max_batch_size": options.max_batch_size,
        "device": options.device,
        "trust_remote_code": options.trust_remote_code or None,
    }
    return dict(options.model_args or {}) | {key: value for key, value in more.items() if value is not None}

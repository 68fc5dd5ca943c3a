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


def add_sources(parser: argparse.ArgumentParser) -> None:
    """Where tasks and data come from."""
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
        default=os.environ.get("MULTIFORM_DATASET_MIRROR"),
        help="folder that is asked for datasets before the hub: DIR/<dataset_path>/<dataset_name or default>/"
        "<split>.jsonl or .parquet (default: $MULTIFORM_DATASET_MIRROR)",
    )


def add_prompt(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """What decides a prompt, beside the task and its format; with `several`, flags take more than one K=V."""
    group = parser.add_argument_group("prompts")
    group.add_argument(
        "--num_fewshot",
        "-f",
        metavar="N",
        type=values.count("--num_fewshot"),
        help="solved examples before a question (default: the task's)",
    )
    group.add_argument(
        "--apply_chat_template",
        nargs="?",
        const=True,
        default=False,
        metavar="NAME",
        type=_template,
        help="write prompts as chats, in the model's own layout, or in that of its layouts that is named",
    )
    group.add_argument(
        "--fewshot_as_multiturn",
        nargs="?",
        const=True,
        default=None,
        type=values.truth("--fewshot_as_multiturn"),
        metavar="BOOL",
        help="examples as turns of their own in a chat (default: yes with a chat template)",
    )
    group.add_argument("--system_instruction", metavar="TEXT", help="text before everything else")
    group.add_argument(
        "--perturbation",
        metavar="K=V,...",
        help="noise in the questions, e.g. type=editor,probability=0.1,seed=42; types: editor, permute, replace, "
        "delete, uppercase",
    )
    group.add_argument(
        "--keep_description",
        action="store_true",
        help="leave in what descriptions say of multiple choice, under formats that show no choices",
    )
    group.add_argument(
        "--gen_kwargs",
        metavar="K=V,...",
        action=Arguments,
        nargs="+" if several else None,
        help="arguments of generation, over those of the task, e.g. max_gen_toks=64; or a JSON object",
    )
    group.add_argument(
        "--seed",
        metavar="N[,N,N,N]",
        default=values.DEFAULT_SEEDS,
        type=values.seeds,
        help="one seed for all, or those of python, numpy, torch and the few-shot sampler; None leaves one alone "
        "(default: %(default)s)",
    )


def add_model(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Which model, and how it runs; with `several`, flags take more than one K=V."""
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
        help="requests at a time; auto:N is auto (default: the model's)",
    )
    group.add_argument(
        "--max_batch_size",
        metavar="N",
        type=values.count("--max_batch_size", 1),
        help="the most requests at a time where batch_size is auto",
    )
    group.add_argument("--device", metavar="NAME", help="e.g. cpu or cuda:0")
    group.add_argument(
        "--trust_remote_code", action="store_true", help="agree to run code that comes with a model on the hub"
    )


def add_store(parser: argparse.ArgumentParser) -> None:
    """Where answers are kept, and what is left to ask."""
    group = parser.add_argument_group("answers")
    group.add_argument(
        "--cache_path",
        metavar="FILE",
        help="where the model's answers are stored (default: $MULTIFORM_STORE, or answers.db in the user's cache)",
    )
    group.add_argument("--use_cache", "-c", metavar="FILE", help="the same, by lm-eval's name; a folder will do")
    group.add_argument("--no_cache", action="store_true", help="neither use stored answers nor store any")
    group.add_argument(
        "--cache_requests",
        nargs="?",
        const="true",
        type=one_of(values.CACHE_REQUESTS, "--cache_requests"),
        metavar="true|refresh|delete",
        help="keep prompts on disk: use what is there (true), make them anew (refresh), or remove all (delete)",
    )
    group.add_argument("--plan", action="store_true", help="say what would be asked and what that costs, and stop")


def use_cache(options: argparse.Namespace) -> str | bool | None:
    """The file for answers that was named, False for none, None for the usual one."""
    named: str | None = options.cache_path or options.use_cache
    if options.no_cache and named:
        raise UsageError(f"answers are to be stored in '{named}' and not at all", where="--no_cache", hint="choose one")
    if options.cache_path and Path(options.cache_path).is_dir():
        hint = f"name a file, e.g. --cache_path {Path(options.cache_path) / 'answers.db'}"
        raise UsageError(f"'{options.cache_path}' is a folder", where="--cache_path", hint=hint)
    if named and named == options.use_cache and (Path(named).is_dir() or named.endswith(os.sep)):
        return str(Path(named) / "answers.db")  # lm-eval takes the beginning of a name, which may be a folder
    return False if options.no_cache else named


def add_verbosity(parser: argparse.ArgumentParser) -> None:
    """How much is logged."""
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
    """The level that the environment asks for."""
    wanted = (os.environ.get(name, "").upper() for name in ("LMEVAL_LOG_LEVEL", "LOGLEVEL"))
    return next((level for level in wanted if level in levels), "INFO")


def _template(text: str) -> bool | str:
    """A chat template's name, or whether to use one at all."""
    return {"true": True, "false": False}.get(text.lower(), text)


def prompt_settings(options: argparse.Namespace) -> RunSettings:
    """The settings of the prompt flags."""
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


def gen_kwargs(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of generation, checked even where no task of the run generates."""
    from multiform.engine.checks import generation_arguments

    return generation_arguments(options.gen_kwargs)


def perturbation(options: argparse.Namespace) -> dict[str, Any] | None:
    """The noise that ``--perturbation`` asks for, checked before any task is read."""
    from multiform.arguments import parse_arguments
    from multiform.formats.perturbation import Perturbation

    if options.perturbation is None:
        return None
    settings = parse_arguments(options.perturbation, where="--perturbation")
    try:
        Perturbation.of(settings)
    except ConfigError as error:
        what = f"{error.where}: {error.what}" if error.where else error.what
        raise UsageError(what, where="--perturbation", hint="write e.g. type=editor,probability=0.1,seed=42") from error
    return settings


def model_name(options: argparse.Namespace) -> str:
    """The model that was named, or the one that is meant; refused before anything is read if there is none such."""
    if options.model is not None and not options.model.strip():
        what = "the name of the model is empty"
        raise UsageError(what, where="--model", hint="see multiform ls models, or leave the flag out")
    name = options.model or ("hf" if "pretrained" in model_arguments(options) else "bundled")
    lm_eval.check_model(name)
    return str(name)


def check_files(names: Sequence[str], flag: str) -> None:
    """Refuse files that there are not, even where no task of the run reads them."""
    for name in names:
        if not Path(name).exists():
            raise UsageError(f"no file {shorten(name)}", where=flag, hint="check the path")


def model_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """The model's arguments, with the batch size and the device."""
    more = {
        "batch_size": options.batch_size,
        "max_batch_size": options.max_batch_size,
        "device": options.device,
        "trust_remote_code": options.trust_remote_code or None,
    }
    return dict(options.model_args or {}) | {key: value for key, value in more.items() if value is not None}

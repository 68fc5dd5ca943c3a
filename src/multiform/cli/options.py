"""Flags that several commands share."""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiform.cli.parser import one_of
from multiform.errors import ConfigError, UsageError, nearest, shorten

if TYPE_CHECKING:
    from multiform.engine.setup import PromptSettings


def add_sources(parser: argparse.ArgumentParser) -> None:
    """Where tasks and data come from."""
    group = parser.add_argument_group("tasks and data")
    group.add_argument(
        "--include_path", metavar="DIR", action="append", help="another folder of task files (may be repeated)"
    )
    group.add_argument(
        "--dataset_mirror",
        metavar="DIR",
        default=os.environ.get("MULTIFORM_DATASET_MIRROR"),
        help="folder that is asked for datasets before the hub: DIR/<dataset_path>/<dataset_name or default>/"
        "<split>.jsonl or .parquet (default: $MULTIFORM_DATASET_MIRROR)",
    )


def add_prompt(parser: argparse.ArgumentParser) -> None:
    """What decides a prompt, beside the task and its format."""
    group = parser.add_argument_group("prompts")
    group.add_argument(
        "--num_fewshot",
        "-f",
        metavar="N",
        type=count("--num_fewshot"),
        help="solved examples before a question (default: the task's)",
    )
    group.add_argument(
        "--apply_chat_template",
        nargs="?",
        const=True,
        default=False,
        metavar="NAME",
        help="write prompts as chats, in the model's own layout",
    )
    group.add_argument(
        "--fewshot_as_multiturn",
        nargs="?",
        const=True,
        default=None,
        type=_flag,
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
        "--gen_kwargs", metavar="K=V,...", help="arguments of generation, over those of the task, e.g. max_gen_toks=64"
    )
    group.add_argument(
        "--seed",
        metavar="N[,N,N,N]",
        default="0,1234,1234,1234",
        type=_seeds,
        help="one seed for all, or those of python, numpy, torch and the few-shot sampler (default: 0,1234,1234,1234)",
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    """Which model, and how it runs."""
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model", "-M", metavar="NAME", default="bundled", help="see multiform ls models (default: bundled)"
    )
    group.add_argument("--model_args", "-a", metavar="K=V,...", help="e.g. pretrained=path/to/model,dtype=float32")
    group.add_argument("--batch_size", "-b", metavar="N|auto", help="requests at a time (default: the model's)")
    group.add_argument("--device", metavar="NAME", help="e.g. cpu or cuda:0")


def add_store(parser: argparse.ArgumentParser) -> None:
    """Where answers are kept, and what is left to ask."""
    group = parser.add_argument_group("answers")
    group.add_argument(
        "--cache_path",
        metavar="FILE",
        help="where the model's answers are stored (default: $MULTIFORM_STORE, or answers.db in the user's cache)",
    )
    group.add_argument("--use_cache", metavar="FILE", help="the same, by lm-eval's name")
    group.add_argument("--no_cache", action="store_true", help="neither use stored answers nor store any")
    group.add_argument("--plan", action="store_true", help="say what would be asked and what that costs, and stop")


def use_cache(options: argparse.Namespace) -> str | bool | None:
    """The file for answers that was named, False for none, None for the usual one."""
    named: str | None = options.cache_path or options.use_cache
    if options.no_cache and named:
        raise UsageError(f"answers are to be stored in '{named}' and not at all", where="--no_cache", hint="choose one")
    return False if options.no_cache else named


def add_verbosity(parser: argparse.ArgumentParser) -> None:
    """How much is logged."""
    levels = ["CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG"]
    parser.add_argument(
        "--verbosity",
        "-v",
        metavar="LEVEL",
        type=one_of(levels, "--verbosity"),
        default="INFO",
        help=f"what is logged: {', '.join(levels)} (default: %(default)s)",
    )


def prompt_settings(options: argparse.Namespace) -> PromptSettings:
    """The settings of the prompt flags."""
    from multiform.engine.setup import PromptSettings

    return PromptSettings(
        num_fewshot=options.num_fewshot,
        apply_chat_template=options.apply_chat_template,
        fewshot_as_multiturn=options.fewshot_as_multiturn,
        system_instruction=options.system_instruction,
        gen_kwargs=generation_arguments(options),
        perturbation=perturbation(options),
        fewshot_seed=options.seed[3],
    )


def generation_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of generation, checked even where no task of the run generates."""
    from multiform.arguments import parse_arguments
    from multiform.config.generation import check_generation

    given = parse_arguments(options.gen_kwargs, where="--gen_kwargs")
    try:
        check_generation(given)
    except ConfigError as error:
        raise UsageError(error.what, where="--gen_kwargs", hint=error.hint) from error
    return given


def perturbation(options: argparse.Namespace) -> dict[str, Any] | None:
    """The noise that ``--perturbation`` asks for, checked before any task is read."""
    from multiform.arguments import parse_arguments
    from multiform.formats.perturbation import Perturbation

    if options.perturbation is None:
        return None
    given = parse_arguments(options.perturbation, where="--perturbation")
    try:
        Perturbation.of(given)
    except ConfigError as error:
        what = f"{error.where}: {error.what}" if error.where else error.what
        raise UsageError(what, where="--perturbation", hint="write e.g. type=editor,probability=0.1,seed=42") from error
    return given


def check_model(options: argparse.Namespace) -> None:
    """Refuse a model that there is not, before anything is read."""
    from multiform.models import models

    if options.model not in models:
        hint = nearest(str(options.model), models, listed="models")
        raise UsageError(f"no model '{options.model}'", where="--model", hint=hint)


def check_files(names: Sequence[str], flag: str) -> None:
    """Refuse files that there are not, even where no task of the run reads them."""
    for name in names:
        if not Path(name).exists():
            raise UsageError(f"no file {shorten(name)}", where=flag, hint="check the path")


def model_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """The model's arguments, with the batch size and the device."""
    from multiform.arguments import parse_arguments

    more = {"batch_size": options.batch_size, "device": options.device}
    given = parse_arguments(options.model_args, where="--model_args")
    return given | {key: value for key, value in more.items() if value is not None}


def parse_samples(given: str | Mapping[str, Any] | None) -> dict[str, list[int]] | None:
    """``--samples``: a JSON object, or the path of one, of task names and document indexes."""
    if given is None:
        return None
    hint = "write e.g. --samples '{\"quiz\": [0, 5]}'"
    made = _read_samples(given, hint) if isinstance(given, str) else given
    if not isinstance(made, Mapping) or not made:
        what = f"expected an object of task names and lists of indexes, got {shorten(made)}"
        raise UsageError(what, where="--samples", hint=hint)
    for task, indexes in made.items():
        if not _are_indexes(indexes):
            what = f"expected a list of indexes for '{task}', got {shorten(indexes)}"
            raise UsageError(what, where="--samples", hint=hint)
    return {str(task): list(indexes) for task, indexes in made.items()}


def _read_samples(text: str, hint: str) -> Any:
    inline = text.lstrip().startswith(("{", "["))
    source = "" if inline else f"{text}: "
    try:
        return json.loads(text if inline else Path(text).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read '{text}': {error.strerror}", where="--samples", hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{source}not valid JSON: {error}", where="--samples", hint=hint) from error


def _are_indexes(value: Any) -> bool:
    """Whether it is a list of whole numbers, not empty."""
    return isinstance(value, list) and bool(value) and all(type(index) is int for index in value)


def limit(text: str) -> float:
    """``--limit``: a whole number of documents, or a fraction below 1."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (0 < number < 1 or (number >= 1 and number.is_integer())):
        what = f"expected a whole number of 1 or more, or a fraction below 1, got '{text}'"
        raise UsageError(what, where="--limit", hint="give e.g. --limit 100 or --limit 0.1")
    return number


def count(flag: str) -> Callable[[str], int]:
    """The type of a flag that takes a whole number of 0 or more."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = -1
        if number < 0:
            what = f"expected a whole number of 0 or more, got {shorten(text)}"
            raise UsageError(what, where=flag, hint=f"give e.g. {flag} 5")
        return number

    return parse


def _flag(text: str) -> bool:
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in words:
        what = f"expected true or false, got '{text}'"
        raise UsageError(what, where="--fewshot_as_multiturn", hint="leave the value out for true")
    return words[text.lower()]


def _seeds(text: str) -> Sequence[int | None]:
    parts = [part.strip() for part in text.split(",")]
    try:
        numbers = [None if part.lower() == "none" else int(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 4):
        what = f"expected one or four whole numbers, got {shorten(text)}"
        raise UsageError(what, where="--seed", hint="give e.g. --seed 1234 or --seed 0,1234,1234,1234")
    return numbers * 4 if len(numbers) == 1 else numbers

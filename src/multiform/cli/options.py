"""Flags that several commands share."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiform.evaluate import PromptSettings


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
        type=_count,
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


def add_verbosity(parser: argparse.ArgumentParser) -> None:
    """How much is logged."""
    levels = ["CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG"]
    parser.add_argument("--verbosity", "-v", type=str.upper, choices=levels, default="INFO", help="what is logged")


def prompt_settings(options: argparse.Namespace) -> PromptSettings:
    """The settings of the prompt flags."""
    from multiform.arguments import parse_arguments
    from multiform.evaluate import PromptSettings

    return PromptSettings(
        num_fewshot=options.num_fewshot,
        apply_chat_template=options.apply_chat_template,
        fewshot_as_multiturn=options.fewshot_as_multiturn,
        system_instruction=options.system_instruction,
        gen_kwargs=parse_arguments(options.gen_kwargs, where="--gen_kwargs"),
        fewshot_seed=options.seed[3],
    )


def model_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """The model's arguments, with the batch size and the device."""
    from multiform.arguments import parse_arguments

    more = {"batch_size": options.batch_size, "device": options.device}
    given = parse_arguments(options.model_args, where="--model_args")
    return given | {key: value for key, value in more.items() if value is not None}


def parse_samples(text: str | None) -> dict[str, list[int]] | None:
    """``--samples``: a JSON object, or the path of one, of task names and document indexes."""
    from multiform.errors import UsageError

    if text is None:
        return None
    hint = "write e.g. --samples '{\"quiz\": [0, 5]}'"
    try:
        content = Path(text).read_text(encoding="utf-8") if not text.lstrip().startswith("{") else text
        made = json.loads(content)
    except OSError as error:
        raise UsageError(f"cannot read '{text}': {error.strerror}", where="--samples", hint=hint) from error
    except ValueError as error:
        raise UsageError(f"not valid JSON: {error}", where="--samples", hint=hint) from error
    right = isinstance(made, dict) and all(_are_indexes(value) for value in made.values())
    if not right:
        raise UsageError("expected an object of task names and lists of indexes", where="--samples", hint=hint)
    return dict(made)


def _are_indexes(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(i, int) and not isinstance(i, bool) for i in value)


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"expected a whole number of 0 or more, got '{text}'")
    return int(text)


def _flag(text: str) -> bool:
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in words:
        raise argparse.ArgumentTypeError(f"expected true or false, got '{text}'")
    return words[text.lower()]


def _seeds(text: str) -> Sequence[int | None]:
    parts = [None if part.strip().lower() == "none" else part.strip() for part in text.split(",")]
    if len(parts) not in (1, 4) or not all(part is None or part.lstrip("-").isdigit() for part in parts):
        raise argparse.ArgumentTypeError(f"expected one or four whole numbers, got '{text}'")
    numbers = [None if part is None else int(part) for part in parts]
    return numbers * 4 if len(numbers) == 1 else numbers

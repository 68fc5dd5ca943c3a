"""Flags of commands, from the fields of `RunOptions`; the options of a run from flags and `--config` files."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiform.arguments import parse_arguments
from multiform.cli.parser import AddFlags, Arguments, Folders, Gather, flag
from multiform.errors import ConfigError, UsageError, nearest, shorten
from multiform.run.values import SOURCE_OPTIONS, SOURCES, Option, count, one_of, read_samples

if TYPE_CHECKING:
    from multiform.run.options import RunOptions

_SERVED = "start its server and use --model local-completions --model_args base_url=http://localhost:8000/v1,model=NAME"
_CHAT = "use --model openai-chat --model_args base_url=URL,model=NAME, with the provider's OpenAI-compatible URL"
_LOCAL = "use --model hf --model_args pretrained=NAME"
#: lm-eval's models that Multiform does not have, and what to use instead.
INSTEAD = {
    **dict.fromkeys(("sglang", "sglang-generate", "trtllm", "gguf", "ggml"), _SERVED),
    "vllm-vlm": f"use --model hf-multimodal --model_args pretrained=NAME, or {_SERVED}",
    "anthropic-completions": "use --model anthropic --model_args model=NAME: Anthropic's older interface is closed",
    **dict.fromkeys(("textsynth", "watsonx_llm"), _CHAT),
    **dict.fromkeys(("hf-audiolm-qwen", "hf-mistral3"), "use --model hf-multimodal --model_args pretrained=NAME"),
    **dict.fromkeys(("mamba_ssm", "steered", "megatron_lm", "nemo_lm"), f"{_LOCAL}, where transformers loads it"),
    **dict.fromkeys(("ipex", "neuronx", "openvino", "habana", "onnxruntime", "onnxruntime-genai", "winml"), _LOCAL),
}
_LEVELS = ("CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG")


CACHE_PATH = flag(
    "--cache_path",
    "where the model's responses are stored (default: $MULTIFORM_STORE, or answers.db in the user's cache)",
    metavar="FILE",
)
#: Flags that are no options of a run, by the group that they follow.
_MORE: dict[str | None, tuple[AddFlags, ...]] = {
    "stored responses": (CACHE_PATH, flag("--no_cache", "neither use stored responses nor store any")),
    "model": (
        lambda group: group.set_defaults(model=None),
        flag("--max_batch_size", "largest batch if batch_size is auto", count(1)),
        flag("--trust_remote_code", "allow code that comes with a model on the hub"),
    ),
}


def option_groups(*groups: str | None, several: bool = False, output: Sequence[AddFlags] = ()) -> AddFlags:
    """The flags of the options in these groups, None for those without a group.

    With `several`, flags take more than one K=V; `output` is added to the group of that name.
    """

    def add(parser: argparse.ArgumentParser) -> None:
        for group in groups:
            container: Any = parser if group is None else parser.add_argument_group(group)
            for name, described in _options(group).items():
                if described.group == group and described.flag != "":
                    option(name, several=several)(container)
            for add_more in (*_MORE.get(group, ()), *(output if group == "output" else ())):
                add_more(container)

    return add


def _options(group: str | None = None) -> Mapping[str, Option]:
    """The options of a run; those of sources without importing what a run needs."""
    if group == SOURCES:
        return SOURCE_OPTIONS
    from multiform.run.options import OPTIONS

    return OPTIONS


def option(name: str, *, several: bool = False, **changes: Any) -> AddFlags:
    """The flag of an option; `changes` are arguments of argparse."""

    def add(container: Any) -> None:
        default = None
        if name in SOURCE_OPTIONS:
            described = SOURCE_OPTIONS[name]
        else:
            from multiform.run.options import OPTION_DEFAULTS, OPTIONS

            described, default = OPTIONS[name], OPTION_DEFAULTS.get(name)
        kind, flag_name = described.type, f"--{described.flag or name}"
        default = os.environ.get(described.env) if described.env else default
        settings: dict[str, Any] = {"dest": name, "help": described.help, "default": default}
        if kind.arity == "switch":
            settings["action"] = "store_true"
        else:
            settings["metavar"] = described.metavar or kind.metavar
        match kind.arity:
            case "value":
                settings["type"] = kind.reader(flag_name)
            case "optional":
                settings |= {"type": kind.reader(flag_name), "nargs": "?", "const": kind.const}
            case "words":
                settings |= {"action": Gather, "nargs": "+"}
            case "folders":
                settings["action"] = Folders
            case "arguments":
                settings |= {"action": Arguments, "nargs": "+" if several and described.several else None}
        container.add_argument(flag_name, *([described.short] if described.short else []), **settings | changes)

    return add


def no_code(parser: argparse.ArgumentParser) -> None:
    """Add the flag that refuses code; the description says that code is run."""
    parser.description = f"{parser.description} Python code that tasks bring along (!function, class) is run."
    flag("--no_code", "refuse tasks that bring code, instead of running it")(parser)


def verbosity(parser: argparse.ArgumentParser) -> None:
    """Add the flag of the log level."""
    variables = (os.environ.get(name, "").upper() for name in ("LMEVAL_LOG_LEVEL", "LOGLEVEL"))
    flag(
        "--verbosity -v",
        f"what is logged: {', '.join(_LEVELS)} (default: $LMEVAL_LOG_LEVEL, $LOGLEVEL or INFO)",
        one_of(_LEVELS),
        metavar="LEVEL",
        default=next((level for level in variables if level in _LEVELS), "INFO"),
    )(parser)


def run_options(flags: argparse.Namespace, **options: Any) -> RunOptions:
    """The options of a run: those that are given, the flags of the command, and defaults for all others."""
    from multiform.run.options import OPTIONS, RunOptions

    values = {name: getattr(flags, name) for name in OPTIONS if hasattr(flags, name)}
    if "model" in values:
        values |= {"model": model_name(flags), "model_args": _model_arguments(flags)}
    if "no_cache" in flags:
        values["use_cache"] = _store_file(flags)
    try:
        run = RunOptions(**values | options)
        run.design  # noqa: B018  (refuses what is wrong about it)
        run.settings  # noqa: B018
        _check_perturbation(run)
    except UsageError as error:
        option = OPTIONS.get(error.where or "")
        raise error if option is None else error.relocate(f"--{option.flag or error.where}") from error
    return run


def _store_file(flags: argparse.Namespace) -> str | bool | None:
    """The file of the response store that was named, False for none, None for the default one."""
    named: str | None = flags.cache_path or flags.use_cache
    if flags.no_cache and flags.fresh:
        message = "without a store, all responses are new"
        raise UsageError(message, where="--fresh", hint="leave out --no_cache to store them, or --fresh")
    if flags.no_cache and named:
        message = f"responses are to be stored in '{named}' and not at all"
        raise UsageError(message, where="--no_cache", hint="choose one")
    if flags.cache_path and Path(flags.cache_path).is_dir():
        hint = f"name a file, e.g. --cache_path {Path(flags.cache_path) / 'answers.db'}"
        raise UsageError(f"'{flags.cache_path}' is a folder", where="--cache_path", hint=hint)
    if named and named == flags.use_cache and (Path(named).is_dir() or named.endswith(os.sep)):
        return str(Path(named) / "answers.db")  # lm-eval takes the beginning of a name, which may be a folder
    return False if flags.no_cache else named


def _check_perturbation(options: RunOptions) -> None:
    """Refuse a wrong ``--perturbation`` before any task is read."""
    from multiform.formats.perturbation import Perturbation

    settings = options.settings.perturbation
    if settings is None:
        return
    try:
        Perturbation.of(settings)
    except ConfigError as error:
        message = f"{error.where}: {error.what}" if error.where else error.what
        hint = "write e.g. type=editor,probability=0.1,seed=42"
        raise UsageError(message, where="--perturbation", hint=hint) from error


def model_name(flags: argparse.Namespace) -> str:
    """The name of the model: the flag's, else `hf` with a `pretrained` argument, else `bundled`; checked."""
    if flags.model is not None and not flags.model.strip():
        message = "the name of the model is empty"
        raise UsageError(message, where="--model", hint="see multiform ls models, or leave the flag out")
    name = flags.model or ("hf" if "pretrained" in _model_arguments(flags) else "bundled")
    from multiform.models import models

    if name not in models and name in INSTEAD:
        raise UsageError(f"the model '{name}' of lm-eval is not here", where="--model", hint=INSTEAD[name])
    if name not in models:
        raise UsageError(f"no model '{name}'", where="--model", hint=nearest(str(name), models, listed="models"))
    return str(name)


def _model_arguments(flags: argparse.Namespace) -> dict[str, Any]:
    """The arguments of the model, with those that have flags of their own."""
    more = {
        "batch_size": flags.batch_size,
        "max_batch_size": flags.max_batch_size,
        "device": flags.device,
        "trust_remote_code": flags.trust_remote_code or None,
    }
    return dict(flags.model_args or {}) | {key: value for key, value in more.items() if value is not None}


def check_files(names: Sequence[str], flag: str) -> None:
    """Raise a UsageError for files that do not exist, even where no task of the run reads them."""
    for name in names:
        if not Path(name).exists():
            raise UsageError(f"no file {shorten(name)}", where=flag, hint="check the path")


def with_config(options: argparse.Namespace) -> argparse.Namespace:
    """The options, with values of the `--config` file where the command line does not set them."""
    if not options.config:
        return options
    from multiform.tasks.parse import parse_yaml
    from multiform.tasks.yaml import read_text

    path = Path(options.config)
    parsed = parse_yaml(read_text(path), path)
    if parsed.notes:
        raise parsed.notes[0]
    data, positions = parsed.data, parsed.positions
    if not isinstance(data, dict):
        raise ConfigError("expected a mapping of flags", where=f"{path}:1", hint="write e.g. 'tasks: quiz@all'")
    actions = _actions(options.parser)
    values = {}
    for key, value in data.items():
        place = str(positions.get((str(key),), f"{path}:1"))
        if key not in actions:
            hint = nearest(str(key), actions, listed="flags")
            raise ConfigError(f"unknown flag '{key}'", where=place, hint=hint)
        if value is not None:
            values[actions[key].dest] = _convert_value(actions[key], value, f"{place}: {key}")
    # The values of the file become defaults, which the command line overrides.
    options.parser.set_defaults(**values)
    merged_options: argparse.Namespace = options.parser.parse_args(options.arguments)
    import_named(merged_options)
    return merged_options


def import_named(options: argparse.Namespace) -> None:
    """Import what `--import` names, before names are looked up."""
    if getattr(options, "imports", None):
        from multiform.tasks.functions import import_plugins

        import_plugins(options.imports)


def _actions(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """The flags by their long names, without the dashes."""
    return {
        name.removeprefix("--"): action
        for action in parser._actions
        for name in action.option_strings
        if name.startswith("--") and action.dest not in ("config", "help")
    }


def _convert_value(action: argparse.Action, value: Any, where: str) -> Any:
    """The value of a `--config` file as the command line would convert it."""
    try:
        if isinstance(action, Arguments):
            return parse_arguments(_expect(value, (str, dict), "a mapping", where), where=where)
        if action.dest == "samples":
            return read_samples(_expect(value, (str, dict), "a mapping", where))
        if action.nargs == 0:
            return _expect(value, (bool,), "true or false", where)
        if isinstance(action, Gather) or action.nargs == "+":
            words = [_text(item, where) for item in (value if isinstance(value, list) else [value])]
            return action.gather(None, words) if isinstance(action, Gather) else words
        if action.dest == "seeds" and isinstance(value, list):
            value = ",".join(map(str, value))
        if action.dest == "cache_requests":
            value = _caching(value)
        if action.const is True and isinstance(value, bool):  # a flag that may also stand alone
            return value
        text = _text(value, where)
        return action.type(text) if callable(action.type) and text else text or None
    except UsageError as error:
        raise error.as_kind(ConfigError, where) from error
    except ValueError as error:
        raise ConfigError(f"{error}", where=where, hint="see multiform run --help") from error


def _caching(value: Any) -> Any:
    """The value of `cache_requests` as a word, also from a boolean or from lm-eval's three booleans."""
    if isinstance(value, dict):
        names = {"delete": "delete_requests_cache", "refresh": "rewrite_requests_cache", "true": "cache_requests"}
        return next((word for word, name in names.items() if value.get(name)), "")
    return {True: "true", False: ""}.get(value, value) if isinstance(value, bool) else value


def _text(value: Any, where: str) -> str:
    return str(_expect(value, (str, int, float), "text or a number", where))


def _expect(value: Any, types: tuple[type, ...], expected: str, where: str) -> Any:
    """The value, if it has one of the types; true and false are no numbers."""
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        message = f"expected {expected}, got {shorten(value)}"
        raise ConfigError(message, where=where, hint="see multiform run --help")
    return value

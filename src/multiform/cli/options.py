"""Flags of commands, from the fields of `RunOptions`; the options of a run from flags and `--config` files."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiform.cli.parser import AddFlags, Arguments, Gather, flag, mark_rare
from multiform.errors import ConfigError, UsageError, excerpt, nearest
from multiform.run.values import SOURCE_OPTIONS, SOURCES, Option, count, one_of

if TYPE_CHECKING:
    from multiform.run.options import RunOptions

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
                mark_rare(add_more(container))

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
        default = os.environ.get(described.env) if described.env else default
        settings: dict[str, Any] = {"dest": name, "help": described.help, "default": default}
        if described.metavar:
            settings["metavar"] = described.metavar
        if several and described.type.arity == "several arguments":
            settings["nargs"] = "+"
        names = f"--{described.flag or name} {described.short or ''}"
        mark_rare(flag(names, type=described.type, **settings | changes)(container))

    return add


def no_code(parser: argparse.ArgumentParser) -> None:
    """Add the flag that refuses code; the description says that code is run."""
    parser.description = f"{parser.description} Python code of tasks (!function, class) is run."
    flag("--no_code", "refuse tasks with Python code instead of running it")(parser)


def verbosity(parser: argparse.ArgumentParser) -> None:
    """Add the flag of the log level."""
    variables = (os.environ.get(name, "").upper() for name in ("LMEVAL_LOG_LEVEL", "LOGLEVEL"))
    add = flag(
        "--verbosity -v",
        f"what is logged: {', '.join(_LEVELS)} (default: $LMEVAL_LOG_LEVEL, $LOGLEVEL or INFO)",
        one_of(_LEVELS),
        metavar="LEVEL",
        default=next((level for level in variables if level in _LEVELS), "INFO"),
    )
    mark_rare(add(parser))


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
    from multiform.models.registry import INSTEAD, models

    if name not in models and name in INSTEAD:
        raise UsageError(f"the model '{name}' of lm-eval is not here", where="--model", hint=INSTEAD[name])
    if name not in models:
        raise UsageError(f"no model '{name}'", where="--model", hint=_model_hint(str(name)))
    return str(name)


def _model_hint(name: str) -> str:
    """How to run what somebody named as a model: a provider's model, a folder, a name on the hub, or a slip."""
    from multiform.models import models
    from multiform.models.registry import provider_of

    as_hf = f"--model hf --model_args pretrained={name}"
    if provider := provider_of(name):
        return f"write --model {provider} --model_args model={name}"
    if "/" in name or Path(name).exists():
        return f"write {as_hf}"
    near = nearest(name, models, listed="models")
    return f"if it is a model on the hub, write {as_hf}; {near}"


def _model_arguments(flags: argparse.Namespace) -> dict[str, Any]:
    """The arguments of the model, with those that have flags of their own."""
    more = {
        "batch_size": flags.batch_size,
        "max_batch_size": flags.max_batch_size,
        "device": flags.device,
        "trust_remote_code": flags.trust_remote_code or None,
    }
    return dict(flags.model_args or {}) | {key: value for key, value in more.items() if value is not None}


def with_config(options: argparse.Namespace) -> argparse.Namespace:
    """The options, with values of the `--config` file where the command line does not set them."""
    if not options.config:
        return options
    from multiform.tasks.yaml import read_mapping

    path = Path(options.config)
    data, positions = read_mapping(path, "a mapping of flags", "write e.g. 'tasks: quiz@all'")
    actions = {
        name.removeprefix("--"): action
        for action in options.parser._actions
        for name in action.option_strings
        if name.startswith("--") and action.dest not in ("config", "help")
    }
    for key, value in data.items():
        place = str(positions.get((str(key),), f"{path}:1"))
        if key not in actions:
            hint = nearest(str(key), actions, listed="flags")
            raise ConfigError(f"unknown flag '{key}'", where=place, hint=hint)
        try:
            words = _words(actions[key], key, value) if value is not None else []
            read = vars(options.parser.parse_args(words)) if words else {}
        except UsageError as error:
            raise error.as_kind(ConfigError, f"{place}: {key}") from error
        # The values of the file become defaults, which the command line overrides.
        options.parser.set_defaults(**{name: read[name] for name in read if name == actions[key].dest})
    merged_options: argparse.Namespace = options.parser.parse_args(options.arguments)
    import_named(merged_options)
    return merged_options


def import_named(options: argparse.Namespace) -> None:
    """Import what `--import` names, before names are looked up."""
    if getattr(options, "imports", None):
        from multiform.tasks.functions import import_plugins

        import_plugins(options.imports)


def _words(action: argparse.Action, name: str, value: Any) -> list[str]:
    """The value that a `--config` file has for a flag, as words of the command line."""
    if isinstance(action, Arguments) or name == "samples":
        text = _expect(value, (str, dict), "a mapping")
        return [f"--{name}={text if isinstance(text, str) else json.dumps(text, default=str)}"]
    if action.nargs == 0:
        return [f"--{name}"] * _expect(value, (bool,), "true or false")
    if name == "cache_requests" and isinstance(value, dict):  # lm-eval's three switches
        switches = {"delete": "delete_requests_cache", "refresh": "rewrite_requests_cache", "true": "cache_requests"}
        value = next((word for word, switch in switches.items() if value.get(switch)), "")
    if action.nargs == "?" and isinstance(value, bool):  # a flag whose value may be left out
        value = "" if name == "cache_requests" and not value else str(value).lower()
    if isinstance(value, list) and not isinstance(action, Gather) and "," in str(action.metavar):
        value = ",".join(map(str, value))
    values = value if isinstance(value, list) and isinstance(action, Gather) else [value]
    texts = [str(_expect(item, (str, int, float), "text or a number")) for item in values]
    return [f"--{name}={text}" for text in texts if text]


def _expect(value: Any, types: tuple[type, ...], expected: str) -> Any:
    """The value, if it has one of the types; true and false are no numbers."""
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise UsageError(f"expected {expected}, got {excerpt(value)}", hint="see multiform run --help")
    return value

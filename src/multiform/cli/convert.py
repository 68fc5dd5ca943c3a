"""`multiform convert`: write a task or format in another dialect."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from multiform.cli import options as flags
from multiform.errors import UsageError
from multiform.run.values import SOURCES, one_of

if TYPE_CHECKING:
    from multiform.tasks import TaskConfig

HELP = "write a task or format in another dialect"
DESCRIPTION = "Write a task or format in another dialect: formats, template or style."
EXAMPLES = """\
examples:
  multiform convert mcqa --to template              a format as a template
  multiform convert mcq::gpqa --to formats          a template as a format
  multiform convert my_task.yaml --to style         a task as a Python class with a styler
  multiform convert my_tasks.py --to formats        Python tasks as YAML

What the other dialect cannot express is named on standard error.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    names = ("formats", "template", "style")
    parser.add_argument("names", nargs="+", metavar="TASK_OR_FORMAT", help="a format, or a task as for run --tasks")
    parser.add_argument(
        "--to", required=True, metavar="DIALECT", type=one_of(names).reader("--to"), help=", ".join(names)
    )
    parser.add_argument(
        "--as",
        dest="language",
        metavar="LANGUAGE",
        type=one_of(("yaml", "python")).reader("--as"),
        help="yaml or python (default: python for the styles of tasks, yaml otherwise)",
    )
    flags.add_flags(parser, SOURCES)
    flags.add_code(parser)


def execute(options: argparse.Namespace) -> int:
    """Print each task or format in the other dialect, and the differences to standard error."""
    from multiform.formats import FormatConfig, dialect_names, formats
    from multiform.formats.dialects.convert import written

    converted = []
    for name in options.names:
        if name in formats or name in dialect_names:
            translation = written(FormatConfig.named(name), options.to)
            as_yaml = yaml_text({translation.key: translation.value})
            text = translation.python() if options.language == "python" else as_yaml
            converted.append((name, text.rstrip("\n"), list(translation.differences)))
        else:
            converted += [(config.form_name, *_task(config, options)) for config in _tasks(name, options)]
    for name, text, differences in converted:
        print(text)
        for difference in differences:
            print(f"note: {name}: {difference}", file=sys.stderr)
    return 0


def _tasks(name: str, options: argparse.Namespace) -> list[TaskConfig]:
    from multiform.formats import dialect_names, formats
    from multiform.tasks import TaskManager
    from multiform.tasks.manager import UnknownNameError

    try:
        return TaskManager(options.include_path, dataset_mirror=options.dataset_mirror).load(name)
    except UnknownNameError as error:
        if "@" in name or "." in name:
            raise
        hint = f"{error.hint}; formats: {', '.join([*formats, *dialect_names])}"
        raise UsageError("no task or format of that name", where=name, hint=hint) from error


def _task(config: TaskConfig, options: argparse.Namespace) -> tuple[str, list[str]]:
    """The task in the other dialect, and the differences."""
    from multiform.formats.dialects.convert import written
    from multiform.tasks.translate import class_text, config_text, task_fields

    if config.format is None:
        message = "its prompts are not made by a format" if config.template_config is None else "its template is code"
        raise UsageError(message, where=config.form_name, hint=f"choose a format, e.g. {config.base_name}@mcqa")
    translation = written(config.format, options.to)
    language = options.language or ("python" if options.to == "style" else "yaml")
    fields, lost = task_fields(config)
    if language == "yaml":
        text = yaml_text({**fields, translation.key: translation.value})
    else:
        text = class_text(config, translation, fields) if options.to == "style" else config_text(translation, fields)
    return text.rstrip("\n"), [*translation.differences, *lost]


def yaml_text(data: Mapping[str, Any]) -> str:
    """Data as YAML in its own order, with texts of several lines in double quotes."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes line breaks as ``\\n``."""

    def text_node(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if "\n" in text else None)

    Dumper.add_representer(str, text_node)
    texts = []
    for key, value in data.items():  # one by one, so that the first level is never written in braces
        flow = None if isinstance(value, dict | list) else False
        texts.append(
            yaml.dump(
                {key: value}, Dumper=Dumper, sort_keys=False, allow_unicode=True, default_flow_style=flow, width=10**6
            )
        )
    return "".join(texts)

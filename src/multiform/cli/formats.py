"""`multiform formats` and `convert`: explain a format, show what formats find in a task, and write both in dialects."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiform.cli import options as flags
from multiform.cli.parser import JSON, command, flag, print_result
from multiform.errors import UsageError, list_first
from multiform.run.values import SOURCES, one_of
from multiform.terminal import align

if TYPE_CHECKING:
    from multiform.formats.base import FormatConfig
    from multiform.tasks.config import TaskConfig

_DIALECTS = ("formats", "template", "style")
#: The document of the example prompt.
_DOC = {"question": "What is the capital of France?", "choices": ["Berlin", "Paris", "London"], "answer": 1}
#: Where the raw fields of a task come from.
_ORIGINS = {
    "given": "the task gives formats: its fields are used as they are",
    "raw": "the fields are raw already",
    "template": "recovered from the template",
    "documents": "read back out of each document's prompt, where that is certain",
    "refused": "refused under a format",
}


@command(
    "explain a format, or show the question and choices that formats find in a task",
    flag("action", "what to do", one_of(("explain", "infer")).reader("formats"), metavar="explain|infer"),
    flag(
        "names",
        "to explain: a format, template or style, see multiform ls formats; to infer: a task, group, tag or file",
        nargs="*",
        metavar="FORMAT|TASK",
    ),
    flag(
        "--prompt",
        "infer the format or protocol of a prompt in a file or in - (stdin), or of samples (.jsonl, .json)",
        metavar="FILE",
    ),
    JSON,
    flags.option_groups(SOURCES),
    flags.no_code,
    description="Explain a format: its fields, an example of its prompt, and how each dialect writes it. "
    "Or infer: show the question, choices and answer that formats find in a task written without them.",
    examples="""\
examples:
  multiform formats explain mcqa
  multiform formats explain mcq::gpqa --json
  multiform formats infer mmlu --include_path lm_eval
  multiform formats infer --prompt pasted.txt         the format or protocol of a prompt
""",
)
def formats(options: argparse.Namespace) -> None:
    """Explain each format, or show what formats find in each task."""
    if bool(options.names) == (options.prompt is not None) or (options.prompt and options.action != "infer"):
        hint = "name formats to explain, or tasks to infer from, or give infer --prompt FILE"
        raise UsageError("expected names or a prompt", where=f"formats {options.action}", hint=hint)
    if options.prompt is not None:
        return _recognise(options)
    if options.action == "infer":
        return _infer(options)
    from multiform.formats.base import FormatConfig

    explanations = [_explanation(name, FormatConfig.by_name(name)) for name in options.names]
    lines = (line for explanation in explanations for line in _explanation_lines(explanation))
    print_result(options, explanations if len(explanations) > 1 else explanations[0], lines)
    return None


def _explanation(name: str, format: FormatConfig) -> dict[str, Any]:
    from multiform.formats.dialects import DIALECTS, write_format

    ways = {dialect: write_format(format, dialect) for dialect in DIALECTS}
    prompt, scored, target = _example(format)
    return {
        "name": name,
        "fields": format.to_dict(),
        "output_type": format.output_type,
        "prompt": prompt,
        "scored": scored,
        "target": target,
        "dialects": {key: {"yaml": {way.key: way.value}, "python": way.python()} for key, way in ways.items()},
        "differences": {key: list(way.differences) for key, way in ways.items() if way.differences},
    }


def _example(format: FormatConfig) -> tuple[str, list[str], Any]:
    """The prompt of the example document, the continuations that are scored after it, and its target."""
    from multiform.forms import Task
    from multiform.tasks.config import TaskConfig

    config = TaskConfig(
        task="example",
        doc_to_text="question",
        doc_to_choice="choices",
        doc_to_target="answer",
        formats=format,
        test_split="test",
        custom_dataset=lambda **_: {"test": [_DOC]},
    )
    task = Task.from_config(config)
    sample = task.sample(0, _DOC)
    requests = [instance.request for instance in sample.instances]
    scored = [str(getattr(request, "continuation", "")) for request in requests]
    return str(getattr(requests[0], "context", "")), [text for text in scored if text], sample.target


def _explanation_lines(explanation: dict[str, Any]) -> Iterator[str]:
    yield f"=== {explanation['name']} · {explanation['output_type']}"
    yield explanation["prompt"]
    for text in explanation["scored"]:
        yield f"--- {json.dumps(text, ensure_ascii=False)}"
    yield f"--- target {explanation['target']!r}\n"
    yield from align([[key, json.dumps(value, ensure_ascii=False)] for key, value in explanation["fields"].items()])
    for dialect, way in explanation["dialects"].items():
        yield f"\n--- {dialect}\n{yaml_text(way['yaml'])}# or {way['python']}"
        for difference in explanation["differences"].get(dialect, ()):
            yield f"# differs: {difference}"
    yield ""


def _recognise(options: argparse.Namespace) -> None:
    """Print the format or protocol of a prompt, or the nearest one and what it has that the prompt lacks."""
    from multiform.forms.recognition import known_layouts, read_prompts, recognise_all
    from multiform.tasks.manager import TaskManager

    prompts = [sys.stdin.read().rstrip("\n")] if options.prompt == "-" else read_prompts(Path(options.prompt))
    result = recognise_all(prompts, known_layouts(TaskManager(options.include_path)))
    described = result.to_dict() | {"prompts": len(prompts)}
    if result.fits:
        of_prompts = "" if len(prompts) == 1 else f", in {result.number} of {len(prompts)} prompts"
        lines = [f"the layout of {', '.join(described['fits'])}{of_prompts}"]
    elif result.nearest is None:
        lines = ["no known format or protocol is like it"]
    else:
        missing = [f"* {json.dumps(piece, ensure_ascii=False)}" for piece in result.missing]
        lines = [f"nearest: {described['nearest']}, of which the prompt lacks:", *missing]
    print_result(options, described, lines)


def _infer(options: argparse.Namespace) -> None:
    """Print the raw fields behind each task's prompt; tasks with the same result are listed together."""
    from multiform.tasks.manager import TaskManager

    names = [name.rpartition("@")[0] if "@" in name else name for name in options.names]
    by_result: dict[str, dict[str, Any]] = {}
    for config in TaskManager(options.include_path, dataset_mirror=options.dataset_mirror).load(names):
        result = _raw_fields(config)
        key = json.dumps({**result, "where": None}, sort_keys=True)
        by_result.setdefault(key, {"tasks": [], **result})["tasks"].append(config.base_name)
    results = list(by_result.values())
    print_result(options, results, (line for result in results for line in _raw_field_lines(result)))


def _raw_fields(config: TaskConfig) -> dict[str, Any]:
    """The raw question, choices and answer of a task, and the formats that it supports; or why there are none."""
    from multiform.fields import shown
    from multiform.formats.infer import TaskFields, infer
    from multiform.formats.infer.layout import UnclearPromptError
    from multiform.formats.select import supported_formats

    stated = config.stated_mapping
    fields = TaskFields(
        text=stated.question,
        choices=stated.choices,
        target=stated.answer,
        ranks=config.output_type == "multiple_choice",
        processed=config.process_docs is not None,
    )
    try:
        result = None if config.formats is not None else infer(fields)
    except UnclearPromptError as error:
        where = config.where(error.key)
        return {"how": "refused", "reason": error.reason, "what": error.what, "hint": error.hint, "where": where}
    raw = stated if result is None else result.mapping
    specs = {"question": raw.question, "choices": raw.choices, "answer": raw.answer}
    return {
        "how": "given" if result is None else result.how,
        **{name: shown(spec) for name, spec in specs.items() if spec is not None},
        "left_out": [] if result is None else list(result.left_out),
        "formats": supported_formats(config.formats, raw),
        "where": config.where("doc_to_text"),
    }


def _raw_field_lines(result: dict[str, Any]) -> Iterator[str]:
    yield f"=== {list_first(result['tasks'], 1)} · {_ORIGINS[result['how']]}"
    if result["how"] == "refused":
        yield f"{result['where']}: {result['what']}; {result['hint']}\n"
        return
    for name in ("question", "choices", "answer"):
        if name in result:
            text = result[name].replace("\n", "\\n")
            yield f"{name:<9} {text}"
    if result["left_out"]:
        yield f"left out  {', '.join(map(repr, result['left_out']))}"
    yield f"formats   {', '.join(result['formats'])}\n"


@command(
    "write a task or format in another dialect: formats, template or style",
    flag("names", "a format, or a task as for run --tasks", nargs="+", metavar="TASK_OR_FORMAT"),
    flag("--to", ", ".join(_DIALECTS), one_of(_DIALECTS), required=True, metavar="DIALECT"),
    flag(
        "--as",
        "yaml or python (default: python for the styles of tasks, yaml otherwise)",
        one_of(("yaml", "python")),
        dest="language",
        metavar="LANGUAGE",
    ),
    flags.option_groups(SOURCES),
    flags.no_code,
    examples="""\
examples:
  multiform convert mcqa --to template              a format as a template
  multiform convert mcq::gpqa --to formats          a template as a format
  multiform convert my_task.yaml --to style         a task as a Python class with a styler
  multiform convert my_tasks.py --to formats        Python tasks as YAML

What the other dialect cannot express is named on standard error.
""",
)
def convert(options: argparse.Namespace) -> None:
    """Print each task or format in the other dialect, and the differences to standard error."""
    from multiform.formats.base import FormatConfig, dialect_names, formats
    from multiform.formats.dialects import write_format

    converted = []
    for name in options.names:
        if name in formats or name in dialect_names:
            translation = write_format(FormatConfig.by_name(name), options.to)
            as_yaml = yaml_text({translation.key: translation.value})
            text = translation.python() if options.language == "python" else as_yaml
            converted.append((name, text.rstrip("\n"), list(translation.differences)))
        else:
            converted += [(config.form_name, *_task(config, options)) for config in _tasks(name, options)]
    for name, text, differences in converted:
        print(text)
        for difference in differences:
            print(f"note: {name}: {difference}", file=sys.stderr)


def _tasks(name: str, options: argparse.Namespace) -> list[TaskConfig]:
    from multiform.formats.base import dialect_names, formats
    from multiform.tasks.index import UnknownNameError
    from multiform.tasks.manager import TaskManager

    try:
        return TaskManager(options.include_path, dataset_mirror=options.dataset_mirror).load(name)
    except UnknownNameError as error:
        if "@" in name or "." in name:
            raise
        hint = f"{error.hint}; formats: {', '.join([*formats, *dialect_names])}"
        raise UsageError("no task or format of that name", where=name, hint=hint) from error


def _task(config: TaskConfig, options: argparse.Namespace) -> tuple[str, list[str]]:
    """The task in the other dialect, and the differences."""
    from multiform.formats.dialects import write_format
    from multiform.tasks.python_tasks import class_text, config_text, task_fields

    if config.format is None:
        message = "its prompts are not made by a format" if config.template_config is None else "its template is code"
        raise UsageError(message, where=config.form_name, hint=f"choose a format, e.g. {config.base_name}@mcqa")
    translation = write_format(config.format, options.to)
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

"""`multiform formats`: explains a format in every dialect; shows what formats find in a task."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from multiform.cli import options as flags
from multiform.cli.convert import yaml_text

if TYPE_CHECKING:
    from multiform.formats import FormatConfig

_EXAMPLES = """\
examples:
  multiform formats explain mcqa
  multiform formats explain mcq::gpqa --json
  multiform formats infer mmlu --include_path lm_eval
"""
#: The document of the example prompt.
_DOC = {"question": "What is the capital of France?", "choices": ["Berlin", "Paris", "London"], "answer": 1}


def add_parser(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "formats",
        help="explain a format, or show the question and choices that formats find in a task",
        description="Explain a format: its fields, an example of its prompt, and how each dialect writes it. "
        "Or infer: show the question, choices and answer that formats find in a task that was written without them.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("action", choices=["explain", "infer"], metavar="explain|infer", help="what to do")
    parser.add_argument(
        "names",
        nargs="+",
        metavar="FORMAT|TASK",
        help="to explain: a format, template or style, see multiform ls formats; to infer: a task, group, tag or file",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    flags.add_sources(parser)
    flags.add_verbosity(parser)
    parser.set_defaults(execute=execute, parser=parser)


def execute(options: argparse.Namespace) -> int:
    """Print what there is to know about each format, or task."""
    if options.action == "infer":
        from multiform.cli.infer import print_inferred

        return print_inferred(options.names, options.include_path, as_json=options.json)
    from multiform.formats import FormatConfig

    explained = [_explained(name, FormatConfig.named(name)) for name in options.names]
    if options.json:
        print(json.dumps(explained if len(explained) > 1 else explained[0], indent=2, ensure_ascii=False))
        return 0
    for one in explained:
        _print(one)
    return 0


def _explained(name: str, form: FormatConfig) -> dict[str, Any]:
    from multiform.formats.dialects.convert import DIALECTS, written

    ways = {dialect: written(form, dialect) for dialect in DIALECTS}
    prompt, scored, target = _example(form)
    return {
        "name": name,
        "fields": form.to_dict(),
        "output_type": form.output_type,
        "prompt": prompt,
        "scored": scored,
        "target": target,
        "dialects": {key: {"yaml": {way.key: way.value}, "python": way.python()} for key, way in ways.items()},
        "differences": {key: list(way.differences) for key, way in ways.items() if way.differences},
    }


def _example(form: FormatConfig) -> tuple[str, list[str], Any]:
    """The prompt of the example, what is scored after it, and what is right."""
    from multiform.config import TaskConfig
    from multiform.forms import Task

    config = TaskConfig(
        task="example",
        doc_to_text="question",
        doc_to_choice="choices",
        doc_to_target="answer",
        formats=form,
        test_split="test",
        custom_dataset=lambda **_: {"test": [_DOC]},
    )
    task = Task.from_config(config)
    sample = task.sample(0, _DOC)
    requests = [instance.request for instance in sample.instances]
    scored = [str(getattr(request, "continuation", "")) for request in requests]
    return str(getattr(requests[0], "context", "")), [text for text in scored if text], sample.target


def _print(one: dict[str, Any]) -> None:
    print(f"=== {one['name']} · {one['output_type']}")
    print(one["prompt"])
    for text in one["scored"]:
        print(f"--- {json.dumps(text, ensure_ascii=False)}")
    print(f"--- target {one['target']!r}\n")
    width = max(map(len, one["fields"]))
    for key, value in one["fields"].items():
        print(f"{key:<{width}}  {json.dumps(value, ensure_ascii=False)}")
    for dialect, way in one["dialects"].items():
        print(f"\n--- {dialect}\n{yaml_text(way['yaml'])}# or {way['python']}")
        for difference in one["differences"].get(dialect, ()):
            print(f"# differs: {difference}")
    print()

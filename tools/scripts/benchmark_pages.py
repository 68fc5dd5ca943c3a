"""Writes a page for each benchmark of the library, and their index: docs/benchmarks/.

    python tools/scripts/benchmark_pages.py     # or: make benchmark-pages

A page has what the task file says, and an example in three forms: of the file's `example`, or of a row that is made up
from the columns that its fields read. No page shows a row of a dataset.
"""

from __future__ import annotations

import csv
import itertools
import json
import logging
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from multiform import Task, TaskConfig, TaskManager
from multiform.errors import MultiformError
from multiform.formats.select import format_table
from multiform.prompts.template import compile_template, has_markup
from multiform.requests import LoglikelihoodRequest
from multiform.tasks.folders import LIBRARY
from multiform.tasks.group import Group
from multiform.tasks.yaml import read_yaml

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "benchmarks"
#: The benchmarks that people report: tier, the tasks that they are, and a remark, or why they are no task.
COVERAGE = Path(__file__).parent / "coverage.tsv"
#: The forms of an example, with choices and without, before the task's own.
FORMS = (("mcqa", "cloze", "cot"), ("short", "cot"))
_FIELDS = ("doc_to_context", "doc_to_text", "doc_to_choice", "doc_to_target", "doc_to_rationale")
#: Values to try for the columns of each field, the likeliest first.
_CHOICES = ["seven", "red", "narrow", "Monday"]
_VALUES: dict[str, list[Any]] = {
    "doc_to_context": ["Ann has a red car and seven cats.", ["Ann has a red car.", "She has seven cats."]],
    "doc_to_text": ["Which of these is a colour?"],
    "doc_to_choice": ["red", _CHOICES, {"text": _CHOICES, "label": ["A", "B", "C", "D"]}],
    "doc_to_target": [1, "B", "2", "red", "b", ["red"], {"text": ["red"]}, {"aliases": ["red"]}, r"\boxed{red}"],
    "doc_to_rationale": ["Red is a colour, and the others are not."],
}
#: The made-up question of each kind of benchmark.
_QUESTIONS = {
    "math": "Ann has 2 cats and gets 5 more. How many cats does she have?",
    "NLI": "Ann has a car",
    "yes/no": "does Ann have a red car",
    "open question": "what colour is the car of Ann",
    "several inputs": "Ann gave the car to Bea as _ needed one.",
}
_TRIES = 200


def benchmarks() -> dict[str, list[TaskConfig]]:
    """The tasks of each benchmark of the library, by the name of the task or group."""
    manager = TaskManager()
    found = {}
    for entry in sorted(manager.index.entries.values(), key=lambda entry: entry.name):
        if entry.folder != LIBRARY or entry.family is not None or "bundled" in entry.tags:
            continue
        [node] = manager.nodes(entry.name)
        if (isinstance(node, TaskConfig) or node.config.subsets) and entry.path.suffix == ".yaml":
            found[entry.name] = list(node.tasks()) if isinstance(node, Group) else [node]
    return found


def page(name: str, tasks: list[TaskConfig]) -> str:
    """The page of a benchmark, in Markdown."""
    config = tasks[0]
    assert config.stated.source is not None
    facts, path = config.metadata, config.stated.source.file
    lines = [f"# {facts.get('title', name)}", "", about(path), ""]
    lines += [f"    multiform run {name} --model hf --model_args pretrained=path/to/model", ""]
    for title, value in _facts(name, tasks):
        lines.append(f"* **{title}**: {value}")
    lines.append("")
    shown = example(config)
    if shown:
        lines += ["## An example", "", "This example is made up: it is not a row of the dataset.", ""]
        for label, text in shown:
            fence = "```" if "```" not in text else "````"
            lines += [f"`{tasks[0].base_name}@{label}`:", "", f"{fence}text", text, fence, ""]
    table = format_table(config.stated.get("formats"))
    kept = [(label, error) for label, entry in table.items() for error in _known_errors(entry)]
    if kept:
        lines += ["## Errors and differences that a run names", ""]
        lines += [f"* `@{label}`: {' '.join(error.split())}" for label, error in kept] + [""]
    if config.lint_ignore:
        lines += ["## Known errors of the data", ""]
        lines += [f"* {reason} (`{code}`)" for code, reason in config.lint_ignore.items()] + [""]
    return "\n".join(lines).rstrip() + "\n"


def _known_errors(entry: Any) -> list[str]:
    return list(entry.get("known_errors") or ()) if isinstance(entry, Mapping) else []


def about(path: Path) -> str:
    """What a benchmark asks: the comment at the beginning of its file."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), path.read_text(encoding="utf-8").splitlines())
    return " ".join(line.lstrip("# ") for line in lines)


def _facts(name: str, tasks: list[TaskConfig]) -> Iterator[tuple[str, str]]:
    config, facts = tasks[0], tasks[0].metadata
    paths = list(dict.fromkeys(task.dataset_path for task in tasks if task.dataset_path))
    yield "Name", f"`{name}`" + (f", a group of {len(tasks)} tasks such as `{config.task}`" if len(tasks) > 1 else "")
    if paths:
        yield "Dataset", ", ".join(f"[{path}](https://huggingface.co/datasets/{path})" for path in paths[:3])
    yield "Kind", str(facts.get("kind", ""))
    yield "Rows", rows_text(tasks)
    languages = list(dict.fromkeys(str(task.metadata.get("language")) for task in tasks))
    yield "Language", ", ".join(languages[:12]) + (f" and {len(languages) - 12} more" if len(languages) > 12 else "")
    yield "Licence", str(facts.get("licence", "unknown"))
    paper = str(facts.get("paper", ""))
    link = f"[{paper}](https://arxiv.org/abs/{paper.removeprefix('arXiv:')})" if paper.startswith("arXiv:") else paper
    yield "Paper", link
    yield "Usually reported", str(facts.get("reported", ""))
    assert config.stated.source is not None
    formats = read_yaml(config.stated.source.file).data.get("formats")
    if isinstance(formats, Mapping) and "lm-eval" in formats and facts.get("lm_eval", config.task):
        yield "In lm-eval", f"`{facts.get('lm_eval', config.task)}`, the same requests as `{config.task}@lm-eval`"
    differs = facts.get("differs", "")
    texts = [f"`{label}`: {text}" for label, text in differs.items()] if isinstance(differs, Mapping) else [differs]
    if differs:
        yield "Not comparable with published scores", " ".join(texts)
    if "notes" in facts:
        yield "Note", " ".join(str(facts["notes"]).split())
    if facts.get("seen") is False:
        yield "Unchecked", "written from a description of the columns, and never run on real rows"


def rows_text(tasks: list[TaskConfig]) -> str:
    """The evaluated rows of all tasks; a file may state the number of the whole family in each of them."""
    stated = [task.metadata.get("rows") or 0 for task in tasks]
    if not all(isinstance(number, int) for number in stated):
        return "unknown"
    return f"{stated[0] if len({*stated}) == 1 else sum(stated):,}"


def example(config: TaskConfig) -> list[tuple[str, str]]:
    """The rendered example under up to three forms; empty where no row can be made up."""
    own = [label for label in format_table(config.stated.get("formats")) if label not in ("lm-eval", "bpb")]
    labels = dict.fromkeys([*FORMS[config.stated.get("doc_to_choice") is None], *own, "lm-eval", "bpb"])
    for row in [config.example] if config.example else itertools.islice(_made_up(config), _TRIES):
        shown = [(label, text) for label in labels if (text := _rendered(config, label, row))]
        if shown:
            return shown[:3]
    return []


def _made_up(config: TaskConfig) -> Iterator[dict[str, Any]]:
    """Rows with the columns that the fields read: each column has a value that suits one of its fields."""
    columns: dict[str, list[Any]] = {}
    question = _QUESTIONS.get(str(config.metadata.get("kind")), *_VALUES["doc_to_text"])
    values = {**_VALUES, "doc_to_text": [question]}
    table = [entry for entry in format_table(config.stated.get("formats")).values() if isinstance(entry, Mapping)]
    for field in _FIELDS:
        spec = next((spec for keys in (config.stated.data, *table) if (spec := keys.get(field)) is not None), None)
        specs = [spec] if isinstance(spec, str) else [item for item in spec if isinstance(item, str)] if spec else []
        for text in specs if isinstance(specs, list) and not callable(spec) else []:
            names = sorted(compile_template(text).names) if has_markup(text) else [text] if text.isidentifier() else []
            several = field == "doc_to_choice" and len(names) > 1
            for number, name in enumerate(names):
                columns.setdefault(name, [_CHOICES[number % 4]] if several else values[field])
    for row in itertools.product(*columns.values()):
        yield dict(zip(columns, row, strict=True))


def _rendered(config: TaskConfig, label: str, row: Mapping[str, Any]) -> str | None:
    """The prompt of a row under a format, and what is scored; None where the row does not suit the task."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        path.write_text(json.dumps(row) + "\n", encoding="utf-8")
        try:
            data: dict[str, Any] = {"dataset_path": str(path), "dataset_name": None, "dataset_kwargs": {}}
            data["custom_dataset"] = None
            changed = config.replace(**data, num_fewshot=0, drop_docs=None, _formats_selection=label)
            task = Task.from_config(changed)
            sample = task.sample(*next(iter(task.doc_iterator())))
        except (MultiformError, StopIteration):
            return None
    if sample.problem is not None or (changed.stated.get("doc_to_choice") is not None and sample.right_choices == ()):
        return None
    requests = [instance.request for instance in sample.instances]
    ranked = [f'--- "{request.continuation}"' for request in requests if isinstance(request, LoglikelihoodRequest)]
    return "\n".join([sample.prompt, *ranked])


def coverage(found: Mapping[str, Any]) -> str:
    """A table of the benchmarks that people report, with their tasks, or why there are none."""
    with COVERAGE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    counts = []
    for tier in "ABC":
        listed = [row for row in rows if row["tier"] == tier]
        counts.append(f"{sum(bool(row['tasks']) for row in listed)} of {len(listed)} of tier {tier}")
    lines = [
        "## What people report",
        "",
        "Tier A is in today's model cards and leaderboards, tier B is common, and tier C is for special purposes.",
        f"The library has {', '.join(counts[:-1])} and {counts[-1]}.",
        "For each of the others, the last column says what it would need.",
        "",
        "| benchmark | tier | tasks | remark |",
        "|---|---|---|---|",
    ]
    for row in rows:
        names = [name for name in row["tasks"].split(", ") if name]
        links = [f"[{name}]({name}.md)" if name in found else f"`{name}`" for name in names]
        lines.append(f"| {row['benchmark']} | {row['tier']} | {', '.join(links)} | {row['remark']} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write all pages anew."""
    logging.getLogger("multiform").setLevel(logging.ERROR)
    PAGES.mkdir(parents=True, exist_ok=True)
    found = benchmarks()
    for path in PAGES.glob("*.md"):
        path.unlink()
    rows = []
    without = []
    for name, tasks in found.items():
        text = page(name, tasks)
        without += [] if "## An example" in text else [name]
        (PAGES / f"{name}.md").write_text(text, encoding="utf-8")
        facts = tasks[0].metadata
        cells = (
            f"[{name}]({name}.md)",
            facts.get("title"),
            facts.get("kind"),
            rows_text(tasks),
            facts.get("licence"),
        )
        rows.append("| " + " | ".join(re.sub(r"[|\n]", " ", str(cell)) for cell in cells) + " |")
    head = "| name | title | kind | rows | licence |\n|---|---|---|---|---|\n"
    intro = f"# Benchmarks\n\nThe library has {len(found)} benchmarks. `make benchmark-pages` writes these pages.\n\n"
    table = head + "\n".join(rows) + "\n\n"
    (PAGES / "README.md").write_text(intro + table + coverage(found), encoding="utf-8")
    print(f"{len(found)} pages in {PAGES.relative_to(ROOT)}; without an example: {', '.join(without) or 'none'}")


if __name__ == "__main__":
    main()

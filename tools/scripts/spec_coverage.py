"""Writes docs/spec-coverage.md: every field and method of the specification, with the tests that show it.

    python tools/scripts/spec_coverage.py           write the table
    python tools/scripts/spec_coverage.py --check   fail where a name has no test or the table is out of date

A test says what it shows by the mark ``covers``; the marks are read from the source, nothing is run.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
TABLE = ROOT / "docs" / "spec-coverage.md"

TITLE = """\
# The specification and its tests

Every field of a task, few-shot, metric, filter, scorer and group configuration, and every attribute and method of
`Task`, with the tests that show what it does. `tools/scripts/spec_coverage.py` generates this page from the marks of
the tests; a test fails if a name has no test or the page is out of date. Tests in *italics* are expected to fail.

`tools/scripts/spec_mutations.py` checks that the tests show it: it breaks each row, by ignoring a field or changing
what a method does, and a test of the row has to fail.
"""

#: What the specification names, each with its meaning in one line.
NAMES: dict[str, dict[str, str]] = {
    "TaskConfig": {
        "task": "name of the task; `name@format` runs it under a format",
        "task_alias": "name that tables show instead",
        "formats": "prompt format: a name, a mapping with `type`, a table of several",
        "output_type": "type of the requests: rank choices, generate, score a target, score a whole text",
        "tag": "labels by which tasks are selected together",
        "custom_dataset": "function that returns the splits; gets metadata, dataset and model arguments",
        "dataset_path": "dataset on the hub, in a mirror, or a local file or folder",
        "dataset_name": "which part of the dataset",
        "dataset_kwargs": "further arguments of loading, such as `data_files`",
        "training_split": "split of the few-shot examples if no few-shot split is named",
        "validation_split": "split that is evaluated if there is no test split",
        "test_split": "split that is evaluated",
        "fewshot_split": "split that few-shot examples are drawn from",
        "process_docs": "function that filters or changes the documents of a split",
        "description": "text or template before every prompt; part of the system message in a chat",
        "doc_to_text": "the question: column, template or function",
        "doc_to_choice": "the choices: column, template, list, mapping or function",
        "doc_to_target": "the right answer: index, text, or several of them",
        "gen_prefix": "beginning of the answer, already part of the prompt",
        "doc_to_image": "images that go with the prompt: column, list of columns or function",
        "doc_to_audio": "audio that goes with the prompt: column, list of columns or function",
        "process_results": "function that turns the responses to a document into values of metrics",
        "target_delimiter": "text between a question and its answer",
        "fewshot_delimiter": "text between few-shot examples; also the default stop sequence",
        "fewshot_config": "how few-shot examples are chosen and written",
        "num_fewshot": "number of few-shot examples; the run may override it, unless it is 0",
        "generation_kwargs": "generation arguments; greedy by default",
        "metric_list": "metrics to compute",
        "filter_list": "named pipelines of filters that responses go through before they are scored",
        "scorer": "registered scorer that filters and scores instead",
        "repeats": "number of completions per document",
        "unsafe_code": "the task runs code that the model generates, which needs consent",
        "use_prompt": "prompt of a library that replaces the task's fields",
        "multiple_inputs": "one prompt for each choice, all with the same continuation",
        "multiple_targets": "several answers are right",
        "should_decontaminate": "also score without the documents that a corpus contains",
        "doc_to_decontamination_query": "text that is looked up in the corpus; the question by default",
        "metadata": "version, number of shots to show, and whatever else goes into the results",
        "_formats_selection": "format that was selected at run time",
        "_qualified_name": "name that keys the results instead of the task's",
        "__post_init__": "applies prompt and format, fills defaults, checks every value",
        "to_dict": "plain data from which the same configuration can be built again",
    },
    "FewshotConfig": {
        "sampler": "how few-shot examples are drawn: `default`, `first_n`, `balanced`, or a registered one",
        "split": "split to draw from; the task's `fewshot_split` by default",
        "process_docs": "function over the few-shot split; the task's by default",
        "fewshot_indices": "documents to use, in order",
        "samples": "examples written into the task, or a function that returns them",
        "doc_to_text": "question of an example; the task's by default",
        "doc_to_choice": "choices of an example; the task's by default",
        "doc_to_target": "answer of an example; the task's by default",
        "gen_prefix": "beginning of an example's answer; the task's by default",
        "fewshot_delimiter": "text after an example; the task's by default",
        "target_delimiter": "text before an example's answer; the task's by default",
        "__post_init__": "checks the values; warns if there are both a split and samples",
        "get_docs": "documents that few-shot examples are drawn from",
        "from_dict": "configuration from a mapping, with the task's values as defaults",
    },
    "MetricConfig": {
        "metric": "registered metric, or a function",
        "aggregation": "how the values of all documents become one number",
        "reduction": "how the values of repeats become one",
        "higher_is_better": "direction; the metric's own by default",
        "kwargs": "arguments of the metric; so are other keys",
    },
    "FilterPipeline": {
        "name": "name of the pipeline in result keys",
        "filter": "steps, each on the outputs of the one before",
        "metric_list": "metrics of this pipeline alone",
    },
    "FilterStep": {
        "function": "registered filter, or a function",
        "kwargs": "arguments of the filter; so are other keys",
    },
    "ScorerConfig": {
        "type": "registered scorer",
        "kwargs": "fields of the scorer",
    },
    "GroupConfig": {
        "group": "name of the group; its other keys are passed to the members",
        "group_alias": "name that tables show instead",
        "task": "members: tasks, groups, tags, or mappings that change or define one",
        "aggregate_metric_list": "scores of the whole group, weighted by size or not",
        "metadata": "version of the group",
        "tag": "labels by which groups are selected",
    },
    "Task": {
        "__init__": "from a configuration or a mapping",
        "OUTPUT_TYPE": "output type that a class is for",
        "sampler": "draws the few-shot examples; created on first use",
        "instances": "requests of the last `build_all_requests`",
        "from_config": "task of the class that fits the output type",
        "count_bytes": "bytes of a text, for perplexity per byte",
        "count_words": "words of a text, for perplexity per word",
        "download": "opens the dataset, with further arguments",
        "has_training_docs": "whether a training split is named",
        "has_validation_docs": "whether a validation split is named",
        "has_test_docs": "whether a test split is named",
        "training_docs": "processed documents of the training split",
        "validation_docs": "processed documents of the validation split",
        "test_docs": "processed documents of the test split",
        "fewshot_docs": "documents that few-shot examples are drawn from",
        "get_docs": "documents of a split, or those that are evaluated",
        "doc_iterator": "documents to evaluate with their index, by limit, samples and rank",
        "fewshot_context": "whole prompt of a document, as plain text or as a chat",
        "construct_requests": "requests of one document and its prompt",
        "build_all_requests": "requests of all documents, optionally cached",
        "doc_to_text": "question of a document",
        "doc_to_choice": "choices of a document",
        "doc_to_target": "right answer of a document",
        "doc_to_image": "images of a document",
        "doc_to_audio": "audio of a document",
        "apply_filters": "the responses to a document after the filters",
        "process_instances": "the responses to a document, filtered, scored and reduced",
        "process_results": "values of a document, computed by the task's own code",
        "aggregate": "scores over all documents, and their number",
        "aggregation": "function that aggregates each metric",
        "higher_is_better": "direction of each metric",
        "get_config": "value of a field",
        "set_config": "sets a field, or updates a mapping",
        "override_metric": "computes one metric instead of all",
        "set_repeats": "sets the number of completions per document",
        "set_num_fewshot": "sets the number of few-shot examples",
        "set_fewshot_seed": "sets the seed of the sampler",
        "dump_config": "configuration as plain data",
        "process_doc": "changes each document; for subclasses",
    },
}


def known_names() -> list[str]:
    """All names, qualified."""
    return [f"{owner}.{name}" for owner, names in NAMES.items() for name in names]


def covering_tests(folder: Path = TESTS) -> dict[str, list[str]]:
    """The tests of each name, as Markdown links whose targets are at the end of the page."""
    return {name: [_link(path, node) for path, node in tests] for name, tests in _marked(folder).items()}


def covering_nodes(folder: Path = TESTS) -> dict[str, list[str]]:
    """The tests of each name, as pytest names them."""
    marked = _marked(folder)
    return {
        name: [f"{path.relative_to(ROOT).as_posix()}::{node.name}" for path, node in tests]
        for name, tests in marked.items()
    }


def _marked(folder: Path) -> dict[str, list[tuple[Path, ast.FunctionDef]]]:
    """The functions that are marked with each name, and their files."""
    marked: dict[str, list[tuple[Path, ast.FunctionDef]]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                for name in dict.fromkeys(_covered(node)):
                    marked.setdefault(name, []).append((path, node))
    return marked


def _covered(function: ast.FunctionDef) -> Iterator[str]:
    """The names in a test's marks."""
    for mark in function.decorator_list:
        if isinstance(mark, ast.Call) and _mark_name(mark.func) == "covers":
            yield from (str(ast.literal_eval(argument)) for argument in mark.args)


def _link(path: Path, function: ast.FunctionDef) -> str:
    title = function.name.removeprefix("test_").replace("_", " ")
    link = f"[{title}][{path.stem}]"
    marks = [_mark_name(mark.func if isinstance(mark, ast.Call) else mark) for mark in function.decorator_list]
    return f"*{link}*" if "xfail" in marks else link


def _mark_name(node: ast.expr) -> str:
    """``name`` of ``pytest.mark.name``."""
    return node.attr if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pytest.mark" else ""


def table(tests: dict[str, list[str]]) -> str:
    """The page."""
    files = sorted({path for path in TESTS.rglob("test_*.py") if any(f"[{path.stem}]" in link for link in _all(tests))})
    parts = [TITLE]
    for owner, names in NAMES.items():
        rows = [f"| `{name}` | {meaning} | {'; '.join(tests[f'{owner}.{name}'])} |" for name, meaning in names.items()]
        parts.append("\n".join([f"## {owner}", "", "| name | meaning | tests |", "|---|---|---|", *rows, ""]))
    targets = [f"[{path.stem}]: ../{path.relative_to(ROOT).as_posix()}\n" for path in files]
    return "\n".join(parts) + "\n" + "".join(targets)


def _all(tests: dict[str, list[str]]) -> list[str]:
    return [link for links in tests.values() for link in links]


def problems(tests: dict[str, list[str]]) -> list[str]:
    """Names without a test, and marks that name nothing."""
    known = known_names()
    missing = [f"no test covers {name}" for name in known if name not in tests]
    return missing + [
        f"{links[0]} covers {name}, which is not known" for name, links in tests.items() if name not in known
    ]


def main(argv: list[str]) -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description="Write the table of what the tests cover of the specification.")
    parser.add_argument("--check", action="store_true", help="fail instead of writing")
    check = parser.parse_args(argv).check
    tests = covering_tests()
    wrong = problems(tests)
    if not wrong:
        made = table(tests)
        if not check:
            TABLE.write_text(made, encoding="utf-8")
        elif not TABLE.is_file() or TABLE.read_text(encoding="utf-8") != made:
            wrong = [f"{TABLE.relative_to(ROOT)} is out of date: run python tools/scripts/spec_coverage.py"]
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

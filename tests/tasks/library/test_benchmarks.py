"""Every benchmark of the library: its file, and its prompts under every format, on real rows or its example."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from multiform import DataError, Task, TaskConfig, TaskManager
from multiform.lint.forms import lint_form
from multiform.paths import mirror_folders
from multiform.tasks.datasets import bfcl
from multiform.tasks.folders import LIBRARY
from multiform.tasks.group import Group
from multiform.tasks.yaml import read_yaml
from tests.conftest import ROOT

SHARED = ROOT.parent / "shared"
#: What every file says of its benchmark.
FACTS = {"title", "kind", "language", "licence", "paper", "rows", "reported", "seen", "version"}
DOCS = 25
SUITES = ("multilingual", "open-llm-leaderboard-2", "olmes-core", "quick", "reasoning", "smol")
#: A row of a copy whose publishers removed the answers.
NO_ANSWERS = '"text": [""]'
#: What rows that repeat an example are bound to have.
OF_EXAMPLES = {"duplicate_rows", "shots_from_evaluated_split", "skewed_gold", "unpinned_revision"}


@cache
def manager() -> TaskManager:
    return TaskManager()


def names() -> list[str]:
    """The benchmarks, a family by its group."""
    entries = manager().index.entries.values()
    return sorted(entry.name for entry in entries if entry.family is None and not {"bundled", "suite"} & {*entry.tags})


@pytest.fixture(scope="module")
def mirrors() -> Path:
    """Both folders of real rows."""
    folders = [SHARED / "rows", SHARED / "data"]
    missing = [str(folder) for folder in folders if not folder.is_dir()]
    if missing:
        pytest.skip(f"no benchmark rows at {', '.join(missing)}")
    return Path(":".join(map(str, folders)))


def members(spec: str) -> list[TaskConfig]:
    """The tasks of a benchmark."""
    [node] = manager().nodes(spec)
    return list(node.tasks()) if isinstance(node, Group) else [node]


def labels(name: str) -> list[str]:
    """The formats that the mapping supports, and the finished prompts of the file."""
    [target] = manager().targets(f"{name}@all")
    table = read_yaml(manager().index.entries[name].path).data["formats"]
    listed = list(table) if isinstance(table, dict) and "type" not in table else []
    return list(dict.fromkeys([*filter(None, manager().labels(target)), *listed]))


def has_rows(config: TaskConfig, mirrors: Path) -> bool:
    split = config.test_split or config.validation_split
    place = Path(str(config.dataset_path)) / (config.dataset_name or "default") / f"{split}.jsonl"
    if config.custom_dataset is bfcl.load:  # which joins rows of two files
        place = Path(bfcl.REPO) / f"BFCL_v3_{config.metadata['category']}" / "train.jsonl"
    files = [folder / place for folder in mirror_folders(mirrors) if (folder / place).is_file()]
    return any(NO_ANSWERS not in file.read_text(encoding="utf-8").partition("\n")[0] for file in files)


def first_with_docs(configs: Iterable[TaskConfig], mirrors: Path) -> list[TaskConfig]:
    """The first task with documents, of those that share the rows of one file."""
    for config in configs:
        with suppress(DataError):
            if config.drop_docs is None or Task.from_config(config, dataset_mirror=mirrors).eval_docs:
                return [config]
    return []


def with_example(config: TaskConfig, folder: Path) -> TaskConfig:
    """The task over a file that has its example four times, without few-shot examples."""
    assert config.example is not None, "a benchmark without rows needs an example"
    path = folder / "rows.jsonl"
    path.write_text(f"{json.dumps(config.example)}\n" * 4, encoding="utf-8")
    config = config.replace(custom_dataset=None, num_fewshot=0)
    return config.replace(dataset_path=str(path), dataset_name=None, dataset_kwargs={})


def test_there_are_as_many_benchmarks_as_users_expect():
    assert len(names()) >= 190


@pytest.mark.parametrize("name", names())
def test_the_file_says_what_the_benchmark_is(name: str):
    for config in members(name):
        assert FACTS - config.metadata.keys() == set()
        assert "<" not in str({**config.metadata, "path": config.dataset_path, "name": config.dataset_name})
        assert config.dataset_kwargs.get("revision") or config.custom_dataset
        assert config.metadata["seen"] or config.example


def test_a_pinned_revision_is_of_one_dataset():
    """A file that includes another must not inherit the commit of the other's dataset."""
    paths: dict[str, set[str]] = {}
    for name in [*names(), *SUITES]:
        for config in members(name):
            paths.setdefault(str(config.dataset_kwargs.get("revision")), set()).add(str(config.dataset_path))
    pinned = {revision: found for revision, found in paths.items() if len(revision) == 40}
    assert len(pinned) >= 25
    assert [found for found in pinned.values() if len(found) > 1] == []


@pytest.mark.long
@pytest.mark.parametrize("name", names())
def test_it_renders_under_every_format_and_lint_finds_nothing(name: str, mirrors: Path, tmp_path: Path):
    seen = set()
    for label in labels(name):
        configs = members(f"{name}@{label}")
        real = [config for config in configs if has_rows(config, mirrors)]
        ends = [*first_with_docs(real, mirrors), *first_with_docs(reversed(real), mirrors)]
        seen.add(bool(ends))
        chosen = {id(config): config for config in (ends or [with_example(configs[0], tmp_path)])}
        for config in chosen.values():
            task = Task.from_config(config, dataset_mirror=mirrors)
            found = lint_form(task.form, task.form.docs(limit=DOCS)).findings
            warnings = [finding for finding in found if finding.level == "warning"]
            if label != "lm-eval":  # whose defects are repeated
                ignored = set() if ends else OF_EXAMPLES
                assert [str(finding) for finding in warnings if finding.code not in ignored] == [], label
    assert seen == {bool(members(name)[0].metadata["seen"])}


def test_families_are_one_file_each():
    files = {entry.file for entry in manager().index.entries.values() if entry.folder == LIBRARY}
    assert len(files) == len({*names(), *SUITES, "quiz", "quiz_problems"})


@pytest.mark.parametrize("name", SUITES)
def test_suites_name_benchmarks_and_forms_that_exist(name: str):
    [node] = manager().nodes(name)
    assert isinstance(node, Group)
    assert len(node.members) >= 5
    assert {config.format_label for config in node.tasks()} - {None} != set()

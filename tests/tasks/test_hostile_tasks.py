"""Task files of strangers: each gives one message, and keeps no other task from being listed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.bounded import COMMAND, check, lay_out, outcomes

KEYS = {
    "task": "t",
    "dataset_path": "rows.jsonl",
    "test_split": "test",
    "output_type": "multiple_choice",
    "doc_to_text": "question",
    "doc_to_choice": "choices",
    "doc_to_target": "answer",
}
ROW = json.dumps({"question": "Why?", "choices": ["a", "b"], "answer": 0}) + "\n"
PIPE = ("pipe",)
VALIDATE = "validate task.yaml --no_code"
LISTING = "ls tasks --include_path ."


def task(text: str) -> str:
    """The usual task with keys replaced or added."""
    given = {line.partition(":")[0] for line in text.splitlines()}
    return "".join(f"{key}: {value}\n" for key, value in KEYS.items() if key not in given) + text


def included(content: Any, name: str = "other.yaml") -> tuple[str, dict[str, Any]]:
    return f"include: {name}\n", {name: content}


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 10**12)


#: Keys of the task and the files beside it, with a part of the message.
FILES: dict[str, tuple[tuple[str, dict[str, Any]], str]] = {
    "pipe as an include": (included(PIPE), "a pipe or device"),
    "pipe as a file of another ending": (included(PIPE, "pipe"), "a pipe or device"),
    "link to a device": (included(("link", "/dev/zero")), "a pipe or device"),
    "link to random numbers": (included(("link", "/dev/urandom")), "a pipe or device"),
    "link to a terminal": (included(("link", "/dev/tty")), ""),
    "device": (("include: /dev/zero\n", {}), "a pipe or device"),
    "messages of the system": (("include: /proc/kmsg\n", {}), "kmsg"),
    "link to the messages of the system": (included(("link", "/proc/kmsg")), "kmsg"),
    "environment": (("include: /proc/self/environ\n", {}), "an empty file"),
    "memory": (("include: /proc/self/mem\n", {}), ""),
    "standard input": (("include: /proc/self/fd/0\n", {}), ""),
    "link to itself": (included(("link", "other.yaml")), "link"),
    "links to each other": (
        ("include: a.yaml\n", {"a.yaml": ("link", "b.yaml"), "b.yaml": ("link", "a.yaml")}), "a.yaml",
    ),
    "link through itself": (("include: a/b.yaml\n", {"a": ("link", "a")}), "a/b.yaml"),
    "link to nowhere": (included(("link", "nowhere")), "no file"),
    "link to the folder": (("include: here/here/here/task.yaml\n", {"here": ("link", ".")}), "include cycle"),
    "pipe in a list of includes": (("include: [a.yaml, b.yaml]\n", {"a.yaml": "tag: x\n", "b.yaml": PIPE}), "pipe"),
    "pipe in an included file": (
        ("include: a.yaml\n", {"a.yaml": "include: b.yaml\n", "b.yaml": PIPE}), "a pipe or device",
    ),
    "large include": (included("# " + "x" * 3_000_000), "too large"),
    "sparse include": (included(sparse), "too large"),
    "include that is not UTF-8": (included(b"tag: \xff\n"), "not UTF-8"),
    "pipe as a module": (("process_docs: !function own.f\n", {"own.py": PIPE}), "--no_code"),
    "class that is a pipe": (("class: !function own.T\n", {"own.py": PIPE}), "--no_code"),
    "separator": (
        ("dataset_path: csv\ndataset_kwargs: {data_files: r.csv, sep: '(x+x+)+y', engine: python}\n",
         {"r.csv": "x" * 60 + "\n1\n"}), "may take for ever",
    ),
    "pickle": (("dataset_path: pandas\ndataset_kwargs: {data_files: r.pkl}\n", {"r.pkl": b"cos\nsystem\n."}), "data"),
    "template in a choice": (("doc_to_choice: ['{{ \"x\" * 9999999999 }}', b]\n", {}), "asks for too much"),
    "template in the target": (("doc_to_target: '{{ 99999999|labels|length }}'\n", {}), "asks for too much"),
    "template in the description": (("description: '{{ \"x\".ljust(9999999999) }}'\n", {}), "asks for too much"),
    "template in a format": (("formats: {mcqa: {question_prefix: '{{ \"x\" * 9999999999 }}'}}\n", {}), ""),
    "template of a column": (("doc_to_text: '{{ question * 999999999 }}'\n", {}), "asks for too much"),
    "number for a template": (("doc_to_text: 5\ndoc_to_choice: 7\n", {}), ""),
    "anchors that double": (
        ("metadata:\n  a0: &a0 [x]\n" + "".join(f"  a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 30)), {}),
        "",
    ),
    "anchor of itself": (("metadata: &a [*a]\n", {}), ""),
    "merge of itself": (("metadata: &a\n  <<: *a\n", {}), ""),
    "deep list": (("metadata: {a: " + "[" * 20_000 + "]" * 20_000 + "}\n", {}), ""),
    "deep mapping": (("metadata: " + "{a: " * 5_000 + "1" + "}" * 5_000 + "\n", {}), ""),
    "long key": (("x" * 100_000 + ": 1\n", {}), ""),
    "control characters": ((b"metadata: {a: \x07}\n".decode(), {}), ""),
    "python object": (("metadata: !!python/object/apply:os.system ['touch executed']\n", {}), ""),
    "binary value": (("metadata: !!binary " + "A" * 99 + "!\n", {}), ""),
    "timestamp": (("metadata: {a: 2024-99-99}\n", {}), ""),
    "infinite limit": (("num_fewshot: .inf\n", {}), ""),
    "negative repeats": (("repeats: -5\n", {}), ""),
    "many repeats of a pattern": (("dataset_kwargs: {split: 'test[" + "9" * 5000 + ":]'}\n", {}), ""),
}  # fmt: skip
#: Files that a folder may hold beside good tasks, which are listed all the same.
BESIDE: dict[str, dict[str, Any]] = {
    "pipe": {"bad.yaml": PIPE},
    "pipe of Python": {"bad.py": PIPE},
    "include of a pipe": {"bad.yaml": "task: bad\ninclude: pipe\n", "pipe": PIPE},
    "include of the messages of the system": {"bad.yaml": "task: bad\ninclude: /proc/kmsg\n"},
    "include of a device": {"bad.yaml": "task: bad\ninclude: /dev/zero\n"},
    "include of a link to itself": {"bad.yaml": "task: bad\ninclude: a.yaml\n", "a.yaml": ("link", "a.yaml")},
    "link to itself": {"bad.yaml": ("link", "bad.yaml")},
    "link to a device": {"bad.yaml": ("link", "/dev/zero")},
    "folder in itself": {"sub/bad": ("link", "..")},
    "large file": {"bad.yaml": "# " + "x" * 3_000_000},
}
ATTACKS = {name: (task(keys), files, VALIDATE, 2, says) for name, ((keys, files), says) in FILES.items()}
ATTACKS |= {f"beside: {name}": (task(""), files, LISTING, 0, "good") for name, files in BESIDE.items()}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    cases = {}
    for number, (name, (keys, files, argv, _, _)) in enumerate(ATTACKS.items()):
        place = tmp_path_factory.mktemp(f"task{number}")
        good = {"task.yaml": keys, "good.yaml": task("task: good\n"), "rows.jsonl": ROW}
        lay_out({**good, **files}, place)
        cases[name] = {"folder": str(place), "argv": argv}
    return outcomes(COMMAND, cases, tmp_path_factory.mktemp("outcomes"))


def test_there_are_as_many_tasks_as_were_tried():
    assert len(ATTACKS) >= 45


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize("name", ATTACKS)
def test_a_task_file_gives_one_message_and_leaves_other_tasks_alone(name, results):
    *_, code, says = ATTACKS[name]
    check(results.get(name), code, says)

"""What makes a file a task, a group, or a part of other files."""

from __future__ import annotations

from pathlib import Path

import pytest

from multiform.tasks.index import build_index

#: What task files define, as kind, name and tags, with the texts of such files.
DEFINED: dict[tuple[str, str, tuple[str, ...]] | None, list[str]] = {
    ("task", "a", ()): [
        "task: a\n",
        "task: a\ntag:\n",
        "task: a@mcqa\n",
        "\ufefftask: a\n",
        "task: a\nclass: !function utils.Task\n",
        "group: g\ntask: a\nclass: !function utils.Task\n",
        "task: a\nnested: &n {again: [1, 2.5, 2024-01-02]}\nother: [*n, *n]\n",
    ],
    ("task", "a", ("x",)): [
        "task: a\ntag: x\n",
        "task: a\r\ntag: x\r\n",
        "{task: a, tag: [x]}\n",
        "base: &base {tag: x}\n<<: *base\ntask: a\n",
    ],
    ("task", "a", ("x", "5", "True")): ["task: a\ntag: [x, 5, true]\n"],
    ("task", "b", ()): ["task: a\ntask: b\n"],
    ("group", "g", ("x",)): ["group: g\ntask: [a, b]\ntag: x\n"],
    ("group", "g", ()): ["group: g\ntask:\n  - task: a\n    process_docs: !function utils.f\n", "group: g\ntask: a\n"],
    ("task", "a", ("a",)): ["task: &name a\ntag: *name\n"],
    ("task", "inherited", ("i",)): ["include: base_yaml\n"],
    ("task", "own", ("i",)): ["include: base_yaml\ntask: own\n"],
    ("group", "g", ("own",)): ["include: [base_yaml, group_yaml]\ntag: own\n"],
    ("group", "g", ("i",)): ["include: [group_yaml, base_yaml]\n"],
    None: ["task: [a, b]\n", "tag: x\n", "task:\n", "task: ''\n", "dataset_path: x\n"],
}
FILES = {text: entry for entry, texts in DEFINED.items() for text in texts}


@pytest.fixture(params=FILES, ids=lambda text: " ".join(text.split()))
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "base_yaml").write_text("task: inherited\ntag: [i]\ntask_list: []\n")
    (tmp_path / "group_yaml").write_text("group: g\n")
    path = tmp_path / "file.yaml"
    path.write_bytes(request.param.encode())
    return path


def test_a_file_defines_what_its_keys_say(file):
    index = build_index([file.parent])
    assert not index.broken
    found = next(((entry.kind, entry.name, entry.tags) for entry in index.entries.values()), None)
    assert found == FILES[file.read_bytes().decode()]


def test_python_classes_are_entries_that_know_their_line(tmp_path):
    (tmp_path / "mine.py").write_text("class Mine(BaseTask):\n    NAME = 'mine'\n")
    (tmp_path / "broken.py").write_text("class Mine(BaseTask:\n    NAME = 'mine'\n")
    index = build_index([tmp_path])
    found = index.entries["mine"].task_class
    assert found is not None
    assert (found.attribute, found.file, found.line) == ("Mine", tmp_path / "mine.py", 1)
    assert "broken.py:1: not valid Python" in str(index.broken[tmp_path / "broken.py"])


def test_files_of_ignored_folders_and_other_endings_define_nothing(tmp_path):
    for name in ("__pycache__/a.yaml", ".ipynb_checkpoints/b.yaml", "c.yml", "d_yaml", "e.json"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"task: {file.stem}\n")
    (tmp_path / "folder.yaml").mkdir()
    assert not build_index([tmp_path]).entries

"""Hashes of model files: they cover every byte, and are remembered until a file changes."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from multiform.models import identity
from multiform.models.identity import fingerprint

#: Above the size from which hashes are remembered.
SIZE = 3_000_000
LONG_AGO = 1_700_000_000 * 10**9


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MULTIFORM_CACHE", str(tmp_path / "cache"))
    # The time of the last change of an inode cannot be set, and that of a new file is too recent to be trusted.
    monkeypatch.setattr(identity, "TICK", 0)
    path = tmp_path / "model"
    path.mkdir()
    (path / "model.safetensors").write_bytes(bytes(SIZE))
    (path / "config.json").write_text("{}")
    return path


@pytest.fixture
def read_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are hashed."""
    names: list[str] = []
    usual = hashlib.file_digest

    def digest(file: Any, name: str) -> Any:
        names.append(Path(file.name).name)
        return usual(file, name)

    monkeypatch.setattr(hashlib, "file_digest", digest)
    return names


def change(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(b"\1")


@pytest.mark.parametrize("position", [0, 1_500, 1_000_003, SIZE - 1])
def test_a_byte_changed_in_place_changes_the_fingerprint(folder: Path, position: int) -> None:
    before = fingerprint(folder)
    change(folder / "model.safetensors", position)
    assert fingerprint(folder) != before


def test_weights_are_read_once(folder: Path, read_files: list[str]) -> None:
    time.sleep(0.01)
    first = fingerprint(folder)
    assert read_files == ["config.json", "model.safetensors"]
    read_files.clear()
    assert fingerprint(folder) == first
    assert read_files == ["config.json"]


def test_a_change_is_noticed_though_the_time_of_the_file_is_set_back(folder: Path) -> None:
    weights = folder / "model.safetensors"
    os.utime(weights, ns=(LONG_AGO, LONG_AGO))
    time.sleep(0.01)
    before = fingerprint(folder)
    change(weights, 1_500)
    os.utime(weights, ns=(LONG_AGO, LONG_AGO))
    assert fingerprint(folder) != before


def test_a_file_that_was_just_written_is_not_remembered(
    folder: Path, read_files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "TICK", 60 * 10**9)
    fingerprint(folder)
    fingerprint(folder)
    assert read_files.count("model.safetensors") == 2


@pytest.mark.parametrize("damage", ["", "[1, 2]", '{"a": 5}', '{"a": [1, 2, 3]}'])
def test_a_damaged_cache_file_is_written_anew(folder: Path, read_files: list[str], damage: str) -> None:
    time.sleep(0.01)
    first = fingerprint(folder)
    identity._cache_file().write_text(damage)
    assert fingerprint(folder) == first
    read_files.clear()
    assert fingerprint(folder) == first
    assert read_files == ["config.json"]


def test_without_a_cache_folder_files_are_read_each_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULTIFORM_CACHE", str(folder / "config.json" / "no-folder"))
    assert fingerprint(folder) == fingerprint(folder)


def test_of_several_gguf_files_the_one_that_is_named_counts(folder: Path) -> None:
    for name in ("small.gguf", "large.gguf"):
        (folder / name).write_text(name)
    before = fingerprint(folder, gguf_file="small.gguf")
    assert before != fingerprint(folder, gguf_file="large.gguf")
    (folder / "large.gguf").write_text("other weights")
    assert fingerprint(folder, gguf_file="small.gguf") == before


#: Files that are read though they lie below the folder or have an unusual suffix.
READ = ("shards/model-1.safetensors", "source.spm", "qwen.tiktoken", "custom_generate/generate.py",
        "custom_generate/helpers/beam.py", "additional_chat_templates/tool_use.jinja")  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_a_change_of_any_file_that_a_loader_reads_changes_the_fingerprint(folder: Path, name: str) -> None:
    index = {"weight_map": {"a": "shards/model-1.safetensors", "b": "missing.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("before")
    before = fingerprint(folder)
    (folder / name).write_text("after")
    assert fingerprint(folder) != before


@pytest.mark.parametrize("name", ["tables/sizes.csv", "code/layers.py", "words"])
def test_beside_code_every_file_counts_that_it_may_read(folder: Path, name: str) -> None:
    (folder / "modeling_mine.py").write_text("import json")
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("before")
    before = fingerprint(folder)
    (folder / name).write_text("after")
    assert fingerprint(folder) != before


def test_files_that_nothing_reads_do_not_count(folder: Path) -> None:
    """Without them the hash is as before they counted: responses stay known."""
    whole = hashlib.sha256()
    for name in ("config.json", "model.safetensors"):
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        whole.update(f"{name} {digest}".encode() + (b"\n" if name == "config.json" else b""))
    assert fingerprint(folder) == whole.hexdigest()[:16]
    for name in ("README.md", "onnx/model.onnx", ".git/config", "checkpoint-500/model.safetensors"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)
    assert fingerprint(folder) == whole.hexdigest()[:16]


def test_without_weights_only_the_rest_is_read(folder: Path, read_files: list[str]) -> None:
    """The tokenizer of a server's model is often in the folder of the model, which may have gigabytes of weights."""
    before = fingerprint(folder, weights=False)
    assert read_files == ["config.json"]
    change(folder / "model.safetensors", 0)
    assert fingerprint(folder, weights=False) == before
    (folder / "config.json").write_text("{ }")
    assert fingerprint(folder, weights=False) != before


def test_a_damaged_index_is_left_to_the_loader(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text('{"weight_map": ["a"]}')
    assert fingerprint(folder)

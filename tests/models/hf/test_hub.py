"""Models on the hub: a branch that moves is another model. The hub is a folder in the layout of its cache."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
from huggingface_hub import constants

from multiform.models.hf.model import HFModel

NAME = "org/tiny"


@pytest.fixture
def publish(tmp_path: Path, tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Publishes a commit of a tiny model, whose norms have the number, as a branch; gives the commit."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))

    def publish(number: int, branch: str = "main", name: str = NAME) -> str:
        repository = tmp_path / f"models--{name.replace('/', '--')}"
        commit = f"{number:040x}"
        folder = Path(shutil.copytree(tiny(), repository / "snapshots" / commit))
        weights = safetensors.torch.load_file(folder / "model.safetensors")
        weights["model.norm.weight"] += number
        safetensors.torch.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / branch).write_text(commit)
        return commit

    return publish


def test_a_branch_that_moved_is_another_model(publish: Callable[..., str]) -> None:
    commit = publish(1)
    before = HFModel(NAME)
    assert before.info()["model_sha"] == before.sha == commit
    assert before.info()["model_revision"] == "main"
    moved = publish(2)
    after = HFModel(NAME)
    assert after.sha == moved
    assert after.identity != before.identity


def test_a_branch_and_its_commit_are_one_model(publish: Callable[..., str]) -> None:
    commit = publish(1)
    assert HFModel(NAME).identity == HFModel(NAME, revision=commit).identity


def test_all_files_are_those_of_one_commit(publish: Callable[..., str]) -> None:
    publish(1)
    publish(2, branch="later")
    weights = {branch: HFModel(NAME, revision=branch).model.model.norm.weight[0].item() for branch in ("main", "later")}
    assert weights == {"main": 2.0, "later": 3.0}


def test_a_tokenizer_that_moved_is_another_model(publish: Callable[..., str], tiny: Callable[..., Path]) -> None:
    publish(1, name="org/tokenizer")
    before = HFModel(str(tiny()), tokenizer="org/tokenizer").identity
    publish(2, name="org/tokenizer")
    assert HFModel(str(tiny()), tokenizer="org/tokenizer").identity != before

"""Models with code of their own: it runs with consent alone."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from multiform.errors import ModelError
from multiform.models.hf.model import HFModel
from multiform.models.identity import signature
from multiform.requests import GenerationRequest, LoglikelihoodRequest

CONFIGURATION = """\
from transformers import LlamaConfig


class OwnConfig(LlamaConfig):
    model_type = "own"
"""
MODELING = """\
from pathlib import Path

from transformers import LlamaForCausalLM

from .configuration_own import OwnConfig


class OwnModel(LlamaForCausalLM):
    config_class = OwnConfig

    def __init__(self, config):
        Path(config.trace).write_text("ran")
        super().__init__(config)
"""
AUTO_MAP = {"AutoConfig": "configuration_own.OwnConfig", "AutoModelForCausalLM": "modeling_own.OwnModel"}


@pytest.fixture
def folder(tiny: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A Llama model by code of its own, which leaves a file when it runs; code is imported from a new folder."""
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if not Path(entry, "transformers_modules").is_dir()])
    _forget_custom_code()
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    path = Path(shutil.copytree(tiny(), tmp_path / "own"))
    config = json.loads((path / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": AUTO_MAP, "trace": str(tmp_path / "trace")}
    (path / "config.json").write_text(json.dumps(config))
    (path / "configuration_own.py").write_text(CONFIGURATION)
    (path / "modeling_own.py").write_text(MODELING)
    yield path
    _forget_custom_code()


def _forget_custom_code() -> None:
    for name in [name for name in sys.modules if name.startswith("transformers_modules")]:
        del sys.modules[name]


def test_code_does_not_run_without_consent(folder: Path) -> None:
    message = "the model has code of its own, which runs only with your consent; read its .py files, and give trust_rem"
    with pytest.raises(ModelError, match=message):
        HFModel(str(folder))
    assert not (folder.parent / "trace").exists()


def test_code_runs_with_consent_and_its_scores_are_those_of_the_same_code_in_transformers(
    folder: Path, llama: HFModel
) -> None:
    model = HFModel(str(folder), trust_remote_code=True)
    assert type(model.model).__name__ == "OwnModel"
    assert (folder.parent / "trace").exists()
    requests = [LoglikelihoodRequest("The dog and the cat", text) for text in (" sat", " is it", " A")]
    own, usual = dict(model.loglikelihood(requests)), dict(llama.loglikelihood(requests))
    for index in range(len(requests)):
        assert own[index].loglikelihood == pytest.approx(usual[index].loglikelihood, abs=1e-4)
    generation = [GenerationRequest.of("The dog", {"until": [], "max_gen_toks": 5})]
    assert dict(model.generate(generation)) == dict(llama.generate(generation))


def test_other_code_is_another_model(folder: Path) -> None:
    before = HFModel(str(folder), trust_remote_code=True).identity
    (folder / "modeling_own.py").write_text(MODELING + "\n# changed\n")
    assert HFModel(str(folder), trust_remote_code=True).identity != before


def test_code_from_the_hub_that_moved_is_another_model(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    repository = tmp_path / "hub" / "models--org--code"
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {name: f"org/code--{value}" for name, value in AUTO_MAP.items()}
    (folder / "config.json").write_text(json.dumps(config))
    identities = set()
    for number in (1, 2):
        commit = f"{number:040x}"
        snapshot = repository / "snapshots" / commit
        snapshot.mkdir(parents=True)
        (snapshot / "configuration_own.py").write_text(CONFIGURATION)
        (snapshot / "modeling_own.py").write_text(MODELING + f"\n# {number}\n")
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / "main").write_text(commit)
        identities.add(HFModel(str(folder), trust_remote_code=True).identity)
    assert len(identities) == 2
    # Tomorrow it may be another model, so its responses are looked up only when it has been loaded.
    assert signature({"pretrained": str(folder), "trust_remote_code": True}) is None

"""A sample of the zoo: architectures and custom code that once gave other numbers than their own forward pass."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import pytest
import torch
import transformers

from multiform.models.torch.structure import VERIFIED
from tools.zoo.__main__ import KNOWN_NAMES
from tools.zoo.check import check
from tools.zoo.models import CUSTOM, LLAMA, WITH_ENCODER, architectures, zoo_model

pytestmark = pytest.mark.filterwarnings("ignore")

#: Architectures by what the engine finds out about them: how they score, and how they decode.
BY_FINDING = {
    ("shared", "shared"): ["llama", "gemma3_text"],
    ("shared", "padded"): ["gemma2", "diffllama", "big_bird"],
    ("at once", "padded"): ["gpt_neo", f"{CUSTOM}alibi", f"{CUSTOM}window"],
    ("alone", "alone"): ["doge (kept window)", "llama (dynamic RoPE)", "phi3 (LongRoPE)", "cpmant"],
    ("padded", "alone"): ["openai-gpt"],
    ("at once", "alone"): ["mamba2", f"{CUSTOM}recurrent"],
    ("at once", "resumed"): ["qwen3_next", f"{CUSTOM}positions", f"{CUSTOM}{LLAMA}", "bamba"],
    ("stepwise", "alone"): ["mamba"],
    ("together", "together"): ["led", "switch_transformers"],
    ("alone", "uncached"): [f"prophetnet{WITH_ENCODER}"],
    ("padded", "uncached"): [f"{CUSTOM}nocache"],
}
SAMPLE = {name: finding for finding, names in BY_FINDING.items() for name in names}


@pytest.fixture(autouse=True)
def _quiet() -> None:
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore")


@pytest.mark.long
@pytest.mark.parametrize("name", SAMPLE)
def test_numbers_and_texts_are_the_models_own(name: str) -> None:
    finding = check(name, zoo_model(name))
    assert finding.is_right, finding
    assert not finding.problem
    assert (finding.scoring, finding.decoding) == SAMPLE[name]


@pytest.mark.parametrize("name", ["hrm_text", "reformer", "fsmt", "bart", "mistral", "llama4_text"])
@pytest.mark.slow
def test_other_architectures_give_their_own_numbers_too(name: str) -> None:
    assert check(name, zoo_model(name)).is_right


@pytest.mark.long
@pytest.mark.parametrize("name", KNOWN_NAMES)
def test_brief_trials_rely_on_what_the_zoo_finds(name: str) -> None:
    verified = json.loads(VERIFIED.read_text()).get(transformers.__version__)
    if verified is None:
        pytest.skip(f"the zoo was not run with transformers {transformers.__version__}")
    finding = check(name, zoo_model(name))
    assert finding.is_right
    assert finding.verified
    kind, *ways = finding.verified
    assert verified[kind] == " ".join(ways)


def test_the_page_has_every_architecture() -> None:
    page = (Path(__file__).parents[3] / "docs" / "architectures.md").read_text()
    version = re.search(r"architecture of transformers\s(\S+),", page)
    assert version, "the page does not say which transformers it was written with"
    if version[1] != transformers.__version__:
        pytest.skip(f"docs/architectures.md is about transformers {version[1]}, not {transformers.__version__}")
    named = set(re.findall(r"^(?:\| |\* )([^|:]+(?:: [^|:]+)?)(?: \||:)", page, flags=re.MULTILINE))
    assert len(architectures()) > 200
    missing = [name for name in architectures() if not any(each.startswith(name) for each in named)]
    assert not missing

"""A sample of the zoo: architectures and custom code that once gave other numbers than their own forward pass."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest
import torch
import transformers

from zoo.check import check
from zoo.models import CUSTOM, LLAMA, WITH_ENCODER, architectures, zoo_model

pytestmark = pytest.mark.filterwarnings("ignore")

#: Architectures, each with what the engine finds out about it: how it scores, and how it decodes.
SAMPLE = {
    "llama": ("shared", "shared"),
    "gemma2": ("shared", "padded"),
    "gemma3_text": ("shared", "shared"),
    "diffllama": ("shared", "padded"),
    "gpt_neo": ("at once", "padded"),
    "doge (kept window)": ("equal lengths", "alone"),
    "llama (dynamic RoPE)": ("equal lengths", "alone"),
    "phi3 (LongRoPE)": ("equal lengths", "alone"),
    "cpmant": ("equal lengths", "alone"),
    "openai-gpt": ("padded", "alone"),
    "big_bird": ("shared", "padded"),
    "mamba2": ("at once", "alone"),
    "qwen3_next": ("at once", "resumed"),
    "bamba": ("at once positioned", "resumed"),
    "mamba": ("stepwise", "alone"),
    "led": ("together", "together"),
    f"prophetnet{WITH_ENCODER}": ("alone", "uncached"),
    "switch_transformers": ("together", "together"),
    f"{CUSTOM}positions": ("at once", "resumed"),
    f"{CUSTOM}alibi": ("at once", "padded"),
    f"{CUSTOM}window": ("at once", "padded"),
    f"{CUSTOM}nocache": ("padded", "uncached"),
    f"{CUSTOM}recurrent": ("at once", "alone"),
    f"{CUSTOM}{LLAMA}": ("at once", "resumed"),
}


@pytest.fixture(autouse=True)
def _quiet() -> None:
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore")


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


def test_the_page_has_every_architecture() -> None:
    page = (Path(__file__).parents[2] / "docs" / "architectures.md").read_text()
    named = set(re.findall(r"^(?:\| |\* )([^|:]+(?:: [^|:]+)?)(?: \||:)", page, flags=re.MULTILINE))
    assert len(architectures()) > 200
    missing = [name for name in architectures() if not any(each.startswith(name) for each in named)]
    assert not missing

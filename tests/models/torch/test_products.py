"""Products of linear layers by oneDNN: torch's numbers up to rounding, whichever rows are computed together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from multiform.errors import UsageError
from multiform.models import instruction_set
from multiform.models.hf.model import HFModel
from multiform.models.torch.device import is_mkl_slow
from multiform.requests import GenerationRequest, LoglikelihoodRequest

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch has no oneDNN here")
REQUESTS = [LoglikelihoodRequest(f"The capital of country {number} is", " the cat") for number in range(9)]


def models(tiny: Callable[..., Path]) -> list[HFModel]:
    return [HFModel(str(tiny()), device="cpu", matmul=matmul) for matmul in ("torch", "onednn")]


def test_a_model_gives_the_same_numbers_and_texts(tiny: Callable[..., Path]) -> None:
    usual, fast = (dict(model.loglikelihood(REQUESTS)) for model in models(tiny))
    for index, output in usual.items():
        assert fast[index].loglikelihood == pytest.approx(output.loglikelihood, abs=3e-5 * (output.tokens or 1))
    request = GenerationRequest.of("The capital", {"max_gen_toks": 12})
    usual_text, fast_text = (dict(model.generate([request]))[0].text for model in models(tiny))
    assert fast_text == usual_text


def test_only_linear_layers_in_float32_are_changed(tiny: Callable[..., Path]) -> None:
    half = HFModel(str(tiny()), device="cpu", dtype="bfloat16", matmul="onednn")
    assert not any("forward" in vars(part) for part in half.model.modules())
    _, fast = models(tiny)
    assert {type(part) for part in fast.model.modules() if "forward" in vars(part)} == {nn.Linear}


def test_the_bits_of_a_row_do_not_depend_on_the_others(tiny: Callable[..., Path]) -> None:
    _, model = models(tiny)
    layer = next(part for part in model.model.modules() if isinstance(part, nn.Linear))
    rows = torch.randn(300, layer.in_features)
    with torch.inference_mode():
        expected = layer(rows)
        assert all(torch.equal(layer(rows[:count]), expected[:count]) for count in (16, 17, 64, 100, 299))


def test_gradients_and_empty_inputs_are_left_to_torch(tiny: Callable[..., Path]) -> None:
    _, model = models(tiny)
    layer = next(part for part in model.model.modules() if isinstance(part, nn.Linear))
    layer(torch.randn(2, layer.in_features)).sum().backward()
    assert layer.weight.grad is not None
    assert layer(torch.empty(0, layer.in_features)).shape == (0, layer.out_features)


def test_another_name_is_refused(tiny: Callable[..., Path]) -> None:
    with pytest.raises(UsageError, match="unknown matmul 'onedn'; did you mean 'onednn'"):
        HFModel(str(tiny()), matmul="onedn")


@pytest.mark.parametrize(
    ("cpu", "is_slow"),
    [
        ("vendor_id : AuthenticAMD\nflags : fma avx2 avx512f\n", True),
        ("vendor_id : AuthenticAMD\nflags : fma avx2\n", False),
        ("vendor_id : GenuineIntel\nflags : fma avx2 avx512f\n", False),
    ],
)
def test_mkl_is_slow_on_other_cpus_with_avx512(
    cpu: str, is_slow: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpuinfo").write_text(cpu)
    monkeypatch.setattr(instruction_set, "_CPUINFO", tmp_path / "cpuinfo")
    assert is_mkl_slow() is (is_slow and torch.backends.mkl.is_available())

"""The vocabulary projection of chosen lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from multiform.models.hf.model import HFModel
from multiform.models.torch import forward


@pytest.mark.parametrize(("lines", "sizes"), [(1, [1]), (3, [3]), (4, [2, 2]), (7, [3, 3, 1]), (0, [])])
def test_logits_come_in_pieces_of_about_one_size(
    lines: int, sizes: list[int], tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = HFModel(str(tiny()))
    config = model.model.config
    monkeypatch.setattr(forward, "CPU_ELEMENTS", 3 * config.vocab_size)
    states = torch.randn(lines, config.hidden_size)
    with torch.inference_mode():
        pieces = list(model.head.logits(states))
        expected = model.model.get_output_embeddings()(states)
    assert [len(piece) for _, piece in pieces] == sizes
    for start, piece in pieces:
        assert torch.allclose(piece, expected[start : start + len(piece)], atol=1e-5)

"""The vocabulary projection, computed only at the positions that are scored."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from multiform.inference.device import device_of

#: Logits that are held at a time: 128 MiB in float32, or as much as a CPU gets back without asking the system.
ELEMENTS = 2**25
CPU_ELEMENTS = 2**22

#: In products of so many lines or more, a line has the same bits however many there are; of fewer, a CPU's are added
#: up in another order.
ALIKE = 16

#: Settings with which a model changes its logits after the projection, and their neutral values.
SCALINGS: dict[str, tuple[Any, ...]] = {
    "final_logit_softcapping": (None,),
    "logit_softcapping": (None,),
    "logits_soft_cap": (None,),
    "logit_scale": (None, 1.0),
    "logits_scaling": (None, 1.0),
    "lm_head_multiplier": (None, 1.0),
    "output_multiplier_scale": (None, 1.0),
}


class Head:
    """Reads a causal model's logits at chosen positions.

    The projection onto the vocabulary is a fifth of a small model's work and most of its memory,
    and a log-likelihood needs it at a few positions only. Models that do more than one matrix
    product between hidden state and logits are left to compute all logits themselves.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        #: Found out at once: in the midst of a pass, the model's attention would not be its own.
        self.separable = self._is_separable()

    def _is_separable(self) -> bool:
        """Whether the logits are the output embedding of the base model's last hidden state."""
        config = self.model.config.get_text_config()
        if any(getattr(config, name, values[0]) not in values for name, values in SCALINGS.items()):
            return False
        if self.model.base_model is self.model or self.model.get_output_embeddings() is None:
            return False
        return self._agrees()

    def states(self, rows: Tensor, columns: Tensor, **inputs: Any) -> Tensor:
        """What the logits at (row, column) positions are made of, a line for each."""
        states = self._hidden(**inputs) if self.separable else self.model(**inputs).logits
        # A model that is spread over several devices has its last layers on another one than its first.
        some: Tensor = states[rows.to(states.device), columns.to(states.device)]
        return some

    def logits(self, states: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Float32 logits of such lines, in pieces: the first line of a piece, and the piece."""
        elements = CPU_ELEMENTS if states.device.type == "cpu" else ELEMENTS
        pieces = max(1, ceil(len(states) / max(1, elements // self._vocabulary)))
        size = max(1, ceil(len(states) / pieces))  # all about as large: in a small one, lines have other bits
        for start in range(0, len(states), size):
            piece = states[start : start + size]
            yield start, (self._project(piece) if self.separable else piece).float()

    @property
    def affordable(self) -> int:
        """How many tokens can be read at once when all logits are computed; these take 1 GiB."""
        return 2**28 // self._vocabulary

    @property
    def _vocabulary(self) -> int:
        return int(self.model.config.get_text_config().vocab_size)

    def _hidden(self, **inputs: Any) -> Tensor:
        state: Tensor = self.model.base_model(**inputs).last_hidden_state
        return state

    def _project(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.model.get_output_embeddings()(hidden)
        return logits

    @torch.inference_mode()
    def _agrees(self) -> bool:
        # A model may treat its logits in a way that no list foresees, so ask it once.
        ids = torch.arange(8, device=device_of(self.model))[None]
        try:
            short = self._project(self._hidden(input_ids=ids, use_cache=False)).float()
        except (AttributeError, TypeError, ValueError, RuntimeError):
            return False
        full = self.model(input_ids=ids, use_cache=False).logits.float()
        tolerance = 1e-4 if self.model.dtype == torch.float32 else 2e-2
        return short.shape == full.shape and bool(
            (short - full).abs().max() <= tolerance * full.abs().max().clamp(min=1e-6)
        )
